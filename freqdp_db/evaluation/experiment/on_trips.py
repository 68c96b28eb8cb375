"""Experiments on trips: synthetic methods side by side, and what a resample of the data would lose.

Both sides are cut into trips by the rule of the synthetic methods, inside the public region and
period. For each size and seed, objects drawn with replacement stand beside the methods (`resampled`):
no method can be asked for less than what chance does.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from freqdp_db.columns.build import Build
from freqdp_db.columns.trajectories import Locations, Trajectories
from freqdp_db.errors import BadInput
from freqdp_db.evaluation.experiment.runs import Design, Run, some_objects
from freqdp_db.evaluation.pair import CellBox
from freqdp_db.evaluation.trials import Prepared, run_trial
from freqdp_db.evaluation.utility.seven import Reference
from freqdp_db.methods.synthesis.trips import cut_trips
from freqdp_db.progress import Progress

if TYPE_CHECKING:
    from freqdp_db.methods.synthesis.public import Period, Region

RESAMPLED = "resampled"
MOST_COMPARED = 20_000
"""Of each side at most so many trips are compared, drawn at random; synthetic methods make as many
as are compared with: divergences depend on how many."""
TripPiece: TypeAlias = tuple[int, int, int | None]
"""A size, and the seed of a resample of it or which run of the design."""
_SQUARES = 7
"""Which squares the queries are, in all experiments."""


@dataclass(frozen=True)
class _Side:
    """What runs of one size are compared with."""

    build: Build
    reference: Reference
    compared: int
    """How many trips."""


@dataclass
class OnTrips:
    """Runs by the seven numbers on trips."""

    build: Build
    facts: tuple[Region, Period]
    design: Design
    prepared: Prepared
    _sides: dict[int, _Side] = field(default_factory=dict)

    def run(self, piece: TripPiece, progress: Progress) -> list[Run]:
        size, seed, number = piece
        side = self._side(size)
        if number is None:
            return [self._resampled(side, seed)]
        asked = list(replace(self.design, size=side.compared).requests())[number]
        request, world = self.prepared(asked.request)
        state, seconds = run_trial(request, replace(world, build=side.build), asked.seed)
        trips = _compared(state.trajectories, state.places, self.facts, asked.seed)
        values = side.reference.compared_with(*trips)
        return [asked.measured(values, len(side.build.trajectories), None, seconds)]

    def _resampled(self, side: _Side, seed: int) -> Run:
        original, count = side.build.trajectories, len(side.build.trajectories)
        rng = np.random.default_rng([seed, count])
        again = original.take(np.sort(rng.integers(0, count, count)))
        trips = _compared(again, side.build.locations, self.facts, seed)
        values = side.reference.compared_with(*trips)
        return Run(RESAMPLED, None, count, seed, None, 0.0, values)

    def _side(self, size: int) -> _Side:
        """One size is kept at a time."""
        if size not in self._sides:
            build = replace(self.build, trajectories=some_objects(self.build.trajectories, size))
            if self.design.each_trip:
                trips, places = as_trips(build.trajectories, build.locations, self.facts)
                build = replace(build, trajectories=trips, locations=places)
            region, _ = self.facts
            box = CellBox(region.x_min, region.y_min, region.x_max, region.y_max)
            compared = _compared(build.trajectories, build.locations, self.facts, 0)
            reference = Reference.of(box, *compared, _SQUARES)
            self._sides = {size: _Side(build, reference, len(compared[0]))}
        return self._sides[size]


def pieces_on_trips(design: Design) -> list[TripPiece]:
    """For each size the resamples, then every run of the design."""
    runs = sum(1 for _ in design.requests())
    return [
        piece
        for size in sorted(design.sizes)
        for piece in (
            *((size, seed, None) for seed in design.seeds),
            *((size, 0, number) for number in range(runs)),
        )
    ]


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
