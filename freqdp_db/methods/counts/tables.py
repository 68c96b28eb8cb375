"""The published tables, computed from the draw and from public inputs alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, make_dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freqdp_db.methods.counts.contributions import (
    DURATION_EDGES_MIN,
    FASTEST_KMH,
    LONGEST_STAY_MIN,
    TRIP_CLASSES,
    WHOLE,
)
from freqdp_db.methods.counts.estimation import (
    TENTHS,
    CellPrior,
    Fit,
    Level,
    Near,
    PairPrior,
    Table,
    gravity,
    least_squares,
    margin_of,
    margins,
    rounded,
    shrunk,
    smoothed,
    smoothed_over_bins,
    total_margins,
)
from freqdp_db.methods.counts.family import SUMMARY
from freqdp_db.methods.counts.plan import (
    MINUTE_STEPS,
    STEP_MIN,
    Draw,
    Plan,
    Shape,
    estimate_lost_share,
)
from freqdp_db.methods.counts.relations import COUNTED
from freqdp_db.methods.counts.zones import BIN_KINDS, Bins, Geography, Roads, Zones
from freqdp_db.methods.synthesis.public import Period
from freqdp_db.model.arrays import Ints

LIKELY = 0.5
"""Coarser levels suggest a cell of a sparse table if they expect at least this number in it."""
FEWEST_LIKELY = 5000
LIKELY_TIMES = 5
"""At most FEWEST_LIKELY cells are suggested, or LIKELY_TIMES the noisy number of objects if that is
more."""
_TOP = "city"
_MIN_DEVIATIONS_OF_MEAN = 2.0
"""A mean is published if its denominator exceeds this many standard deviations of its noise."""


_COLUMNS = make_dataclass(
    "_COLUMNS",
    [
        *(f"{name}_{column.name}" for name, of in COUNTED.items() for column in of.columns),
        *("summary", "bins"),
    ],
    frozen=True,
)


class CountTables(_COLUMNS):  # type: ignore[misc, valid-type]
    """The columns of all published tables, each table in the order of its key. Empty: not asked for.

    summary: one number for each name in `options.SUMMARY`. bins: kind of bins (its position in BIN_KINDS),
    begin and end of the period.
    """

    def __len__(self) -> int:
        """Number of rows of all tables of counts."""
        return sum(len(getattr(self, f"{name}_bin")) for name in COUNTED)

    def bins_in(self, timezone: str) -> Bins:
        """The time bins of the tables."""
        kind, begin, end = self.bins.tolist()
        return Bins(BIN_KINDS[kind], Period(begin, end), timezone)

    def table(self, name: str) -> dict[str, NDArray[Any]]:
        """The columns of one table, by name."""
        return {column: getattr(self, f"{name}_{column}") for column in COUNTED[name].names}


Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Solved:
    """A tree of levels with its values and estimates. The dictionaries are by level."""

    all_bins_only: dict[str, bool]
    """Whether a level has only sums over all bins."""
    fits: dict[str, Fit]
    values: dict[str, Ints]
    smooth: dict[str, Table]
    """Estimates of the bounded counts, not rounded."""
    estimates: dict[str, Ints]
    """Estimates in units of 1 / TENTHS, corrected for what the bounds leave out."""
    lost: float
    """Estimated share that the bounds leave out."""

    @property
    def correction(self) -> float:
        """Factor by which estimates are corrected for what the bounds leave out."""
        return 1 / (1 - self.lost)


def solved(
    levels: dict[str, Level], fits: dict[str, Fit], of: Geography, shape: Shape, lost: float
) -> Solved:
    """Round the values of a tree, and shrink and round its estimates, from the top down."""
    near = _neighbours(of)
    # the levels themselves are not kept: their functions `like` refer to the trees solved before
    all_bins_only = {name: level.all_bins_only for name, level in levels.items()}
    found = Solved(all_bins_only, {}, {}, {}, {}, lost)
    for name, level in levels.items():
        fit, parent = fits[name], level.parent
        value_above = estimate_above = None
        if level.above is None:
            course = smoothed_over_bins(fit.value, fit.variance, cyclic=shape.cyclic)
            smooth = np.maximum(course, 0.0)
        else:
            like = None if level.like is None else level.like(found.smooth)
            trees: tuple[dict[str, Any], ...] = found.values, found.estimates, found.smooth
            above = [tree[level.above] for tree in trees]
            if level.all_bins_only:
                above = [_all_bins(each) for each in above]
            value_above, estimate_above, smooth_above = above
            smooth = smoothed(smooth_above, parent, fit, like, near.get(name))
        tenths = smooth * (found.correction * TENTHS)
        found.fits[name] = fit.without_own()
        found.values[name] = rounded(fit.value, parent, value_above)
        found.smooth[name], found.estimates[name] = smooth, rounded(tenths, parent, estimate_above)
    return found


@lru_cache(maxsize=2)
def _neighbours(of: Geography) -> dict[str, Near]:
    """The neighbours of zones or roads, and of districts, by level."""
    of_finest = Near.of(of.x, of.y)
    of_districts = Near.of(*of.district_centres())
    return {
        **dict.fromkeys((of.finest, "from", "to"), of_finest),
        **dict.fromkeys(("district", "from_district", "to_district"), of_districts),
    }


def _all_bins(table: NDArray[Any]) -> NDArray[Any]:
    found: NDArray[Any] = table.sum(axis=1, keepdims=True)
    return found


def _with_all_bins(table: NDArray[Any]) -> NDArray[Any]:
    """The table with the sums over all bins as the first column."""
    return np.concatenate([_all_bins(table), table], axis=1)


@dataclass(frozen=True)
class Solutions:
    """The solved trees of a draw, and the rows of the tables. A tree is solved when it is first used."""

    drawn: Mapping[str, Ints]
    plan: Plan

    @property
    def zones(self) -> Zones:
        return self.plan.design.zones

    @property
    def pure(self) -> bool:
        return self.plan.design.budget.pure

    @property
    def roads(self) -> Roads:
        assert self.plan.design.roads is not None, "only where they are counted"
        return self.plan.design.roads

    @cached_property
    def district(self) -> Ints:
        return self.zones.district.astype(np.int64)

    def variance(self, name: str) -> float:
        """Variance of the noise of a measurement, in contributions."""
        return (self.plan[name].deviation / WHOLE) ** 2

    def _level(self, name: str, above: str | None, parent: Ints) -> Level:
        """The level of this name with its measurements by bin and over all bins, as far as the plan has
        them."""
        level = Level(above, parent)
        if name in self.plan:
            noisy = self.drawn[name].reshape(-1, self.plan.design.shape.bins) / WHOLE
            level = replace(level, noisy=noisy, variance=self.variance(name))
        if (whole := f"{name}_all") in self.plan:
            total = self.drawn[whole].reshape(-1, 1) / WHOLE
            level = replace(level, total=total, total_variance=self.variance(whole))
        return level

    def _solved(self, what: str, levels: dict[str, Level], of: Geography) -> Solved:
        """The solved tree of a kind of contribution: visits, stays, trips or passages."""
        fits, design = least_squares(levels), self.plan.design
        name, city = f"{what.removesuffix('s')}_sizes", fits[_TOP]
        lost = estimate_lost_share(
            self.drawn[name], design.first_round[name], self.plan.bounds[what],
            float(city.value.sum()), float(city.total_variance[0, 0]),
        )  # fmt: skip
        return solved(levels, fits, of, design.shape, lost)

    def _areas(self, table: str, of: Geography) -> dict[str, Level]:
        """Levels of a table by area: the city, its districts, and their zones or roads."""
        parents = {
            _TOP: (None, np.zeros(1, np.int64)),
            "district": (_TOP, np.zeros(of.districts, np.int64)),
            of.finest: ("district", of.district.astype(np.int64)),
        }
        return {name: self._level(f"{table}_{name}", *part) for name, part in parents.items()}

    @cached_property
    def visits(self) -> Solved:
        return self._solved("visits", self._areas("visits", self.zones), self.zones)

    @cached_property
    def stays(self) -> Solved:
        return self._solved("stays", self._areas("stays", self.zones), self.zones)

    @cached_property
    def passages(self) -> Solved:
        return self._solved("passages", self._areas("roads", self.roads), self.roads)

    @cached_property
    def trips(self) -> Solved:
        """The tree of trips: by origin, between districts, by destination, and by class."""
        drawn, count = self.drawn, self.zones.districts
        every = np.zeros(count, np.int64)
        top = "flows_city" if "flows_city" in self.plan else "trips_city"
        levels = {_TOP: self._level(top, None, np.zeros(1, np.int64))}
        if "flows" in self.plan.design.tables:
            far, away = drawn["flows_distance"] / WHOLE, self.zones.distance_classes()
            pair = np.repeat(np.arange(count), count)
            # for each level: the level above, the parents, and what its shares are expected to be like
            parts: dict[str, tuple[str, Ints, Callable[[Mapping[str, Table]], Table] | None]] = {
                "from_district": (_TOP, every, self._like_visits("district")),
                "from": ("from_district", self.district, self._like_visits("zone")),
                # trips end where others begin
                "to_district": (_TOP, every, lambda smooth: _all_bins(smooth["from_district"])),
                "to": ("to_district", self.district, lambda smooth: _all_bins(smooth["from"])),
                "districts": (
                    "from_district", pair,
                    lambda smooth: gravity(
                        _all_bins(smooth["from_district"]), _all_bins(smooth["to_district"]), far, away
                    ),
                ),
            }  # fmt: skip
            for name, (above, parent, like) in parts.items():
                levels[name] = replace(self._level(f"flows_{name}", above, parent), like=like)
        if "trips" in self.plan.design.tables:
            levels["class"] = self._level("trips_class", _TOP, np.zeros(TRIP_CLASSES, np.int64))
        return self._solved("trips", levels, self.zones)

    def _like_visits(self, level: str) -> Callable[[Mapping[str, Table]], Table] | None:
        """Departures are expected in proportion to visits. None if visits are not counted."""
        if "visits" not in self.plan.design.tables:
            return None
        return lambda smooth: _all_bins(self.visits.smooth[level])

    def prior(self, table: str) -> PairPrior | CellPrior:
        """The expected numbers of the cells of a sparse table, by the coarser levels."""
        if table == "visits":
            smooth = self.visits.smooth
            return CellPrior.of(self.district, smooth["zone"], smooth["district"])
        smooth = self.trips.smooth
        parts = smooth["districts"], smooth["from"], smooth["to"]
        return PairPrior.of(self.district, self.zones.districts, *parts)

    def likely(self, table: str) -> Ints:
        """Cells of a sparse table that the coarser levels suggest, ascending."""
        most = max(FEWEST_LIKELY, LIKELY_TIMES * int(self.drawn["objects"][0]))
        return self.prior(table).likely(LIKELY, most)

    # Rows of the tables.

    def numbers(self, found: Solved, name: str) -> Columns:
        """The columns bin, value, margin, estimate and shown_from of a level; bin 0 is all bins
        together."""
        value, estimate, fit = found.values[name], found.estimates[name], found.fits[name]
        margin = total_margins(fit, pure=self.pure)
        if not found.all_bins_only[name]:
            by_bin = np.repeat(margins(fit, pure=self.pure), value.shape[1], axis=1)
            margin = np.concatenate([margin, by_bin], axis=1)
            value, estimate = _with_all_bins(value), _with_all_bins(estimate)
        return {
            "bin": np.broadcast_to(np.arange(value.shape[1], dtype=np.int32), value.shape),
            "value": value,
            "margin": np.broadcast_to(np.round(margin, 1), value.shape),
            "estimate": estimate / TENTHS,
            "shown_from": np.broadcast_to(0.0, value.shape),
        }

    def area_rows(self, found: Solved, of: Geography) -> Columns:
        ids = {of.finest: of.ids, "district": of.district_ids, _TOP: np.array([of.city_id])}
        return _stacked(
            [_rows(self.numbers(found, name), **{of.finest: ids[name]}) for name in ids]
        )

    def visit_rows(self) -> Columns:
        rows = self.area_rows(self.visits, self.zones)
        if "visits" not in self.plan.sparse:
            return rows
        zone, cells = self.cell_rows("visits")
        return _in_order([rows, {"zone": (zone + 1).astype(np.int32), **cells}], "zone", "bin")

    def flow_rows(self) -> Columns:
        zones = self.zones
        city, district = np.array([zones.city_id]), zones.district_ids
        ends = {
            _TOP: (city, city),
            "from_district": (district, np.repeat(city, zones.districts)),
            "from": (zones.ids, np.repeat(city, len(zones))),
            "districts": (np.repeat(district, zones.districts), np.tile(district, zones.districts)),
            "to_district": (np.repeat(city, zones.districts), district),
            "to": (np.repeat(city, len(zones)), zones.ids),
        }
        rows = [
            _rows(self.numbers(self.trips, name), origin=origin, destination=destination)
            for name, (origin, destination) in ends.items()
        ]
        pair, cells = self.cell_rows("flows")
        between = {
            "origin": (pair // len(zones) + 1).astype(np.int32),
            "destination": (pair % len(zones) + 1).astype(np.int32),
        }
        return _in_order([*rows, between | cells], "origin", "destination", "bin")

    def cell_rows(self, table: str) -> tuple[Ints, Columns]:
        """The published cells of a sparse table: their places (zone, or pair of zones) and the other
        columns."""
        plan, drawn = self.plan, self.drawn
        picked, noisy = drawn[f"{table}_picked"], drawn[f"{table}_cells"] / WHOLE
        variance = self.variance(f"{table}_cells")
        likely = np.isin(picked, drawn[f"{table}_likely"], assume_unique=True)
        expected = self.prior(table).at(picked)
        estimate = np.empty(len(picked))
        estimate[likely] = shrunk(noisy[likely], variance, expected[likely])
        estimate[~likely] = shrunk_to_nothing(noisy[~likely], variance)
        correction = (self.trips if table == "flows" else self.visits).correction
        place, bin = np.divmod(picked, plan.design.shape.bins)
        return place, {
            "bin": (bin + 1).astype(np.int32),
            "value": np.rint(noisy).astype(np.int64),
            "margin": np.full(len(picked), self.cell_margin(table)),
            "estimate": np.round(estimate * correction, 1),
            "shown_from": np.where(likely, 0.0, float(plan.threshold[table])),
        }

    def cell_margin(self, table: str) -> float:
        """Margin of each cell of a sparse table."""
        return round(margin_of(self.variance(f"{table}_cells"), pure=self.pure), 1)

    def trip_rows(self) -> Columns:
        length, duration = np.divmod(np.arange(TRIP_CLASSES), len(DURATION_EDGES_MIN))
        numbers = self.numbers(self.trips, "class")
        return _stacked([_rows(numbers, length_class=length + 1, duration_class=duration + 1)])

    def stay_rows(self) -> Columns:
        """Rows of stays. Mean durations are known by district and bin; zones show those of their
        district."""
        bins = self.plan.design.shape.bins
        steps = self.drawn["stays_minutes"].reshape(-1, bins) / WHOLE
        variance = self.variance("stays_minutes") * np.array([[bins] + [1] * bins])
        fits, districts = self.stays.fits, self.zones.districts

        def of_level(total: Table, spread: Table, level: str) -> tuple[Table, Table]:
            """Mean minutes and margins of a level, from noisy sums of steps and their variance."""
            sums = _with_all_bins(total), spread
            found = _ratio(sums, fits[level], MINUTE_STEPS, pure=self.pure)
            return found[0] * STEP_MIN, found[1] * STEP_MIN

        mean, margin = of_level(steps, variance, "district")
        city_mean, city_margin = of_level(
            steps.sum(axis=0, keepdims=True), variance * districts, _TOP
        )
        mean = np.where(margin >= LONGEST_STAY_MIN, city_mean, mean)
        shown = slice(0, 1 if self.stays.all_bins_only["zone"] else None)
        means = {
            name: np.concatenate(
                [part.ravel() for part in (district[self.district, shown], district, city)]
            ).round(1)
            for name, district, city in (
                ("mean_minutes", mean, city_mean), ("mean_margin", margin, city_margin),
            )
        }  # fmt: skip
        return self.area_rows(self.stays, self.zones) | means

    def road_rows(self) -> Columns:
        """Rows of passages. Mean speeds come from sums that are solved over the levels as counts are.

        A road whose mean is not known shows the mean of its district, a district that of the city, and a
        bin of the city that of all bins.
        """
        roads, counts = self.roads, self.passages
        levels = self._areas("kmh", roads)
        fits = least_squares(levels)
        means, margins_of = [], []
        above: Table | None = None
        for name, level in levels.items():
            fit, total = fits[name], fits[name].value
            spread = fit.total_variance
            if not level.all_bins_only:
                total = _with_all_bins(total)
                spread = np.hstack([spread, np.repeat(fit.variance, total.shape[1] - 1, axis=1)])
            mean, margin = _ratio((total, spread), counts.fits[name], FASTEST_KMH, pure=self.pure)
            known = mean[:, :1] if above is None else above[level.parent, : mean.shape[1]]
            above = mean = np.where(margin >= FASTEST_KMH, known, mean)
            means.append(mean.ravel())
            margins_of.append(margin.ravel())
        rows = self.area_rows(counts, roads)
        del rows["shown_from"]
        # `levels` begins with the city, the rows begin with roads
        return rows | {
            "mean_kmh": np.concatenate(means[::-1]).round(1),
            "mean_margin": np.concatenate(margins_of[::-1]).round(1),
        }

    def summary(self) -> NDArray[np.float64]:
        """The numbers of `options.SUMMARY`: median margins in one bin, and shares that the bounds leave
        out."""
        tables = self.plan.design.tables
        known = {f"{what}_lost": getattr(self, what).lost for what in self.plan.design.counted}
        trees = {
            "visits": "visits", "stays": "stays", "flows": "trips", "trips": "trips",
            "roads": "passages",
        }  # fmt: skip
        for table in tables:
            found: Solved = getattr(self, trees[table])
            for name, fit in found.fits.items():
                if not found.all_bins_only[name]:
                    typical = float(np.median(margins(fit, pure=self.pure)))
                    known[f"{table}_{name}_margin"] = typical
        for table, name in (("visits", "visits_zone_margin"), ("flows", "flows_zones_margin")):
            if table in self.plan.sparse:
                known[name] = self.cell_margin(table)
        return np.array([known.get(name, 0.0) for name in SUMMARY])


def make_tables(draw: Draw, plan: Plan) -> CountTables:
    """All tables."""
    found, bins = Solutions(vars(draw), plan), plan.design.bins
    rows_of = {
        "visits": found.visit_rows, "flows": found.flow_rows, "stays": found.stay_rows,
        "trips": found.trip_rows, "roads": found.road_rows,
    }  # fmt: skip
    columns: Columns = {
        f"{table}_{name}": column
        for table in plan.design.tables
        for name, column in rows_of[table]().items()
    }
    columns["summary"] = found.summary()
    period = bins.period.begin, bins.period.end
    columns["bins"] = np.array([BIN_KINDS.index(bins.kind), *period])
    nothing = np.zeros(0)
    return CountTables(**{f.name: columns.get(f.name, nothing) for f in fields(CountTables)})


def expected_summary(plan: Plan) -> NDArray[np.float64]:
    """The summary of a release by this plan, with 0 for the shares that the bounds leave out.

    Margins do not depend on the data; those shares do.
    """
    nothing = {
        what.name: np.zeros(what.size, np.int64)
        for what in plan.every_measurement
        if not what.name.endswith(("_picked", "_cells"))
    }
    summary = Solutions(nothing, plan).summary()
    lost = [name.endswith("_lost") for name in SUMMARY]
    return np.where(lost, 0.0, summary)


def _rows(numbers: Columns, **key: Ints) -> Columns:
    """The rows of a level. key: the other columns of the key, one number for each part."""
    shape = numbers["value"].shape
    columns = {
        name: np.broadcast_to(column.astype(np.int32)[:, None], shape)
        for name, column in key.items()
    }
    return columns | numbers


def _stacked(parts: list[Columns]) -> Columns:
    """Concatenate tables column by column. The parts are emptied, which frees their memory."""
    return {
        name: np.concatenate([part.pop(name).ravel() for part in parts]) for name in list(parts[0])
    }


def _in_order(parts: list[Columns], *key: str) -> Columns:
    """Concatenate tables and sort the rows by a key of whole numbers that are not below 0."""
    rows = _stacked(parts)
    number = rows[key[0]].astype(np.int64)
    for name in key[1:]:
        number *= int(rows[name].max()) + 1
        number += rows[name]
    order = np.argsort(number)
    return {name: rows.pop(name)[order] for name in list(rows)}


def _ratio(sums: tuple[Table, Table], fit: Fit, most: float, *, pure: bool) -> tuple[Table, Table]:
    """Means from noisy sums and counts, with margins. `most` is the largest possible mean.

    Where the count is not significant the margin is `most`. sums: noisy sums with their variances; the
    first column is all bins together.
    """
    total, variance = sums
    count, count_variance = fit.value, fit.total_variance
    if (bins := total.shape[1] - 1) > 0:
        count = _with_all_bins(count)
        count_variance = np.hstack([count_variance, np.repeat(fit.variance, bins, axis=1)])
    sure = count > _MIN_DEVIATIONS_OF_MEAN * np.sqrt(count_variance)
    mean = np.clip(total / np.where(sure, count, 1.0), 0, most)
    mean = np.where(sure, mean, most / 2)
    error = np.sqrt(variance + mean**2 * count_variance) / np.where(sure, count, 1.0)
    margin = np.minimum(margin_of(1.0, pure=pure) * error, most)
    return mean, np.where(sure, margin, most)


def shrunk_to_nothing(noisy: NDArray[np.float64], variance: float) -> NDArray[np.float64]:
    """Noisy numbers shrunk towards 0, as far as their scatter is explained by noise."""
    if not len(noisy):
        return np.zeros(0)
    square = float((noisy**2).mean())
    found: NDArray[np.float64] = np.maximum(max(1 - variance / max(square, 1e-9), 0.0) * noisy, 0.0)
    return found
