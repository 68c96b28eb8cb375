"""Verify a release: replay its steps on the build and compare with the table, row by row."""

from __future__ import annotations

from dataclasses import dataclass

from freqdp_db.errors import BadInput
from freqdp_db.methods.contract import State, World
from freqdp_db.methods.loop import run_steps
from freqdp_db.progress import Progress
from freqdp_db.release.comparing import Relations
from freqdp_db.release.journal import ReplayJournal
from freqdp_db.release.request import Request
from freqdp_db.release.spreading import table_of
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.records.releases import ReleaseRow

_REPLAY, _COMPARE = VERIFY_STAGES = ("replay steps", "compare rows")
"""What a progress calls the two halves of the check."""


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
            remedy=f"finish it: freqdp release resume {release.name}"
            if release.state == "running"
            else f"what was taken back can no longer be {verb}",
        )


def released_relations(database: Database, name: str) -> Relations:
    schema = database.settings.release_schema
    return (schema, name), (schema, f"{name}_line")


def verify(
    database: Database,
    release: ReleaseRow,
    relations: Relations,
    world: World,
    progress: Progress,
) -> Verified:
    """After each step what it promises holds, and the last state is the table."""
    return replay(database, release, relations, world, progress)[0]


def replay(
    database: Database,
    release: ReleaseRow,
    relations: Relations,
    world: World,
    progress: Progress,
) -> tuple[Verified, State]:
    """Verify, and return what was released: with whose each sample is."""
    request = Request.of(release)
    with progress.stage(_REPLAY) as stage, database.begin(snapshot=True) as connection:
        journal = ReplayJournal(connection, database, release.release_id)
        state = run_steps(request.method, request.values, world, journal, Progress())
        stage.advance(state.samples)
    table = table_of(state, world.build)
    with progress.stage(_COMPARE, table.rows) as stage:
        table.compare(database, relations, stage)
    return Verified(table.rows, table.shown, journal.checked), state
