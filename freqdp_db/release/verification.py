"""Verify a release: replay its steps on the build and compare with its tables, row by row.

What was verified is kept with the release: a digest of each table, and one of the originals and of the
replayed state. While these are what they were, whoever needs the state replays it without the checks.
"""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

import freqdp_db
from freqdp_db.dataset.memory import load_build
from freqdp_db.db import releases
from freqdp_db.db.connection import Connection, Database, DatabaseRef
from freqdp_db.db.published import check_release, count_rows
from freqdp_db.db.releases import (
    ReleaseRow,
    StepRow,
    list_steps,
    load_columns,
    load_edits,
    update_release,
)
from freqdp_db.engines.partitions import LOCAL, Engine, PerPartition
from freqdp_db.errors import BadInput, NotReplayable, VerificationFailed
from freqdp_db.methods.contract import CompletedStep, StepContext, StoredStep, WorkingSet
from freqdp_db.methods.frequency.partition import Partition
from freqdp_db.methods.frequency.steps import log_of
from freqdp_db.methods.loop import StepRun, run_steps
from freqdp_db.methods.registry import require_partitioned
from freqdp_db.methods.relations import Relation
from freqdp_db.model.arrays import Ints
from freqdp_db.model.trajectories import Build, EditLog, Edits
from freqdp_db.privacy.noise import RandomSource
from freqdp_db.progress import Progress, Within
from freqdp_db.release.inputs import make_world
from freqdp_db.release.request import Request
from freqdp_db.release.table import ReleaseRows, Stored, TablePart, tables_of


@dataclass(frozen=True)
class Verified:
    """What was checked and found right."""

    rows: int
    trajectories: int
    checked: dict[str, int]

    def words(self, request: Request) -> list[str]:
        """What the steps checked, in words."""
        names = {k: v for step in request.method.steps for k, v in step.checked.items()}
        return [f"{count:,} {names[name]}" for name, count in self.checked.items()]


@dataclass(frozen=True)
class Replayed:
    """What the stored draws and logs give."""

    build: Build
    state: WorkingSet
    checked: dict[str, int]

    @cached_property
    def digest(self) -> str:
        """Of the originals, of what was made of them, and of the released ids."""
        originals = WorkingSet(self.build.trajectories, self.build.locations, self.state.key)
        found = hashlib.sha256((originals.digest + self.state.digest).encode())
        found.update(self.state.key.tobytes())
        return found.hexdigest()

    def require_written(self, written: WorkingSet) -> None:
        """What is written is what the stored draws and logs give: its rows are theirs."""
        same_ids = np.array_equal(self.state.key, written.key)
        if not same_ids or self.state.digest != written.digest:
            raise VerificationFailed("what was written is not what its draws and logs give")

    def record(
        self, database: Database, release: ReleaseRow, shown: int,
        tables: dict[str, list[TablePart]], **more: Any,
    ) -> Verified:  # fmt: skip
        """Keep what was verified with the release.

        shown: how many trajectories. tables: what was compared of each, the first one first. more: other
        columns of the release's row.
        """
        digests = {"tables": tables, "state": self.digest, "software": freqdp_db.__version__}
        update_release(database, release.release_id, digests=digests, **more)
        rows = sum(rows for _, rows, _ in next(iter(tables.values())))
        return Verified(rows, shown, self.checked)


@dataclass
class ReplayJournal:
    """The journal of `verify`: draws and logs as they are stored, each step checked on the way."""

    connection: Connection
    """All of it is read in one snapshot."""
    database: Database
    release_id: int
    checks: bool = True
    """False: what the steps promise was checked before."""
    checked: dict[str, int] = field(default_factory=dict)
    _steps: dict[int, StepRow] = field(default_factory=dict)

    def __post_init__(self) -> None:
        steps = releases.list_steps(self.connection, self.release_id)
        self._steps = {step.step: step for step in steps}

    def key(self) -> Ints:
        key = releases.load_key(self.connection, self.release_id)
        if len(np.unique(key)) != len(key):
            raise VerificationFailed("the key does not give every trajectory an id of its own")
        return key

    def drawn(self, turn: StepRun, world: StepContext, state: WorkingSet) -> Any:
        if turn.number not in self._steps:
            raise VerificationFailed(f"step {turn.number} was never drawn")
        return read_draw(self.connection, self.release_id, turn, world, state, self.checks)

    def source(self, number: int) -> RandomSource:
        raise AssertionError("a replay draws nothing")

    def commit(self, turn: StepRun, drawn: Any, key: Ints | None) -> None:
        raise AssertionError("a replay draws nothing")

    def carry_out(
        self, turn: StepRun, world: StepContext, state: WorkingSet, drawn: Any
    ) -> WorkingSet:
        number, step, options = turn.number, turn.step, turn.options
        logged = self._log(turn, state)
        try:
            after: WorkingSet = step.replay(StoredStep(world, state, drawn, logged, options))
            if not self.checks:
                return after
            done = CompletedStep(world, state, drawn, logged, options, after)
            found = step.check(done)
        except VerificationFailed as error:
            raise VerificationFailed(
                f"step {number}: {error.text}", remedy=error.remedy_text
            ) from None
        recorded, counts = self._steps[number], step.counts(done)
        # an earlier version may not have counted all that this one does
        earlier = {n: v for n, v in counts.items() if n not in step.later_counts(options)}
        if recorded.counts not in (counts, earlier) or recorded.digest != after.digest:
            raise VerificationFailed(f"step {number}: the log is not the one that was recorded")
        for name, count in found.items():
            self.checked[name] = self.checked.get(name, 0) + count
        return after

    def _log(self, turn: StepRun, state: WorkingSet) -> Any:
        """The log of a step; of edits, each partition reads what concerns its trajectories."""
        if turn.step.logs is not EditLog:
            return load_columns(
                self.connection, self.release_id, turn.number, "log", turn.step.logs
            )
        partitions = state.partitions
        # without a limit at either end, so that a stray trajectory shows
        limits = pairwise([None, *(first for first, _ in partitions.ranges[1:]), None])
        edits = partitions.map(
            _own_edits, DatabaseRef.of(self.database), self.release_id, turn.number,
            PerPartition(list(limits)),
        )  # fmt: skip
        return log_of(edits)


def read_draw(
    connection: Connection,
    release_id: int,
    turn: StepRun,
    world: StepContext,
    state: WorkingSet,
    checks: bool = True,
) -> Any:
    """The stored draw of a step; raises VerificationFailed if it was made from other data."""
    number, step = turn.number, turn.step
    if number == 1 and len(state.key) != len(state.trajectories):
        raise VerificationFailed("the key does not give every trajectory an id of its own")
    drawn = load_columns(connection, release_id, number, "draw", step.draws)
    try:
        if checks:
            step.require_drawn_from(world, state, drawn)
    except VerificationFailed as error:
        raise VerificationFailed(f"step {number}: {error.message}") from None
    return drawn


def _own_edits(
    _: Partition,
    reach: DatabaseRef,
    release_id: int,
    step: int,
    limits: tuple[int | None, int | None],
) -> Edits:
    """What the log says of the trajectories of a partition."""
    database = reach.database()
    with database.begin(snapshot=True) as connection:
        return load_edits(connection, release_id, step, limits)


def require_published(release: ReleaseRow, verb: str) -> None:
    if release.state != "published":
        raise BadInput(
            f"release {release.name!r} is {release.state}, not published",
            remedy=f"finish it: freqdp release resume {shlex.quote(release.name)}"
            if release.state == "running"
            else f"what was taken back can no longer be {verb}",
        )


def verify(
    database: Database, release: ReleaseRow, world: StepContext, progress: Progress
) -> Verified:
    """Verify a published release, and keep with it what was verified; raises VerificationFailed."""
    return _verify(database, release, Request.of(release), world, progress)[0]


def _verify(
    database: Database,
    release: ReleaseRow,
    request: Request,
    world: StepContext,
    progress: Progress,
) -> tuple[Verified, WorkingSet]:
    _require_replayable(database, release, request)
    replayed = replay_steps(database, release, request, world, progress)
    rows = ReleaseRows.of(request.method, replayed.state, world)
    with progress.stage("compare rows", rows.rows) as stage:
        compared = {
            table.suffix: rows.compare(database, table, stored, rows.hashes(table), stage)
            for table, stored in _published_tables(database, release, request).items()
        }
    with progress.stage("check by SQL"):
        # the server's own check: the frequencies in the published table
        for found in check_release(database, release.name):
            if not found.ok:
                raise VerificationFailed(
                    f"check_release: {found.what}: expected {found.expected:,}, found {found.found:,}",
                    remedy="withdraw it; if nobody changed the table, report this as a fault of freqdp",
                )
    return replayed.record(database, release, rows.shown, compared), replayed.state


def _require_replayable(database: Database, release: ReleaseRow, request: Request) -> None:
    """Refuse a release of an earlier version that this one cannot replay; count its rows at least."""
    steps = request.method.steps
    with database.begin(snapshot=True) as connection:
        drawn_by = {step.software for step in list_steps(connection, release.release_id)}
        earlier = sorted(drawn_by & {v for step in steps for v in step.not_replayable})
        if not earlier:
            return
        rows = count_rows(connection, (database.settings.release_schema, release.name))
    if rows != release.rows:
        raise VerificationFailed(
            f"release {release.name!r} has {rows:,} rows, and {release.rows or 0:,} are on record",
            remedy="withdraw it: its table was changed",
        )
    raise NotReplayable(
        f"release {release.name!r} was drawn by freqdp {', '.join(earlier)}, and this version can no "
        f"longer replay its method {release.method}. Its table has the {rows:,} rows that are on record; "
        "its guarantee stays as it is",
        remedy=f"verify it with freqdp {earlier[0]}, on a restored backup; or withdraw it and ask for "
        "a new draw, which spends again",
    )


def load_world(
    database: Database, release: ReleaseRow, progress: Progress, engine: Engine = LOCAL
) -> StepContext:
    """The build that a release was made from, with all else that its steps read."""
    request = Request.of(release)
    require_partitioned(request.method, engine)
    build = load_build(database, release.build_id, progress, engine)
    return make_world(database, build, request.method, request.values, release=release.name)


def load_released(
    database: Database, release: ReleaseRow, progress: Progress
) -> tuple[StepContext, WorkingSet]:
    """What a release was made from, and what was released, with whose each sample is.

    Verified first, unless that was done before: then the tables and the replayed state are those that
    were verified last.
    """
    require_published(release, "measured")
    request, world = Request.of(release), load_world(database, release, progress)
    with progress.stage("look for changes"):
        unchanged = _tables_unchanged(database, release, request)
    if unchanged:
        replayed = replay_steps(database, release, request, world, progress, checks=False)
        if replayed.digest == (release.digests or {})["state"]:
            return world, replayed.state
    return world, _verify(database, release, request, world, progress)[1]


def _published_tables(
    database: Database, release: ReleaseRow, request: Request
) -> dict[Relation, Stored]:
    schema = database.settings.release_schema
    tables = tables_of(request, release.software)
    return {relation: Stored(schema, release.name + relation.suffix) for relation in tables}


def _tables_unchanged(database: Database, release: ReleaseRow, request: Request) -> bool:
    """Whether the tables are those that were verified last."""
    if release.digests is None:
        return False
    for relation, stored in _published_tables(database, release, request).items():
        verified = release.digests["tables"][relation.suffix]
        ends = pairwise([*(first for first, _, _ in verified), None])
        for (_, *kept), ids in zip(verified, ends, strict=True):
            if list(stored.digest(database, relation, ids)) != kept:
                return False
    return True


def replay_steps(
    database: Database,
    release: ReleaseRow,
    request: Request,
    world: StepContext,
    progress: Progress,
    *,
    checks: bool = True,
) -> Replayed:
    """The state that the stored draws and logs give. checks: after each step what it promises holds."""
    samples = world.build.trajectories.samples
    with (
        progress.stage("replay steps", samples) as stage,
        database.begin(snapshot=True) as connection,
    ):
        journal = ReplayJournal(connection, database, release.release_id, checks)
        shown = Within(stage, samples, 2 * len(request.method.steps))
        state = run_steps(request.method, request.values, world, journal, shown)
    return Replayed(world.build, state, journal.checked)
