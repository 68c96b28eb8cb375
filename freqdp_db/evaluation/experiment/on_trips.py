"""Experiments on trips: synthetic methods side by side, and what a resample of the data would lose.

Both sides are cut into trips by the rule of the synthetic methods, inside the public region and
period. For each size and seed, objects drawn with replacement stand beside the methods (`resampled`):
no method can be asked for less than what chance does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from freqdp_db.columns.build import Build
from freqdp_db.columns.trajectories import Locations, Trajectories
from freqdp_db.errors import BadInput
from freqdp_db.evaluation.experiment.runs import Design, Run, some_objects
from freqdp_db.evaluation.pair import CellBox
from freqdp_db.evaluation.utility.seven import Reference
from freqdp_db.mechanisms.noise import SeededSource
from freqdp_db.methods.contract import World
from freqdp_db.methods.loop import Trial, run_steps
from freqdp_db.methods.synthesis.trips import cut_trips
from freqdp_db.progress import Progress
from freqdp_db.release.request import Request

if TYPE_CHECKING:
    from freqdp_db.methods.synthesis.public import Period, Region

RESAMPLED = "resampled"
MOST_COMPARED = 20_000
"""Of each side at most so many trips are compared, drawn at random; synthetic methods make as many
as are compared with: divergences depend on how many."""
_SQUARES = 7
"""Which squares the queries are, in all experiments."""


def run_on_trips(
    build: Build,
    design: Design,
    facts: tuple[Region, Period],
    progress: Progress,
    prepared: Callable[[Request], tuple[Request, World]],
) -> list[Run]:
    """The whole design, measured by the seven numbers on trips; rows in its order."""
    region, _ = facts
    box = CellBox(region.x_min, region.y_min, region.x_max, region.y_max)
    found: list[Run] = []
    with progress.stage("experiment", design.runs, "runs") as stage:
        for size in sorted(design.sizes):
            side = replace(build, trajectories=some_objects(build.trajectories, size))
            if design.each_trip:
                trips, places = as_trips(side.trajectories, side.locations, facts)
                side = replace(side, trajectories=trips, locations=places)
            count = len(side.trajectories)
            compared = _compared(side.trajectories, side.locations, facts, 0)
            reference = Reference.of(box, *compared, _SQUARES)
            for seed in design.seeds:
                rng = np.random.default_rng([seed, count])
                again = side.trajectories.take(np.sort(rng.integers(0, count, count)))
                values = reference.compared_with(*_compared(again, side.locations, facts, seed))
                found.append(Run(RESAMPLED, None, count, seed, None, 0.0, values))
            for variant, epsilon, seed, asked in replace(design, size=len(compared[0])).requests():
                request, world = prepared(asked)
                started = time.perf_counter()
                trial = Trial(lambda number, seed=seed: SeededSource(seed, number))  # type: ignore[misc]
                world = replace(world, build=side)
                state = run_steps(request.method, request.values, world, trial, Progress())
                seconds = time.perf_counter() - started
                values = reference.compared_with(
                    *_compared(state.trajectories, state.places, facts, seed)
                )
                found.append(Run(variant.label, epsilon, count, seed, None, seconds, values))
                stage.advance(1)
    return found


def as_trips(
    side: Trajectories, places: Locations, facts: tuple[Region, Period]
) -> tuple[Trajectories, Locations]:
    """Trips, each a trajectory of its own, with a place for each sample."""
    trips = cut_trips(side, places, *facts)
    if not len(trips):
        raise BadInput(
            "there is no trip in the region and the period",
            remedy="look at both: freqdp dataset show",
        )
    location = np.arange(len(trips.x), dtype=np.int32)
    start = trips.at[trips.offsets[:-1]]
    return Trajectories(trips.offsets, location, trips.at, start), Locations(trips.x, trips.y)


def _compared(
    side: Trajectories, places: Locations, facts: tuple[Region, Period], seed: int
) -> tuple[Trajectories, Locations]:
    """The trips of one side that are compared."""
    trips, of = as_trips(side, places, facts)
    if len(trips) <= MOST_COMPARED:
        return trips, of
    chosen = np.random.default_rng([seed, MOST_COMPARED]).permutation(len(trips))[:MOST_COMPARED]
    return trips.take(np.sort(chosen)), of
