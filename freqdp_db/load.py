"""`freqdp load`: files, a made-up city or roads into plain tables, for people who have none yet."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from freqdp_db.db.connection import Database
from freqdp_db.db.names import format_relation, parse_relation
from freqdp_db.db.plain_tables import (
    Chunk,
    Column,
    Kind,
    Mode,
    PlainTable,
    anchors_table,
    check_target,
    copy_roads,
    load_table,
    make_anchors,
    roads_table,
)
from freqdp_db.db.source import read_name
from freqdp_db.db.source_maps import column_mapping
from freqdp_db.errors import BadInput
from freqdp_db.loading import csvfile
from freqdp_db.loading.city import City, Interest
from freqdp_db.loading.csvfile import CsvFormat
from freqdp_db.loading.files import (
    BadRows,
    SourceSamples,
    city_roads,
    counted,
    expand,
    read_roads,
)
from freqdp_db.model.documents import Document
from freqdp_db.progress import Progress


@dataclass(frozen=True)
class LoadedFiles(Document):
    """Samples of files, and how many rows could not be read and were left out, by reason."""

    table: str
    rows: int
    files: int
    skipped: dict[str, int]
    next: str

    def lines(self) -> list[str]:
        left, total = "", sum(self.skipped.values())
        if total:
            left = f" Left out {total:,} unreadable rows: {counted(self.skipped)}."
        return [
            f"{self.table}: {self.rows:,} rows from {self.files:,} file(s).{left}",
            f"Next: {self.next}",
        ]


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


@dataclass(frozen=True)
class LoadedRoads(Document):
    """A table of roads and, if asked for, one of junctions."""

    table: str
    rows: int
    left_out: int
    vertices_table: str | None
    vertices: int | None
    next: str

    def lines(self) -> list[str]:
        said = f"{self.table}: {self.rows:,} roads."
        if self.left_out:
            said += f" Left out {self.left_out:,} rows whose geometry is not one line."
        if self.vertices_table is not None:
            said += f" {self.vertices_table}: {self.vertices:,} points."
        return [said, f"Next: {self.next}"]


def mode_of(replace: bool, append: bool = False) -> Mode:
    """How a table of the user's is made."""
    if replace and append:
        raise BadInput("[[replace]] and [[append]] exclude each other", remedy="give one of them")
    return "replace" if replace else "append" if append else "create"


_FRESH_COPY = "take a fresh copy, or use `freqdp load csv --skip-bad`"


@dataclass(frozen=True)
class Loader:
    """Makes plain tables, in one transaction: with all their rows or not at all."""

    database: Database
    progress: Progress
    mode: Mode

    def csv(
        self, files: Sequence[str], layout: CsvFormat, into: str, srid: int, *, skip_bad: bool
    ) -> LoadedFiles:
        """Files, globs or folders. skip_bad: unreadable rows are left out and counted, not refused."""
        paths = expand(files, csvfile.ENDINGS)
        comment = "Trajectories from CSV files (freqdp load csv)."
        table = _samples_table(parse_relation(into, "[[into]]"), "text", comment, srid=srid)
        remedy = None if skip_bad else "correct them, or say [[skip_bad]]"
        return self._files(table, paths, layout, remedy)

    def tdrive(self, folder: str, into: str, limit: int | None, min_samples: int) -> LoadedFiles:
        """The T-Drive taxis: the first so many, those with so many rows."""
        if limit is not None and limit < 1:
            raise BadInput(f"[[limit]] {limit} leaves no taxi", remedy="give a number from 1 on")
        paths = csvfile.tdrive_files(folder, limit, min_samples)
        comment = "T-Drive taxis as published (freqdp load tdrive)."
        table = _samples_table(parse_relation(into, "[[into]]"), "int4", comment, key="taxi_id")
        return self._files(table, paths, csvfile.TDRIVE, _FRESH_COPY)

    def geolife(self, folder: str, into: str) -> LoadedFiles:
        """The GeoLife data, with altitudes."""
        paths = csvfile.geolife_files(folder)
        table = _samples_table(
            parse_relation(into, "[[into]]"),
            "text",
            "GeoLife trajectories as published (freqdp load geolife).",
            Column("altitude", "float8", "Altitude in feet; NULL where the publisher has -777."),
            key="user_id",
        )
        return self._files(table, paths, csvfile.GEOLIFE, _FRESH_COPY)

    def _files(
        self, table: PlainTable, files: Sequence[Path], layout: CsvFormat, remedy: str | None
    ) -> LoadedFiles:
        """Read and load. remedy: of unreadable rows, which are refused; None: they are left out."""
        who, bad = table.columns[0], BadRows()

        def chunks(advance: Callable[[int], None]) -> Iterator[Chunk]:
            for samples in csvfile.read_csv(files, layout, bad, advance):
                yield _sample_columns(samples, who)
            # once all files were read
            if remedy is not None:
                bad.refuse(remedy)

        size = sum(file.stat().st_size for file in files)
        with (
            self.database.begin() as session,
            self.progress.stage("load files", size, "bytes") as stage,
        ):
            check_target(session, table, self.mode)
            rows = load_table(session, table, self.mode, chunks(stage.advance))
            if not rows:
                raise BadInput("there is not one readable row in it", remedy="check the files")
        return LoadedFiles(table.label, rows, len(files), bad.counts, _dataset_add(table))

    def city(
        self, into: str, roads_into: str, poi_into: str, objects: int, days: int, seed: int
    ) -> LoadedCity:
        """A made-up city with roads and points of interest; the same seed gives the same city."""
        if seed < 0:
            raise BadInput(f"[[seed]] {seed} is negative", remedy="give a whole number from 0 on")
        city = City(objects, days, np.random.default_rng(seed))
        table = _city_table(parse_relation(into, "[[into]]"), objects, days, seed)
        roads = roads_table(
            parse_relation(roads_into, "[[roads_into]]"), f"Roads of a made-up city, seed {seed}."
        )
        poi = _poi_table(parse_relation(poi_into, "[[poi_into]]"), seed)
        if len({table.relation, roads.relation, poi.relation}) < 3:
            raise BadInput(
                "two of [[into]], [[roads_into]] and [[poi_into]] are the same",
                remedy="give three names",
            )
        dirt: dict[str, int] = {}
        with self.database.begin() as session:
            for wanted in (table, roads, poi):
                check_target(session, wanted, self.mode)
            with self.progress.stage("load roads", len(city.network.source), "roads") as stage:
                columns = [city_roads(city.network)]
                road_rows = load_table(session, roads, self.mode, columns, stage.advance)
            points = load_table(session, poi, self.mode, [_poi_columns(city.interest)])
            with self.progress.stage("make and load", objects, "objects") as stage:
                chunks = _city_rows(city, table, dirt, stage.advance)
                rows = load_table(session, table, self.mode, chunks)
        return LoadedCity(
            table.label, rows, objects, roads.label, road_rows, poi.label, points, dirt,
            _dataset_add(table),
        )  # fmt: skip

    def city_alone(self, relation: tuple[str, str], objects: int, days: int, seed: int) -> None:
        """A table like that of `city`, without its roads and points of interest."""
        city = City(objects, days, np.random.default_rng(seed))
        table = _city_table(relation, objects, days, seed)
        with (
            self.database.begin() as session,
            self.progress.stage("make and load", objects, "objects") as stage,
        ):
            load_table(session, table, self.mode, _city_rows(city, table, {}, stage.advance))

    def roads(
        self,
        into: str,
        files: Sequence[str],
        source: str | None,
        columns: Sequence[str],
        vertices_into: str | None,
        every: float | None,
    ) -> LoadedRoads:
        """Roads of two CSV files or of an edge table, whose `columns` are written `ours=theirs`."""
        if (source is None) == (not files) or (files and len(files) != 2):
            raise BadInput(
                "the roads come from two files or from one table",
                remedy="give NODES.csv EDGES.csv, or [[source]] schema.edges",
            )
        if every is not None and (vertices_into is None or not every >= 1):
            raise BadInput(
                f"[[every]] {every:g} needs [[vertices_into]] and at least 1 metre",
                remedy="say for example [[vertices_into]] demo.anchors [[every]] 50",
            )
        table = roads_table(parse_relation(into, "[[into]]"), "Road network (freqdp load roads).")
        anchors = None
        if vertices_into is not None:
            relation = parse_relation(vertices_into, "[[vertices_into]]")
            anchors = anchors_table(relation, table.relation)
            if relation == table.relation:
                raise BadInput(
                    "[[into]] and [[vertices_into]] are the same", remedy="give two names"
                )
        left_out, points = 0, None
        with self.database.begin() as session:
            for wanted in (table, anchors):
                if wanted is not None:
                    check_target(session, wanted, self.mode)
            with self.progress.stage("load roads", unit="roads") as stage:
                if source is not None:
                    origin = read_name(session, source, "[[source]]")
                    if origin == table.relation:
                        raise BadInput(
                            "[[source]] and [[into]] are the same", remedy="give two names"
                        )
                    mapping = column_mapping(columns)
                    rows, left_out = copy_roads(session, table, self.mode, origin, mapping)
                    stage.advance(rows)
                else:
                    roads = [read_roads(*map(Path, files))]
                    rows = load_table(session, table, self.mode, roads, stage.advance)
            if not rows:
                raise BadInput("there is not one road in it", remedy="check the files or the table")
            if anchors is not None:
                with self.progress.stage("make anchors", unit="points") as stage:
                    points = make_anchors(session, anchors, self.mode, table.relation, every)
                    stage.advance(points)
        following = f"freqdp evaluate RELEASE --roads {shlex.quote(table.label)}"
        if anchors is not None:
            following = (
                f"freqdp dataset add NAME ... --snap {shlex.quote('anchors:' + anchors.label)}"
            )
        return LoadedRoads(
            table.label, rows, left_out, anchors.label if anchors else None, points, following
        )


def _samples_table(
    relation: tuple[str, str],
    kind: Kind,
    comment: str,
    *more: Column,
    key: str = "object_id",
    srid: int = 4326,
) -> PlainTable:
    """Samples with these columns besides who, when and where."""
    columns = (
        Column(key, kind, "Who or what moved."),
        Column("at", "timestamptz", "When it was there."),
        Column("geom", "point", f"Where it was, as reported (SRID {srid})."),
        *more,
    )
    return PlainTable(relation, columns, comment, srid)


def _sample_columns(samples: SourceSamples, who: Column) -> Chunk:
    """Rows of such a table; who: the column that says who moved."""
    objects = samples.object_id.astype(np.int32) if who.kind == "int4" else samples.object_id
    point = np.column_stack([samples.x, samples.y])
    return {who.name: objects, "at": samples.at_us, "geom": point, **samples.extra}


def _dataset_add(table: PlainTable) -> str:
    """The command that registers it."""
    key = table.columns[0].name
    name = re.sub(r"[^a-z0-9]+", "_", table.relation[1].lower()).strip("_") or "mine"
    relation = shlex.quote(format_relation(*table.relation))
    return f"freqdp dataset add {name} --from {relation} --object {key} --time at --geom geom"


def _city_table(relation: tuple[str, str], objects: int, days: int, seed: int) -> PlainTable:
    return _samples_table(
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


def _city_rows(
    city: City, table: PlainTable, dirt: dict[str, int], advance: Callable[[int], None]
) -> Iterator[Chunk]:
    """The samples; counts what was soiled on purpose."""
    for chunk in city.chunks():
        for reason, count in chunk.dirt.items():
            dirt[reason] = dirt.get(reason, 0) + count
        yield _sample_columns(chunk.samples, table.columns[0])
        advance(chunk.objects)
