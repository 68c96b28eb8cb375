"""From noisy numbers to consistent tables: least squares over levels, margins, and shrunk estimates.

The levels form a tree. Each part of a level belongs to one part of the level above it; a level may have
several levels below it (departures of a district: by zone, and by district of destination). All levels
have the same time bins.

Each part and bin gets two numbers. The *value* is the best linear unbiased estimate. Its variance does not
depend on the data, and so it has a margin. The *estimate* is the value shrunk towards what coarser levels
suggest. It is closer to the truth for most parts and never below 0, but biased, so that it has no margin.
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
from freqdp_db.model.arrays import Ints, offsets_from, offsets_of, within

Table: TypeAlias = NDArray[np.float64]
"""[part, bin]."""

TENTHS = 10
"""Estimates are rounded to multiples of 1 / TENTHS."""
_NORMAL_95, _LAPLACE_95 = 1.959964, math.log(20) / math.sqrt(2)
"""Half-width of the 95 % interval of normal and Laplace noise, in standard deviations."""
_ROUNDING_VARIANCE = 1 / 12
"""Variance of the error of rounding to whole numbers."""
_EPSILON = 1e-9
"""Replaces 0 in denominators."""
_MIN_SHARE = 1e-3
"""Smallest share of a projection's adjustment that a part takes, relative to the mean share."""
_HALVINGS = 40
_STRATUM_ENDS = (0.03, 0.15, 0.5, 1.0)
"""Parts are divided into strata by size, the largest first: quantiles at which the strata end."""
_MIN_STRATUM = 50
"""Smallest number of parts in a stratum."""
_CHANCE_DEVIATIONS = 1.5
"""Scatter counts as more than noise beyond this many standard deviations of its sum of squares."""
_KERNEL_WIDTHS = (0.1, 0.5, 0.8, 1.2, 2.0, 3.0)
"""Candidate widths of smoothing kernels, in bins or median distances; the first does not smooth."""
_MAX_NEIGHBOURS = 48
"""Neighbours of a part that smoothing uses at most,"""
_MAX_NEIGHBOURS_OF_ALL = 12_000_000
"""and of all parts together, which bounds the memory."""
_GRAVITY_ROUNDS = 20
_MAX_DISTANCE_FACTOR = 5.0
"""Largest factor by which one round of the gravity model changes the weight of a class of distance."""


@dataclass(frozen=True)
class Level:
    """A level of the tree, and its measurements."""

    above: str | None
    """Name of the level above it; None for the top."""
    parent: Ints
    """[part]: the part of the level above that it belongs to."""
    noisy: Table | None = None
    """The noisy numbers by bin. None: only levels below it are measured by bin."""
    variance: float = math.inf
    """Variance of the noise in `noisy`."""
    total: Table | None = None
    """Noisy sums over all bins, in one column. None: they are not measured."""
    total_variance: float = math.inf
    """Variance of the noise in `total`."""
    like: Callable[[Mapping[str, Table]], Table] | None = None
    """From the estimates of the levels before it, numbers (one column) to which the shares of parts in
    their parent are expected to be proportional. None: shares are expected to be like those of near
    parts."""

    @property
    def all_bins_only(self) -> bool:
        """Whether only sums over all bins are measured. Tables of the level then have one column."""
        return self.noisy is None and self.total is not None


@dataclass(frozen=True)
class Fit:
    """The least-squares solution of a level."""

    value: Table
    variance: Table
    """Variance of the values of each part, which is the same in every bin: one column."""
    total_variance: Table
    """Variance of the sum of a part's values over all bins."""
    own: Table
    """Estimates from the measurements of this level and the levels below it alone."""
    own_variance: Table
    own_total: Table
    own_total_variance: Table
    largest: Table
    """Upper bound of the share of `variance` that comes from a single noisy number."""
    total_largest: Table
    """Upper bound of the share of `total_variance` that comes from a single noisy number."""

    def without_own(self) -> Fit:
        """Without the `own` columns: they are large, and only smoothing needs them."""
        none = np.zeros((0, 1))
        return replace(self, own=none, own_variance=none, own_total=none, own_total_variance=none)


def sums(parent: Ints, values: NDArray[Any], parts: int) -> NDArray[Any]:
    """For each part, the sum of the rows whose `parent` it is."""
    found: NDArray[Any] = _summation_matrix(parent, parts) @ values
    return found


def _summation_matrix(parent: Ints, parts: int) -> csr_array:
    """The matrix that adds up the rows of each part."""
    ones = np.ones(len(parent), np.int8)
    return csr_array((ones, (parent, np.arange(len(parent)))), shape=(parts, len(parent)))


def least_squares(levels: dict[str, Level]) -> dict[str, Fit]:
    """The best linear unbiased estimates of all levels. A level comes before those below it.

    The noise has the same variance in all bins of a level. The sums over all bins, and the differences of
    bins from their mean, therefore have independent noise and are solved separately. Where the solved sum
    differs from the sum of the solved bins, the difference is divided evenly among the bins.
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
        # the single number is the measured sum, or one of the bins that are added up
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
            # the single number is that of the bin, or the sum if it is divided among few bins
            np.maximum(
                bin.variance / level.variance, largest * total.variance / (bins**2 * variance)
            ),
            largest,
        )  # fmt: skip
    return fits


def _total(level: Level, bins: int) -> tuple[Table | None, float]:
    """The noisy sum over all bins, with its variance: the sum of the bins, weighted with the measured
    sum."""
    if level.noisy is None:
        return level.total, level.total_variance
    summed, spread = level.noisy.sum(axis=1, keepdims=True), level.variance * bins
    if level.total is None:
        return summed, spread
    weight = 1 / spread + 1 / level.total_variance
    return (summed / spread + level.total / level.total_variance) / weight, 1 / weight


@dataclass(frozen=True)
class _Solution:
    """The columns `value`, `variance`, `own` and `own_variance` of a `Fit`."""

    value: Table
    variance: Table
    own: Table
    own_variance: Table


def _solve(
    levels: dict[str, tuple[str | None, Ints, Table | None, float]],
) -> dict[str, _Solution]:
    """Weighted least squares over a tree. A level is its level above, parents, noisy numbers, variance.

    On the way up, the noisy number of each part is averaged with the sum of its children, weighted by
    inverse variances. On the way down, the difference between a part and the sum of its children is
    divided among the children in proportion to their variances.
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
    """Half-width of the 95 % interval of the value of each part in a bin."""
    return _deviations_95(fit.largest, pure=pure) * np.sqrt(fit.variance + _ROUNDING_VARIANCE)


def total_margins(fit: Fit, *, pure: bool) -> Table:
    """Half-width of the 95 % interval of the sum of each part over all bins."""
    return _deviations_95(fit.total_largest, pure=pure) * np.sqrt(
        fit.total_variance + _ROUNDING_VARIANCE
    )


def _deviations_95(largest: Table, *, pure: bool) -> Table:
    """Half-width of a 95 % interval in standard deviations.

    Sums of Laplace noise are nearly normal unless one number dominates; `largest` is its share of the
    variance.
    """
    found: Table = _NORMAL_95 + pure * (_LAPLACE_95 - _NORMAL_95) * largest**2
    return found


def margin_of(variance: float, *, pure: bool) -> float:
    """Half-width of the 95 % interval of one noisy number."""
    return (_LAPLACE_95 if pure else _NORMAL_95) * math.sqrt(variance + _ROUNDING_VARIANCE)


def rounded(values: Table, parent: Ints, above: Ints | None) -> Ints:
    """Round to whole numbers that add up to those of the level above in every bin.

    Largest remainders: all are rounded down, and the missing units go to the largest fractions, to the
    first of equal ones.
    """
    whole = np.floor(values).astype(np.int64)
    if above is None:
        return np.rint(values).astype(np.int64)
    missing = above - sums(parent, whole, len(above))
    # more than one unit each, if the values themselves do not add up
    each, rest = np.divmod(
        missing, np.maximum(np.bincount(parent, minlength=len(above)), 1)[:, None]
    )
    bins = values.shape[1]
    cell = (parent[:, None] * bins + np.arange(bins)).ravel()
    order = np.lexsort(((whole - values).ravel(), cell))
    place = np.empty_like(order)
    place[order] = within(offsets_from(np.bincount(cell, minlength=above.size)))
    gains = place.reshape(values.shape) < rest[parent]
    found: Ints = whole + each[parent] + gains
    return found


def _grouped(parent: Ints, parts: int) -> tuple[Ints, Ints]:
    """The rows of each part, one part after the other, and their offsets."""
    order = np.argsort(parent, kind="stable")
    return order, offsets_from(np.bincount(parent, minlength=parts))


# Shrunk estimates.


@dataclass(frozen=True)
class Near:
    """The nearest neighbours of each part by the distance of centres; a part is its own first neighbour."""

    part: NDArray[np.int32]
    """[part, n]: the n-th nearest part."""
    away: NDArray[np.float32]
    """[part, n]: its distance, in the median distance to the nearest other part."""

    @classmethod
    def of(cls, x: NDArray[np.float64], y: NDArray[np.float64]) -> Near:
        centres = np.column_stack([x, y])
        most = min(_MAX_NEIGHBOURS, max(_MAX_NEIGHBOURS_OF_ALL // len(x), 2), len(x))
        nearest = cKDTree(centres).query(centres, k=range(1, most + 1))
        away, part = (np.asarray(column) for column in nearest)
        unit = float(np.median(away[:, 1])) if away.shape[1] > 1 else 1.0
        return cls(part.astype(np.int32), (away / max(unit, _EPSILON)).astype(np.float32))

    def smoothed(self, value: Table, variance: Table) -> Table:
        """Means over neighbours, in one column, with the kernel width of the least estimated risk.

        The risk is Stein's unbiased estimate of the squared error. The width is chosen for each stratum of
        size: small numbers gain from wider means.
        """
        means, risks = [], []
        for width in _KERNEL_WIDTHS:
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
    """Estimates of a level from the estimates of the level above and its own unbiased numbers.

    A part is modelled as a share of its parent, distributed over the bins as the parent is. The share is
    shrunk towards its expectation, and then the number in each bin towards the model. The amount of
    shrinkage is fitted to the scatter beyond the noise. Estimates are not below 0 and add up to those
    above.

    like: numbers to which shares are expected to be proportional, in one column. None: the means of near
    parts, or equal shares.
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
    spread = _true_variance(away, fit.own_total_variance, even)
    weight = _signal_share(spread, fit.own_total_variance)
    share = _projected(even + weight * away, weight * fit.own_total_variance, whole, parent)
    course = np.where(whole > 0, above / np.maximum(whole, _EPSILON), 1 / bins)[parent]
    expected = share * course
    spread = _true_variance(own - expected, np.broadcast_to(variance, own.shape), expected)
    weight = _signal_share(spread, variance)
    return _projected(expected + weight * (own - expected), weight * variance, above, parent)


def _projected(values: Table, variance: Table, above: Table, parent: Ints) -> Table:
    """The nearest numbers, weighted by inverse variance, that are not below 0 and add up to the level
    above.

    These are max(v - l s, 0) with s proportional to the variances; l is found by bisection for each parent
    and bin. (Clipping at 0 and rescaling would take from large parts what noise added to small ones.)
    """
    count = np.bincount(parent, minlength=len(above))[:, None]
    mean = sums(parent, variance, len(above)) / np.maximum(count, 1)
    share = np.maximum(variance / np.maximum(mean, _EPSILON)[parent], _MIN_SHARE)
    share = np.ascontiguousarray(np.broadcast_to(share, values.shape))
    reach = np.abs(above) + sums(parent, np.abs(values), len(above)) + 1.0
    low, high = -reach, reach / _MIN_SHARE
    order, offsets = _grouped(parent, len(above))
    (found,) = joined(map_ranges(_bisect, offsets, offsets, order, values, share, above, low, high))
    nearest = np.empty_like(values)
    nearest[order] = found
    return _raked(nearest, above, parent)


@njit(nogil=True, cache=True)
def _bisect(first, last, offsets, order, values, share, above, low, high):  # type: ignore[no-untyped-def]
    """max(v - l s, 0) for the children of parents `first` to `last` - 1, in the order of `order`."""
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


def smoothed_over_bins(value: Table, variance: Table, *, cyclic: bool) -> Table:
    """Means over neighbouring bins, with the kernel width of the least estimated risk (Stein's estimate).

    cyclic: the first bin follows the last one.
    """
    bins = value.shape[1]
    apart = np.abs(np.arange(bins)[:, None] - np.arange(bins))
    if cyclic:
        apart = np.minimum(apart, bins - apart)
    best, found = math.inf, value
    for width in _KERNEL_WIDTHS:
        kernel = np.exp(-((apart / width) ** 2) / 2)
        kernel /= kernel.sum(axis=1, keepdims=True)
        mean = value @ kernel.T
        risk = float(((mean - value) ** 2).sum() + (2 * np.trace(kernel) - bins) * variance.sum())
        if risk < best:
            best, found = risk, mean
    return found


def _strata(size: NDArray[np.float64]) -> Iterator[Ints]:
    """Strata of parts by size, the largest first: the positions of their parts."""
    order = np.argsort(-size, kind="stable")
    begin = 0
    for part in _STRATUM_ENDS:
        end = min(max(math.ceil(len(order) * part), begin + _MIN_STRATUM), len(order))
        yield order[begin:end]
        begin = end


def _true_variance(away: Table, variance: Table, expected: Table) -> Table:
    """Variance of the true numbers around what is expected of them.

    Modelled as a multiple of the squared expectation. The factor is fitted for each stratum of size,
    because the largest parts scatter differently.
    """
    size, noise = expected.ravel(), np.broadcast_to(variance, expected.shape).ravel()
    beyond = away.ravel() ** 2 - noise
    spread = np.zeros(len(size))
    for chosen in _strata(size):
        squares = float((size[chosen] ** 2).sum())
        # the sum of squares of the noise itself varies by chance
        chance = _CHANCE_DEVIATIONS * math.sqrt(2 * float((noise[chosen] ** 2).sum()))
        factor = max(float(beyond[chosen].sum()) - chance, 0.0) / max(squares, _EPSILON)
        spread[chosen] = factor * size[chosen] ** 2
    # a single difference that noise cannot explain is scatter
    far = 2 * math.log(len(size) + 1)
    return np.maximum(spread.reshape(expected.shape), away**2 - far * variance)


def _signal_share(signal: Table, noise: Table) -> Table:
    weight: Table = signal / np.maximum(signal + noise, _EPSILON)
    return weight


def _raked(values: Table, above: Table, parent: Ints) -> Table:
    """Scaled so that they add up to the level above; equal parts where all children are 0."""
    total = sums(parent, values, len(above))
    count = np.maximum(np.bincount(parent, minlength=len(above)), 1)[:, None]
    factor = np.where(total > _EPSILON, above / np.maximum(total, _EPSILON), 0.0)
    even = np.where(total > _EPSILON, 0.0, above / count)
    found: Table = values * factor[parent] + even[parent]
    return found


def gravity(leaving: Table, arriving: Table, far: NDArray[np.float64], away: Ints) -> Table:
    """Gravity model: flows with these departures, arrivals and numbers by class of distance. One column.

    far: the number of flows in each class of distance. away: the class of each pair, in the order of
    origin, then destination, which is also the order of the result.
    """
    parts = len(leaving)
    out, into, wanted = (
        np.maximum(side, _EPSILON) / max(float(np.maximum(side, _EPSILON).sum()), _EPSILON)
        for side in (leaving[:, 0], arriving[:, 0], far)
    )
    flows = np.outer(out, into)
    for _ in range(_GRAVITY_ROUNDS):
        now = np.bincount(away, flows.ravel(), minlength=len(far))
        factor = np.clip(
            wanted / np.maximum(now, _EPSILON), 1 / _MAX_DISTANCE_FACTOR, _MAX_DISTANCE_FACTOR
        )
        flows *= factor[away].reshape(parts, parts)
        flows *= (out / np.maximum(flows.sum(axis=1), _EPSILON))[:, None]
        flows *= into / np.maximum(flows.sum(axis=0), _EPSILON)
    return flows.reshape(-1, 1)


@dataclass(frozen=True)
class PairPrior:
    """Expected flows between zones.

    The flow between two districts, times the share of the origin in the departures of its district, times
    the share of the destination in the arrivals of its district.
    """

    district: Ints
    """District of each zone."""
    districts: Table
    """Flows between districts; row d1 * (number of districts) + d2."""
    leaving: Table
    """Share of each zone in the departures of its district. One column: the same in all bins."""
    arriving: Table
    """Share of each zone in the arrivals of its district."""

    @classmethod
    def of(
        cls, district: Ints, count: int, pairs: Table, leaving: Table, arriving: Table
    ) -> PairPrior:
        shares = []
        for table in (leaving, arriving):
            total = sums(district, table, count)[district]
            inside = np.bincount(district, minlength=count)[district][:, None]
            shares.append(
                np.where(total > _EPSILON, table / np.maximum(total, _EPSILON), 1 / inside)
            )
        return cls(district, pairs, *shares)

    @property
    def _count(self) -> int:
        return math.isqrt(len(self.districts))

    def at(self, cells: Ints) -> NDArray[np.float64]:
        """Expected flows of these cells, numbered as in the draw."""
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
        """Cells whose expected flow is at least `least`, ascending; of more than `most` the largest
        ones."""
        order = np.argsort(self.district, kind="stable")
        offsets = offsets_of(self.district[order], self._count)
        cells = np.sort(_likely(self.districts, self.leaving, self.arriving, order, offsets, least))
        return _largest(cells, self.at(cells), most)


@njit(nogil=True, cache=True)
def _likely(districts, leaving, arriving, order, offsets, least):  # type: ignore[no-untyped-def]
    """Cells whose expected flow is at least `least`. Pairs of districts with less between them are
    skipped."""
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
    """Expected visits of a zone in a bin: those of all bins, distributed over bins as in its district."""

    district: Ints
    """District of each zone."""
    zones: Table
    """Visits of each zone in all bins together: one column."""
    course: Table
    """[district, bin]: share of the bin in the visits of the district."""

    @classmethod
    def of(cls, district: Ints, zones: Table, districts: Table) -> CellPrior:
        total = districts.sum(axis=1, keepdims=True)
        return cls(district, zones, districts / np.maximum(total, _EPSILON))

    def at(self, cells: Ints) -> NDArray[np.float64]:
        zone, bin = np.divmod(cells, self.course.shape[1])
        found: NDArray[np.float64] = self.zones[zone, 0] * self.course[self.district[zone], bin]
        return found

    def likely(self, least: float, most: int) -> Ints:
        """Cells whose expected visits are at least `least`, ascending; of more than `most` the largest
        ones."""
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
    """The cells with the largest expectations, at most `most`, ascending."""
    if len(cells) <= most:
        return cells
    return np.sort(cells[np.argsort(-expected, kind="stable")[:most]])


def shrunk(
    noisy: NDArray[np.float64], variance: float, expected: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Noisy numbers shrunk towards their expectations, as far as their scatter is explained by noise."""
    away = noisy - expected
    beyond = float((away**2 - variance).sum()) - _CHANCE_DEVIATIONS * variance * math.sqrt(
        2 * len(noisy)
    )
    scatter = max(beyond, 0.0) / max(float(expected.sum()), _EPSILON)
    spread = scatter * expected
    found: NDArray[np.float64] = np.maximum(expected + spread / (spread + variance) * away, 0.0)
    return found
