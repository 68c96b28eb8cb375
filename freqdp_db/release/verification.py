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
from freqdp_db.db.connection import Database
from freqdp_db.db.published import check_release, count_rows
from freqdp_db.db.releases import ReleaseRow, list_steps, update_release
from freqdp_db.errors import BadInput, NotReplayable, VerificationFailed
from freqdp_db.methods.contract import StepContext, WorkingSet
from freqdp_db.methods.loop import run_steps
from freqdp_db.methods.relations import Relation
from freqdp_db.model.trajectories import Build
from freqdp_db.progress import Progress, Within
from freqdp_db.release.journal import ReplayJournal, digest
from freqdp_db.release.request import Request
from freqdp_db.release.table import ReleaseRows, Stored, TablePart, digest_table, tables_of


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
        return digest(self.state)


@dataclass(frozen=True)
class Compared:
    """Tables that hold the replayed rows."""

    verified: Verified
    digests: dict[str, Any]
    """What is kept of it in `release.digests`."""

    @classmethod
    def of(cls, replayed: Replayed, shown: int, tables: dict[str, list[TablePart]]) -> Compared:
        """shown: how many trajectories. tables: what was compared of each, the first one first."""
        rows = sum(rows for _, rows, _ in next(iter(tables.values())))
        return cls(
            Verified(rows, shown, replayed.checked),
            {
                "tables": tables,
                "state": _state_digest(replayed),
                "software": freqdp_db.__version__,
            },
        )


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
    compared = compare_rows(database, release, world, replayed, progress)
    with progress.stage("check by SQL"):
        require_checked(database, release)
    update_release(database, release.release_id, digests=compared.digests)
    return compared.verified, replayed.state


def _require_replayable(database: Database, release: ReleaseRow) -> None:
    """Refuse a release of an earlier version that this one cannot replay; count its rows at least."""
    steps = Request.of(release).method.steps
    with database.begin(snapshot=True) as connection:
        drawn_by = {step.software for step in list_steps(connection, database, release.release_id)}
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


def released_state(
    database: Database, release: ReleaseRow, world: StepContext, progress: Progress
) -> WorkingSet:
    """What was released, with whose each sample is; verified first, unless that was done before.

    It was if the tables and the replayed state are those that were verified last.
    """
    with progress.stage("look for changes"):
        unchanged = _tables_unchanged(database, release)
    if unchanged:
        replayed = replay_steps(database, release, world, progress, checks=False)
        if _state_digest(replayed) == (release.digests or {})["state"]:
            return replayed.state
    return _verify(database, release, world, progress)[1]


def _state_digest(replayed: Replayed) -> str:
    """Of the originals, of what was made of them, and of the released ids."""
    build, made = replayed.build, replayed.state
    originals = WorkingSet(build.trajectories, build.locations, made.key)
    found = hashlib.sha256((digest(originals) + replayed.digest).encode())
    found.update(made.key.tobytes())
    return found.hexdigest()


def _published_tables(database: Database, release: ReleaseRow) -> dict[Relation, Stored]:
    schema = database.settings.release_schema
    tables = tables_of(Request.of(release))
    return {relation: Stored(schema, release.name + relation.suffix) for relation in tables}


def _tables_unchanged(database: Database, release: ReleaseRow) -> bool:
    """Whether the tables are those that were verified last."""
    if release.digests is None:
        return False
    for relation, stored in _published_tables(database, release).items():
        verified = release.digests["tables"][relation.suffix]
        ends = pairwise([*(first for first, _, _ in verified), None])
        for (_, *kept), ids in zip(verified, ends, strict=True):
            if list(digest_table(database, relation, stored, ids)) != kept:
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


def compare_rows(
    database: Database,
    release: ReleaseRow,
    world: StepContext,
    replayed: Replayed,
    progress: Progress,
) -> Compared:
    """Compare the published tables with the rows of the last state."""
    rows = ReleaseRows.of(Request.of(release).method, replayed.state, world)
    with progress.stage("compare rows", rows.rows) as stage:
        found = {
            table.suffix: rows.compare(database, table, stored, rows.hashes(table), stage)
            for table, stored in _published_tables(database, release).items()
        }
    return Compared.of(replayed, rows.shown, found)


def require_same_state(replayed: Replayed, written: WorkingSet) -> None:
    """What was written is what the stored draws and logs give: its rows are theirs."""
    same_ids = np.array_equal(replayed.state.key, written.key)
    if not same_ids or replayed.digest != digest(written):
        raise VerificationFailed("what was written is not what its draws and logs give")


def require_checked(database: Database, release: ReleaseRow) -> None:
    """The server's own check: the frequencies in the published table; raises VerificationFailed."""
    for found in check_release(database, release.name):
        if not found.ok:
            raise VerificationFailed(
                f"check_release: {found.what}: expected {found.expected:,}, found {found.found:,}",
                remedy="withdraw it; if nobody changed the table, report this as a fault of freqdp",
            )
