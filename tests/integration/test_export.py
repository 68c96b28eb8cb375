"""`release export`: every format gives the table's rows exactly, with the guarantee beside them."""

from __future__ import annotations

import csv
import errno
import hashlib
import json
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pyogrio
import pyproj
import pytest
from library import opened, release
from psycopg import sql
from servers import clone_of, filled_once
from world import as_role, query, value

import freqdp_db
from freqdp_db.dataset.building import build
from freqdp_db.dataset.registration import Registration, register
from freqdp_db.db.connection import Database
from freqdp_db.db.copy import POINTS
from freqdp_db.db.published import ReleaseReader
from freqdp_db.errors import BadInput, FreqdpError, VerificationFailed
from freqdp_db.methods.registry import find_method
from freqdp_db.progress import Progress
from freqdp_db.release.export.exporting import export_release
from freqdp_db.release.export.formats import FORMATS
from freqdp_db.settings import Settings

Row = tuple[int, int, datetime, float, float]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
OWN_SRID = 990001
"""A system that no authority knows: a transverse Mercator on a meridian of its own."""

RELEASES = {
    # name: source, whether its times have fractions of a second
    "degrees": ("world.degrees", True),
    "metres": ("world.metres", False),
    'odd "name" é': ("world.own", False),
}


class Notes(Progress):
    def __init__(self) -> None:
        super().__init__()
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def _release(url: str) -> None:
    """A release in each kind of reference system, and a seeded one."""
    _make_world(url)
    with opened(url) as database:
        for name, (source, _) in RELEASES.items():
            _build(database, name, source)
            release(database, name, name, signature=3)
        release(database, "metres", "seeded", signature=3, seed=1)


exported_db = filled_once("exported", _release)
url = clone_of("exported_db", scope="module")


def _make_world(url: str) -> None:
    """Three tables of the same walks: in degrees, in metres, and in a system of one's own."""
    walk = np.random.default_rng(5)
    rows = []
    for number in range(12):
        steps = 1 if number == 0 else 40
        x, y = 4.35 + 0.02 * walk.standard_normal((2, steps)).cumsum(axis=1) / 10
        seconds = np.cumsum(walk.integers(20, 90, steps))
        fractions = walk.integers(0, 10**6, steps)
        rows += [
            (f"object {number}", int(s), int(f), float(a), float(b) + 46.5)
            for s, f, a, b in zip(seconds, fractions, x, y, strict=True)
        ]
    own = "+proj=tmerc +lon_0=4.1 +k=0.9999 +x_0=0 +datum=WGS84 +units=m +no_defs"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO spatial_ref_sys (srid, srtext, proj4text) VALUES (%s, %s, %s)",
            (OWN_SRID, pyproj.CRS.from_proj4(own).to_wkt("WKT1_GDAL"), own),
        )
        connection.execute("CREATE SCHEMA world")
        connection.execute(
            "CREATE TABLE world.walk (who text, second int, us int, lon float8, lat float8)"
        )
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO world.walk VALUES (%s, %s, %s, %s, %s)", rows)
        for name, srid, unit in (("degrees", 4326, 1), ("metres", 32631, 0), ("own", OWN_SRID, 0)):
            connection.execute(
                sql.SQL(
                    "CREATE TABLE {} AS SELECT who, timestamptz '2024-03-01 08:00:00+00' "
                    "+ second * interval '1 s' + {} * us * interval '1 us' AS at, "
                    "ST_Transform(ST_SetSRID(ST_MakePoint(lon, lat), 4326), {}) AS geom "
                    "FROM world.walk"
                ).format(sql.Identifier("world", name), sql.Literal(unit), sql.Literal(srid))
            )


def _build(database: Database, name: str, source: str) -> None:
    wanted = Registration(
        name, source, object="who", time="at", geom="geom", snap="grid:50", budget="100"
    )
    build(database, register(database, wanted)[0], Progress())


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    with opened(url) as found:
        yield found


@dataclass(frozen=True)
class Table:
    """What the release's tables hold, asked in SQL."""

    rows: list[Row]
    lines: dict[tuple[int, str], list[tuple[float, float, float]]]
    srid: int


def _table(url: str, name: str) -> Table:
    points, lines = (sql.Identifier("freqdp_release", n) for n in (name, f"{name}_line"))
    with psycopg.connect(url) as connection:
        connection.execute("SET timezone = 'UTC'")
        rows = connection.execute(
            sql.SQL(
                "SELECT trajectory_id, seq, sampled_at, ST_X(geom), ST_Y(geom) FROM {} ORDER BY 1, 2"
            ).format(points)
        ).fetchall()
        dumped = connection.execute(
            sql.SQL(
                "SELECT trajectory_id, day::text, ST_X(d.geom), ST_Y(d.geom), ST_M(d.geom) "
                "FROM {}, LATERAL ST_DumpPoints(geom) AS d ORDER BY trajectory_id, day, d.path"
            ).format(lines)
        ).fetchall()
        srid = connection.execute(
            sql.SQL("SELECT ST_SRID(geom) FROM {} LIMIT 1").format(points)
        ).fetchone()
    assert srid is not None
    found: dict[tuple[int, str], list[tuple[float, float, float]]] = {}
    for trajectory_id, day, x, y, m in dumped:
        found.setdefault((trajectory_id, day), []).append((x, y, m))
    return Table(rows, found, srid[0])


def _export(
    database: Database, name: str, format_name: str, out: Path, **options: Any
) -> tuple[Path, ...]:
    exported = export_release(database, name, format_name, out, Notes(), **options)
    assert all(f.exists() for f in exported.files)
    return exported.files


@pytest.fixture(autouse=True)
def many_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small chunks, so that a file is put together from several."""
    monkeypatch.setattr("freqdp_db.db.copy.BLOCK", 100 * POINTS.dtype.itemsize)


@pytest.mark.parametrize("name", RELEASES)
def test_csv_has_the_rows(database: Database, url: str, name: str, tmp_path: Path) -> None:
    table, fractions = _table(url, name), RELEASES[name][1]
    path, *_ = _export(database, name, "csv", tmp_path / "out.csv")
    with path.open(newline="", encoding="utf-8") as file:
        header, *lines = csv.reader(file)
    places = ["lon", "lat"] if table.srid == 4326 else ["x", "y"]
    assert header == ["trajectory_id", "seq", "sampled_at", *places]
    assert {len(line[2]) for line in lines} == {27 if fractions else 20}
    assert all(line[2].endswith("Z") and line[2][10] == "T" for line in lines)
    rows = [
        (int(i), int(s), datetime.fromisoformat(at), float(x), float(y)) for i, s, at, x, y in lines
    ]
    assert rows == table.rows


@pytest.mark.parametrize("name", RELEASES)
def test_geoparquet_has_the_rows(database: Database, url: str, name: str, tmp_path: Path) -> None:
    table = _table(url, name)
    path, *_ = _export(database, name, "geoparquet", tmp_path / "out.parquet")
    file = pq.ParquetFile(path)
    assert file.metadata.num_row_groups > 1
    assert file.schema_arrow.field("sampled_at").type == pa.timestamp("us", tz="UTC")
    columns = [
        file.read()[c].to_pylist() for c in ("trajectory_id", "seq", "sampled_at", "geometry")
    ]
    rows = [(i, s, at, *_point(wkb)) for i, s, at, wkb in zip(*columns, strict=True)]
    assert sorted(rows) == table.rows
    boxes = file.read()["bbox"].to_pylist()
    assert [(b["xmin"], b["ymin"], b["xmax"], b["ymax"]) for b in boxes] == [
        (x, y, x, y) for *_, x, y in rows
    ]
    (ordered,) = query(
        url,
        "SELECT array_agg((trajectory_id, seq)::text ORDER BY (sampled_at AT TIME ZONE 'UTC')::date, geom, "
        f'trajectory_id, seq) FROM freqdp_release."{name.replace(chr(34), chr(34) * 2)}"',
    )
    assert [f"({i},{s})" for i, s, *_ in rows] == ordered[0], "by day, then along the Hilbert curve"
    geo = json.loads(file.schema_arrow.metadata[b"geo"])
    column = geo["columns"]["geometry"]
    assert (geo["version"], geo["primary_column"]) == ("1.1.0", "geometry")
    assert (column["encoding"], column["geometry_types"]) == ("WKB", ["Point"])
    assert column["bbox"] == _box(table)
    assert column["covering"] == {
        "bbox": {side: ["bbox", side] for side in ("xmin", "ymin", "xmax", "ymax")}
    }
    crs = pyproj.CRS.from_json_dict(column["crs"])
    assert crs.to_epsg() == (None if table.srid == OWN_SRID else table.srid)
    assert json.loads(file.schema_arrow.metadata[b"freqdp"])["name"] == name


def _point(wkb: bytes) -> tuple[float, float]:
    order, kind, x, y = struct.unpack("<BIdd", wkb)
    assert (order, kind) == (1, 1)
    return x, y


def _box(table: Table) -> list[float]:
    x, y = [r[3] for r in table.rows], [r[4] for r in table.rows]
    return [min(x), min(y), max(x), max(y)]


@pytest.mark.parametrize("name", RELEASES)
def test_gpkg_has_the_rows(database: Database, url: str, name: str, tmp_path: Path) -> None:
    table = _table(url, name)
    path, *_ = _export(database, name, "gpkg", tmp_path / "out.gpkg")
    with closing(sqlite3.connect(path)) as file:
        rows = []
        for i, s, at, us, blob in file.execute(
            "SELECT trajectory_id, seq, sampled_at, sampled_at_us, geom FROM samples ORDER BY fid"
        ):
            exact = EPOCH + timedelta(microseconds=us)
            assert datetime.fromisoformat(at) == exact - timedelta(microseconds=us % 1000)
            assert struct.unpack("<2sBBi", blob[:8]) == (b"GP", 0, 1, _srs_id(table))
            rows.append((i, s, exact, *_point(blob[8:])))
        assert rows == table.rows
        lines = {}
        for number, day, blob in file.execute("SELECT trajectory_id, day, geom FROM lines"):
            lines[number, day] = points = _line(blob, _srs_id(table))
            x, y, _ = zip(*points, strict=True)
            assert struct.unpack("<4d", blob[8:40]) == (min(x), max(x), min(y), max(y))
        assert lines == table.lines


def _srs_id(table: Table) -> int:
    """What the file calls the reference system: GDAL numbers those without an authority itself."""
    return 100000 if table.srid == OWN_SRID else table.srid


def _line(blob: bytes, srid: int) -> list[tuple[float, float, float]]:
    assert struct.unpack("<2sBBi", blob[:8]) == (b"GP", 0, 3, srid)
    order, kind, count = struct.unpack("<BII", blob[40:49])
    assert (order, kind) == (1, 2002)  # ISO WKB: LineString with M
    assert len(blob) == 49 + 24 * count
    return list(struct.iter_unpack("<ddd", blob[49:]))


def test_gpkg_as_gdal_reads_it(database: Database, url: str, tmp_path: Path) -> None:
    """By the program that QGIS and most others read it with: every row, and what its index finds."""
    name = 'odd "name" é'
    table = _table(url, name)
    path, *_ = _export(database, name, "gpkg", tmp_path / "out.gpkg")
    meta, _, geometry, fields = pyogrio.raw.read(path, layer="samples", datetime_as_string=True)
    columns = dict(zip(meta["fields"], fields, strict=True))
    rows = [
        (i, s, EPOCH + timedelta(microseconds=us), *_point(wkb))
        for i, s, us, wkb in zip(
            *(columns[c].tolist() for c in ("trajectory_id", "seq", "sampled_at_us")),
            geometry,
            strict=True,
        )
    ]
    assert rows == table.rows
    assert [datetime.fromisoformat(at) for at in columns["sampled_at"]] == [
        at - timedelta(microseconds=at.microsecond % 1000) for _, _, at, _, _ in table.rows
    ]
    assert pyproj.CRS.from_user_input(meta["crs"]).to_epsg() is None
    x, y = np.array([row[3:] for row in table.rows]).T
    window = (*np.quantile(x, [0.2, 0.6]), *np.quantile(y, [0.3, 0.7]))
    inside = (x >= window[0]) & (x <= window[1]) & (y >= window[2]) & (y <= window[3])
    box = tuple(window[n] for n in (0, 2, 1, 3))
    found = pyogrio.raw.read(path, layer="samples", bbox=box, return_fids=True)[1]
    assert 0 < len(found) < len(rows)
    assert sorted(found.tolist()) == (np.flatnonzero(inside) + 1).tolist()
    with pytest.warns(UserWarning, match="Measured"):  # GDAL has the times of lines, pyogrio not
        meta, _, geometry, fields = pyogrio.raw.read(path, layer="lines")
    shown = dict(zip(meta["fields"], fields, strict=True))
    ids = zip(shown["trajectory_id"].tolist(), shown["day"].astype(str).tolist(), strict=True)
    lines = {
        i: list(struct.iter_unpack("<dd", wkb[9:])) for i, wkb in zip(ids, geometry, strict=True)
    }
    assert lines == {i: [(x, y) for x, y, _ in line] for i, line in table.lines.items()}


@pytest.mark.parametrize("format_name", FORMATS)
def test_guarantee_stands_beside_the_file(
    database: Database, url: str, format_name: str, tmp_path: Path
) -> None:
    data, guarantee, notice, dcat, *more = _export(
        database, "degrees", format_name, tmp_path / "a.file"
    )
    assert guarantee == tmp_path / "a.file.guarantee.json"
    assert notice == tmp_path / "a.file.README.txt"
    document = json.loads(guarantee.read_text("utf-8"))
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT to_jsonb(c) - 'published_at' FROM freqdp_release.catalog c "
            "WHERE name = 'degrees'"
        ).fetchone()
    assert row is not None
    file = document.pop("file")
    assert datetime.fromisoformat(document.pop("published_at")).tzinfo is not None
    assert document == row[0]
    assert file["sha256"] == hashlib.sha256(data.read_bytes()).hexdigest()
    assert file["bytes"] == data.stat().st_size
    assert (file["name"], file["format"], file["srid"]) == ("a.file", format_name, 4326)
    words = " ".join(notice.read_text("utf-8").split())
    assert document["guarantee"]["plain"] in words
    assert "is not differentially private" in words
    assert find_method(document["method"]).for_analysts in words
    assert "Rights in these data stay with the owner" in words
    assert all(f"- {thing}" in words for thing in document["guarantee"]["not_protected"])
    assert "NOT FOR HANDING OUT" not in words
    assert "centres of a grid of 50 m" in words and "time zone UTC" in words
    described = json.loads(dcat.read_text("utf-8"))
    assert described["@type"] == "dcat:Dataset" and described["dct:identifier"] == "degrees"
    distribution = described["dcat:distribution"]
    assert distribution["dcat:byteSize"] == file["bytes"]
    assert distribution["spdx:checksum"]["spdx:checksumValue"] == file["sha256"]
    assert described["dct:spatial"]["dcat:bbox"]["@value"].startswith("POLYGON((4.")
    beside = ("", ".guarantee.json", ".README.txt", ".dcat.jsonld")
    assert [f.name for f in more] == {
        "gpkg": ["a.file.qgs"], "mfjson": [],
    }.get(format_name, [f"a_trip.file{end}" for end in beside])  # fmt: skip


def test_trips_are_exported(database: Database, url: str, tmp_path: Path) -> None:
    """As a file or a layer of their own; the rows that are counted are the samples."""
    kept = "trajectory_id, trip, length_m, places"
    expected = query(
        url, f"SELECT {kept}, ST_AsText(geom) FROM freqdp_release.degrees_trip ORDER BY 1, 2"
    )
    assert len(expected) > 5
    samples = value(url, "SELECT count(*) FROM freqdp_release.degrees")
    parquet, text, gpkg = (tmp_path / f"d.{end}" for end in ("parquet", "csv", "gpkg"))
    for form, path in (("geoparquet", parquet), ("csv", text), ("gpkg", gpkg)):
        assert export_release(database, "degrees", form, path, Notes()).rows == samples
    found = pq.read_table(tmp_path / "d_trip.parquet")
    geo = json.loads(found.schema.metadata[b"geo"])
    assert geo["primary_column"] == "geom" and set(geo["columns"]) == {
        "geom", "start_geom", "end_geom",
    }  # fmt: skip
    assert [tuple(row[c] for c in kept.split(", ")) for row in found.to_pylist()] == [
        row[:4] for row in expected
    ]
    with (tmp_path / "d_trip.csv").open(newline="", encoding="utf-8") as file:
        assert [row["geom"] for row in csv.DictReader(file)] == [row[4] for row in expected]
    meta, _, shapes, fields = pyogrio.raw.read(gpkg, layer="trips")
    assert list(meta["fields"]) == [
        "trajectory_id", "trip", "start_at", "end_at", "length_m", "places",
    ]  # fmt: skip
    assert meta["geometry_type"] == "LineString" and len(shapes) == len(expected)
    assert fields[4].tolist() == [row[2] for row in expected]


@pytest.mark.parametrize("name", RELEASES)
def test_moving_features_have_the_rows(
    database: Database, url: str, name: str, tmp_path: Path
) -> None:
    path, *_ = _export(database, name, "mfjson", tmp_path / "out.mfjson")
    document = json.loads(path.read_text("utf-8"))
    rows = []
    for feature in document["features"]:
        moving, number = feature["temporalGeometry"], feature["properties"]["trajectory_id"]
        times = [datetime.fromisoformat(t) for t in moving["datetimes"]]
        assert times == sorted(set(times)), "they increase"
        rows += [(number, at, *xy) for at, xy in zip(times, moving["coordinates"], strict=True)]
        drawn = feature["geometry"]["coordinates"]
        assert (drawn if len(times) > 1 else [drawn]) == moving["coordinates"]
    expected = [(i, at, x, y) for i, _, at, x, y in _table(url, name).rows]
    first = {(i, at): (i, at, x, y) for i, at, x, y in reversed(expected)}
    assert rows == sorted(first.values(), key=lambda row: row[:2])
    srid = _table(url, name).srid
    shown = document["crs"]["properties"]["name"]
    assert ("CRS84" in shown) == (srid == 4326)


def test_a_project_for_qgis(database: Database, tmp_path: Path) -> None:
    *_, project = _export(database, "degrees", "gpkg", tmp_path / "out.gpkg")
    root = Xml.fromstring(project.read_text("utf-8").partition("\n")[2])
    layers = root.findall("projectlayers/maplayer")
    assert [layer.findtext("datasource") for layer in layers] == [
        "./out.gpkg|layername=lines",
        "./out.gpkg|layername=samples",
    ]
    ids = [node.get("id") for node in root.findall("layer-tree-group/layer-tree-layer")]
    assert ids == [layer.findtext("id") for layer in layers]
    assert root.findtext("projectCrs/spatialrefsys/authid") == "EPSG:4326"


def test_seeded_release_is_marked(database: Database, tmp_path: Path) -> None:
    notes = Notes()
    row = "seeded"
    exported = export_release(database, row, "csv", tmp_path / "s.csv", notes)
    assert any("NOT for handing out" in note for note in notes.notes)
    assert "NOT FOR HANDING OUT" in exported.files[2].read_text("utf-8")
    assert json.loads(exported.files[1].read_text("utf-8"))["granted"] is False


def test_default_name(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    row = 'odd "name" é'
    for name, chosen in FORMATS.items():
        export_release(database, row, name, None, Progress())
        assert (tmp_path / f'odd "name" é{chosen.suffix}').is_file()
    # of CSV and GeoParquet also the trips; a project beside the GeoPackage
    assert len(list(tmp_path.iterdir())) == 4 * (len(FORMATS) + 2) + 1


def test_folder_that_may_not_be_written(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # root may write anywhere, so the system's answer is made up
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(BadInput, match="you may not write"):
        _export(database, "metres", "csv", tmp_path / "a.csv")


def test_name_that_is_no_file_name(
    database: Database, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Releases of older versions may be called so."""
    kept = value(url, "SELECT pg_get_functiondef('freqdp.is_release_name'::regproc)")
    head, body, _ = kept.partition("AS $function$")
    with monkeypatch.context() as patched:
        patched.setattr("freqdp_db.dataset.text_values.names_a_file", lambda name: True)
        with pytest.raises(BadInput, match="a release cannot be called 'a/b'"):
            release(database, "metres", "a/b", signature=3, spread="100")
        query(url, f"{head}{body} BEGIN RETURN true; END $function$")
        try:
            release(database, "metres", "a/b", signature=3, spread="100")
        finally:
            query(url, kept)
    row = "a/b"
    with pytest.raises(BadInput, match="cannot give a file its name"):
        export_release(database, row, "csv", None, Progress())
    for public in (True, False):
        with (
            freqdp_db.connect(url) as db,
            pytest.raises(BadInput, match="cannot give a file its name"),
        ):
            db.report(row, public=public)
    export_release(database, row, "csv", tmp_path / "a.csv", Progress())


_FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("format_name", "fault", "told"),
    [
        *((name, _FULL, FreqdpError) for name in FORMATS),
        ("gpkg", KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_failure_leaves_nothing(
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    format_name: str,
    fault: BaseException,
    told: type[BaseException],
) -> None:
    out = tmp_path / "a"
    out.write_text("the last export")
    whole = ReleaseReader.samples

    def broken(self: ReleaseReader, **asked: bool) -> Iterator[Any]:
        yield next(whole(self, **asked))
        raise fault

    with monkeypatch.context() as patch:
        patch.setattr(ReleaseReader, "samples", broken)
        with pytest.raises(told) as raised:
            _export(database, "metres", format_name, out, overwrite=True)
    if isinstance(raised.value, FreqdpError):
        assert "No space left on device" in raised.value.message and raised.value.remedy
    assert [(f.name, f.read_text()) for f in tmp_path.iterdir()] == [("a", "the last export")]
    _export(database, "metres", format_name, out, overwrite=True)


def test_changed_table_is_not_exported(database: Database, url: str, tmp_path: Path) -> None:
    release(database, "metres", "changed", signature=3, spread="300")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DELETE FROM freqdp_release.changed WHERE seq = 1")
    with pytest.raises(VerificationFailed, match="were published"):
        _export(database, "changed", "csv", tmp_path / "a.csv")
    assert list(tmp_path.iterdir()) == []


def test_empty_release(database: Database, url: str, tmp_path: Path) -> None:
    """Nothing is left of objects that the edits emptied: a table of no rows is still a table."""
    release(database, "metres", "empty", signature=3, spread="400")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("TRUNCATE freqdp_release.empty, freqdp_release.empty_line")
        connection.execute("UPDATE freqdp_release.catalog SET rows = 0 WHERE name = 'empty'")
    for format_name in FORMATS:
        _export(database, "empty", format_name, tmp_path / format_name)
    assert (tmp_path / "csv").read_text() == "trajectory_id,seq,sampled_at,x,y\n"
    assert pq.read_table(tmp_path / "geoparquet").num_rows == 0
    assert json.loads((tmp_path / "mfjson").read_text())["features"] == []


def test_reads_the_release_schema_only(url: str, tmp_path: Path) -> None:
    """With the analyst's rights, which end at the release schema, the export goes through."""
    row = "degrees"
    analyst = as_role(url, "analyst")
    other = Database(analyst, Settings(dsn=analyst), "tests")
    try:
        with pytest.raises(FreqdpError), other.begin() as connection:
            connection.execute("SELECT FROM freqdp.release")
        for format_name in FORMATS:
            export_release(other, row, format_name, tmp_path / format_name, Progress())
    finally:
        other.close()


@pytest.mark.parametrize("format_name", ["csv", "geoparquet", "gpkg"])
def test_another_reference_system(
    database: Database, url: str, tmp_path: Path, format_name: str
) -> None:
    """--srid: the same rows, where PostGIS has them, and a file that says so."""
    release(database, "metres", "moved", signature=3, spread="450")
    path, guarantee, *_ = _export(database, "moved", format_name, tmp_path / "out", srid=4326)
    assert json.loads(guarantee.read_text())["file"]["srid"] == 4326
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT ST_X(g), ST_Y(g) FROM (SELECT ST_Transform(geom, 4326) AS g "
            "FROM freqdp_release.moved ORDER BY trajectory_id, seq) AS r"
        ).fetchall()
    if format_name == "csv":
        header, *lines = path.read_text().splitlines()
        assert header == "trajectory_id,seq,sampled_at,lon,lat"
        found = [tuple(map(float, line.split(",")[3:])) for line in lines]
    elif format_name == "geoparquet":
        table = pq.read_table(path).sort_by([("trajectory_id", "ascending"), ("seq", "ascending")])
        found = [_point(wkb) for wkb in table["geometry"].to_pylist()]
        box = json.loads(table.schema.metadata[b"geo"])["columns"]["geometry"]["bbox"]
        assert box == [min(x for x, _ in rows), min(y for _, y in rows),
                       max(x for x, _ in rows), max(y for _, y in rows)]  # fmt: skip
    else:
        with closing(sqlite3.connect(path)) as file:
            blobs = file.execute("SELECT geom FROM samples ORDER BY fid").fetchall()
            found = [_point(blob[8:]) for (blob,) in blobs]
            for (blob,) in file.execute("SELECT geom FROM lines"):
                assert all(-180 <= x <= 180 and m > 1e9 for x, _, m in _line(blob, 4326))
    assert found == rows
