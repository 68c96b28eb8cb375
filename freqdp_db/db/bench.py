"""The copy floor: what it costs to read a build's samples and to write as many released rows.

The same client code and the same server settings as the product uses; nothing is computed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from freqdp_db.db.builds import find_build, load_locations, load_trajectories
from freqdp_db.db.connection import Connection, Database
from freqdp_db.db.copy import POINTS, Layout, line_bytes, point_bytes, write_records
from freqdp_db.model.arrays import Ids, Ints, Metres
from freqdp_db.model.trajectories import Trajectories

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
    build = find_build(database, build_id)
    with database.begin(snapshot=True) as connection:
        places, _ = load_locations(connection, build)
        geometry = point_bytes(*places.in_source(), build.source_srid)
        # once without the clock: the first reader of fresh rows writes to them (hint bits)
        load_trajectories(connection, build)
        start = time.perf_counter()
        trajectories = load_trajectories(connection, build)
        read_s = time.perf_counter() - start

    def write() -> None:
        with database.begin() as connection:
            about = (_RELEASE, _METHOD, _SAMPLES, build.source_srid)
            connection.call("create_staging", *about)
            rows = _rows(trajectories, geometry)
            relation = connection.private_name(f"staging_{_RELEASE}{_SAMPLES}")
            write_records(connection.driver, relation, POINTS.names, rows, created_here=True)

    def index(column: str | None) -> Callable[[], object]:
        return lambda: database.call("index_staging", _RELEASE, _METHOD, _SAMPLES, column)

    try:
        return CopyFloor(
            read_s,
            _seconds(write),
            _seconds(index(None)),
            _seconds(index("geom")),
            _seconds(index("sampled_at")),
        )
    finally:
        database.call("drop_staging", _RELEASE)


def _seconds(work: Callable[[], object]) -> float:
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
            sampled_at=trajectories.at[part],
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
    parts: dict[str, Any] = {
        "target_schema": sql.Identifier(target[0]),
        "target": sql.Identifier(*target),
        "source": sql.Identifier(*source),
        "object": sql.Identifier(object_column),
    }
    with database.begin() as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS {target_schema}", **parts)
        connection.execute("SELECT setseed(%s)", [(seed % 1000) / 1000])
        connection.execute(
            "CREATE TABLE {target} AS SELECT s.* FROM {source} s WHERE s.{object} IN ("
            "SELECT o FROM (SELECT DISTINCT {object} AS o FROM {source} WHERE {object} IS NOT NULL "
            "ORDER BY 1) d ORDER BY random() LIMIT {objects})",
            objects=objects,
            **parts,
        )
    # the first reader of fresh rows writes to them (hint bits): not the build that is to be measured
    return int(database.one_value("SELECT count(DISTINCT {object}) FROM {target}", **parts))


def drop_schemas(database: Database, *others: str) -> None:
    """Remove the schemas of a throwaway installation, and all that is in them."""
    with database.begin() as connection:
        for schema in (connection.release_schema, connection.schema, *others):
            named = sql.Identifier(schema)
            connection.execute("DROP SCHEMA IF EXISTS {named} CASCADE", named=named)


# PostGIS's own nearest neighbours (`<->` over a GiST index), to compare the search with.


_TABLE = "freqdp_bench_segment"
_ROWS = Layout("trajectory int4, place int4, geom line")
_FIRST_FETCH = 128
_BEYOND_M = 0.002
"""Losses are in whole millimetres: segments so much further than the K-th cannot tie with it."""


class GistIndex:
    """Segments in a temporary table with a GiST index."""

    def __init__(self, connection: Connection, seconds: float) -> None:
        self._connection = connection
        self.build_s = seconds
        size = "SELECT pg_total_relation_size(%s::regclass)"
        self.bytes = int(connection.one_value(size, [f"pg_temp.{_TABLE}"]))

    def nearest(self, x: float, y: float, k: int, skip: Ids) -> Ints:
        """Numbers of the segments that decide the K nearest trajectories.

        A cursor in order of distance, read until K trajectories were met and no later segment can
        tie with them.
        """
        self._connection.execute(
            "DECLARE nearest NO SCROLL CURSOR FOR SELECT s.place, s.trajectory, s.geom "
            "OPERATOR({schema}.<->) {st_makepoint}({x}, {y}) FROM pg_temp.{segments} s "
            "WHERE s.trajectory <> ALL ({skip}::int[]) "
            "ORDER BY s.geom OPERATOR({schema}.<->) {st_makepoint}({x}, {y})",
            schema=sql.Identifier(self._connection.postgis),
            segments=sql.Identifier(_TABLE),
            x=sql.SQL("{}::float8").format(x),
            y=sql.SQL("{}::float8").format(y),
            skip=sql.Literal(skip.tolist()),
        )
        places: list[int] = []
        met: set[int] = set()
        limit, wanted = np.inf, max(_FIRST_FETCH, 2 * k)
        while True:
            fetch = self._connection.execute("FETCH {wanted} FROM nearest", wanted=wanted)
            rows = fetch.fetchall()
            for place, trajectory, distance in rows:
                if distance > limit:
                    break
                places.append(place)
                met.add(trajectory)
                if len(met) == k and limit == np.inf:
                    limit = distance + _BEYOND_M
            if len(rows) < wanted or rows[-1][2] > limit:
                break
            wanted *= 2
        self._connection.execute("CLOSE nearest")
        return np.array(places, np.int64)


@contextmanager
def gist_index(database: Database, trajectory: Ids, ends: Metres) -> Iterator[GistIndex]:
    """Write the segments (ends: ax, ay, bx, by of each) and index them; gone with the session."""
    with database.begin() as connection:
        target = sql.Identifier("pg_temp", _TABLE)
        start = time.perf_counter()
        connection.execute(
            "CREATE TEMPORARY TABLE {table} (trajectory int4, place int4, geom {geometry}) ON COMMIT DROP",
            table=sql.Identifier(_TABLE),
        )
        write_records(connection.driver, target, _ROWS.names, _records(trajectory, ends))
        connection.execute("CREATE INDEX ON {target} USING gist (geom)", target=target)
        connection.execute("ANALYZE {target}", target=target)
        seconds = time.perf_counter() - start
        # the plan that the comparison is about: along the index, no sort of everything
        for setting in ("enable_seqscan", "enable_sort", "jit"):
            connection.execute("SET LOCAL {setting} = off", setting=sql.Identifier(setting))
        yield GistIndex(connection, seconds)


def _records(trajectory: Ids, ends: Metres) -> Iterator[np.typing.NDArray[np.void]]:
    for begin in range(0, len(trajectory), _CHUNK):
        part = slice(begin, begin + _CHUNK)
        size = len(trajectory[part])
        yield _ROWS.pack(
            trajectory=trajectory[part],
            place=np.arange(begin, begin + size, dtype=np.int32),
            geom=line_bytes(ends[part], 0),
        )
