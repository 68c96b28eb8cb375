"""One step of a method, alone: asked for, drawn, carried out, replayed and checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from sides import MINUTE, side_of

from freqdp_db.methods.contract import (
    AnyStep,
    CompletedStep,
    StepContext,
    StoredStep,
    WorkingSet,
    options_of,
)
from freqdp_db.model.trajectories import Build, Clock, Locations, Trajectories
from freqdp_db.privacy.noise import SeededSource
from freqdp_db.release.request import Request

SECOND = 1_000_000
PLACES = Locations(*(np.arange(40) * s % 7_300 for s in (350.0, 910.0)))
WORLD = StepContext(
    Build(
        Trajectories(*(np.zeros(n, d) for n, d in ((1, int), (0, np.int32), (0, int), (0, int)))),
        Locations(np.zeros(0), np.zeros(0)),
        Clock(SECOND, MINUTE),
        srid=32631,
        source_srid=4326,
    )
)


def asked(method: str, **values: Any) -> tuple[AnyStep, Any]:
    request = Request.parse(method, **values)
    (step,) = request.method.steps
    return step, options_of(step, request.values)


def carried_out(
    state: WorkingSet, step: AnyStep, options: Any, world: StepContext = WORLD
) -> tuple[Any, ...]:
    """Draw, carry out, replay, check: what was drawn, logged, made and found."""
    drawn = step.draw(world, state, options, SeededSource(1))
    logged, after = step.carry_out(world, state, drawn, options)
    again = step.replay(StoredStep(world, state, drawn, logged, options))
    assert np.array_equal(again.trajectories.at, after.trajectories.at)
    assert np.array_equal(again.key, after.key)
    return (
        drawn,
        logged,
        after,
        step.check(CompletedStep(world, state, drawn, logged, options, after)),
    )


def make(*rows: list[tuple[int, float]]) -> WorkingSet:
    """(place, minutes) of each sample."""
    return WorkingSet(side_of(rows), PLACES, np.arange(len(rows))[::-1])
