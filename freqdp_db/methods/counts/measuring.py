"""The only step that sees data: contributions, bounds, sums, noise. What leaves it is the draw.

Input: all samples of the build, public region, period, zones and bins, the options.
Protected change: one object with all its data, added or removed.
Sensitivity: each sum moves by that object's vector, whose norm is at most that of `plan`.
Guarantee: rho-zCDP, rho from (epsilon, delta), by composition of the shares; with pure accounting,
epsilon-DP. What the second round measures depends on noisy numbers only.
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from freqdp_db.methods.counts.contributions import (
    TRIP_CLASSES,
    WHOLE,
    Contributions,
    Items,
    contributions_of,
    groups_of,
    squares_of,
    within_number,
    within_squares,
)
from freqdp_db.methods.counts.options import Budget
from freqdp_db.methods.counts.plan import (
    RATIO,
    STEP_MIN,
    Draw,
    Measurement,
    Plan,
    Shape,
    classes_of,
    counted,
    first_round,
    second_round,
)
from freqdp_db.methods.counts.tables import likely_flows
from freqdp_db.methods.counts.zones import Bins, Zones
from freqdp_db.methods.synthesis.public import Period, Region
from freqdp_db.model.arrays import Ints
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.privacy.noise import RandomSource


def draw(
    trajectories: Trajectories,
    places: Locations,
    region: Region,
    period: Period,
    zones: Zones,
    bins: Bins,
    tables: tuple[str, ...],
    budget: Budget,
    threshold: int | None,
    source: RandomSource,
) -> Draw:
    """Everything random of a release; nothing else of the data goes on."""
    found = contributions_of(trajectories, places, region, period, zones, bins)
    return measured(found, zones, bins, tables, budget, threshold, source)


def measured(
    found: Contributions,
    zones: Zones,
    bins: Bins,
    tables: tuple[str, ...],
    budget: Budget,
    threshold: int | None,
    source: RandomSource,
) -> Draw:
    """The draw of objects whose contributions are given."""
    exact = first_numbers(found, zones, len(bins), tables, pure=budget.pure)
    drawn: dict[str, Ints] = {
        m.name: with_noise(exact[m.name], m, budget, source)
        for m in first_round(tables, pure=budget.pure)
    }
    shape = Shape.of(zones, bins)
    plan = second_round(shape, tables, budget, drawn, threshold)
    bounded = bounded_by(found, plan, zones, pure=budget.pure)
    for name, total in totals(bounded, plan, zones).items():
        drawn[name] = with_noise(total, plan[name], budget, source)
    if "flows_zones" in plan:
        cells, counts = flow_cells(bounded.trips, shape)
        picked = np.zeros(0, np.int64)
        if "picked" in plan:
            picked = _picked(cells, counts, plan, budget, source)
        drawn["likely"] = likely_flows(drawn, plan, zones, budget)
        picked = np.union1d(picked, drawn["likely"])
        at = np.searchsorted(cells, picked)
        at = np.minimum(at, max(len(cells) - 1, 0))
        hit = cells[at] == picked if len(cells) else np.zeros(len(picked), np.bool_)
        exact_flows = (
            np.where(hit, counts[at], 0) if len(cells) else np.zeros(len(picked), np.int64)
        )
        drawn["picked"] = picked
        drawn["flows_zones"] = with_noise(exact_flows, plan["flows_zones"], budget, source)
    nothing = np.zeros(0, np.int64)
    return Draw(**{f.name: drawn.get(f.name, nothing) for f in fields(Draw)})


def with_noise(total: Ints, what: Measurement, budget: Budget, source: RandomSource) -> Ints:
    """A sum of vectors of objects, with noise on every entry."""
    if budget.pure:
        return total + source.discrete_laplace(what.scale(budget), len(total))
    return total + source.discrete_gaussian(what.sigma2(budget), len(total))


def first_numbers(
    found: Contributions, zones: Zones, bins: int, tables: tuple[str, ...], *, pure: bool
) -> dict[str, Ints]:
    """How many objects contribute anything, and the histograms of the first round."""
    numbers: dict[str, Ints] = {}
    there = np.zeros(len(found.visits.offsets) - 1, np.bool_)
    names = {m.name for m in first_round(tables, pure=pure)}
    for what in counted(tables):
        items: Items = getattr(found, what)
        there |= items.counts > 0
        one = what.removesuffix("s")
        numbers[f"{one}_sizes"] = classes_of(items.counts)
        for group, of in groups_of(what, items, zones, bins).items():
            if (name := f"{one}_{group}") in names:
                ratio = RATIO * squares_of(items, of) // np.maximum(items.counts, 1)
                numbers[name] = classes_of(ratio)
    return numbers | {"objects": np.array([there.sum()], np.int64)}


def bounded_by(found: Contributions, plan: Plan, zones: Zones, *, pure: bool) -> Contributions:
    """For how much the contributions of each object count."""
    bounded = {}
    for what in ("visits", "trips", "stays"):
        items, bounds = getattr(found, what), getattr(plan, what)
        if pure:
            bounded[what] = within_number(items, bounds.sizes)
            continue
        groups = groups_of(what, items, zones, plan.shape.bins)
        limits = [(squares_of(items, group), bounds.of(name)) for name, group in groups.items()]
        bounded[what] = within_squares(items, [(items.counts, bounds.sizes), *limits])
    return Contributions(**bounded)


def totals(found: Contributions, plan: Plan, zones: Zones) -> dict[str, Ints]:
    """The sum over objects of each vector that is measured everywhere."""
    bins = plan.shape.bins
    district = zones.district.astype(np.int64)
    visits, trips, stays = found.visits, found.trips, found.stays
    nowhere = np.zeros_like
    pair = district[trips.zone] * zones.districts + district[trips.to]
    rows: dict[str, tuple[Ints, Ints]] = {
        "visits_zone": (visits.zone, visits.bin),
        "visits_city": (nowhere(visits.bin), visits.bin),
        "stays_zone": (stays.zone, stays.bin),
        "stays_district": (district[stays.zone], stays.bin),
        "stays_city": (nowhere(stays.bin), stays.bin),
        "flows_city": (nowhere(trips.bin), trips.bin),
        "flows_from_district": (district[trips.zone], trips.bin),
        "flows_districts": (pair, trips.bin),
        "flows_from": (trips.zone, trips.bin),
        "flows_to": (trips.to, trips.bin),
        "flows_to_district": (district[trips.to], trips.bin),
        "trips_city": (nowhere(trips.bin), trips.bin),
        "trips_class": (trips.size, trips.bin),
    }
    assert trips.size.max(initial=0) < TRIP_CLASSES
    parts = {name: getattr(found, name).parts for name in ("visits", "trips", "stays")}

    def summed_up(name: str, part: Ints) -> Ints:
        weights = parts["trips" if name.startswith("flows") else name.partition("_")[0]]
        # sums of whole numbers below 2^53: exact
        return np.bincount(part, weights, minlength=plan[name].size).astype(np.int64)

    summed = {
        name: summed_up(name, part * bins + bin)
        for name, (part, bin) in rows.items()
        if name in plan
    }
    # the same over all bins together
    summed |= {
        whole: summed_up(whole, part)
        for name, (part, _) in rows.items()
        if (whole := f"{name}_all") in plan
    }
    if "flows_distance" in plan:
        summed["flows_distance"] = summed_up("flows_distance", zones.distance_classes()[pair])
    if "stays_minutes" in plan:
        steps = (stays.size + STEP_MIN // 2) // STEP_MIN
        minutes = np.zeros(plan["stays_minutes"].size, np.int64)
        np.add.at(minutes, district[stays.zone] * bins + stays.bin, steps * parts["stays"])
        summed["stays_minutes"] = minutes
    return summed


# Flows between zones: nearly all cells are empty.


def flow_cells(trips: Items, shape: Shape) -> tuple[Ints, Ints]:
    """The cells that have trips, in order, and how many, in parts of 1 / WHOLE."""
    pair = trips.zone * shape.zones + trips.to
    cells, number = np.unique(pair * shape.bins + trips.bin, return_inverse=True)
    counts = np.bincount(number, trips.parts, minlength=len(cells))
    return cells, counts.astype(np.int64)


def _picked(cells: Ints, counts: Ints, plan: Plan, budget: Budget, source: RandomSource) -> Ints:
    """The cells whose noisy number reaches the threshold: as if every cell had noise of its own.

    A cell without trips reaches it if its noise alone does. Those are found without drawing the others: see
    `Tail`. Position k among the empty cells is the k-th number that is no cell with trips.
    """
    what, least = plan["picked"], plan.threshold * WHOLE
    noisy = with_noise(counts, what, budget, source)
    empty = source.exceeding(what.tail(budget, least), plan.shape.pairs - len(cells))
    # before the k-th empty cell there are as many others as lie at or below its place
    shift = np.searchsorted(cells - np.arange(len(cells)), empty, side="right")
    return np.union1d(cells[noisy >= least], empty + shift)
