"""The copy floor: what it costs to read a build's samples and to write as many released rows.

The same client code and the same server settings as the product uses; nothing is computed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from freqdp_db.columns.trajectories import Trajectories
from freqdp_db.storage.connection.engine import Database, driver
from freqdp_db.storage.connection.statements import call, one_value, own
from freqdp_db.storage.copy.layout import POINTS, point_bytes, write_records
from freqdp_db.storage.records.builds import find_build, load_locations, load_trajectories

_CHUNK = 1 << 17
_RELEASE = 0
"""There is none of this number: its staging tables are free."""
_METHOD, _SAMPLES = "lg", ""
"""A method that releases trajectories, and its table of samples."""


@dataclass(frozen=True)
class CopyFloor:
    """Seconds of each part; their sum is the floor."""

    read_s: float
    write_s: float
    primary_key_s: float
    gist_s: float
    time_index_s: float

    @property
    def total_s(self) -> float:
        return self.read_s + self.write_s + self.primary_key_s + self.gist_s + self.time_index_s


def measure_floor(database: Database, build_id: int) -> CopyFloor:
    """Copy a build out and back in, as a table like a release; drop it again."""
    relation = own(database, f"staging_{_RELEASE}{_SAMPLES}")
    build = find_build(database, build_id)
    with database.begin(snapshot=True) as connection:
        places = load_locations(connection, database, build)
        geometry = point_bytes(*places.in_source(), build.source_srid)
        # once without the clock: the first reader of fresh rows writes to them (hint bits)
        load_trajectories(connection, database, build)
        start = time.perf_counter()
        trajectories = load_trajectories(connection, database, build)
        read_s = time.perf_counter() - start

    def write() -> None:
        with database.begin() as connection:
            about = (_RELEASE, _METHOD, _SAMPLES, build.source_srid)
            call(connection, database, "create_staging", *about)
            rows = _rows(trajectories, geometry)
            write_records(driver(connection), relation, POINTS.names, rows, created_here=True)

    def run(function: str, *arguments: str | None) -> Callable[[], None]:
        def execute() -> None:
            with database.begin() as connection:
                call(connection, database, function, _RELEASE, *arguments)

        return execute

    try:
        return CopyFloor(
            read_s,
            _seconds(write),
            _seconds(run("index_staging", _METHOD, _SAMPLES, None)),
            _seconds(run("index_staging", _METHOD, _SAMPLES, "geom")),
            _seconds(run("index_staging", _METHOD, _SAMPLES, "at")),
        )
    finally:
        run("drop_staging")()


def _seconds(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _rows(trajectories: Trajectories, geometry: NDArray[np.void]) -> Iterator[NDArray[Any]]:
    owner = trajectories.owner
    for begin in range(0, trajectories.samples, _CHUNK):
        part = slice(begin, begin + _CHUNK)
        mine = owner[part]
        yield POINTS.pack(
            trajectory_id=mine,
            seq=np.arange(begin, begin + len(mine)) - trajectories.offsets[mine] + 1,
            at=trajectories.at[part],
            geom=geometry[trajectories.location[part]],
        )


def copy_objects(
    database: Database,
    source: tuple[str, str],
    object_column: str,
    target: tuple[str, str],
    objects: int,
    seed: int,
) -> int:
    """A table with all rows of so many random objects of a relation; returns how many it has."""
    column = sql.Identifier(object_column)
    with database.begin() as connection:
        raw = driver(connection)
        raw.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(target[0])))
        raw.execute("SELECT setseed(%s)", [(seed % 1000) / 1000])
        raw.execute(
            sql.SQL(
                "CREATE TABLE {t} AS SELECT s.* FROM {s} s WHERE s.{c} IN ("
                "SELECT o FROM (SELECT DISTINCT {c} AS o FROM {s} WHERE {c} IS NOT NULL ORDER BY 1) d "
                "ORDER BY random() LIMIT {n})"
            ).format(
                t=sql.Identifier(*target),
                s=sql.Identifier(*source),
                c=column,
                n=sql.Literal(objects),
            )
        )
    # the first reader of fresh rows writes to them (hint bits): not the build that is to be measured
    with database.begin() as connection:
        count = sql.SQL("SELECT count(DISTINCT {}) FROM {}")
        return int(one_value(connection, count.format(column, sql.Identifier(*target))))


def drop_schemas(database: Database, *others: str) -> None:
    """Remove the schemas of a throwaway installation, and all that is in them."""
    with database.begin() as connection:
        for schema in (database.settings.release_schema, database.settings.schema, *others):
            driver(connection).execute(
                sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema))
            )
