"""What `klt` promises of every area, counted point by point in the coordinates of the release."""

from __future__ import annotations

import numpy as np
from numba import njit

from freqdp_db.columns.areas import Areas, Shown
from freqdp_db.columns.arrays import Flags
from freqdp_db.columns.points import Points
from freqdp_db.errors import VerificationFailed
from freqdp_db.methods.k_anonymity.boxes import CELL_M

_ROUNDING = 1e-9


def fall_short(
    areas: Areas, points: Points, categories: int, divergence: float, shown: Shown | None
) -> Flags:
    """Areas with points of too few categories, or of others than all points have."""
    x, y = (points.x, points.y) if shown is None else shown.points(points.x, points.y)
    seen = areas if shown is None else shown.areas(areas)
    order = np.argsort(x, kind="stable")
    everywhere = np.bincount(points.category, minlength=len(points.names)) / len(points)
    first = np.searchsorted(x[order], seen.x_min, side="left")
    last = np.searchsorted(x[order], seen.x_max, side="right")
    found: Flags = _fall_short(
        first, last, seen.y_min, seen.y_max, y[order], points.category[order], everywhere,
        categories, divergence + _ROUNDING,
    )  # fmt: skip
    return found


@njit(nogil=True, cache=True)
def _fall_short(first, last, south, north, y, kind, everywhere, categories, most):  # type: ignore[no-untyped-def]
    found = np.zeros(len(first), np.bool_)
    for i in range(len(first)):
        here = np.zeros(len(everywhere), np.int64)
        for p in range(first[i], last[i]):
            if south[i] <= y[p] <= north[i]:
                here[kind[p]] += 1
        whole, kinds, divergence = here.sum(), 0, 0.0
        for c in range(len(everywhere)):
            if here[c] > 0:
                kinds += 1
                share = here[c] / whole
                divergence += share * np.log(share / everywhere[c])
        found[i] = kinds < categories or divergence > most
    return found


def grow_as_shown(
    areas: Areas, points: Points, categories: int, divergence: float, shown: Shown | None
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


def check_areas(
    areas: Areas, points: Points, categories: int, divergence: float, shown: Shown | None
) -> dict[str, int]:
    """Refuse an area that falls short."""
    if fall_short(areas, points, categories, divergence, shown).any():
        raise VerificationFailed("an area holds points of too few categories, or of other ones")
    return {"diverse_areas": len(areas.x_min)}
