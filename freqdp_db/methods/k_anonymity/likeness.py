"""How unlike two trajectories are, for `w4m`.

LSTD compares both at equal shares of their time: the mean distance in space and time, a second
being as many metres as is travelled in one. It is linear in the samples. EDR is the share of
samples that have no like (within delta, and the time that takes) in the other, in order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Ints, Metres
from freqdp_db.columns.trajectories import Locations, Trajectories
from freqdp_db.engines.ranges import joined, map_each, map_ranges

SHARES = 65
"""At so many instants LSTD compares, from the first sample to the last."""


@dataclass
class Likeness:
    """Distances of one trajectory to all; none of them is empty."""

    offsets: Ints
    x: Metres
    y: Metres
    at: Ints
    speed: float
    """Metres per microsecond."""
    at_shares: Metres
    """By trajectory and share of its time: x, y, and the time as metres."""
    edr: bool
    tolerance_m: float
    _known: dict[int, Metres] = field(default_factory=dict)

    def first_radius(self) -> float:
        """Where the search for clusters begins: the tolerance, or a tenth of all samples."""
        return 0.1 if self.edr else max(self.tolerance_m, 1.0)

    def to_all(self, pivot: int) -> Metres:
        if not self.edr:
            return self._lstd(self.at_shares[pivot])
        if pivot not in self._known:
            parts = map_each(_edr_to, len(self.offsets) - 1, pivot, *self._columns())
            self._known[pivot] = joined(parts)[0]
        return self._known[pivot]

    def to_centre(self) -> Metres:
        """LSTD to the median place and time at each share."""
        return self._lstd(np.median(self.at_shares, axis=0))

    def _lstd(self, one: Metres) -> Metres:
        return joined(map_each(_lstd_to, len(self.at_shares), one, self.at_shares))[0]

    def _columns(self) -> tuple[Ints, Metres, Metres, Ints, float, float]:
        return self.offsets, self.x, self.y, self.at, self.tolerance_m, self.tolerance_us()

    def tolerance_us(self) -> float:
        return self.tolerance_m / self.speed


def compare(
    trajectories: Trajectories, places: Locations, delta_m: float, *, edr: bool
) -> Likeness:
    offsets, at = trajectories.offsets, trajectories.at
    x, y = places.x[trajectories.location], places.y[trajectories.location]
    speed = _typical_speed(offsets, x, y, at)
    shares = joined(map_ranges(_at_shares, offsets, offsets, x, y, at, speed))[0]
    return Likeness(offsets, x, y, at, speed, shares, edr, delta_m)


def _typical_speed(offsets: Ints, x: Metres, y: Metres, at: Ints) -> float:
    """The median of the objects' average speeds: a few wild jumps must not make time worthless."""
    way = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(x), np.diff(y)))])
    first, last = offsets[:-1], offsets[1:] - 1
    span = at[last] - at[first]
    moved = (way[last] - way[first])[span > 0] / span[span > 0]
    found = float(np.median(moved)) if len(moved) else 0.0
    return found if found > 0 else 1e-6


@njit(nogil=True, cache=True)
def place_at(last, x, y, at, when, i):  # type: ignore[no-untyped-def]
    """Where a trajectory is at a time; i: a sample that is not later, or the first."""
    while i + 1 < last and at[i + 1] <= when:
        i += 1
    if i + 1 >= last or at[i] >= when or at[i + 1] == at[i]:
        return x[i], y[i], i
    part = (when - at[i]) / (at[i + 1] - at[i])
    return x[i] + part * (x[i + 1] - x[i]), y[i] + part * (y[i + 1] - y[i]), i


@njit(nogil=True, cache=True)
def _at_shares(first, last, offsets, x, y, at, speed):  # type: ignore[no-untyped-def]
    found = np.empty((last - first, SHARES, 3))
    for t in range(first, last):
        i = offsets[t]
        begin, span = at[i], at[offsets[t + 1] - 1] - at[i]
        for s in range(SHARES):
            when = begin + span * (s / (SHARES - 1))
            found[t - first, s, 0], found[t - first, s, 1], i = place_at(
                offsets[t + 1], x, y, at, when, i
            )
            found[t - first, s, 2] = when * speed
    return (found,)


@njit(nogil=True, cache=True)
def _lstd_to(first, last, one, shares):  # type: ignore[no-untyped-def]
    found = np.empty(last - first)
    for t in range(first, last):
        total = 0.0
        for s in range(one.shape[0]):
            a, b, c = (
                shares[t, s, 0] - one[s, 0], shares[t, s, 1] - one[s, 1], shares[t, s, 2] - one[s, 2]
            )  # fmt: skip
            total += np.sqrt(a * a + b * b + c * c)
        found[t - first] = total / one.shape[0]
    return (found,)


@njit(nogil=True, cache=True)
def alike(i, j, x, y, at, tolerance_m, tolerance_us):  # type: ignore[no-untyped-def]
    return (
        abs(x[i] - x[j]) <= tolerance_m
        and abs(y[i] - y[j]) <= tolerance_m
        and abs(at[i] - at[j]) <= tolerance_us
    )


@njit(nogil=True, cache=True)
def _edr_to(first, last, pivot, offsets, x, y, at, tolerance_m, tolerance_us):  # type: ignore[no-untyped-def]
    found = np.empty(last - first)
    begin, count = offsets[pivot], offsets[pivot + 1] - offsets[pivot]
    row = np.empty(count + 1, np.int64)
    for t in range(first, last):
        for j in range(count + 1):
            row[j] = j
        for i in range(offsets[t], offsets[t + 1]):
            before = row[0]
            row[0] += 1
            for j in range(count):
                same = 0 if alike(i, begin + j, x, y, at, tolerance_m, tolerance_us) else 1
                best = min(before + same, row[j] + 1, row[j + 1] + 1)
                before = row[j + 1]
                row[j + 1] = best
        found[t - first] = row[count] / max(count, offsets[t + 1] - offsets[t])
    return (found,)
