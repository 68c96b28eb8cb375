"""A release does not depend on how its trajectories are cut into partitions, nor on who keeps these.

The keeper here takes nothing and gives nothing but pickled copies, as other processes would.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from small_worlds import SmallWorld, as_lists, quick, worlds

from freqdp_db.engines.partitions import LocalPartitions, Range, argument_for
from freqdp_db.engines.ranges import cut
from freqdp_db.methods.contract import CompletedStep, StepContext, StoredStep, WorkingSet
from freqdp_db.methods.frequency.partition import Partition, trajectories_in
from freqdp_db.methods.loop import StepRun, Trial, run_steps
from freqdp_db.methods.parameters import read
from freqdp_db.methods.registry import METHODS, find_method
from freqdp_db.methods.relations import TRAJECTORIES
from freqdp_db.model.trajectories import Build, Edits, KeptColumns, Locations, Trajectories
from freqdp_db.privacy.noise import SeededSource
from freqdp_db.progress import Progress
from freqdp_db.release.table import ReleaseRows

PARTITIONED = [name for name, method in METHODS.items() if method.partitioned]


def _copy(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


class Elsewhere(LocalPartitions[Any]):
    """Keeps values by their pickles, and finds functions by their names."""

    remote = True

    def __init__(self, ranges: list[Range], values: list[Any]) -> None:
        super().__init__(ranges, [pickle.dumps(value) for value in values])

    def map(self, function: Callable[..., Any], *arguments: Any) -> Elsewhere:
        named = _copy(function)  # by its name in its module, or as it is
        own = ([argument_for(n, a) for a in arguments] for n in range(len(self.ranges)))
        return Elsewhere(
            self.ranges, [named(value, *_copy(mine)) for value, mine in zip(self, own, strict=True)]
        )

    def __iter__(self) -> Iterator[Any]:
        return (pickle.loads(value) for value in self._values)

    def get(self, number: int) -> Any:
        return pickle.loads(self._values[number])

    def shuffle(self, take: Any, wanted: Any, join: Any, ranges: list[Range]) -> Elsewhere:
        local = LocalPartitions(self.ranges, list(self))
        return Elsewhere(ranges, list(local.shuffle(take, wanted, join, ranges)))


def _distributed(whole: Trajectories, places: Locations, parts: int) -> Trajectories:
    ranges = cut(whole.offsets, parts)
    values = [
        Partition(first, whole.take(np.arange(first, last)), places) for first, last in ranges
    ]
    return trajectories_in(Elsewhere(ranges, values))


class Noted(Trial):
    """Checks every step as `verify` does, and notes all that was drawn and done."""

    def carry_out(
        self, turn: StepRun, world: StepContext, state: WorkingSet, drawn: Any
    ) -> WorkingSet:
        step, options = turn.step, turn.options
        logged, after = step.carry_out(world, state, drawn, options)
        step.require_drawn_from(world, state, drawn)
        again = step.replay(StoredStep(world, state, drawn, logged, options))
        assert again.digest == after.digest
        done = CompletedStep(world, state, drawn, logged, options, after)
        step.check(done)
        if not state.partitions.remote and state.trajectories.kept is not None:
            _check_kept(state.trajectories, after.trajectories, list(logged.partitions))
        self.notes = getattr(self, "notes", [])
        edits = list(logged.partitions)
        for runs in ("deletions", "insertions"):
            for column in ("trajectory", "location", "position", "loss_mm"):
                joined = np.concatenate([getattr(getattr(e, runs), column) for e in edits])
                self.notes.append(joined.tolist())
        self.notes += [
            [column.tolist() for column in vars(drawn).values()],
            step.counts(done),
            step.user_level(state, drawn, options),
            after.digest,
        ]
        return after


def _check_kept(before: Trajectories, after: Trajectories, edits: list[Edits]) -> None:
    """Whoever stays carries what it carried, and who is inserted what the sample before it does."""
    gone, inserted = set(), Counter()
    for part in edits:
        for runs, noted in ((part.deletions, gone.add), (part.insertions, None)):
            counts = np.diff(runs.offsets)
            for t, position in zip(np.repeat(runs.trajectory, counts), runs.position, strict=True):
                at = int(t), int(position)
                if noted is None:
                    inserted[at] += 1
                else:
                    noted(at)
    assert before.kept is not None and after.kept is not None
    expected = []
    for t, length in enumerate(before.lengths.tolist()):
        expected += [0] * inserted[t, -1]
        for position in range(length):
            if (t, position) not in gone:
                code = int(before.kept[before.offsets[t] + position])
                expected += [code] * (1 + inserted[t, position])
    assert after.kept.tolist() == expected


_VALUES = ((None, None), ("a", 1), ("a", None), ("ß", 2))
_KEPT = KeptColumns((("kind", "text"), ("zone", "int2")), _VALUES)


def _release(world: SmallWorld, method: str, parts: int | None, carries: bool) -> list[Any]:
    here = world.trajectories
    if carries:
        codes = np.arange(here.samples, dtype=np.int16) * 7 % len(_VALUES)
        here = replace(here, kept=codes)
    places = Locations(
        world.locations.x, world.locations.y, world.locations.x / 10, world.locations.y / 10
    )
    trajectories = here if parts is None else _distributed(here, places, parts)
    build = Build(
        trajectories, places, world.clock, srid=32631, source_srid=4326,
        kept=_KEPT if carries else None,
    )  # fmt: skip
    found = find_method(method)
    given = {"signature": "2", "time_step": "1s"} | (
        {"epsilon": "0.5"} if found.unit == "occurrence" else {}
    )
    values = read(found.parameters, given, method, text=True)
    noted = Noted(lambda step: SeededSource(3, step))
    state = run_steps(found, values, StepContext(build), noted, Progress())
    released = ReleaseRows.of(found, state, StepContext(build))
    assert released.rows == state.samples
    tables = list(released.pieces)
    if parts is not None:
        # nothing brought the samples here
        for side in (trajectories, state.trajectories):
            assert not {"location", "at", "start", "kept"} & vars(side).keys()
    rows = [
        b"".join(block.tobytes() for table in tables for block in table.blocks(relation))
        for relation in TRAJECTORIES[:2]
    ]
    return [*noted.notes, state.key.tolist(), state.digest, *rows]


@quick
@given(
    worlds(allow_empty=True),
    st.sampled_from(PARTITIONED),
    st.sampled_from([1, 2, 3, 64]),
    st.booleans(),
)
def test_parts(world: SmallWorld, method: str, parts: int, carries: bool) -> None:
    assert _release(world, method, parts, carries) == _release(world, method, None, carries)


def test_all_methods_of_the_paper_are_partitioned() -> None:
    assert PARTITIONED == ["lg", "gl", "pure-g", "pure-l", "sc", "rsc"]
    assert not find_method("lg+swap").partitioned


@quick
@given(worlds(allow_empty=True), st.sampled_from([1, 2, 3, 64]))
def test_columns_are_brought_when_they_are_asked_for(world: SmallWorld, parts: int) -> None:
    here = world.trajectories
    here = replace(here, kept=here.owner.astype(np.int16))
    there = _distributed(here, world.locations, parts)
    for column in ("offsets", "location", "at", "start", "kept"):
        assert getattr(there, column).tolist() == getattr(here, column).tolist()
    assert as_lists(there) == as_lists(here)
