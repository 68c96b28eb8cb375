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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.model.arrays import Ints, offsets_from, offsets_of

Table: TypeAlias = NDArray[np.float64]
"""A row for each part, a column for each bin."""

TENTHS = 10
"""Estimates are whole multiples of 1 / TENTHS."""
_NORMAL, _LAPLACE = 1.959964, math.log(20) / math.sqrt(2)
"""95 % of a law lie within so many standard deviations."""
_ROUNDING = 1 / 12
_LEAST = 1e-9
_LEAST_SHARE = 1e-3
_HALVINGS = 40
_STRATA = (0.03, 0.15, 0.5, 1.0)
_CHANCE = 1.5
_FEWEST = 50
"""Parts that the scatter is fitted to are so many at least."""
_WIDTHS = (0.1, 0.5, 0.8, 1.2, 2.0, 3.0)
"""Of neighbourhoods of bins, and of parts; the first is each alone."""
_NEAREST = 48
_MOST_NEAR = 12_000_000
"""So many neighbours of all parts together are looked at."""
_ROUNDS = 20
_STEEPEST = 5.0
"""No class of distance is weighed up or down by more in one round."""


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
    total: Table | None = None
    """The sums over all bins, if they are measured too: one column."""
    total_variance: float = math.inf
    like: Callable[[Mapping[str, Table]], Table] | None = None
    """One column, from the estimates of the levels before it: in proportion to that a part is expected to
    have its parent's; None: as parts near it have."""

    @property
    def all_bins_only(self) -> bool:
        """Whether only sums over all bins are measured; the level then has one column."""
        return self.noisy is None and self.total is not None


@dataclass(frozen=True)
class Fit:
    """What is known of a level."""

    value: Table
    variance: Table
    """Of each part, the same in every bin: one column."""
    total_variance: Table
    """Of the sum over all bins."""
    own: Table
    """From the level itself and those below it."""
    own_variance: Table
    own_total: Table
    own_total_variance: Table
    largest: Table
    """The part of the variance that is one noisy number's, at most."""
    total_largest: Table
    """The same of the sum over all bins."""

    def without_own(self) -> Fit:
        """Only what is published of it: the rest is large, and serves to smooth estimates."""
        none = np.zeros((0, 1))
        return replace(self, own=none, own_variance=none, own_total=none, own_total_variance=none)


def sums(parent: Ints, values: NDArray[Any], parts: int) -> NDArray[Any]:
    """The sum of the rows that belong to each part."""
    found: NDArray[Any] = _adding(parent, parts) @ values
    return found


def _adding(parent: Ints, parts: int) -> csr_array:
    """The matrix that adds up the rows of each part."""
    ones = np.ones(len(parent), np.int8)
    return csr_array((ones, (parent, np.arange(len(parent)))), shape=(parts, len(parent)))


def least_squares(levels: dict[str, Level]) -> dict[str, Fit]:
    """The best linear unbiased estimates of all levels. Those above come before those below.

    Noise is alike in all bins of a level. So what is measured splits in two that have nothing to do with
    each other: sums over all bins, and how bins differ from their mean. Each is solved over the tree, and
    a sum that differs from that of its bins is dealt out to them evenly.
    """
    bins = next(level.noisy.shape[1] for level in levels.values() if level.noisy is not None)
    by_bin = _solve(
        {
            name: (v.above, v.parent, v.noisy, v.variance)
            for name, v in levels.items()
            if not v.all_bins_only
        }
    )
    sums_of = _solve({name: (v.above, v.parent, *_total(v, bins)) for name, v in levels.items()})
    fits = {}
    for name, level in levels.items():
        total = sums_of[name]
        # that of the sum which was measured, or those of the bins that are summed up
        largest = total.variance / min(level.total_variance, level.variance * bins**2)
        if level.all_bins_only:
            fits[name] = Fit(
                total.value, total.variance, total.variance, total.own, total.own_variance,
                total.own, total.own_variance, largest, largest,
            )  # fmt: skip
            continue
        bin = by_bin[name]
        value, own = (
            each + (whole - each.sum(axis=1, keepdims=True)) / bins
            for each, whole in ((bin.value, total.value), (bin.own, total.own))
        )
        variance, own_variance = (
            each * (1 - 1 / bins) + whole / bins**2
            for each, whole in (
                (bin.variance, total.variance), (bin.own_variance, total.own_variance)
            )
        )  # fmt: skip
        fits[name] = Fit(
            value, variance, total.variance, own, own_variance, total.own, total.own_variance,
            # that of the bin, or of the sum that is dealt out to few
            np.maximum(
                bin.variance / level.variance, largest * total.variance / (bins**2 * variance)
            ),
            largest,
        )  # fmt: skip
    return fits


def _total(level: Level, bins: int) -> tuple[Table | None, float]:
    """The sum over all bins: that of the noisy bins, weighed with the one that was measured."""
    if level.noisy is None:
        return level.total, level.total_variance
    summed, spread = level.noisy.sum(axis=1, keepdims=True), level.variance * bins
    if level.total is None:
        return summed, spread
    weight = 1 / spread + 1 / level.total_variance
    return (summed / spread + level.total / level.total_variance) / weight, 1 / weight


@dataclass(frozen=True)
class _Solution:
    value: Table
    variance: Table
    own: Table
    own_variance: Table


def _solve(
    levels: dict[str, tuple[str | None, Ints, Table | None, float]],
) -> dict[str, _Solution]:
    """One tree: of each level the one above, the parents, the noisy numbers and their variance.

    Upwards, each part's own noisy number is weighed with the sums of its parts, by their variances. Then
    downwards: what the sum of the parts lacks is dealt out to them in proportion to their variances.
    """
    own: dict[str, Table] = {}
    spread: dict[str, Table] = {}
    added: dict[str, tuple[Table, Table]] = {}
    for name in reversed(levels):
        _, parent, noisy, known_variance = levels[name]
        weights = np.full((len(parent), 1), 1 / known_variance)
        known: Any = 0.0 if noisy is None else noisy / known_variance
        for child, (above, belongs, *_) in levels.items():
            if above == name:
                total, variance = (sums(belongs, c[child], len(weights)) for c in (own, spread))
                added[child] = total, variance
                weights, known = weights + 1 / variance, known + total / variance
        own[name], spread[name] = known / weights, 1 / weights
    found: dict[str, _Solution] = {}
    for name, (above, parent, *_) in levels.items():
        value, variance = own[name], spread[name]
        if above is not None:
            total, whole = (column[parent] for column in added[name])
            part = variance / whole
            value = value + part * (found[above].value[parent] - total)
            variance = variance * (1 - part) + part**2 * found[above].variance[parent]
        found[name] = _Solution(value, variance, own[name], spread[name])
    return found


def margins(fit: Fit, *, pure: bool) -> Table:
    """Half of the 95 % interval of each part in a bin: Gaussian, or mostly one Laplace number."""
    return _times(fit.largest, pure=pure) * np.sqrt(fit.variance + _ROUNDING)


def total_margins(fit: Fit, *, pure: bool) -> Table:
    """The same of the sums over all bins."""
    return _times(fit.total_largest, pure=pure) * np.sqrt(fit.total_variance + _ROUNDING)


def _times(largest: Table, *, pure: bool) -> Table:
    """How many standard deviations that is."""
    found: Table = _NORMAL + pure * (_LAPLACE - _NORMAL) * largest**2
    return found


def margin_of(variance: float, *, pure: bool) -> float:
    """The same of one noisy number."""
    return (_LAPLACE if pure else _NORMAL) * math.sqrt(variance + _ROUNDING)


def rounded(values: Table, parent: Ints, above: Ints | None) -> Ints:
    """Whole numbers, which add up to those of the level above in every bin.

    All are rounded down; what is missing goes to those that lost most, ties to the first.
    """
    whole = np.floor(values).astype(np.int64)
    if above is None:
        return np.rint(values).astype(np.int64)
    missing = above - sums(parent, whole, len(above))
    order, offsets = _grouped(parent, len(above))
    parts = map_ranges(_given, offsets, offsets, order, values, missing)
    (whole[order],) = joined(parts)
    return whole


@njit(nogil=True, cache=True)
def _given(first, last, offsets, order, values, missing):  # type: ignore[no-untyped-def]
    """Whole numbers of the parts of parents `first` to `last` - 1, in their order."""
    rows = order[offsets[first] : offsets[last]]
    found = np.empty((len(rows), values.shape[1]), np.int64)
    for p in range(first, last):
        begin, end = offsets[p] - offsets[first], offsets[p + 1] - offsets[first]
        count = end - begin
        for b in range(values.shape[1] if count else 0):
            # more than one each, where the values do not add up by themselves
            each = missing[p, b] // count
            rest = missing[p, b] - each * count
            gained = np.empty(count)
            for k in range(count):
                value = values[rows[begin + k], b]
                found[begin + k, b] = np.int64(np.floor(value)) + each
                gained[k] = np.floor(value) - value
            if rest > 0:
                for k in np.argsort(gained, kind="mergesort")[:rest]:
                    found[begin + k, b] += 1
    return (found,)


def _grouped(parent: Ints, parts: int) -> tuple[Ints, Ints]:
    """The rows of each part, one part after the other, and where each begins."""
    order = np.argsort(parent, kind="stable")
    return order, offsets_from(np.bincount(parent, minlength=parts))


# Smoothed estimates.


@dataclass(frozen=True)
class Near:
    """The nearest parts of each part, by their centres: itself first."""

    part: NDArray[np.int32]
    away: NDArray[np.float32]
    """In units of the median distance to the next one."""

    @classmethod
    def of(cls, x: NDArray[np.float64], y: NDArray[np.float64]) -> Near:
        centres = np.column_stack([x, y])
        most = min(_NEAREST, max(_MOST_NEAR // len(x), 2), len(x))
        nearest = cKDTree(centres).query(centres, k=range(1, most + 1))
        away, part = (np.asarray(column) for column in nearest)
        unit = float(np.median(away[:, 1])) if away.shape[1] > 1 else 1.0
        return cls(part.astype(np.int32), (away / max(unit, _LEAST)).astype(np.float32))

    def smoothed(self, value: Table, variance: Table) -> Table:
        """Means of neighbours, as wide as Stein's estimate of their squared error is least. One column.

        Chosen apart for parts of different size: where there is little, more of it is alike.
        """
        means, risks = [], []
        for width in _WIDTHS:
            weight = np.exp(-((self.away / width) ** 2) / 2)
            weight /= weight.sum(axis=1, keepdims=True)
            mean = np.einsum("ij,ij->i", weight, value[self.part, 0])[:, None]
            means.append(mean)
            risks.append((mean - value) ** 2 + (2 * weight[:, :1] - 1) * variance)
        found = value.copy()
        for chosen in _strata(means[-1][:, 0]):
            best = np.argmin([risk[chosen].sum() for risk in risks])
            found[chosen] = means[best][chosen]
        return found


def smoothed(
    above: Table, parent: Ints, fit: Fit, like: Table | None = None, near: Near | None = None
) -> Table:
    """Estimates of a level, from those of the level above and its own unbiased numbers.

    Each part is expected to have a share of its parent, with the parent's course over the bins. The share
    is shrunk towards an expected one, and then the numbers towards what the share gives; how far, is
    fitted to how much they scatter beyond their noise. Not below 0; adds up to the level above.
    like: in proportion to which shares are expected, one column; None: to means of near parts, or evenly.
    """
    own, variance = fit.own, fit.own_variance
    bins = own.shape[1]
    whole = above.sum(axis=1, keepdims=True)
    if like is None:
        like = np.ones((len(own), 1))
        if near is not None:
            like = np.maximum(near.smoothed(fit.own_total, fit.own_total_variance), 0.0)
    even = _raked(like, whole, parent)
    away = fit.own_total - even
    spread = _spread(away, fit.own_total_variance, even)
    weight = _weight(spread, fit.own_total_variance)
    share = _projected(even + weight * away, weight * fit.own_total_variance, whole, parent)
    course = np.where(whole > 0, above / np.maximum(whole, _LEAST), 1 / bins)[parent]
    expected = share * course
    spread = _spread(own - expected, np.broadcast_to(variance, own.shape), expected)
    weight = _weight(spread, variance)
    return _projected(expected + weight * (own - expected), weight * variance, above, parent)


def _projected(values: Table, variance: Table, above: Table, parent: Ints) -> Table:
    """The nearest numbers that are not below 0 and add up to the level above, by their variances.

    They are max(v - l s, 0), s in proportion to the variances, where l is found for each parent and bin by
    halving. (Cutting off what is below 0 and scaling the rest would take from the large what noise gave to
    the small.)
    """
    count = np.bincount(parent, minlength=len(above))[:, None]
    mean = sums(parent, variance, len(above)) / np.maximum(count, 1)
    share = np.maximum(variance / np.maximum(mean, _LEAST)[parent], _LEAST_SHARE)
    share = np.ascontiguousarray(np.broadcast_to(share, values.shape))
    reach = np.abs(above) + sums(parent, np.abs(values), len(above)) + 1.0
    low, high = -reach, reach / _LEAST_SHARE
    order, offsets = _grouped(parent, len(above))
    (found,) = joined(map_ranges(_halved, offsets, offsets, order, values, share, above, low, high))
    nearest = np.empty_like(values)
    nearest[order] = found
    return _raked(nearest, above, parent)


@njit(nogil=True, cache=True)
def _halved(first, last, offsets, order, values, share, above, low, high):  # type: ignore[no-untyped-def]
    """max(v - l s, 0) of the parts of parents `first` to `last` - 1, in their order."""
    begin, bins = offsets[first], values.shape[1]
    rows = order[begin : offsets[last]]
    value, step = values[rows], share[rows]
    found = np.empty_like(value)
    for p in range(first, last):
        mine = slice(offsets[p] - begin, offsets[p + 1] - begin)
        least, most = low[p].copy(), high[p].copy()
        for _ in range(_HALVINGS):
            middle = (least + most) / 2
            total = np.zeros(bins)
            for k in range(mine.start, mine.stop):
                for b in range(bins):
                    total[b] += max(value[k, b] - middle[b] * step[k, b], 0.0)
            for b in range(bins):
                if total[b] > above[p, b]:
                    least[b] = middle[b]
                else:
                    most[b] = middle[b]
        for k in range(mine.start, mine.stop):
            for b in range(bins):
                found[k, b] = max(value[k, b] - most[b] * step[k, b], 0.0)
    return (found,)


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


def _strata(size: NDArray[np.float64]) -> Iterator[Ints]:
    """Parts of about the same size, the largest first."""
    order = np.argsort(-size, kind="stable")
    begin = 0
    for part in _STRATA:
        end = min(max(math.ceil(len(order) * part), begin + _FEWEST), len(order))
        yield order[begin:end]
        begin = end


def _spread(away: Table, variance: Table, expected: Table) -> Table:
    """The variance around what is expected that is not noise: a multiple of the square of its size.

    Fitted apart for parts of different size, because the largest differ in another way than the rest.
    """
    size, noise = expected.ravel(), np.broadcast_to(variance, expected.shape).ravel()
    beyond = away.ravel() ** 2 - noise
    spread = np.zeros(len(size))
    for chosen in _strata(size):
        squares = float((size[chosen] ** 2).sum())
        # what noise alone might give is not taken for scatter
        chance = _CHANCE * math.sqrt(2 * float((noise[chosen] ** 2).sum()))
        factor = max(float(beyond[chosen].sum()) - chance, 0.0) / max(squares, _LEAST)
        spread[chosen] = factor * size[chosen] ** 2
    # what is far away from what is expected is not noise
    far = 2 * math.log(len(size) + 1)
    return np.maximum(spread.reshape(expected.shape), away**2 - far * variance)


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


def gravity(leaving: Table, arriving: Table, far: NDArray[np.float64], away: Ints) -> Table:
    """What flows are expected from departures and arrivals: in proportion to both, and by distance.

    far: how many there are in each class of distance; away: the class of each flow. One column; flows are
    in the order of origin, then destination.
    """
    parts = len(leaving)
    out, into, wanted = (
        np.maximum(side, _LEAST) / max(float(np.maximum(side, _LEAST).sum()), _LEAST)
        for side in (leaving[:, 0], arriving[:, 0], far)
    )
    flows = np.outer(out, into)
    for _ in range(_ROUNDS):
        now = np.bincount(away, flows.ravel(), minlength=len(far))
        factor = np.clip(wanted / np.maximum(now, _LEAST), 1 / _STEEPEST, _STEEPEST)
        flows *= factor[away].reshape(parts, parts)
        flows *= (out / np.maximum(flows.sum(axis=1), _LEAST))[:, None]
        flows *= into / np.maximum(flows.sum(axis=0), _LEAST)
    return flows.reshape(-1, 1)


@dataclass(frozen=True)
class PairPrior:
    """What flows between zones are expected to be: those between their districts, dealt out.

    In proportion to the departures of the origin in its district, and to the arrivals at the destination.
    """

    district: Ints
    districts: Table
    """Flows between districts; row d1 * (number of districts) + d2."""
    leaving: Table
    """The part of its district's departures that is each zone's; one column: alike in all bins."""
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
        zones, bins = len(self.district), self.districts.shape[1]
        pair, bin = np.divmod(cells, bins)
        origin, destination = np.divmod(pair, zones)
        row = self.district[origin] * self._count + self.district[destination]
        of_bin = np.minimum(bin, self.leaving.shape[1] - 1)
        found: NDArray[np.float64] = (
            self.districts[row, bin]
            * self.leaving[origin, of_bin]
            * self.arriving[destination, of_bin]
        )
        return found

    def likely(self, least: float, most: int) -> Ints:
        """The flows that are expected to be at least so large, at most so many: the largest."""
        order = np.argsort(self.district, kind="stable")
        offsets = offsets_of(self.district[order], self._count)
        cells = np.sort(_likely(self.districts, self.leaving, self.arriving, order, offsets, least))
        return _largest(cells, self.at(cells), most)


@njit(nogil=True, cache=True)
def _likely(districts, leaving, arriving, order, offsets, least):  # type: ignore[no-untyped-def]
    """Cells between zones with at least so much, of those districts that have as much between them."""
    count, zones, bins = len(offsets) - 1, len(order), districts.shape[1]
    found = [0]
    found.clear()
    for row in range(count * count):
        from_, to = row // count, row % count
        for bin in range(bins):
            whole = districts[row, bin]
            if whole < least:
                continue
            column = min(bin, leaving.shape[1] - 1)
            most = 0.0
            for k in range(offsets[to], offsets[to + 1]):
                most = max(most, arriving[order[k], column])
            for i in range(offsets[from_], offsets[from_ + 1]):
                origin = order[i]
                part = whole * leaving[origin, column]
                if part * most < least:
                    continue
                for k in range(offsets[to], offsets[to + 1]):
                    if part * arriving[order[k], column] >= least:
                        found.append((origin * zones + order[k]) * bins + bin)
    return np.array(found, dtype=np.int64)


@dataclass(frozen=True)
class CellPrior:
    """What visits of a zone in a bin are expected to be: those of all bins, with its district's course."""

    district: Ints
    zones: Table
    """One column."""
    course: Table
    """The part of each bin, by district."""

    @classmethod
    def of(cls, district: Ints, zones: Table, districts: Table) -> CellPrior:
        total = districts.sum(axis=1, keepdims=True)
        return cls(district, zones, districts / np.maximum(total, _LEAST))

    def at(self, cells: Ints) -> NDArray[np.float64]:
        zone, bin = np.divmod(cells, self.course.shape[1])
        found: NDArray[np.float64] = self.zones[zone, 0] * self.course[self.district[zone], bin]
        return found

    def likely(self, least: float, most: int) -> Ints:
        """As those of flows."""
        bins = self.course.shape[1]
        cells = np.sort(
            np.concatenate(
                [
                    np.flatnonzero(self.zones[:, 0] * self.course[self.district, bin] >= least)
                    * bins
                    + bin
                    for bin in range(bins)
                ]
            )
        )
        return _largest(cells, self.at(cells), most)


def _largest(cells: Ints, expected: NDArray[np.float64], most: int) -> Ints:
    """At most so many, in the order of their numbers."""
    if len(cells) <= most:
        return cells
    return np.sort(cells[np.argsort(-expected, kind="stable")[:most]])


def shrunk(
    noisy: NDArray[np.float64], variance: float, expected: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Estimates of numbers with independent noise, towards what is expected of them."""
    away = noisy - expected
    beyond = float((away**2 - variance).sum()) - _CHANCE * variance * math.sqrt(2 * len(noisy))
    scatter = max(beyond, 0.0) / max(float(expected.sum()), _LEAST)
    spread = scatter * expected
    found: NDArray[np.float64] = np.maximum(expected + spread / (spread + variance) * away, 0.0)
    return found
