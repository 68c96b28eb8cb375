"""Verify a release: replay its steps on the build and compare with the table, row by row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from freqdp_db.errors import BadInput, VerificationFailed
from freqdp_db.methods.contract import State, World
from freqdp_db.methods.loop import run_steps
from freqdp_db.progress import Progress
from freqdp_db.release.journal import ReplayJournal
from freqdp_db.release.request import Request
from freqdp_db.release.table import ReleasedTable
from freqdp_db.storage.connection.engine import Connection, Database
from freqdp_db.storage.published.relations import columns_of, table_bytes
from freqdp_db.storage.records.releases import ReleaseRow

_REPLAY, _COMPARE = VERIFY_STAGES = ("replay steps", "compare rows")
"""What a progress calls the two halves of the check."""
Relations = tuple[tuple[str, str], tuple[str, str]]
"""The table of samples and the table of lines, each as (schema, name)."""


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
    table = ReleasedTable.of(state, world.build)
    points, lines = relations
    with progress.stage(_COMPARE, table.rows) as stage, database.begin(snapshot=True) as c:
        for advanced in _compare(
            c,
            points,
            table.layout.names,
            ["trajectory_id", "seq"],
            (chunk.view(np.uint8) for chunk in table.points()),
        ):
            stage.advance(advanced // table.layout.dtype.itemsize)
        by_day = "day" in columns_of(c, lines)
        key = ["trajectory_id", "day"] if by_day else ["trajectory_id"]
        drawn = (np.frombuffer(chunk, np.uint8) for chunk in table.lines(by_day=by_day))
        for _ in _compare(c, lines, [*key, "geom"], key, drawn):
            pass
    return Verified(table.rows, len(table.order), journal.checked), state


def _compare(
    connection: Connection,
    relation: tuple[str, str],
    columns: list[str],
    order: list[str],
    expected: Iterator[NDArray[np.uint8]],
) -> Iterator[int]:
    """Compare a table with the bytes that COPY would send for the expected rows."""
    found = table_bytes(connection, relation, columns, order)
    left = right = np.zeros(0, np.uint8)
    while True:
        left = left if len(left) else next(found, left)
        right = right if len(right) else next(expected, right)
        size = min(len(left), len(right))
        if size == 0 and len(left) == len(right):
            return
        if size == 0 or not np.array_equal(left[:size], right[:size]):
            found.close()
            raise VerificationFailed(
                f"{relation[0]}.{relation[1]} does not hold the rows that its edit log gives",
                remedy="withdraw it; if nobody changed the table, report this as a fault of freqdp",
            )
        left, right = left[size:], right[size:]
        yield size
