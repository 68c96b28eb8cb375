"""PostGIS's own nearest neighbours (`<->` over a GiST index), to compare the search with."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from psycopg import sql

from freqdp_db.columns.arrays import Ids, Ints, Metres
from freqdp_db.storage.connection.engine import Connection, Database, driver
from freqdp_db.storage.connection.postgis import postgis_schema
from freqdp_db.storage.connection.statements import one_value
from freqdp_db.storage.copy.layout import Layout, line_bytes, write_records

_TABLE = "freqdp_bench_segment"
_ROWS = Layout([("trajectory", "int4"), ("place", "int4"), ("geom", "line")])
_CHUNK = 1 << 17
_FIRST_FETCH = 128
_BEYOND_M = 0.002
"""Losses are in whole millimetres: segments so much further than the K-th cannot tie with it."""


class GistIndex:
    """Segments in a temporary table with a GiST index."""

    def __init__(self, connection: Connection, postgis: str, seconds: float) -> None:
        self._raw = driver(connection)
        self._postgis = postgis
        self.build_s = seconds
        size = "SELECT pg_total_relation_size(%s::regclass)"
        self.bytes = int(one_value(connection, size, [f"pg_temp.{_TABLE}"]))

    def nearest(self, x: float, y: float, k: int, skip: Ids) -> Ints:
        """Numbers of the segments that decide the K nearest trajectories.

        A cursor in order of distance, read until K trajectories were met and no later segment can
        tie with them.
        """
        statement = sql.SQL(
            "DECLARE nearest NO SCROLL CURSOR FOR SELECT s.place, s.trajectory, s.geom "
            "OPERATOR({g}.<->) {g}.ST_MakePoint({x}, {y}) FROM pg_temp.{t} s "
            "WHERE s.trajectory <> ALL ({skip}::int[]) "
            "ORDER BY s.geom OPERATOR({g}.<->) {g}.ST_MakePoint({x}, {y})"
        ).format(
            g=sql.Identifier(self._postgis),
            t=sql.Identifier(_TABLE),
            x=sql.SQL("{}::float8").format(x),
            y=sql.SQL("{}::float8").format(y),
            skip=sql.Literal(skip.tolist()),
        )
        self._raw.execute(statement)
        places: list[int] = []
        met: set[int] = set()
        limit, wanted = np.inf, max(_FIRST_FETCH, 2 * k)
        while True:
            rows = self._raw.execute(
                sql.SQL("FETCH {} FROM nearest").format(sql.Literal(wanted))
            ).fetchall()
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
        self._raw.execute("CLOSE nearest")
        return np.array(places, np.int64)


@contextmanager
def gist_index(database: Database, trajectory: Ids, ends: Metres) -> Iterator[GistIndex]:
    """Write the segments (ends: ax, ay, bx, by of each) and index them; gone with the session."""
    with database.begin() as connection:
        raw = driver(connection)
        postgis = postgis_schema(connection)
        start = time.perf_counter()
        raw.execute(
            sql.SQL(
                "CREATE TEMPORARY TABLE {} (trajectory int4, place int4, geom {}) ON COMMIT DROP"
            ).format(sql.Identifier(_TABLE), sql.Identifier(postgis, "geometry"))
        )
        target = sql.Identifier("pg_temp", _TABLE)
        write_records(raw, target, _ROWS.names, _records(trajectory, ends))
        raw.execute(sql.SQL("CREATE INDEX ON {} USING gist (geom)").format(target))
        raw.execute(sql.SQL("ANALYZE {}").format(target))
        seconds = time.perf_counter() - start
        # the plan that the comparison is about: along the index, no sort of everything
        for setting in ("enable_seqscan", "enable_sort", "jit"):
            raw.execute(sql.SQL("SET LOCAL {} = off").format(sql.Identifier(setting)))
        yield GistIndex(connection, postgis, seconds)


def _records(trajectory: Ids, ends: Metres) -> Iterator[np.typing.NDArray[np.void]]:
    for begin in range(0, len(trajectory), _CHUNK):
        part = slice(begin, begin + _CHUNK)
        size = len(trajectory[part])
        yield _ROWS.pack(
            trajectory=trajectory[part],
            place=np.arange(begin, begin + size, dtype=np.int32),
            geom=line_bytes(ends[part], 0),
        )
