"""A release does not depend on how its trajectories are cut into parts, nor on who keeps these.

The keeper here takes nothing and gives nothing but pickled copies, as other processes would.
"""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from small_worlds import SmallWorld, quick, worlds

from freqdp_db.columns.build import Build
from freqdp_db.columns.trajectories import Locations, Trajectories
from freqdp_db.engines.held import Held, Here, as_kept, of_range
from freqdp_db.engines.ranges import cut
from freqdp_db.engines.spread import Spread, SpreadEdits
from freqdp_db.frequency.parts import Part
from freqdp_db.mechanisms.noise import SeededSource
from freqdp_db.methods.contract import State, World
from freqdp_db.methods.loop import Trial, run_steps
from freqdp_db.methods.parameters import read
from freqdp_db.methods.registry import METHODS, find_method
from freqdp_db.progress import Progress
from freqdp_db.release.journal import digest
from freqdp_db.release.table import ReleasedTable, SpreadTable, _table

few = settings(quick, max_examples=40)
SPREAD = [name for name, method in METHODS.items() if method.spread]


def _copy(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


class Elsewhere(Held):
    """Keeps things by their pickles, and finds functions by their names."""

    def __init__(self, ranges: list[tuple[int, int]], things: list[Any]) -> None:
        self.ranges = ranges
        self._things = [pickle.dumps(thing) for thing in things]

    def each(self, function: Callable[..., Any], *arguments: Any) -> Iterator[Any]:
        named = getattr(importlib.import_module(function.__module__), function.__name__)
        for number, thing in enumerate(self._things):
            own = [of_range(a, number) for a in arguments]
            yield _copy(named(pickle.loads(thing), *_copy(own)))

    def then(self, function: Callable[..., Any], *arguments: Any) -> Elsewhere:
        return Elsewhere(self.ranges, list(self.each(function, *arguments)))

    def fold(self, merge: Callable[..., Any], *arguments: Any) -> Any:
        return Here(self.ranges, list(self.each(as_kept))).fold(merge, *arguments)

    def exchange(
        self,
        take: Callable[..., Any],
        wanted: Sequence[Sequence[Any]],
        join: Callable[[list[Any]], Any],
        ranges: list[tuple[int, int]],
    ) -> Elsewhere:
        old = [pickle.loads(thing) for thing in self._things]
        new = [join([take(o, w) for o, w in zip(old, row, strict=True)]) for row in wanted]
        return Elsewhere(ranges, new)

    def share(self, value: Any) -> Any:
        return value

    def thing(self, number: int) -> Any:
        return pickle.loads(self._things[number])


def _spread(whole: Trajectories, places: Locations, parts: int) -> Spread:
    ranges = cut(whole.offsets, parts)
    things = [
        Part(first, whole.take(np.arange(first, last)), len(places)) for first, last in ranges
    ]
    return Spread(whole.offsets, Elsewhere(ranges, things), places)


class Noted(Trial):
    """Checks every step as `verify` does, and notes all that was drawn and done."""

    def carry_out(
        self, number: int, step: Any, world: World, state: State, drawn: Any, options: Any
    ) -> State:
        logged, after = step.carry_out(world, state, drawn, options)
        step.require_drawn_from(world, state, drawn)
        again = step.replay(world, state, drawn, logged, options)
        assert digest(again) == digest(after)
        step.check(world, state, drawn, logged, after, options)
        self.notes = getattr(self, "notes", [])
        edits = list(logged.parts.each(as_kept)) if isinstance(logged, SpreadEdits) else [logged]
        for runs in ("deletions", "insertions"):
            for column in ("trajectory", "location", "position", "loss_mm"):
                joined = np.concatenate([getattr(getattr(e, runs), column) for e in edits])
                self.notes.append(joined.tolist())
        self.notes += [
            [column.tolist() for column in vars(drawn).values()],
            step.counts(drawn, logged, state, after, options),
            step.user_level(state, drawn, options),
            digest(after),
        ]
        return after


def _release(world: SmallWorld, method: str, parts: int | None) -> list[Any]:
    here = world.trajectories
    places = Locations(
        world.locations.x, world.locations.y, world.locations.x / 10, world.locations.y / 10
    )
    trajectories = here if parts is None else _spread(here, places, parts)
    build = Build(trajectories, places, world.clock, srid=32631, source_srid=4326)
    found = find_method(method)
    given = {"signature": "2", "time_step": "1s"} | (
        {"epsilon": "0.5"} if found.unit == "occurrence" else {}
    )
    values = read(found.parameters, given, method, text=True)
    noted = Noted(lambda step: SeededSource(3, step))
    state = run_steps(found, values, World(build), noted, Progress())
    if parts is None:
        tables = [ReleasedTable.of(state, World(build))]
    else:
        spread = SpreadTable.of(state, World(build))
        assert spread.rows == state.samples
        tables = [
            _table(piece, places, spread.srid, spread.timezone)
            for piece in spread.pieces.each(as_kept)
        ]
    rows = [
        b"".join(chunk.tobytes() for t in tables for chunk in t.points()),
        b"".join(bytes(chunk) for t in tables for chunk in t.lines()),
    ]
    return [*noted.notes, state.key.tolist(), digest(state), *rows]


@few
@given(worlds(allow_empty=True), st.sampled_from(SPREAD), st.sampled_from([1, 2, 3, 64]))
def test_parts(world: SmallWorld, method: str, parts: int) -> None:
    assert _release(world, method, parts) == _release(world, method, None)


def test_all_methods_of_the_paper_are_spread() -> None:
    assert SPREAD == ["lg", "gl", "pure-g", "pure-l", "sc", "rsc"]
    assert not find_method("lg+swap").spread
