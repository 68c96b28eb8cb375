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
from freqdp_db.methods.counts.contributions import Contributions, contributions_of
from freqdp_db.methods.counts.family import public_inputs
from freqdp_db.methods.counts.measuring import (
    bounded_by,
    first_numbers,
    measured,
    totals,
    with_noise,
)
from freqdp_db.methods.counts.options import CountsOptions
from freqdp_db.methods.counts.plan import Shape, first_round, plan_of, second_round
from freqdp_db.methods.counts.tables import made_of
from freqdp_db.model.arrays import Ints, Metres
from freqdp_db.model.trajectories import Trajectories
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
    zones, bins = public_inputs(world, options)
    budget, tables = options.parameters, options.tables
    whole = _found(world, options, world.build.trajectories)
    shape = Shape.of(zones, bins)
    exact = first_numbers(whole, zones, len(bins), tables, pure=budget.pure)
    plan = second_round(shape, tables, budget, exact, options.threshold)
    first = first_round(tables, pure=budget.pure)
    known = {m.name: m for m in (*first, *plan.measurements.values())}
    order = np.argsort(whole.visits.counts + whole.trips.counts, kind="stable")
    vectors: dict[str, Ints] = {}
    most = 0.0
    for one in np.unique(order[np.linspace(0, len(order) - 1, CANDIDATES).astype(np.int64)]):
        alone = _found(world, options, world.build.trajectories.take(np.array([one])))
        own = first_numbers(alone, zones, len(bins), tables, pure=budget.pure)
        own |= totals(bounded_by(alone, plan, zones, pure=budget.pure), plan, zones)
        cost = sum(float((v**2).sum()) / known[n].variance(budget) for n, v in own.items())
        if cost > most:
            most, vectors = cost, own
    scores, every = [], np.zeros((2, runs))
    for name, vector in vectors.items():
        own = vector[vector != 0]
        if not len(own):
            continue
        mine = np.zeros((2, runs))
        weight = own / known[name].variance(budget)
        for there in range(2):
            total: Ints = np.tile(own * there, runs)
            seen = with_noise(total, known[name], budget, source)
            mine[there] = seen.reshape(runs, -1).astype(np.float64) @ weight
        every += mine
        scores.append(mine)
    return [every, *scores]


def released_bounds(
    world: StepContext, options: CountsOptions, source: RandomSource, runs: int, alpha: float
) -> dict[str, Bound]:
    """How much of epsilon the released tables show of the object that has the most, from below."""
    zones, bins = public_inputs(world, options)
    budget, tables = options.parameters, options.tables
    trajectories = world.build.trajectories
    most = _found(world, options, trajectories)
    busiest = np.argsort(-(most.visits.counts + most.trips.counts), kind="stable")[:FEW]
    own = _found(world, options, trajectories.take(busiest[:1])).visits
    cells = own.zone * len(bins) + own.bin
    names = [name for name in ("visits", "flows") if name in tables]
    seen = {f"{name} of the city": np.zeros((2, runs)) for name in names}
    if "visits" in tables:
        seen["visits where it was"] = np.zeros((2, runs))
    for side, chosen in enumerate((busiest, busiest[1:])):
        found = _found(world, options, trajectories.take(chosen))
        for run in range(runs):
            drawn = measured(found, zones, bins, tables, budget, options.threshold, source)
            plan = plan_of(drawn, Shape.of(zones, bins), tables, budget, options.threshold)
            made = made_of(drawn, plan, zones, bins, budget)
            for name in names:
                table = made.table(name)
                city = table["zone" if name == "visits" else "origin"] == zones.city_id
                if name == "flows":
                    city &= table["destination"] == zones.city_id
                whole = table["value"][city & (table["bin"] == 0)]
                seen[f"{name} of the city"][side, run] = whole[0]
            if "visits" in tables:
                table = made.table("visits")
                zone = (table["zone"] <= len(zones)) & (table["bin"] > 0)
                seen["visits where it was"][side, run] = table["value"][zone][cells].sum()
    delta = 0.0 if budget.pure else float(budget.delta)
    bounds = {}
    for what, columns in seen.items():
        without, within = (Observed(np.floor(column).astype(np.int64)) for column in columns)
        bounds[what] = bound_from(without, within, alpha / len(seen), delta)
    return bounds


def _found(world: StepContext, options: CountsOptions, trajectories: Trajectories) -> Contributions:
    facts = world.public_facts(options.region, options.period)
    return contributions_of(trajectories, world.locations, *facts, *public_inputs(world, options))
