"""What an audit can see of a guarantee for an object: noisy vectors and releases with it and without.

Whoever knows everybody else subtracts their sums. What is left is noise, with or without the vectors of the
one: their sum, each entry weighted by the one's own over the variance of its noise, tells the two worlds
apart best of all that is linear. Each vector is looked at alone, too: one without its noise would drown in
the sum of all.

Whoever has the release alone counts what is in it, and what is where the one was. These are releases of few
objects: the busiest one shows most among few, and many releases can be made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from freqdp_db.evaluation.bounds import Bound, Observed, bound_from
from freqdp_db.methods.contract import StepContext
from freqdp_db.methods.counts.contributions import Contributions
from freqdp_db.methods.counts.family import CountsOptions, contributions_to, design_of
from freqdp_db.methods.counts.measuring import bounded_by, first_numbers, totals
from freqdp_db.methods.counts.measuring import measure as measure_counts
from freqdp_db.methods.counts.plan import plan_of as plan_of_counts
from freqdp_db.methods.counts.plan import second_round
from freqdp_db.methods.counts.tables import make_tables
from freqdp_db.methods.synthesis.plan import FIRST_ROUND, SCALE, plan_of, planned_from
from freqdp_db.methods.synthesis.public import Region, StrictOptions
from freqdp_db.methods.synthesis.strict import carry_out, released_size
from freqdp_db.methods.synthesis.trips import Trips, cut_trips
from freqdp_db.methods.synthesis.vectors import (
    cell_trips,
    measured,
    size_counts,
    vectors_of,
    with_noise,
)
from freqdp_db.model.arrays import Ints, Metres, owners, rows_of
from freqdp_db.privacy.accounting import epsilon_of
from freqdp_db.privacy.noise import RandomSource

_FEW = 50
"""Releases are made of so many objects."""
_CANDIDATES = 100
"""So many objects are looked at to find one that costs much in counts."""
_SIDE = 15
_STEPS = 100_000
"""Shares of trips are looked at in steps of this part."""
_MOST_TRIPS = 1_000
"""Of a release so many are made: where they pass shows in them."""
_MOST_APART = 40.0
_SURE = 5.0
"""Standard deviations that a bound stays on the safe side by."""


class OwnVector(NamedTuple):
    """What one object adds to a vector that is measured."""

    values: Ints
    precision: float
    """One over the variance of its noise, but for a factor that all vectors share."""
    noisy: Callable[[Ints], Ints]
    """Totals with noise, as a release draws it."""


Look = Callable[[Any], dict[str, float]]
"""Makes a release of a world, and counts in it."""


def bound_of_vectors(world: StepContext, options: Any, source: RandomSource, runs: int) -> Bound:
    """How much of epsilon one object shows in the noisy vectors, from below."""
    vectors, _ = OF_METHODS[type(options)]
    every, apart = np.zeros((2, runs)), 0.0
    for own in vectors(world, options, source):
        values = own.values[own.values != 0]
        if not len(values):
            continue
        worlds = [own.noisy(np.tile(values * there, runs)) for there in range(2)]
        weight = values * own.precision
        scores = np.stack([w.reshape(runs, -1).astype(np.float64) @ weight for w in worlds])
        every += scores
        apart = max(apart, deviations_apart(scores))
    apart = max(apart, deviations_apart(every))
    delta = options.parameters.delta
    lower, upper = (max(apart + way * _SURE * math.sqrt(2 / runs), 0.0) for way in (-1, 1))
    return Bound(_epsilon(lower, delta), _epsilon(upper, delta), runs)


def deviations_apart(scores: Metres) -> float:
    """How many standard deviations lie between the means of two worlds. scores: a row of each."""
    between = float(scores[1].mean() - scores[0].mean())
    spread = math.sqrt(float(scores[0].var() + scores[1].var()) / 2)
    return min(between / spread, _MOST_APART) if spread > 0 else _MOST_APART * (between > 0)


def _epsilon(apart: float, delta: Fraction) -> float:
    """The epsilon that two normal laws so many deviations apart stand for."""
    rho = Fraction(apart) ** 2 / 2
    return float(epsilon_of(rho, delta)) if rho else 0.0


def bounds_of_releases(
    world: StepContext, options: Any, source: RandomSource, runs: int, alpha: float
) -> dict[str, Bound]:
    """The same for whoever has releases alone, by what they look at in them."""
    _, releases = OF_METHODS[type(options)]
    here, there, look = releases(world, options, source)
    delta = 0.0 if options.parameters.pure else float(options.delta)
    seen = [[look(side) for _ in range(runs)] for side in (here, there)]
    bounds = {}
    for name in seen[0][0]:
        left, right = (
            Observed(np.floor([found[name] for found in of_world]).astype(np.int64))
            for of_world in seen
        )
        bounds[name] = bound_from(left, right, alpha / len(seen[0][0]), delta)
    return bounds


# `strict`: the object with the most trips.


def _vectors_of_trips(
    world: StepContext, options: StrictOptions, source: RandomSource
) -> Iterator[OwnVector]:
    parameters = options.parameters
    region, period = world.public_facts(options.region, options.period)
    trips = cut_trips(world.build.trajectories, world.locations, region, period)
    count, classes = size_counts(trips)
    plan = planned_from(np.array([count * SCALE]), classes * SCALE, region, period, parameters)
    one = int(np.argmax(np.diff(trips.by_object)))
    alone = _some(trips, np.array([one]))
    first = [np.array([size_counts(alone)[0]]) * SCALE, size_counts(alone)[1] * SCALE]
    vectors = [*first, *vectors_of(trips, plan, one, pure=False)]
    for statistic, vector in zip([*FIRST_ROUND, *plan.statistics], vectors, strict=True):
        if statistic.share:
            precision = statistic.share / statistic.bound**2
            yield OwnVector(
                vector,
                float(precision),
                lambda total, of=statistic: with_noise(total, of, parameters, source),  # type: ignore[misc]
            )


def _releases_of_trips(
    world: StepContext, options: StrictOptions, source: RandomSource
) -> tuple[Trips, Trips, Look]:
    parameters = options.parameters
    region, period = world.public_facts(options.region, options.period)
    all_trips = cut_trips(world.build.trajectories, world.locations, region, period)
    busiest = np.argsort(-np.diff(all_trips.by_object), kind="stable")[:_FEW]
    where = _passing(_some(all_trips, busiest[:1]), region)

    def look(trips: Trips) -> dict[str, float]:
        drawn = measured(trips, region, period, parameters, source)
        plan = plan_of(drawn, region, period, parameters)
        count = released_size(drawn, plan, parameters)
        made = carry_out(drawn, region, period, replace(parameters, size=min(count, _MOST_TRIPS)))[
            1
        ]
        t, places = made.trajectories, made.places
        x, y = places.x[t.location], places.y[t.location]
        out = Trips(np.array([0, len(t)]), t.offsets, x, y, t.at)
        shown = _STEPS * float(_passing(out, region) @ where) / len(t)
        return {"number of trips": count, "where they pass": shown}

    return _some(all_trips, busiest), _some(all_trips, busiest[1:]), look


def _some(trips: Trips, chosen: Ints) -> Trips:
    """The trips of these objects."""
    which, by_object = rows_of(trips.by_object, chosen)
    samples, offsets = rows_of(trips.offsets, which)
    return Trips(by_object, offsets, trips.x[samples], trips.y[samples], trips.at[samples])


def _passing(trips: Trips, region: Region) -> Metres:
    """Share of the trips that pass each cell of a coarse grid."""
    found = cell_trips(trips, region, _SIDE)
    once = np.unique(owners(found.offsets).astype(np.int64) * _SIDE**2 + found.cells)
    share: Metres = np.bincount(once % _SIDE**2, minlength=_SIDE**2) / max(len(trips), 1)
    return share


# `counts`: the object that costs most, of some with few and with many contributions.


def _contributions(
    world: StepContext, options: CountsOptions, chosen: Iterable[int]
) -> Contributions:
    some = world.build.trajectories.take(np.array(chosen, np.int64))
    return contributions_to(world, some, world.locations, options)


def _by_contributions(found: Contributions) -> Ints:
    return np.argsort(found.visits.counts + found.trips.counts, kind="stable")


def _vectors_of_counts(
    world: StepContext, options: CountsOptions, source: RandomSource
) -> Iterator[OwnVector]:
    trajectories, design = world.build.trajectories, design_of(world, options)
    whole = contributions_to(world, trajectories, world.locations, options)
    plan = second_round(design, first_numbers(whole, design))
    known = {m.name: m for m in plan.every_measurement}
    order = _by_contributions(whole)
    vectors: dict[str, Ints] = {}
    most = 0.0
    for one in np.unique(order[np.linspace(0, len(order) - 1, _CANDIDATES).astype(np.int64)]):
        alone = _contributions(world, options, [one])
        own = first_numbers(alone, design) | totals(bounded_by(alone, plan), plan)
        cost = sum(float((v**2).sum()) / known[n].deviation ** 2 for n, v in own.items())
        if cost > most:
            most, vectors = cost, own
    for name, vector in vectors.items():
        yield OwnVector(
            vector,
            1 / known[name].deviation ** 2,
            lambda total, of=known[name]: total + of.noise(source, len(total)),  # type: ignore[misc]
        )


def _releases_of_counts(
    world: StepContext, options: CountsOptions, source: RandomSource
) -> tuple[Contributions, Contributions, Look]:
    design = design_of(world, options)
    city, bins = design.zones.city_id, len(design.bins)
    most = _contributions(world, options, range(len(world.build.trajectories)))
    busiest = _by_contributions(most)[::-1][:_FEW]
    cells = _contributions(world, options, busiest[:1]).visits.cells(bins)

    def look(found: Contributions) -> dict[str, float]:
        drawn = measure_counts(found, design, source)
        made, seen = make_tables(drawn, plan_of_counts(drawn, design)), {}
        if "visits" in design.tables:
            table = made.table("visits")
            in_all = (table["zone"] == city) & (table["bin"] == 0)
            seen["visits of the city"] = table["value"][in_all][0]
            place = (table["zone"] - 1) * bins + table["bin"] - 1
            there = np.isin(place, cells) & (table["bin"] > 0)
            seen["visits where it was"] = table["value"][there].sum()
        if "flows" in design.tables:
            table = made.table("flows")
            in_all = (
                (table["origin"] == city) & (table["destination"] == city) & (table["bin"] == 0)
            )
            seen["flows of the city"] = table["value"][in_all][0]
        return seen

    here, there = (_contributions(world, options, side) for side in (busiest, busiest[1:]))
    return here, there, look


OF_METHODS: dict[type, tuple[Callable[..., Iterator[OwnVector]], Callable[..., Any]]] = {
    StrictOptions: (_vectors_of_trips, _releases_of_trips),
    CountsOptions: (_vectors_of_counts, _releases_of_counts),
}
"""By the options of a method with a guarantee for an object."""
