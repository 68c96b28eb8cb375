"""Verify a release: replay its steps on the build and compare with its tables, row by row.

What was verified is kept with the release: a digest of each table, and one of the originals and of the
replayed state. While these are what they were, whoever needs the state replays it without the checks.
"""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

import freqdp_db
from freqdp_db.dataset.memory import load_build
from freqdp_db.db.connection import Database
from freqdp_db.db.published import check_release, count_rows
from freqdp_db.db.releases import ReleaseRow, list_steps, update_release
from freqdp_db.engines.partitions import LOCAL, Engine
from freqdp_db.errors import BadInput, NotReplayable, VerificationFailed
from freqdp_db.methods.contract import StepContext, WorkingSet
from freqdp_db.methods.loop import run_steps
from freqdp_db.methods.registry import require_partitioned
from freqdp_db.methods.relations import Relation
from freqdp_db.model.trajectories import Build
from freqdp_db.progress import Progress, Within
from freqdp_db.release.inputs import make_world
from freqdp_db.release.journal import ReplayJournal
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
    return _verify(database, release, world, progress)[0]


def _verify(
    database: Database, release: ReleaseRow, world: StepContext, progress: Progress
) -> tuple[Verified, WorkingSet]:
    _require_replayable(database, release)
    replayed = replay_steps(database, release, world, progress)
    rows = ReleaseRows.of(Request.of(release).method, replayed.state, world)
    with progress.stage("compare rows", rows.rows) as stage:
        compared = {
            table.suffix: rows.compare(database, table, stored, rows.hashes(table), stage)
            for table, stored in _published_tables(database, release).items()
        }
    with progress.stage("check by SQL"):
        _require_checked(database, release)
    return replayed.record(database, release, rows.shown, compared), replayed.state


def _require_replayable(database: Database, release: ReleaseRow) -> None:
    """Refuse a release of an earlier version that this one cannot replay; count its rows at least."""
    steps = Request.of(release).method.steps
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
    world = load_world(database, release, progress)
    with progress.stage("look for changes"):
        unchanged = _tables_unchanged(database, release)
    if unchanged:
        replayed = replay_steps(database, release, world, progress, checks=False)
        if replayed.digest == (release.digests or {})["state"]:
            return world, replayed.state
    return world, _verify(database, release, world, progress)[1]


def _published_tables(database: Database, release: ReleaseRow) -> dict[Relation, Stored]:
    schema = database.settings.release_schema
    tables = tables_of(Request.of(release), release.software)
    return {relation: Stored(schema, release.name + relation.suffix) for relation in tables}


def _tables_unchanged(database: Database, release: ReleaseRow) -> bool:
    """Whether the tables are those that were verified last."""
    if release.digests is None:
        return False
    for relation, stored in _published_tables(database, release).items():
        verified = release.digests["tables"][relation.suffix]
        ends = pairwise([*(first for first, _, _ in verified), None])
        for (_, *kept), ids in zip(verified, ends, strict=True):
            if list(stored.digest(database, relation, ids)) != kept:
                return False
    return True


def replay_steps(
    database: Database,
    release: ReleaseRow,
    world: StepContext,
    progress: Progress,
    *,
    checks: bool = True,
) -> Replayed:
    """The state that the stored draws and logs give. checks: after each step what it promises holds."""
    request = Request.of(release)
    samples = world.build.trajectories.samples
    with (
        progress.stage("replay steps", samples) as stage,
        database.begin(snapshot=True) as connection,
    ):
        journal = ReplayJournal(connection, database, release.release_id, checks)
        shown = Within(stage, samples, 2 * len(request.method.steps))
        state = run_steps(request.method, request.values, world, journal, shown)
    return Replayed(world.build, state, journal.checked)


def _require_checked(database: Database, release: ReleaseRow) -> None:
    """The server's own check: the frequencies in the published table; raises VerificationFailed."""
    for found in check_release(database, release.name):
        if not found.ok:
            raise VerificationFailed(
                f"check_release: {found.what}: expected {found.expected:,}, found {found.found:,}",
                remedy="withdraw it; if nobody changed the table, report this as a fault of freqdp",
            )
