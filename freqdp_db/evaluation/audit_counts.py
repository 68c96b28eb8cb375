"""What an audit can see of counts: the noisy vectors, and the released tables, with and without one object.

Whoever knows everybody else subtracts their sums. What is left is noise, with or without the vectors of the
one: their sum, each entry weighted by the one's own over the variance of its noise, tells the two worlds
apart best of all that is linear. Each vector is looked at alone, too. Whoever has the released tables
alone looks at the visits and trips of the city, and at the cells where the one was.
"""

from __future__ import annotations

import numpy as np

from freqdp_db.evaluation.bounds import Bound, Observed, bound_from
from freqdp_db.methods.contract import StepContext
from freqdp_db.methods.counts.contributions import Contributions
from freqdp_db.methods.counts.family import contributions_to, design_of
from freqdp_db.methods.counts.measuring import bounded_by, first_numbers, measure, totals
from freqdp_db.methods.counts.options import CountsOptions
from freqdp_db.methods.counts.plan import plan_of, second_round
from freqdp_db.methods.counts.tables import make_tables
from freqdp_db.model.arrays import Ints, Metres
from freqdp_db.privacy.noise import RandomSource

CANDIDATES = 100
"""So many objects are looked at to find one that costs much."""
FEW = 50
"""Releases are made of so many objects: among few, one shows most."""


def noisy_scores(
    world: StepContext, options: CountsOptions, source: RandomSource, runs: int
) -> list[Metres]:
    """Of each vector that is measured, and of all together, a score in both worlds: rows without, with.

    The object is the one that costs most, of some with few and with many contributions.
    """
    trajectories = world.build.trajectories
    whole = contributions_to(world, trajectories, world.locations, options)
    design = design_of(world, options)
    plan = second_round(design, first_numbers(whole, design))
    known = {m.name: m for m in plan.every_measurement}
    order = np.argsort(whole.visits.counts + whole.trips.counts, kind="stable")
    vectors: dict[str, Ints] = {}
    most = 0.0
    for one in np.unique(order[np.linspace(0, len(order) - 1, CANDIDATES).astype(np.int64)]):
        mine = trajectories.take(np.array([one]))
        alone = contributions_to(world, mine, world.locations, options)
        own = first_numbers(alone, design) | totals(bounded_by(alone, plan), plan)
        cost = sum(float((v**2).sum()) / known[n].deviation ** 2 for n, v in own.items())
        if cost > most:
            most, vectors = cost, own
    scores, every = [], np.zeros((2, runs))
    for name, vector in vectors.items():
        entries = vector[vector != 0]
        if not len(entries):
            continue
        weight = entries / known[name].deviation ** 2
        noisy = [
            np.tile(entries * there, runs) + known[name].noise(source, runs * len(entries))
            for there in range(2)
        ]
        scores.append(np.stack([n.reshape(runs, -1).astype(np.float64) @ weight for n in noisy]))
        every += scores[-1]
    return [every, *scores]


def released_bounds(
    world: StepContext, options: CountsOptions, source: RandomSource, runs: int, alpha: float
) -> dict[str, Bound]:
    """How much of epsilon the released tables show of the object that has the most, from below."""
    design = design_of(world, options)
    zones, bins, tables = design.zones, design.bins, design.tables

    def found_in(chosen: Ints) -> Contributions:
        some = world.build.trajectories.take(chosen)
        return contributions_to(world, some, world.locations, options)

    most = found_in(np.arange(len(world.build.trajectories)))
    busiest = np.argsort(-(most.visits.counts + most.trips.counts), kind="stable")[:FEW]
    own = found_in(busiest[:1]).visits
    cells = own.cells(len(bins))
    names = [name for name in ("visits", "flows") if name in tables]
    seen = {f"{name} of the city": np.zeros((2, runs)) for name in names}
    if "visits" in tables:
        seen["visits where it was"] = np.zeros((2, runs))
    for side, chosen in enumerate((busiest, busiest[1:])):
        found = found_in(chosen)
        for run in range(runs):
            drawn = measure(found, design, source)
            made = make_tables(drawn, plan_of(drawn, design))
            for name in names:
                table = made.table(name)
                city = table["zone" if name == "visits" else "origin"] == zones.city_id
                if name == "flows":
                    city &= table["destination"] == zones.city_id
                whole = table["value"][city & (table["bin"] == 0)]
                seen[f"{name} of the city"][side, run] = whole[0]
            if "visits" in tables:
                table = made.table("visits")
                place = (table["zone"] - 1) * len(bins) + table["bin"] - 1
                there = np.isin(place, cells) & (table["bin"] > 0)
                seen["visits where it was"][side, run] = table["value"][there].sum()
    delta = 0.0 if design.budget.pure else float(design.budget.delta)
    bounds = {}
    for what, columns in seen.items():
        without, within = (Observed(np.floor(column).astype(np.int64)) for column in columns)
        bounds[what] = bound_from(without, within, alpha / len(seen), delta)
    return bounds
