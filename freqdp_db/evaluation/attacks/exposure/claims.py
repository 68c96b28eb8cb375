"""What a claim is worth: how much of an object it finds, and how much of it is the object's.

An attacker claims released samples for an object. An original sample is found if a claimed one lies
within 200 m and 5 min, or if a claimed area and interval contain it that are no wider than 500 m and
no longer than 10 min.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from freqdp_db.columns.arrays import Flags, Ints
from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.evaluation.attacks.exposure.case import Case, ReleaseSeen

NEAR_M = 200.0
NEAR_US = 300_000_000
_WIDEST_M = 500.0
_LONGEST_US = 600_000_000

Shares = NDArray[np.float64]


@dataclass(frozen=True)
class Worth:
    """Of each object: the share that is found, and the share of the claim that is right."""

    found: Shares
    """Not a number for an object of which nothing is left to find."""
    right: Shares
    """Not a number where nothing was claimed."""

    def named(self, name: str) -> dict[str, float]:
        """The metrics of one attack."""
        there = self.found[~np.isnan(self.found)]
        right = self.right[~np.isnan(self.right)]
        return {
            name: float(there.mean()) if len(there) else 0.0,
            f"{name}.precision": float(right.mean()) if len(right) else 0.0,
            f"{name}.half": float((there > 0.5).mean()) if len(there) else 0.0,
            f"{name}.p95": float(np.percentile(there, 95)) if len(there) else 0.0,
        }


def boxes_of(release: ReleaseSeen) -> NDArray[np.float64]:
    """x_min, y_min, x_max, y_max of each sample; of no use unless the release has areas."""
    if release.areas is None:
        return np.zeros((0, 4))
    areas = release.areas
    return np.column_stack([areas.x_min, areas.y_min, areas.x_max, areas.y_max])


def until_of(release: ReleaseSeen) -> Ints:
    """End of each sample's interval; -1 if it is too wide or too long to tell anything."""
    if release.areas is None:
        return np.zeros(0, np.int64)
    areas = release.areas
    small = (areas.x_max - areas.x_min <= _WIDEST_M) & (areas.y_max - areas.y_min <= _WIDEST_M)
    small &= areas.until - release.trajectories.at <= _LONGEST_US
    return np.where(small, areas.until, np.iinfo(np.int64).min)


@njit(nogil=True, cache=True)
def is_near(ux, uy, ut, p, x, y, at, boxes, until):  # type: ignore[no-untyped-def]
    """Whether released sample p tells of somebody's being at a place at a time."""
    if len(boxes):
        return (
            at[p] <= ut <= until[p]
            and boxes[p, 0] <= ux <= boxes[p, 2]
            and boxes[p, 1] <= uy <= boxes[p, 3]
        )
    dx, dy = x[p] - ux, y[p] - uy
    return abs(at[p] - ut) <= NEAR_US and dx * dx + dy * dy <= NEAR_M * NEAR_M


@njit(nogil=True, cache=True)
def right_ones(u, offsets, ux, uy, ut, claim, x, y, at, boxes, until):  # type: ignore[no-untyped-def]
    """Which of the claimed positions, in order of time, tell where the object was."""
    back = _LONGEST_US if len(boxes) else NEAR_US
    right = np.zeros(len(claim), np.bool_)
    low, hi = offsets[u], offsets[u + 1]
    for k in range(len(claim)):
        p = claim[k]
        while low < hi and ut[low] < at[p] - NEAR_US:
            low += 1
        i = low
        while i < hi and ut[i] <= at[p] + back:
            if is_near(ux[i], uy[i], ut[i], p, x, y, at, boxes, until):
                right[k] = True
                break
            i += 1
    return right


@njit(nogil=True, cache=True)
def worth_of(u, offsets, ux, uy, ut, known, claim, x, y, at, boxes, until):  # type: ignore[no-untyped-def]
    """Shares found and right of a claim of positions in order of time."""
    # an interval may begin so much before what it contains
    back = _LONGEST_US if len(boxes) else NEAR_US
    lo, hi = offsets[u], offsets[u + 1]
    left = found = 0
    low = 0
    for i in range(lo, hi):
        if known[i]:
            continue
        left += 1
        while low < len(claim) and at[claim[low]] < ut[i] - back:
            low += 1
        k = low
        while k < len(claim) and at[claim[k]] <= ut[i] + NEAR_US:
            if is_near(ux[i], uy[i], ut[i], claim[k], x, y, at, boxes, until):
                found += 1
                break
            k += 1
    right = right_ones(u, offsets, ux, uy, ut, claim, x, y, at, boxes, until).sum()
    return (
        found / left if left else np.nan,
        right / len(claim) if len(claim) else np.nan,
    )


@njit(nogil=True, cache=True)
def _claim_wholes(  # type: ignore[no-untyped-def]
    first, last, offsets, ux, uy, ut, known, pick, begins, x, y, at, boxes, until
):
    found, right = np.empty(last - first), np.empty(last - first)
    for u in range(first, last):
        claim = np.zeros(0, np.int64)
        if pick[u] >= 0:
            claim = np.arange(begins[pick[u]], begins[pick[u] + 1])
        found[u - first], right[u - first] = worth_of(
            u, offsets, ux, uy, ut, known, claim, x, y, at, boxes, until
        )
    return found, right


def worth_of_picks(case: Case, pick: Ints, known: Flags | None = None) -> Worth:
    """Of claiming one whole released trajectory for each object; -1 claims nothing.

    `known`: original samples that the attacker had before; they do not count as found.
    """
    release = case.release
    parts = map_ranges(
        _claim_wholes, case.original.offsets, case.original.offsets, case.x, case.y,
        case.original.at, np.zeros(case.original.samples, np.bool_) if known is None else known,
        pick, release.trajectories.offsets, release.x, release.y, release.trajectories.at,
        boxes_of(release), until_of(release),
    )  # fmt: skip
    return Worth(*joined(parts))
