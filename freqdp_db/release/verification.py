"""Verify a release: replay its steps on the build and compare with the table, row by row."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from freqdp_db.errors import BadInput, NotReplayable, VerificationFailed
from freqdp_db.methods.contract import State, World
from freqdp_db.methods.loop import run_steps
from freqdp_db.progress import Progress, Within
from freqdp_db.release.comparing import Relations
from freqdp_db.release.journal import ReplayJournal
from freqdp_db.release.request import Request
from freqdp_db.release.spreading import DistributedTable, table_of
from freqdp_db.release.table import ReleasedTable
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.published.relations import count_rows
from freqdp_db.storage.published.staging import staging_names
from freqdp_db.storage.records.releases import ReleaseRow, list_steps


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


def require_published(release: ReleaseRow, verb: str) -> None:
    if release.state != "published":
        raise BadInput(
            f"release {release.name!r} is {release.state}, not published",
            remedy=f"finish it: freqdp release resume {shlex.quote(release.name)}"
            if release.state == "running"
            else f"what was taken back can no longer be {verb}",
        )


def released_relations(database: Database, name: str) -> Relations:
    schema = database.settings.release_schema
    return Relations((schema, name), (schema, f"{name}_line"))


def staged_relations(database: Database, release_id: int, lines: Callable[[], Any]) -> Relations:
    """Of a release that is being made; its indexes may be in the making, too."""
    schema = database.settings.schema
    points, line_name, _ = staging_names(release_id)
    return Relations((schema, points), (schema, line_name), lines, in_order=True)


def verify(
    database: Database,
    release: ReleaseRow,
    relations: Relations,
    world: World,
    progress: Progress,
) -> Verified:
    return replay(database, release, relations, world, progress)[0]


def replay(
    database: Database,
    release: ReleaseRow,
    relations: Relations,
    world: World,
    progress: Progress,
) -> tuple[Verified, State]:
    """Verify, and return what was released: with whose each sample is."""
    _require_replayable(database, release, relations)
    replayed = replay_steps(database, release, world, progress)
    return compare_rows(database, replayed, relations, progress), replayed.state


def _require_replayable(database: Database, release: ReleaseRow, relations: Relations) -> None:
    """Refuse a release of an earlier version that this one cannot replay; count its rows at least."""
    steps = Request.of(release).method.steps
    with database.begin(snapshot=True) as connection:
        drawn_by = {step.software for step in list_steps(connection, database, release.release_id)}
        earlier = sorted(drawn_by & {v for step in steps for v in step.not_replayable})
        if not earlier:
            return
        rows = count_rows(connection, relations.points)
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


@dataclass(frozen=True)
class Replayed:
    """What the stored draws and logs give, each step checked on the way."""

    state: State
    table: ReleasedTable | DistributedTable
    checked: dict[str, int]


def replay_steps(
    database: Database, release: ReleaseRow, world: World, progress: Progress
) -> Replayed:
    """After each step what it promises holds."""
    request = Request.of(release)
    samples = world.build.trajectories.samples
    with (
        progress.stage("replay steps", samples) as stage,
        database.begin(snapshot=True) as connection,
    ):
        journal = ReplayJournal(connection, database, release.release_id)
        shown = Within(stage, samples, 2 * len(request.method.steps))
        state = run_steps(request.method, request.values, world, journal, shown)
    return Replayed(state, table_of(state, world.build), journal.checked)


def compare_rows(
    database: Database, replayed: Replayed, relations: Relations, progress: Progress
) -> Verified:
    """The last state is the table."""
    table = replayed.table
    with progress.stage("compare rows", table.rows) as stage:
        table.compare(database, relations, stage)
    return Verified(table.rows, table.shown, replayed.checked)
