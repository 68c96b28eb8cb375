"""A made-up city into plain tables, for people who have no data yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from freqdp_db.documents import Document
from freqdp_db.errors import BadInput
from freqdp_db.interface.connecting import Connection, mode_of, reached, working
from freqdp_db.interface.sample_tables import dataset_add, sample_columns, samples_table
from freqdp_db.loading import roadfile
from freqdp_db.loading.city import City
from freqdp_db.loading.files import counted
from freqdp_db.loading.interest import Interest
from freqdp_db.progress import Progress
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.connection.names import parse_relation
from freqdp_db.storage.source import road_tables
from freqdp_db.storage.source.plain_tables import (
    Chunk,
    Column,
    PlainTable,
    check_target,
    load_table,
)


@dataclass(frozen=True)
class LoadedCity(Document):
    """A made-up city: its samples, its roads and its points of interest."""

    table: str
    rows: int
    objects: int
    roads_table: str
    roads: int
    poi_table: str
    points: int
    unusable: dict[str, int]
    next: str

    def lines(self) -> list[str]:
        return [
            f"{self.table} has {self.rows:,} rows of {self.objects:,} objects, {self.roads_table} has "
            f"{self.roads:,} roads, {self.poi_table} has {self.points:,} points of interest. "
            f"{sum(self.unusable.values()):,} rows are unusable on purpose "
            f"({counted(self.unusable)}): the build will leave them out and say so.",
            f"Next: {self.next}",
        ]


def load_city(
    connection: Connection = None,
    into: str = "demo.city",
    roads_into: str = "demo.roads",
    poi_into: str = "demo.poi",
    *,
    objects: int = 200,
    days: int = 7,
    seed: int = 1,
    replace: bool = False,
    progress: Progress | None = None,
) -> LoadedCity:
    """Make up a city: roads, points of interest, and people and taxis that move.

    The same seed gives the same city.
    """
    if seed < 0:
        raise BadInput(f"--seed {seed} is negative", remedy="give a whole number from 0 on")
    city = City(objects, days, np.random.default_rng(seed))
    table = _city_table(parse_relation(into, "--into"), objects, days, seed)
    roads = road_tables.roads_table(
        parse_relation(roads_into, "--roads-into"), f"Roads of a made-up city, seed {seed}."
    )
    poi = _poi_table(parse_relation(poi_into, "--poi-into"), seed)
    if len({table.relation, roads.relation, poi.relation}) < 3:
        raise BadInput(
            "two of --into, --roads-into and --poi-into are the same", remedy="give three names"
        )
    mode, shown = mode_of(replace), working(progress)
    dirt: dict[str, int] = {}
    with reached(connection, check_schema=False) as database, database.begin() as session:
        for wanted in (table, roads, poi):
            check_target(session, database.settings, wanted, mode)
        with shown.stage("load roads", len(city.network.source), "roads") as stage:
            lines = (road.row() for road in roadfile.city_roads(city.network))
            road_rows = road_tables.load_roads(
                session, database.settings, roads, mode, lines, stage.advance
            )
        points = load_table(session, database.settings, poi, mode, [_poi_columns(city.interest)])
        with shown.stage("make and load", objects, "objects") as stage:
            chunks = _city_rows(city, dirt, stage.advance)
            rows = load_table(session, database.settings, table, mode, chunks)
    return LoadedCity(
        table.label, rows, objects, roads.label, road_rows, poi.label, points, dirt,
        dataset_add(table),
    )  # fmt: skip


def make_city(
    database: Database,
    relation: tuple[str, str],
    objects: int,
    days: int,
    seed: int,
    progress: Progress,
) -> None:
    """A table like that of `load_city`, without its roads and points of interest."""
    city = City(objects, days, np.random.default_rng(seed))
    table = _city_table(relation, objects, days, seed)
    with (
        database.begin() as session,
        progress.stage("make and load", objects, "objects") as stage,
    ):
        chunks = _city_rows(city, {}, stage.advance)
        load_table(session, database.settings, table, "create", chunks)


def _city_table(relation: tuple[str, str], objects: int, days: int, seed: int) -> PlainTable:
    return samples_table(
        relation,
        "text",
        f"Made-up trajectories of {objects:,} objects over {days} days (freqdp load demo, "
        f"seed {seed}). Nobody's data.",
        Column("speed_kmh", "float8", "Speed as the device reports it."),
    )


def _poi_table(relation: tuple[str, str], seed: int) -> PlainTable:
    columns = (
        Column("id", "int8", "Number of the point."),
        Column("category", "text", "What there is."),
        Column("geom", "point", "Where it is, WGS 84."),
    )
    comment = f"Points of interest of a made-up city, seed {seed}."
    return PlainTable(relation, columns, comment, key="id")


def _poi_columns(found: Interest) -> Chunk:
    return {
        "id": np.arange(1, len(found.lon) + 1),
        "category": found.category,
        "geom": np.column_stack([found.lon, found.lat]),
    }


def _city_rows(city: City, dirt: dict[str, int], advance: Callable[[int], None]) -> Iterator[Chunk]:
    """The samples; counts what was soiled on purpose."""
    for chunk in city.chunks():
        for reason, count in chunk.dirt.items():
            dirt[reason] = dirt.get(reason, 0) + count
        yield sample_columns(chunk.samples, "object_id")
        advance(chunk.objects)
