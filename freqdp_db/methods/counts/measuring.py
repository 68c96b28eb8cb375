"""The only step that sees data: contributions, caps, sums, noise. What leaves it is the draw.

Input: all samples of the build, public region, period, zones and bins, the options.
Protected change: one object with all its data, added or removed.
Sensitivity: each sum moves by that object's capped vector, whose norms are at most those of `plan`.
Guarantee: rho-zCDP, rho from (epsilon, delta), by composition of the shares; with pure accounting,
epsilon-DP. What the second round measures depends on noisy numbers only.
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from freqdp_db.methods.counts.contributions import (
    TRIP_CLASSES,
    Contributions,
    Items,
    cap_items,
    contributions_of,
    groups_of,
    squares_of,
)
from freqdp_db.methods.counts.options import Budget
from freqdp_db.methods.counts.plan import (
    MINUTE_STEPS,
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
from freqdp_db.model.kernels import SEED_WORDS, key
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
    seed = source.uniform_words(SEED_WORDS) & 0xFFFFFFFF
    found = contributions_of(trajectories, places, region, period, zones, bins, key(seed, "caps"))
    return measured(found, seed, zones, bins, tables, budget, threshold, source)


def measured(
    found: Contributions,
    seed: Ints,
    zones: Zones,
    bins: Bins,
    tables: tuple[str, ...],
    budget: Budget,
    threshold: int | None,
    source: RandomSource,
) -> Draw:
    """The draw of objects whose contributions are given."""
    exact = first_numbers(found, zones, len(bins), tables)
    drawn: dict[str, Ints] = {
        m.name: with_noise(exact[m.name], m, budget, source) for m in first_round(tables)
    }
    shape = Shape.of(zones, bins)
    plan = second_round(shape, tables, budget, drawn, threshold)
    capped = capped_by(found, plan, zones)
    for name, total in totals(capped, plan, zones).items():
        drawn[name] = with_noise(total, plan[name], budget, source)
    if "picked" in plan:
        cells, counts = flow_cells(capped.trips, shape)
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
    names = [f.name for f in fields(Draw) if f.name != "seed"]
    return Draw(seed=seed, **{name: drawn.get(name, nothing) for name in names})


def with_noise(total: Ints, what: Measurement, budget: Budget, source: RandomSource) -> Ints:
    """A sum of capped vectors, with noise on every entry."""
    if budget.pure:
        return total + source.discrete_laplace(what.scale(budget), len(total))
    return total + source.discrete_gaussian(what.sigma2(budget), len(total))


def first_numbers(
    found: Contributions, zones: Zones, bins: int, tables: tuple[str, ...]
) -> dict[str, Ints]:
    """How many objects contribute anything, and the histograms of the first round."""
    numbers: dict[str, Ints] = {}
    there = np.zeros(len(found.visits.offsets) - 1, np.bool_)
    for what in counted(tables):
        items: Items = getattr(found, what)
        there |= items.counts > 0
        one = what.removesuffix("s")
        numbers[f"{one}_sizes"] = classes_of(items.counts)
        for name, group in groups_of(what, items, zones, bins).items():
            if name != "ends":
                numbers[f"{one}_{name}"] = classes_of(squares_of(items, group))
    return numbers | {"objects": np.array([there.sum()], np.int64)}


def capped_by(found: Contributions, plan: Plan, zones: Zones) -> Contributions:
    """What is counted of each object."""
    counted_ = {}
    for what in ("visits", "trips", "stays"):
        items, caps = getattr(found, what), getattr(plan, what)
        bounds = caps.bounds()
        groups = groups_of(what, items, zones, plan.shape.bins)
        bounded = [(group, bounds[name]) for name, group in groups.items()]
        counted_[what] = cap_items(items, caps.most, bounded)
    return Contributions(**counted_)


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
    summed = {
        name: np.bincount(part * bins + bin, minlength=plan[name].size).astype(np.int64)
        for name, (part, bin) in rows.items()
        if name in plan
    }
    # the same over all bins together
    summed |= {
        whole: np.bincount(part, minlength=plan[whole].size).astype(np.int64)
        for name, (part, _) in rows.items()
        if (whole := f"{name}_all") in plan
    }
    if "stays_minutes" in plan:
        steps = (stays.size + STEP_MIN // 2) // STEP_MIN - MINUTE_STEPS
        minutes = np.zeros(plan["stays_minutes"].size, np.int64)
        np.add.at(minutes, district[stays.zone] * bins + stays.bin, steps)
        summed["stays_minutes"] = minutes
    return summed


# Flows between zones: nearly all cells are empty.


def flow_cells(trips: Items, shape: Shape) -> tuple[Ints, Ints]:
    """The cells that have trips, in order, and how many."""
    pair = trips.zone * shape.zones + trips.to
    cells, counts = np.unique(pair * shape.bins + trips.bin, return_counts=True)
    return cells, counts.astype(np.int64)


def _picked(cells: Ints, counts: Ints, plan: Plan, budget: Budget, source: RandomSource) -> Ints:
    """The cells whose noisy number reaches the threshold: as if every cell had noise of its own.

    A cell without trips reaches it if its noise alone does. Those are found without drawing the others: see
    `Tail`. Position k among the empty cells is the k-th number that is no cell with trips.
    """
    what = plan["picked"]
    noisy = with_noise(counts, what, budget, source)
    empty = source.exceeding(what.tail(budget, plan.threshold), plan.shape.pairs - len(cells))
    # before the k-th empty cell there are as many others as lie at or below its place
    shift = np.searchsorted(cells - np.arange(len(cells)), empty, side="right")
    return np.union1d(cells[noisy >= plan.threshold], empty + shift)
