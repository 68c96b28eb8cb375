"""klt: areas grow until they hold points of interest of enough kinds, mixed as everywhere.

An area must hold at least l categories, and the divergence (Kullback-Leibler, natural logarithm,
0 ln 0 = 0) of its shares of categories from those of all points is at most t. It grows a cell at a
time on the side that lowers the divergence most; where none does, on all sides.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
from numba import njit
from scipy.special import rel_entr

from freqdp_db.errors import BadInput
from freqdp_db.methods.k_anonymity.glove import CELL_M, Origin
from freqdp_db.model.arrays import Flags, Ids, Ints
from freqdp_db.model.trajectories import Areas, Points, ReleaseCoordinates

_LARGEST_GRID = 200_000_000


@dataclass(frozen=True)
class Growing:
    """Lets the boxes of a row grow; what `greedy` calls after every merge."""

    sums: Ids
    """By category, row and column: how many points lie to the west and south of a cell's corner."""
    x: int
    y: int
    """The first cell of the points, as the boxes count."""
    categories: int
    divergence: float

    def __call__(self, bounds: Ids) -> Ids:
        grown: Ids = _grow_all(bounds, self.sums, self.x, self.y, self.categories, self.divergence)
        return grown


def require_countable(points: Points) -> None:
    """Refuse points that lie too far apart to be counted by cells."""
    wide, high = (float(np.ptp(p)) / CELL_M + 1 for p in (points.x, points.y))
    kinds = len(points.names)
    if kinds * (wide + 1) * (high + 1) > _LARGEST_GRID:
        raise BadInput(
            f"[[poi]]: {kinds:,} categories over {wide / 10:,.0f} by {high / 10:,.0f} km are too many "
            "to count",
            remedy="give a view of the points that lie where the objects move",
        )


def count_points(points: Points, origin: Origin, categories: int, divergence: float) -> Growing:
    """Points by cell, summed so that those of any box are four numbers of each category."""
    require_countable(points)
    x = np.floor(points.x / CELL_M).astype(np.int64)
    y = np.floor(points.y / CELL_M).astype(np.int64)
    first_x, first_y = int(x.min()), int(y.min())
    kinds, wide, high = len(points.names), int(x.max()) - first_x + 1, int(y.max()) - first_y + 1
    sums = np.zeros((kinds, high + 1, wide + 1), np.int32)
    np.add.at(sums, (points.category, y - first_y + 1, x - first_x + 1), 1)
    np.cumsum(sums, axis=1, out=sums)
    np.cumsum(sums, axis=2, out=sums)
    return Growing(sums, first_x - origin.x, first_y - origin.y, categories, divergence)


@njit(nogil=True, cache=True)
def _grow_all(bounds, sums, at_x, at_y, categories, most):  # type: ignore[no-untyped-def]
    high, wide = sums.shape[1] - 1, sums.shape[2] - 1
    corner = np.array([at_x, at_x, at_y, at_y])
    outwards = np.array([-1, 1, -1, 1])
    grown = bounds.copy()
    for i in range(bounds.shape[1]):
        box = bounds[:4, i] - corner
        while True:
            present, kinds = _divergence(sums, box)
            if kinds >= categories and present <= most:
                break
            # as long as a gap parts it from the cells that have points, no side alone changes anything
            step = max(0, -box[1], box[0] - wide, -box[3], box[2] - high)
            best, side = present, -1
            for s in range(4 if step == 0 else 0):
                box[s] += outwards[s]
                found, _ = _divergence(sums, box)
                box[s] -= outwards[s]
                if found < best:
                    best, side = found, s
            for s in range(4):
                if side in (-1, s):
                    box[s] += max(step, 1) * outwards[s]
        grown[:4, i] = box + corner
    return grown


@njit(nogil=True, cache=True)
def _divergence(sums, box):  # type: ignore[no-untyped-def]
    """Of the points of a box from all points, and of how many categories they are."""
    high, wide = sums.shape[1] - 1, sums.shape[2] - 1
    west, east = min(max(box[0], 0), wide), min(max(box[1], 0), wide)
    south, north = min(max(box[2], 0), high), min(max(box[3], 0), high)
    here = sums[:, north, east] - sums[:, south, east] - sums[:, north, west] + sums[:, south, west]
    inside, whole = here.sum(), sums[:, high, wide].sum()
    if inside == 0:
        return inf, 0
    divergence = 0.0
    for c in np.flatnonzero(here):
        share = here[c] / inside
        divergence += share * np.log(share / (sums[c, high, wide] / whole))
    return divergence, len(np.flatnonzero(here))


def fingerprint(points: Points) -> Ints:
    """Numbers that change when a point or its category does."""
    from hashlib import sha256

    whole = sha256("\0".join(points.names).encode())
    for column in (points.x, points.y, points.category):
        whole.update(np.ascontiguousarray(column).tobytes())
    return np.frombuffer(whole.digest(), np.int64)


# --- What `klt` promises of every area, counted point by point in the coordinates of the release ---


_ROUNDING = 1e-9


def fall_short(
    areas: Areas,
    points: Points,
    categories: int,
    divergence: float,
    shown: ReleaseCoordinates | None,
) -> Flags:
    """Areas with points of too few categories, or of others than all points have."""
    x, y = (points.x, points.y) if shown is None else shown.points(points.x, points.y)
    seen = areas if shown is None else shown.areas(areas)
    order = np.argsort(x, kind="stable")
    y, category = y[order], points.category[order]
    everywhere = np.bincount(category, minlength=len(points.names)) / len(points)
    first = np.searchsorted(x[order], seen.x_min, side="left")
    last = np.searchsorted(x[order], seen.x_max, side="right")
    found = np.zeros(len(first), np.bool_)
    for i, (a, b) in enumerate(zip(first, last, strict=True)):
        inside = (y[a:b] >= seen.y_min[i]) & (y[a:b] <= seen.y_max[i])
        here = np.bincount(category[a:b][inside], minlength=len(everywhere))
        found[i] = (here > 0).sum() < categories or (
            rel_entr(here / here.sum(), everywhere).sum() > divergence + _ROUNDING
        )
    return found


def grow_as_shown(
    areas: Areas,
    points: Points,
    categories: int,
    divergence: float,
    shown: ReleaseCoordinates | None,
) -> Areas:
    """Let those that fall short grow by a cell on all sides, until none does.

    A box in metres is a little larger in other coordinates, and may hold a few points more there.
    """
    west, south = areas.x_min.copy(), areas.y_min.copy()
    east, north = areas.x_max.copy(), areas.y_max.copy()
    left = np.arange(len(west))
    while True:
        some = Areas(west[left], south[left], east[left], north[left], areas.until[left])
        left = left[fall_short(some, points, categories, divergence, shown)]
        if not len(left):
            return Areas(west, south, east, north, areas.until)
        west[left] -= CELL_M
        south[left] -= CELL_M
        east[left] += CELL_M
        north[left] += CELL_M
