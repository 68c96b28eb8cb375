"""The tables of a release: functions of the draw and of public inputs alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freqdp_db.methods.counts.contributions import (
    DURATION_EDGES_MIN,
    LONGEST_STAY_MIN,
    TRIP_CLASSES,
    WHOLE,
)
from freqdp_db.methods.counts.estimation import (
    TENTHS,
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
from freqdp_db.methods.counts.options import SUMMARY, Budget
from freqdp_db.methods.counts.plan import MINUTE_STEPS, STEP_MIN, Bounds, Draw, Plan, Shape, counted
from freqdp_db.methods.counts.zones import BIN_KINDS, Bins, Zones
from freqdp_db.methods.synthesis.public import Period
from freqdp_db.model.arrays import Ints

LIKELY = 0.5
"""Flows between zones are shown if so many trips are expected, or more,"""
FEWEST_LIKELY = 5000
LIKELY_TIMES = 5
"""and if they are among so many that are expected to be largest, or so many times the objects."""
_TOP = "city"
_SURE = 2.0
"""A mean is of at least so many standard deviations of the number it is the mean of."""


@dataclass(frozen=True)
class Made:
    """What is published: the columns of all tables, each in the order of its key."""

    visits_zone: Ints
    visits_bin: Ints
    visits_value: Ints
    visits_margin: NDArray[np.float64]
    visits_estimate: NDArray[np.float64]
    flows_origin: Ints
    flows_destination: Ints
    flows_bin: Ints
    flows_value: Ints
    flows_margin: NDArray[np.float64]
    flows_estimate: NDArray[np.float64]
    flows_shown_from: NDArray[np.float64]
    stays_zone: Ints
    stays_bin: Ints
    stays_value: Ints
    stays_margin: NDArray[np.float64]
    stays_estimate: NDArray[np.float64]
    stays_mean_minutes: NDArray[np.float64]
    stays_mean_margin: NDArray[np.float64]
    trips_length_class: Ints
    trips_duration_class: Ints
    trips_bin: Ints
    trips_value: Ints
    trips_margin: NDArray[np.float64]
    trips_estimate: NDArray[np.float64]
    summary: NDArray[np.float64]
    """As SUMMARY of `options` names it."""
    bins: Ints
    """Which kind of bins, and the period that they are of."""

    def __len__(self) -> int:
        """How many rows of counts."""
        return sum(
            len(column)
            for column in (self.visits_bin, self.flows_bin, self.stays_bin, self.trips_bin)
        )

    def bins_in(self, timezone: str) -> Bins:
        """The time bins of its rows."""
        kind, begin, end = self.bins.tolist()
        return Bins(BIN_KINDS[kind], Period(begin, end), timezone)

    def table(self, name: str) -> dict[str, NDArray[Any]]:
        """The columns of one table, by their names."""
        own = f"{name}_"
        return {
            f.name.removeprefix(own): getattr(self, f.name)
            for f in fields(self)
            if f.name.startswith(own)
        }


@dataclass(frozen=True)
class Solved:
    """A tree of levels with its values and estimates."""

    levels: dict[str, Level]
    fits: dict[str, Fit]
    values: dict[str, Ints]
    smooth: dict[str, Table]
    """Estimates of what is counted."""
    estimates: dict[str, Ints]
    """In tenths, corrected for what the bounds leave out."""


def solved(levels: dict[str, Level], zones: Zones, shape: Shape, bounds: Bounds) -> Solved:
    near = _neighbours(zones)
    fits = least_squares(levels)
    values: dict[str, Ints] = {}
    smooth: dict[str, Table] = {}
    estimates: dict[str, Ints] = {}
    for name, level in levels.items():
        fit = fits[name]
        if level.above is None:
            values[name] = rounded(fit.value, None, None)
            course = smoothed_over_bins(fit.value, fit.variance, around=shape.around)
            smooth[name] = np.maximum(course, 0.0)
            estimates[name] = rounded(smooth[name] * (bounds.correction * TENTHS), None, None)
            continue
        like = None if level.like is None else level.like(smooth)
        values[name] = rounded(fit.value, level.parent, values[level.above])
        smooth[name] = smoothed(smooth[level.above], level.parent, fit, like, near.get(name))
        tenths = smooth[name] * (bounds.correction * TENTHS)
        estimates[name] = rounded(tenths, level.parent, estimates[level.above])
    return Solved(levels, fits, values, smooth, estimates)


@lru_cache(maxsize=1)
def _neighbours(zones: Zones) -> dict[str, Near]:
    """By the names of levels."""
    of_zones = Near.of(zones.x, zones.y)
    of_districts = Near.of(*zones.district_centres())
    return {
        **dict.fromkeys(("zone", "from", "to"), of_zones),
        **dict.fromkeys(("district", "from_district", "to_district"), of_districts),
    }


def _level(
    drawn: Mapping[str, Ints],
    plan: Plan,
    budget: Budget,
    name: str,
    above: str | None,
    parent: Ints,
) -> Level:
    """A level that is measured, or only stands between two that are."""
    if name not in plan:
        return Level(above, parent)
    level = Level(
        above,
        parent,
        drawn[name].reshape(-1, plan.shape.bins) / WHOLE,
        _variance(plan, budget, name),
    )
    if (whole := f"{name}_all") not in plan:
        return level
    total, variance = drawn[whole].reshape(-1, 1) / WHOLE, _variance(plan, budget, whole)
    return replace(level, total=total, total_variance=variance)


def _variance(plan: Plan, budget: Budget, name: str) -> float:
    """Of the noise on a count."""
    return plan[name].variance(budget) / WHOLE**2


def _area_levels(
    what: str, drawn: Mapping[str, Ints], plan: Plan, zones: Zones, budget: Budget
) -> dict[str, Level]:
    """The city, its districts and their zones."""
    one, districts = np.zeros(1, np.int64), np.zeros(zones.districts, np.int64)
    return {
        _TOP: _level(drawn, plan, budget, f"{what}_city", None, one),
        "district": _level(drawn, plan, budget, f"{what}_district", _TOP, districts),
        "zone": _level(
            drawn, plan, budget, f"{what}_zone", "district", zones.district.astype(np.int64)
        ),
    }


def trip_levels(
    drawn: Mapping[str, Ints], plan: Plan, zones: Zones, budget: Budget, visits: Solved | None
) -> dict[str, Level]:
    """Trips of the city: by where they begin, between districts, by where they end, and by class.

    visits: in proportion to which departures are expected.
    """
    district, count = zones.district.astype(np.int64), zones.districts
    every = np.zeros(count, np.int64)
    top = "flows_city" if "flows_city" in plan else "trips_city"
    levels = {_TOP: _level(drawn, plan, budget, top, None, np.zeros(1, np.int64))}
    if "flows" in plan.tables:
        far, away = drawn["flows_distance"] / WHOLE, zones.distance_classes()
        pair = np.repeat(np.arange(count), count)
        # name: measurement, the level above, parents, and in proportion to what it is expected
        parts: dict[str, tuple[str, str, Ints, Callable[[Mapping[str, Table]], Table] | None]] = {
            "from_district": ("flows_from_district", _TOP, every, _seen(visits, "district")),
            "from": ("flows_from", "from_district", district, _seen(visits, "zone")),
            # who departs somewhere has arrived there
            "to_district": (
                "flows_to_district", _TOP, every, lambda smooth: _all_bins(smooth["from_district"])
            ),
            "to": ("flows_to", "to_district", district, lambda smooth: _all_bins(smooth["from"])),
            "districts": (
                "flows_districts", "from_district", pair,
                lambda smooth: gravity(
                    _all_bins(smooth["from_district"]), _all_bins(smooth["to_district"]), far, away
                ),
            ),
        }  # fmt: skip
        for name, (measured, above, parent, like) in parts.items():
            level = _level(drawn, plan, budget, measured, above, parent)
            levels[name] = replace(level, like=like)
    if "trips" in plan.tables:
        classes = np.zeros(TRIP_CLASSES, np.int64)
        levels["class"] = _level(drawn, plan, budget, "trips_class", _TOP, classes)
    return levels


def _seen(visits: Solved | None, level: str) -> Callable[[Mapping[str, Table]], Table] | None:
    """In proportion to visits, if there are any."""
    if visits is None:
        return None
    seen = _all_bins(visits.smooth[level])
    return lambda smooth: seen


def _all_bins(table: Table) -> Table:
    found: Table = table.sum(axis=1, keepdims=True)
    return found


def _solved_visits(
    drawn: Mapping[str, Ints], plan: Plan, zones: Zones, budget: Budget
) -> Solved | None:
    if "visits" not in plan.tables:
        return None
    levels = _area_levels("visits", drawn, plan, zones, budget)
    return solved(levels, zones, plan.shape, plan.visits)


def _prior(trips: Solved, zones: Zones) -> PairPrior:
    names = ("districts", "from", "to")
    pairs, leaving, arriving = (trips.smooth[name] for name in names)
    return PairPrior.of(zones.district.astype(np.int64), zones.districts, pairs, leaving, arriving)


def likely_flows(drawn: Mapping[str, Ints], plan: Plan, zones: Zones, budget: Budget) -> Ints:
    """Flows between zones that are worth a look, by the noisy numbers of the coarser levels."""
    visits = _solved_visits(drawn, plan, zones, budget)
    trips = solved(trip_levels(drawn, plan, zones, budget, visits), zones, plan.shape, plan.trips)
    most = max(FEWEST_LIKELY, LIKELY_TIMES * int(drawn["objects"][0]))
    return _prior(trips, zones).likely(LIKELY, most)


def made_of(draw: Draw, plan: Plan, zones: Zones, bins: Bins, budget: Budget) -> Made:
    """All tables."""
    drawn = {f.name: getattr(draw, f.name) for f in fields(draw)}
    period = bins.period.begin, bins.period.end
    columns: dict[str, NDArray[Any]] = {"bins": np.array([BIN_KINDS.index(bins.kind), *period])}
    known = _lost(plan)
    visits = _solved_visits(drawn, plan, zones, budget)
    if visits is not None:
        columns |= _named("visits", _area_rows(visits, zones, budget))
        known |= _typical("visits", visits, budget)
    if "stays" in plan.tables:
        found = solved(
            _area_levels("stays", drawn, plan, zones, budget), zones, plan.shape, plan.stays
        )
        rows = _area_rows(found, zones, budget)
        rows |= _means(draw.stays_minutes, found, plan, zones, budget)
        columns |= _named("stays", rows)
        known |= _typical("stays", found, budget)
    if {"flows", "trips"} & set(plan.tables):
        found = solved(
            trip_levels(drawn, plan, zones, budget, visits), zones, plan.shape, plan.trips
        )
        known |= _typical("flows", found, budget)
        if "flows" in plan.tables:
            columns |= _named("flows", _flow_rows(draw, found, plan, zones, budget))
            known["flows_zones_margin"] = _pair_margin(plan, budget)
        if "trips" in plan.tables:
            columns |= _named("trips", _trip_rows(found, budget))
            known |= _typical("trips", found, budget)
    columns["summary"] = np.array([known.get(name, 0.0) for name in SUMMARY])
    return Made(
        **{
            f.name: columns.get(f.name, np.zeros(0, np.int64 if f.type == "Ints" else np.float64))
            for f in fields(Made)
        }
    )


def _lost(plan: Plan) -> dict[str, float]:
    return {f"{what}_lost": getattr(plan, what).lost for what in counted(plan.tables)}


def _typical(table: str, found: Solved, budget: Budget) -> dict[str, float]:
    """The median margin of each level, in one bin."""
    return {
        f"{table}_{name}_margin": float(np.median(margins(fit, pure=budget.pure)))
        for name, fit in found.fits.items()
    }


def _pair_margin(plan: Plan, budget: Budget) -> float:
    return round(margin_of(_variance(plan, budget, "flows_zones"), pure=budget.pure), 1)


def _named(table: str, columns: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {f"{table}_{name}": column for name, column in columns.items()}


def _with_all_bins(table: NDArray[Any]) -> NDArray[Any]:
    """First the sum over all bins, then each bin."""
    return np.concatenate([table.sum(axis=1, keepdims=True), table], axis=1)


def _numbers(found: Solved, name: str, budget: Budget) -> dict[str, NDArray[Any]]:
    """value, margin and estimate of a level, with all bins together first."""
    value = found.values[name]
    fit, bins = found.fits[name], value.shape[1]
    margin = np.repeat(margins(fit, pure=budget.pure), bins + 1, axis=1)
    margin[:, :1] = total_margins(fit)
    return {
        "value": _with_all_bins(value),
        "margin": np.round(margin, 1),
        "estimate": _with_all_bins(found.estimates[name]) / TENTHS,
    }


def _stacked(parts: list[dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    return {name: np.concatenate([part[name].ravel() for part in parts]) for name in parts[0]}


def _area_rows(found: Solved, zones: Zones, budget: Budget) -> dict[str, NDArray[Any]]:
    ids = {"zone": zones.zone_ids, "district": zones.district_ids, _TOP: np.array([zones.city_id])}
    parts = []
    for name, number in ids.items():
        numbers = _numbers(found, name, budget)
        shape = numbers["value"].shape
        parts.append(
            {
                "zone": np.broadcast_to(number[:, None], shape),
                "bin": np.broadcast_to(np.arange(shape[1]), shape),
                **numbers,
            }
        )
    return _stacked(parts)


def _means(
    noisy: Ints, found: Solved, plan: Plan, zones: Zones, budget: Budget
) -> dict[str, NDArray[Any]]:
    """Mean minutes of stays by district and bin, and of sums of these; zones have their district's."""
    bins = plan.shape.bins
    steps = noisy.reshape(-1, bins) / WHOLE
    variance = np.full((zones.districts, 1), _variance(plan, budget, "stays_minutes"))
    city = steps.sum(axis=0, keepdims=True), variance.sum(axis=0, keepdims=True)
    means = {
        _TOP: _ratio(*city, found.fits[_TOP], budget),
        "district": _ratio(steps, variance, found.fits["district"], budget),
    }
    unsure = means["district"][1] >= LONGEST_STAY_MIN
    means["district"] = (
        np.where(unsure, means[_TOP][0], means["district"][0]),
        means["district"][1],
    )
    means["zone"] = tuple(column[zones.district] for column in means["district"])  # type: ignore[assignment]
    names = ("zone", "district", _TOP)
    mean, margin = (np.concatenate([means[n][c].ravel() for n in names]) for c in range(2))
    return {"mean_minutes": np.round(mean, 1), "mean_margin": np.round(margin, 1)}


def _ratio(steps: Table, variance: Table, fit: Fit, budget: Budget) -> tuple[Table, Table]:
    """Mean minutes and their margins; the longest stay as margin where there may be no stay at all."""
    bins = steps.shape[1]
    times = np.array([[bins] + [1] * bins])
    total, count = _with_all_bins(steps), _with_all_bins(fit.value)
    count_variance = np.hstack([fit.total_variance, np.repeat(fit.variance, bins, axis=1)])
    sure = count > _SURE * np.sqrt(count_variance)
    mean = np.clip(total / np.where(sure, count, 1.0), 0, MINUTE_STEPS)
    mean = np.where(sure, mean, MINUTE_STEPS / 2)
    error = np.sqrt(variance * times + mean**2 * count_variance) / np.where(sure, count, 1.0)
    margin = np.minimum(margin_of(1.0, pure=budget.pure) * error * STEP_MIN, LONGEST_STAY_MIN)
    return mean * STEP_MIN, np.where(sure, margin, LONGEST_STAY_MIN)


def _flow_rows(
    draw: Draw, found: Solved, plan: Plan, zones: Zones, budget: Budget
) -> dict[str, NDArray[Any]]:
    """Flows at all levels, in the order of origin, destination and bin."""
    city, district = np.array([zones.city_id]), zones.district_ids
    ends = {
        _TOP: (city, city),
        "from_district": (district, np.repeat(city, zones.districts)),
        "from": (zones.zone_ids, np.repeat(city, len(zones))),
        "districts": (np.repeat(district, zones.districts), np.tile(district, zones.districts)),
        "to_district": (np.repeat(city, zones.districts), district),
        "to": (np.repeat(city, len(zones)), zones.zone_ids),
    }
    parts = []
    for name, (origin, destination) in ends.items():
        numbers = _numbers(found, name, budget)
        shape = numbers["value"].shape
        parts.append(
            {
                "origin": np.broadcast_to(origin[:, None], shape),
                "destination": np.broadcast_to(destination[:, None], shape),
                "bin": np.broadcast_to(np.arange(shape[1]), shape),
                "shown_from": np.zeros(shape),
                **numbers,
            }
        )
    variance = _variance(plan, budget, "flows_zones")
    noisy = draw.flows_zones / WHOLE
    pair, bin = np.divmod(draw.picked, plan.shape.bins)
    expected = _prior(found, zones).at(draw.picked)
    likely = np.isin(draw.picked, draw.likely, assume_unique=True)
    estimate = np.empty(len(draw.picked))
    estimate[likely] = shrunk(noisy[likely], variance, expected[likely])
    estimate[~likely] = shrunk_to_nothing(noisy[~likely], variance)
    parts.append(
        {
            "origin": pair // len(zones) + 1,
            "destination": pair % len(zones) + 1,
            "bin": bin + 1,
            "shown_from": np.where(likely, 0.0, float(plan.threshold)),
            "value": np.rint(noisy).astype(np.int64),
            "margin": np.full(len(pair), _pair_margin(plan, budget)),
            "estimate": np.round(estimate * plan.trips.correction, 1),
        }
    )
    rows = _stacked(parts)
    order = np.lexsort((rows["bin"], rows["destination"], rows["origin"]))
    return {name: column[order] for name, column in rows.items()}


def shrunk_to_nothing(noisy: NDArray[np.float64], variance: float) -> NDArray[np.float64]:
    """Estimates of numbers of which nothing is expected: as far as they scatter beyond their noise."""
    if not len(noisy):
        return np.zeros(0)
    square = float((noisy**2).mean())
    found: NDArray[np.float64] = np.maximum(max(1 - variance / max(square, 1e-9), 0.0) * noisy, 0.0)
    return found


def _trip_rows(found: Solved, budget: Budget) -> dict[str, NDArray[Any]]:
    numbers = _numbers(found, "class", budget)
    shape = numbers["value"].shape
    number = np.arange(TRIP_CLASSES)[:, None]
    return _stacked(
        [
            {
                "length_class": np.broadcast_to(number // len(DURATION_EDGES_MIN) + 1, shape),
                "duration_class": np.broadcast_to(number % len(DURATION_EDGES_MIN) + 1, shape),
                "bin": np.broadcast_to(np.arange(shape[1]), shape),
                **numbers,
            }
        ]
    )
