"""The product as a library, for tests that need builds and releases rather than commands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql

import freqdp_db
from freqdp_db.dataset.building import build
from freqdp_db.dataset.registration import Registration, register
from freqdp_db.db.builds import BuildRow
from freqdp_db.db.connection import Database
from freqdp_db.db.datasets import find_dataset
from freqdp_db.db.releases import ReleaseRow
from freqdp_db.progress import Progress
from freqdp_db.release.pipeline import anonymize
from freqdp_db.release.request import JobRequest, Request
from freqdp_db.settings import Settings

METRIC_SRID = 32631
"""Tables of `make_points` are in it, so that a test's numbers are metres as they stand."""
ORIGIN_M = (500_000, 4_000_000)

Point = tuple[str, float, float, float]
"""Object, seconds, and metres east and north of the origin."""

POINTS = [(f"o{n % 8}", 60.0 * n, 37.0 * (n * 7 % 60), 53.0 * (n * 3 % 40)) for n in range(480)]
"""Eight objects with 60 samples each."""


@contextmanager
def opened(url: str, **settings: Any) -> Iterator[Database]:
    database = Database(url, Settings(dsn=url, **settings), "tests")
    try:
        yield database
    finally:
        database.close()


def load_city(url: str, *, objects: int, days: int, seed: int = 1) -> None:
    """The demo's city as demo.city."""
    with freqdp_db.connect(url) as freqdp:
        freqdp.load_city(objects=objects, days=days, seed=seed)


def make_points(url: str, table: str, points: Sequence[Point], postgis: str = "public") -> str:
    """A table world.<table> of these points."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute("CREATE SCHEMA IF NOT EXISTS world")
        names = {"table": sql.Identifier("world", table), "postgis": sql.Identifier(postgis)}
        connection.execute(
            sql.SQL(
                "CREATE TABLE {table} (object text, at timestamptz, geom {postgis}.geometry({}))"
            ).format(sql.SQL(f"Point, {METRIC_SRID}"), **names)
        )
        with connection.cursor() as cursor:
            cursor.executemany(
                sql.SQL(
                    "INSERT INTO {table} VALUES (%s, timestamptz '2024-01-01 00:00:00+00' "
                    "+ %s * interval '1 second', {postgis}.ST_SetSRID("
                    "{postgis}.ST_MakePoint(%s, %s), {srid}))"
                ).format(srid=sql.Literal(METRIC_SRID), **names),
                [(o, s, x + ORIGIN_M[0], y + ORIGIN_M[1]) for o, s, x, y in points],
            )
    return f"world.{table}"


def build_city(database: Database, name: str, snap: str) -> BuildRow:
    wanted = Registration(
        name, "demo.city", object="object_id", time="at", geom="geom", snap=snap, budget="1000"
    )
    return build(database, register(database, wanted)[0], Progress())


def build_points(database: Database, name: str, relation: str, snap: str = "exact") -> BuildRow:
    wanted = Registration(
        name, relation, object="object", time="at", geom="geom", snap=snap, budget="1000"
    )
    return build(database, register(database, wanted)[0], Progress())


def release(
    database: Database, dataset: str, name: str, method: str = "lg", **options: Any
) -> ReleaseRow:
    request = Request.parse(method, **options)
    outcome = anonymize(
        database, find_dataset(database, dataset), JobRequest(request, name), Progress()
    )
    return outcome.release
