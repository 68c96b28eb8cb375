"""From contributions to the draw: the only part of the method that sees data.

Contributions are bounded and summed, and noise is added. Only the draw leaves this module.

Input: all samples of the build, public region, period, zones and bins, the options.
Protected change: one object with all its data, added or removed.
Sensitivity: each sum moves by that object's vector, whose norm is at most that of `plan`.
Guarantee: rho-zCDP, rho from (epsilon, delta), by composition of the shares; with pure accounting,
epsilon-DP. What the second round measures depends on noisy numbers only.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freqdp_db.methods.counts.contributions import (
    TRIP_CLASSES,
    WHOLE,
    Contributions,
    Items,
    groups_of,
    squares_of,
    within_number,
    within_squares,
)
from freqdp_db.methods.counts.plan import (
    RATIO_STEPS,
    STEP_MIN,
    Design,
    Draw,
    Plan,
    Shape,
    second_round,
    size_histogram,
)
from freqdp_db.methods.counts.tables import Solutions
from freqdp_db.model.arrays import Ids, Ints, new_rows
from freqdp_db.privacy.noise import RandomSource


def measure(found: Contributions, design: Design, source: RandomSource) -> Draw:
    """Draw both rounds for objects with these contributions."""
    exact = first_numbers(found, design)
    drawn = {
        name: exact[name] + what.noise(source, what.size)
        for name, what in design.first_round.items()
    }
    drawn["design"] = design.digest
    plan = second_round(design, drawn)
    found = bounded_by(found, plan)
    exact = totals(found, plan)
    exact_cells = {table: cells_of(table, found, design.shape) for table in plan.sparse}
    del found  # frees much memory before the least squares need some
    for name in list(exact):
        total = exact.pop(name)
        drawn[name] = total + plan[name].noise(source, len(total))
    known = Solutions(drawn, plan)
    for table in plan.sparse:
        cells, counts = exact_cells.pop(table)
        likely = known.likely(table)
        picked = np.union1d(likely, _pick_cells(table, cells, counts, plan, source))
        numbers = plan[f"{table}_cells"].noise(source, len(picked))
        _, at, of = np.intersect1d(picked, cells, assume_unique=True, return_indices=True)
        numbers[at] += counts[of]
        drawn |= {f"{table}_likely": likely, f"{table}_picked": picked, f"{table}_cells": numbers}
    nothing = np.zeros(0, np.int64)
    return Draw(**{f.name: drawn.get(f.name, nothing) for f in fields(Draw)})


def first_numbers(found: Contributions, design: Design) -> dict[str, Ints]:
    """The exact numbers of the first round: the number of contributing objects, and the histograms."""
    numbers: dict[str, Ints] = {}
    contributes = np.zeros(len(found.visits.offsets) - 1, np.bool_)
    for what in design.counted:
        items: Items = getattr(found, what)
        contributes |= items.counts > 0
        one = what.removesuffix("s")
        numbers[f"{one}_sizes"] = size_histogram(items.counts)
        for group, of in groups_of(
            what, items, design.zones, len(design.bins), design.roads
        ).items():
            if (name := f"{one}_{group}") in design.first_round:
                ratio = RATIO_STEPS * squares_of(items, of) // np.maximum(items.counts, 1)
                numbers[name] = size_histogram(ratio)
    return numbers | {"objects": np.array([contributes.sum()], np.int64)}


def bounded_by(found: Contributions, plan: Plan) -> Contributions:
    """The contributions with weights that keep the bounds of the plan."""
    bounded, design = {}, plan.design
    for what in plan.bounds:
        items, bounds = getattr(found, what), plan.bounds[what]
        if design.budget.pure:
            bounded[what] = within_number(items, bounds.sizes)
            continue
        groups = groups_of(what, items, design.zones, design.shape.bins, design.roads)
        limits = [(squares_of(items, group), bounds.of(name)) for name, group in groups.items()]
        bounded[what] = within_squares(items, [(items.counts, bounds.sizes), *limits])
    return replace(found, **bounded)


def totals(found: Contributions, plan: Plan) -> dict[str, Ints]:
    """The exact sums of all measurements that cover their whole domain, in units of 1 / WHOLE."""
    zones, bins = plan.design.zones, plan.design.shape.bins
    district = zones.district
    visits, trips, stays = found.visits, found.trips, found.stays
    all_in_one = np.zeros_like
    pair = district[trips.zone].astype(np.int64) * zones.districts + district[trips.to]
    rows: dict[str, tuple[NDArray[Any], Ids]] = {
        "visits_zone": (visits.zone, visits.bin),
        "visits_district": (district[visits.zone], visits.bin),
        "visits_city": (all_in_one(visits.bin), visits.bin),
        "stays_zone": (stays.zone, stays.bin),
        "stays_district": (district[stays.zone], stays.bin),
        "stays_city": (all_in_one(stays.bin), stays.bin),
        "flows_city": (all_in_one(trips.bin), trips.bin),
        "flows_from_district": (district[trips.zone], trips.bin),
        "flows_districts": (pair, trips.bin),
        "flows_from": (trips.zone, trips.bin),
        "flows_to": (trips.to, trips.bin),
        "flows_to_district": (district[trips.to], trips.bin),
        "trips_city": (all_in_one(trips.bin), trips.bin),
        "trips_class": (trips.size, trips.bin),
    }
    assert trips.size.max(initial=0) < TRIP_CLASSES
    passages = found.passages
    if plan.design.roads is not None:
        of_road = passages.zone, passages.bin
        of_district = plan.design.roads.district[passages.zone], passages.bin
        rows |= {
            "roads_road": of_road, "roads_district": of_district,
            "kmh_road": of_road, "kmh_district": of_district,
        }  # fmt: skip
    parts = {what: items.parts for what, items in vars(found).items()}
    parts |= {"flows": parts["trips"], "roads": parts["passages"]}
    parts["kmh"] = parts["passages"] * passages.size

    def summed_up(name: str, part: NDArray[Any]) -> Ints:
        weights = parts[name.partition("_")[0]]
        # sums of whole numbers below 2^53: exact
        return np.bincount(part, weights, minlength=plan[name].size).astype(np.int64)

    summed = {
        name: summed_up(name, part.astype(np.int64) * bins + bin)
        for name, (part, bin) in rows.items()
        if name in plan
    }
    # the same without bins, for the measurements over all bins together
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


# Sparse tables, in which nearly all cells are empty.


def cells_of(table: str, found: Contributions, shape: Shape) -> tuple[Ints, Ints]:
    """The non-empty cells of visits or flows, ascending, and their sums in units of 1 / WHOLE."""
    items = found.trips if table == "flows" else found.visits
    if table == "flows":
        packed = items.zone.astype(np.int64) * shape.zones + items.to
        packed = packed * shape.bins + items.bin
    else:
        packed = items.cells(shape.bins)
    if not len(packed):
        return packed, packed
    # sorted together with their weights, in the last digits: much faster than np.unique
    packed *= WHOLE + 1
    packed += items.parts
    packed.sort()
    cells, parts = np.divmod(packed, WHOLE + 1)
    first = np.flatnonzero(new_rows(cells))
    return cells[first], np.add.reduceat(parts, first)


def _pick_cells(table: str, cells: Ints, counts: Ints, plan: Plan, source: RandomSource) -> Ints:
    """The cells whose noisy number reaches the threshold, ascending.

    The result has the law of adding noise to every cell. The empty cells that reach the threshold are
    drawn directly (see `Tail`), by their position among the empty cells: position k is the k-th number
    that is not in `cells`.

    cells, counts: the non-empty cells, ascending, and their exact sums.
    """
    if (name := f"{table}_picked") not in plan:
        return np.zeros(0, np.int64)
    what, least = plan[name], plan.threshold[table] * WHOLE
    noisy = counts + what.noise(source, len(counts))
    empty = source.exceeding(what.tail(least), plan.design.shape.cells(table) - len(cells))
    # the k-th empty cell is k plus the number of non-empty cells before it
    shift = np.searchsorted(cells - np.arange(len(cells)), empty, side="right")
    return np.union1d(cells[noisy >= least], empty + shift)
