"""From noisy numbers to tables that agree: least squares over levels, margins, and smoothed estimates.

Levels form a tree: each part of a level belongs to one part of the level above it, and a level may be cut
into parts in more than one way (departures of a district: by zone, and by the district that trips go to).
All levels have the same bins, and no measurement joins bins, so that each bin is a problem of its own with
the same tree and the same variances.

Two numbers come out for every part and bin. The *value* is the best linear unbiased estimate: its noise is
known, and so is its margin, whatever the data are. The *estimate* is shrunk towards what the levels above
suggest: nearer to the truth for most parts, never below 0, but biased, so that no margin holds for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from freqdp_db.model.arrays import Ints, offsets_of

Table: TypeAlias = NDArray[np.float64]
"""A row for each part, a column for each bin."""

TENTHS = 10
"""Estimates are whole multiples of 1 / TENTHS."""
_NORMAL, _LAPLACE = 1.959964, math.log(20) / math.sqrt(2)
"""95 % of a law lie within so many standard deviations."""
_ROUNDING = 1 / 12
_LEAST = 1e-9
_WIDTHS = (0.1, 0.5, 0.8, 1.2, 2.0, 3.0)
"""Of neighbourhoods of bins; the first is each bin alone."""


@dataclass(frozen=True)
class Level:
    """A level that may be measured."""

    above: str | None
    """The level above it; None: the top."""
    parent: Ints
    """The part of the level above that each part belongs to."""
    noisy: Table | None = None
    """None: it is not measured, but has levels below it that are."""
    variance: float = math.inf
    like: tuple[str, Ints] | None = None
    """Another level, before it, and a part of that for each part: in proportion to those a part is expected
    to have its parent's; None: evenly."""


@dataclass(frozen=True)
class Fit:
    """What is known of a level."""

    value: Table
    variance: Table
    """Of each part, the same in every bin: one column."""
    own: Table
    """From the level itself and those below it."""
    own_variance: Table
    largest: Table
    """The part of the variance that is one noisy number's, at most."""


def sums(parent: Ints, values: Table, parts: int) -> Table:
    """The sum of the rows that belong to each part."""
    order = np.argsort(parent, kind="stable")
    offsets = offsets_of(parent[order], parts)
    running = np.zeros((len(values) + 1, values.shape[1]), values.dtype)
    np.cumsum(values[order], axis=0, out=running[1:])
    found: Table = running[offsets[1:]] - running[offsets[:-1]]
    return found


def least_squares(levels: dict[str, Level]) -> dict[str, Fit]:
    """The best linear unbiased estimates of all levels. Those above come before those below.

    Upwards, each part's own noisy number is weighed with the sums of its parts, by their variances. Then
    downwards: what the sum of the parts lacks is dealt out to them in proportion to their variances.
    """
    own: dict[str, Table] = {}
    spread: dict[str, Table] = {}
    below: dict[str, list[str]] = {name: [] for name in levels}
    for name, level in levels.items():
        if level.above is not None:
            below[level.above].append(name)
    added: dict[str, tuple[Table, Table]] = {}
    for name in reversed(levels):
        level = levels[name]
        weights = np.full((len(level.parent), 1), 1 / level.variance)
        known = 0.0 if level.noisy is None else level.noisy / level.variance
        for child in below[name]:
            total, variance = (
                sums(levels[child].parent, c[child], len(weights)) for c in (own, spread)
            )
            added[child] = total, variance
            weights, known = weights + 1 / variance, known + total / variance
        own[name], spread[name] = known / weights, 1 / weights
    fits: dict[str, Fit] = {}
    for name, level in levels.items():
        value, variance = own[name], spread[name]
        largest = variance / level.variance if level.noisy is not None else np.zeros_like(variance)
        if level.above is not None:
            total, whole = (column[level.parent] for column in added[name])
            part = variance / whole
            above = fits[level.above]
            value = value + part * (above.value[level.parent] - total)
            largest = largest * (1 - part)
            variance = variance * (1 - part) + part**2 * above.variance[level.parent]
        fits[name] = Fit(value, variance, own[name], spread[name], largest)
    return fits


def margins(fit: Fit, *, pure: bool) -> Table:
    """Half of the 95 % interval of each part: Gaussian, or mostly one Laplace number."""
    times = _NORMAL
    if pure:
        return (_NORMAL + (_LAPLACE - _NORMAL) * fit.largest**2) * np.sqrt(fit.variance + _ROUNDING)
    return times * np.sqrt(fit.variance + _ROUNDING)


def margin_of(variance: float, *, pure: bool) -> float:
    """The same of one noisy number."""
    return (_LAPLACE if pure else _NORMAL) * math.sqrt(variance + _ROUNDING)


def rounded(values: Table, parent: Ints | None, above: Ints | None) -> Ints:
    """Whole numbers, which add up to those of the level above in every bin.

    All are rounded down; what is missing goes to those that lost most, ties to the first.
    """
    whole = np.floor(values).astype(np.int64)
    if parent is None or above is None:
        return np.rint(values).astype(np.int64)
    missing = above - sums(parent, whole, len(above)).astype(np.int64)
    count = np.bincount(parent, minlength=len(above))[:, None]
    # more than one each, where the values do not add up by themselves
    each, rest = missing // count, missing % count
    whole = whole + each[parent]
    lost = values - np.floor(values)
    order = np.lexsort(
        (np.broadcast_to(np.arange(len(values))[:, None], values.shape), -lost,
         np.broadcast_to(parent[:, None], values.shape)),
        axis=0,
    )  # fmt: skip
    place = np.arange(len(values)) - offsets_of(np.sort(parent), len(above))[np.sort(parent)]
    given = (place[:, None] < np.take_along_axis(rest[parent], order, axis=0)).astype(np.int64)
    extra = np.zeros_like(whole)
    np.put_along_axis(extra, order, given, axis=0)
    return whole + extra


# Smoothed estimates.


def smoothed(
    above: Table, parent: Ints, own: Table, variance: Table, like: Table | None = None
) -> Table:
    """Estimates of a level, from those of the level above and its own unbiased numbers.

    Each part is expected to have a share of its parent, with the parent's course over the bins. The share
    is shrunk towards an expected one, and then the numbers towards what the share gives; how far, is
    fitted to how much they scatter beyond their noise. Not below 0; adds up to the level above.
    like: in proportion to which shares are expected, one column; None: evenly.
    """
    bins = own.shape[1]
    whole = above.sum(axis=1, keepdims=True)
    even = _raked(np.ones((len(own), 1)) if like is None else like, whole, parent)
    total = own.sum(axis=1, keepdims=True)
    differ = _beyond((total - even) ** 2 - bins * variance, even**2)
    share = np.maximum(even + _weight(differ * even**2, bins * variance) * (total - even), 0.0)
    share = _raked(share, whole, parent)
    course = np.where(whole > 0, above / np.maximum(whole, _LEAST), 1 / bins)[parent]
    expected = share * course
    scatter = _beyond((own - expected) ** 2 - variance, expected)
    spread = scatter * expected
    posterior = expected + _weight(spread, variance) * (own - expected)
    left = spread * variance / np.maximum(spread + variance, _LEAST)
    missing = above - sums(parent, posterior, len(above))
    room = np.maximum(sums(parent, left, len(above)), _LEAST)
    posterior = np.maximum(posterior + left / room[parent] * missing[parent], 0.0)
    return _raked(posterior, above, parent)


def smoothed_over_bins(value: Table, variance: Table, *, around: bool) -> Table:
    """A mean of neighbouring bins, as wide as Stein's estimate of its squared error is least.

    around: the last bin is a neighbour of the first.
    """
    bins = value.shape[1]
    apart = np.abs(np.arange(bins)[:, None] - np.arange(bins))
    if around:
        apart = np.minimum(apart, bins - apart)
    best, found = math.inf, value
    for width in _WIDTHS:
        kernel = np.exp(-((apart / width) ** 2) / 2)
        kernel /= kernel.sum(axis=1, keepdims=True)
        mean = value @ kernel.T
        risk = float(((mean - value) ** 2).sum() + (2 * np.trace(kernel) - bins) * variance.sum())
        if risk < best:
            best, found = risk, mean
    return found


def _beyond(scatter: Table, size: Table) -> float:
    """By which factor of its size numbers scatter beyond their noise."""
    return max(float(scatter.sum()) / max(float(size.sum()), _LEAST), 0.0)


def _weight(signal: Table, noise: Table) -> Table:
    weight: Table = signal / np.maximum(signal + noise, _LEAST)
    return weight


def _raked(values: Table, above: Table, parent: Ints) -> Table:
    """In proportion, so that they add up to the level above; even where there is nothing to go by."""
    total = sums(parent, values, len(above))
    count = np.maximum(np.bincount(parent, minlength=len(above)), 1)[:, None]
    factor = np.where(total > _LEAST, above / np.maximum(total, _LEAST), 0.0)
    even = np.where(total > _LEAST, 0.0, above / count)
    found: Table = values * factor[parent] + even[parent]
    return found


@dataclass(frozen=True)
class PairPrior:
    """What flows between zones are expected to be: those between their districts, dealt out.

    In proportion to the departures of the origin in its district, and to the arrivals at the destination.
    """

    district: Ints
    districts: Table
    """Flows between districts; row d1 * (number of districts) + d2."""
    leaving: Table
    """The part of its district's departures that is each zone's."""
    arriving: Table

    @classmethod
    def of(
        cls, district: Ints, count: int, pairs: Table, leaving: Table, arriving: Table
    ) -> PairPrior:
        shares = []
        for table in (leaving, arriving):
            total = sums(district, table, count)[district]
            inside = np.bincount(district, minlength=count)[district][:, None]
            shares.append(np.where(total > _LEAST, table / np.maximum(total, _LEAST), 1 / inside))
        return cls(district, pairs, *shares)

    @property
    def _count(self) -> int:
        return math.isqrt(len(self.districts))

    def at(self, cells: Ints) -> NDArray[np.float64]:
        """What is expected of these flows, numbered as in the draw."""
        zones, bins = self.leaving.shape
        pair, bin = np.divmod(cells, bins)
        origin, destination = np.divmod(pair, zones)
        row = self.district[origin] * self._count + self.district[destination]
        found: NDArray[np.float64] = (
            self.districts[row, bin] * self.leaving[origin, bin] * self.arriving[destination, bin]
        )
        return found

    def likely(self, least: float, most: int) -> Ints:
        """The flows that are expected to be at least so large, at most so many: the largest."""
        zones, bins = self.leaving.shape
        found = [np.zeros(0, np.int64)]
        for origin in range(zones):
            row = self.district[origin] * self._count
            from_here = self.districts[row : row + self._count] * self.leaving[origin]
            if from_here.max() < least:
                continue
            expected = from_here[self.district] * self.arriving
            found.append(origin * zones * bins + np.flatnonzero(expected >= least))
        cells = np.concatenate(found)
        if len(cells) > most:
            largest = np.argsort(-self.at(cells), kind="stable")[:most]
            cells = np.sort(cells[largest])
        return cells


def shrunk(noisy: Ints, variance: float, expected: NDArray[np.float64]) -> NDArray[np.float64]:
    """Estimates of numbers with independent noise, towards what is expected of them."""
    away = noisy - expected
    scatter = max(float((away**2 - variance).sum()) / max(float(expected.sum()), _LEAST), 0.0)
    spread = scatter * expected
    found: NDArray[np.float64] = np.maximum(expected + spread / (spread + variance) * away, 0.0)
    return found
