"""Relations of a method that the request chooses, with text, areas and views over several tables.

The toy counts samples by zone and hour: without noise, and its zones are the product's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import psycopg
import pyarrow.parquet as pq
import pyogrio
import pytest
from library import opened
from servers import SharedServer, cloned
from world import freqdp, query, value, written

import freqdp_db
from freqdp_db.db import schema as upgrade
from freqdp_db.db.copy import encode_columns
from freqdp_db.errors import BadInput, FreqdpError, VerificationFailed
from freqdp_db.evaluation.evaluate import approve_within_limit
from freqdp_db.jobs.worker import Worker
from freqdp_db.methods import registry
from freqdp_db.methods.contract import Facts, Method, Need, Nothing, Step, StepContext, WorkingSet
from freqdp_db.methods.counts.zones import (
    BIN,
    FLOWS_LINE,
    OUTSIDE,
    VISITS_MAP,
    ZONE,
    BinKind,
    Bins,
    Zones,
)
from freqdp_db.methods.kinds import (
    Box,
    Choice,
    LonLatArea,
    Name,
    Number,
    Outline,
    SquareGrid,
    Stretch,
    TimeStretch,
    Words,
    Zoning,
)
from freqdp_db.methods.parameters import parameter
from freqdp_db.methods.relations import Column, Relation
from freqdp_db.model.arrays import Ints, Metres
from freqdp_db.privacy.guarantee import Guarantee, ProtectedUnit
from freqdp_db.privacy.noise import RandomSource


@dataclass(frozen=True)
class TallyOptions:
    zones: str | SquareGrid = parameter(Zoning(), "Zones.")
    zone: str | None = parameter(Name("id"), "Column of their ids.")
    district: str | None = parameter(Name("part"), "Column of their districts.")
    bins: BinKind = parameter(Choice(("hour-of-day", "hour-of-week")), "Bins.", "hour-of-day")
    tables: tuple[str, ...] = parameter(
        Words(("visits", "flows")), "What is counted.", ("visits", "flows")
    )
    epsilon: Decimal = parameter(Number(Decimal(20), "2"), "For one object.", Decimal("0.2"))
    region: Box | Outline | None = parameter(LonLatArea(), "Public.")
    period: Stretch | None = parameter(TimeStretch(), "Public.")


@dataclass(frozen=True)
class Tally:
    zone: Ints
    bin: Ints
    value: Ints
    margin: Metres

    def __len__(self) -> int:
        return len(self.zone)


class TallyStep(Step[TallyOptions, Nothing, Nothing]):
    name = "tally"
    words = "samples by zone and hour"
    options = TallyOptions
    draws = Nothing
    logs = Nothing
    checked: ClassVar[dict[str, str]] = {"cells": "cells have their samples"}

    def draw(
        self, world: StepContext, state: WorkingSet, options: TallyOptions, source: RandomSource
    ) -> Nothing:
        return Nothing()

    def require_inputs(
        self, options: TallyOptions, inputs: Mapping[str, Any], facts: Facts
    ) -> None:
        _, period = facts(options.region, options.period)
        Bins(options.bins, period, "UTC").require_filled()

    def carry_out(
        self, world: StepContext, state: WorkingSet, drawn: Nothing, options: TallyOptions
    ) -> tuple[Nothing, WorkingSet]:
        zones, bins = _zones(world), _bins(world, options)
        at = zones.locate(state.places.x, state.places.y)[state.trajectories.location]
        when = bins.of(state.trajectories.at)
        there = (at != OUTSIDE) & (when != OUTSIDE)
        cell, count = np.unique(at[there] * len(bins) + when[there], return_counts=True)
        zone, hour = np.divmod(cell.astype(np.int64), len(bins))
        made = Tally(zone + 1, hour + 1, count.astype(np.int64), np.sqrt(count.astype(np.float64)))
        return Nothing(), replace(state, made=made)

    def check(
        self,
        world: StepContext,
        before: WorkingSet,
        drawn: Nothing,
        logged: Nothing,
        after: WorkingSet,
        options: TallyOptions,
    ) -> dict[str, int]:
        assert isinstance(after.made, Tally)
        if after.made.value.sum() > before.samples:
            raise VerificationFailed("more than there are")
        return {"cells": len(after.made)}


def _zones(world: StepContext) -> Zones:
    found = world.inputs["zones"]
    assert isinstance(found, Zones)
    return found


def _bins(world: StepContext, options: TallyOptions) -> Bins:
    _, period = world.public_facts(options.region, options.period)
    return Bins(options.bins, period, world.build.timezone)


def _visits(state: WorkingSet, world: StepContext) -> Iterator[Mapping[str, Any]]:
    made = state.made
    assert isinstance(made, Tally)
    yield {
        "zone": made.zone, "bin": made.bin, "value": made.value, "margin": made.margin,
        "estimate": made.value,
    }  # fmt: skip


def _flows(state: WorkingSet, world: StepContext) -> Iterator[Mapping[str, Any]]:
    assert isinstance(state.made, Tally)
    zones = np.unique(state.made.zone)
    yield {
        "origin": zones[:-1], "destination": zones[1:], "bin": np.ones(len(zones) - 1),
        "value": np.arange(len(zones) - 1), "margin": np.ones(len(zones) - 1),
        "estimate": np.ones(len(zones) - 1),
    }  # fmt: skip


def _guarantee(values: Mapping[str, Any], protected: ProtectedUnit) -> Guarantee:
    return Guarantee(["Nothing is guaranteed."], {}, {})


_VALUE = (
    Column("value", "int8", "Samples."),
    Column("margin", "float8", "Its margin."),
    Column("estimate", "float8", "The same again."),
)
TALLY = Method(
    "tally",
    "counts samples by zone and hour",
    (TallyStep(),),
    kind="counts",
    guarantee=_guarantee,
    unit="person",
    books=lambda values: values["epsilon"] ** 2 / Decimal(2),
    needs=(Need("zones", "zones", {"zone": "zone", "district": "district"}),),
    publishes=(
        Relation(
            "_visits",
            (Column("zone", "int8", "Zone."), Column("bin", "int4", "Hour, {timezone}."), *_VALUE),
            key=("zone", "bin"), indexes=("bin",), chosen_by="visits", rows=_visits,
        ),
        Relation(
            "_flows",
            (Column("origin", "int8", "From."), Column("destination", "int8", "To."),
             Column("bin", "int4", "Hour."), *_VALUE),
            key=("origin", "destination", "bin"), chosen_by="flows", rows=_flows,
        ),
        replace(ZONE, rows=lambda state, world: _zones(world).rows()),
        replace(BIN, rows=lambda state, world: Bins(
            "hour-of-day", _bins(world, _OPTIONS).period, world.build.timezone).rows()),
        VISITS_MAP,
        FLOWS_LINE,
    ),
)  # fmt: skip
_REGION, _PERIOD = "2.0,48.5,2.8,49.2", "2024-05-01/2024-05-03"
_OPTIONS = TallyOptions(
    zones="", zone=None, district=None, bins="hour-of-day", tables=("visits",), epsilon=Decimal(1),
    region=LonLatArea().from_text(_REGION), period=TimeStretch().from_text(_PERIOD),
)  # fmt: skip
_PERSONS = """
CREATE TABLE w AS SELECT 'p' || o AS who, t AS at,
    2.2 + 0.0005 * (o * 7 % 300) + 0.003 * i * cos(o + trip) AS lon,
    48.8 + 0.0005 * (o * 11 % 200) + 0.002 * i * sin(o + trip) AS lat
FROM generate_series(1, 30) o, generate_series(0, 2) trip, generate_series(1, 20) i,
    LATERAL (SELECT timestamptz '2024-05-01 08:00+00' + make_interval(mins => i + 200 * trip) AS t) x
"""
_AREAS = """
CREATE TABLE areas AS SELECT 10 * i + j AS id, 'Sector ' || i AS part,
    ST_MakeEnvelope(2.0 + 0.1 * i, 48.5 + 0.1 * j, 2.1 + 0.1 * i, 48.6 + 0.1 * j, 4326) AS geom
FROM generate_series(0, 7) i, generate_series(0, 6) j;
ALTER TABLE areas ADD PRIMARY KEY (id)
"""


def _ask(url: str, zones: str | None, **more: Any) -> Any:
    with freqdp_db.connect(url) as known:
        return known.anonymize("d", "tally", zones=zones, **more).document()


@pytest.fixture
def url(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setitem(registry.METHODS, TALLY.name, TALLY)
    registry.find_method.cache_clear()
    with opened(database_url) as database:
        upgrade.upgrade(database)
    for statement in (_PERSONS, *_AREAS.split(";")):
        query(database_url, statement)
    freqdp(
        database_url, "dataset", "add", "d", "--from", "public.w", "--object", "who", "--time", "at",
        "--lon", "lon", "--lat", "lat", "--region", _REGION, "--period", _PERIOD,
    ).succeeded()  # fmt: skip
    freqdp(database_url, "dataset", "build", "d").succeeded()
    yield database_url
    registry.find_method.cache_clear()


def _relations(url: str) -> list[str]:
    rows = query(
        url, "SELECT relname FROM pg_class WHERE relnamespace = 'freqdp_release'::regnamespace "
        "AND relkind IN ('r', 'v') AND relname NOT IN ('catalog', 'series') ORDER BY 1",
    )  # fmt: skip
    return [name for (name,) in rows]


_ALL = ["d_1_bin", "d_1_flows", "d_1_flows_line", "d_1_visits", "d_1_visits_map", "d_1_zone"]


def test_counted_as_sql_counts(url: str) -> None:
    made = _ask(url, "public.areas", district="part")
    assert made["table"] == "freqdp_release.d_1_visits"
    assert [name for name in _relations(url) if name.startswith("d_1")] == _ALL
    assert sorted(name.rpartition(".")[2] for name in made["relations"]) == _ALL
    assert len([name for name in _relations(url) if name.startswith("d_current")]) == len(_ALL)
    by_hand = (
        "SELECT a.id::text, (extract(hour FROM s.at AT TIME ZONE 'UTC'))::int, count(*) "
        "FROM freqdp.sample s JOIN freqdp.location l USING (build_id, location_id) "
        "JOIN areas a ON ST_Contains(a.geom, ST_Transform(l.geom, 4326)) GROUP BY 1, 2 ORDER BY 1, 2"
    )
    counted = (
        "SELECT z.name, v.bin - 1, v.value FROM freqdp_release.d_1_visits v "
        "JOIN freqdp_release.d_1_zone z USING (zone) ORDER BY 1, 2"
    )
    assert query(url, counted) == query(url, by_hand)
    assert freqdp(url, "release", "verify", "d_1").succeeded()["checked"]["cells"] > 20


def test_the_zones_that_are_published(url: str) -> None:
    _ask(url, "public.areas", district="part")
    zones = query(
        url,
        "SELECT level, count(*)::int, round(sum(ST_Area(geom))::numeric, 3)::float8, "
        "bool_and(ST_IsValid(geom)) FROM freqdp_release.d_1_zone GROUP BY 1 ORDER BY 2",
    )
    assert zones == [("city", 1, 0.56, True), ("district", 8, 0.56, True), ("zone", 56, 0.56, True)]
    parents = (
        "SELECT count(*) FROM freqdp_release.d_1_zone z JOIN freqdp_release.d_1_zone p "
        "ON p.zone = z.parent WHERE ST_Covers(p.geom, ST_Centroid(z.geom)) AND p.level <> z.level"
    )
    assert value(url, parents) == 64
    assert query(url, "SELECT name, begins FROM freqdp_release.d_1_bin ORDER BY bin LIMIT 2") == [
        ("all", "2024-05-01T00:00:00+00:00"), ("00:00-01:00", "00:00"),
    ]  # fmt: skip


def test_maps(url: str) -> None:
    _ask(url, "grid:5km")
    rows = query(
        url,
        "SELECT count(*), sum(value), bool_and(ST_SRID(geom) = 4326), min(level), min(bin_name) "
        "FROM freqdp_release.d_1_visits_map",
    )
    visits = query(url, "SELECT count(*), sum(value)::float8 FROM freqdp_release.d_1_visits")
    assert rows == [(*visits[0], True, "zone", "08:00-09:00")]
    lines = query(
        url,
        "SELECT count(*), min(ST_Length(geom::geography)) > 1000 FROM freqdp_release.d_1_flows_line",
    )
    assert lines[0][0] > 3 and lines[0][1]
    types = query(
        url,
        "SELECT f_table_name, type, srid FROM geometry_columns WHERE f_table_name LIKE 'd\\_1%' ORDER BY 1",
    )
    assert types == [
        ("d_1_flows_line", "LINESTRING", 4326), ("d_1_visits_map", "MULTIPOLYGON", 4326),
        ("d_1_zone", "MULTIPOLYGON", 4326),
    ]  # fmt: skip
    said = query(
        url,
        "SELECT obj_description('freqdp_release.d_1_visits_map'::regclass), "
        "col_description('freqdp_release.d_1_visits'::regclass, 2), "
        "has_table_privilege('freqdp_analyst', 'freqdp_release.d_1_flows_line', 'SELECT')",
    )
    assert said[0][0].endswith("choose a level and a bin.") and said[0][1:] == ("Hour, UTC.", True)


@pytest.mark.parametrize(("tables", "there"), [
    ("visits", ["d_1_bin", "d_1_visits", "d_1_visits_map", "d_1_zone"]),
    ("flows", ["d_1_bin", "d_1_flows", "d_1_flows_line", "d_1_zone"]),
])  # fmt: skip
def test_chosen_tables(url: str, tables: str, there: list[str]) -> None:
    made = _ask(url, "h3:5", tables=tables)
    assert made["table"] == f"freqdp_release.d_1_{tables}"
    assert [name for name in _relations(url) if name.startswith("d_1")] == there
    freqdp(url, "release", "verify", "d_1").succeeded()
    query(url, f"UPDATE freqdp_release.d_1_{tables} SET value = value + 1")
    assert freqdp(url, "release", "verify", "d_1").code == 3
    # views of what the newest does not have go, and come back
    _ask(url, "h3:5")
    assert len([name for name in _relations(url) if name.startswith("d_current")]) == len(_ALL)


def test_asked_for_in_sql(url: str) -> None:
    asked = (
        'SELECT freqdp.request_release(\'d\', \'tally\', 0.2, \'{"zones": "%s", "tables": "%s"}\')'
    )
    query(url, asked % ("grid: 5 km", "flows, visits"))
    query(url, asked % ("public.areas", "visits"))
    with opened(url) as database:
        assert Worker(database, approve_within_limit).serve(once=True).done == 2
    parameters = query(url, "SELECT parameters FROM freqdp.release ORDER BY release_id")
    assert [(p["zones"], p["tables"]) for (p,) in parameters] == [
        ("grid:5000m", "visits,flows"), ("public.areas", "visits"),
    ]  # fmt: skip
    for zones, tables in (
        ("grid:5", "visits"), ("grid:1m", "visits"), ("h3:13", "visits"), ("s3:1", "visits"),
        ("h3:5", "visits,visits"), ("h3:5", "houses"), ("h3:5", ""),
    ):  # fmt: skip
        with pytest.raises(psycopg.Error, match="not acceptable"):
            query(url, asked % (zones, tables))
        with pytest.raises(BadInput):
            _ask(url, zones, tables=tables)


@pytest.mark.parametrize("form", ["csv", "geoparquet", "gpkg"])
def test_exported(url: str, form: str, tmp_path: Path) -> None:
    _ask(url, "public.areas")
    ending = {"csv": "csv", "geoparquet": "parquet", "gpkg": "gpkg"}[form]
    out = tmp_path / f"r.{ending}"
    freqdp(url, "release", "export", "d_1", "--format", form, "--out", str(out)).succeeded()
    rows = {
        name.removeprefix("d_1"): value(url, f"SELECT count(*) FROM freqdp_release.{name}")
        for name in _ALL
    }
    if form == "csv":
        tables = ["_bin", "_flows", "_visits", "_zone"]
        assert sorted(f.name for f in tmp_path.glob("*.csv")) == [f"r{t}.csv" for t in tables]
        for table in tables:
            assert len((tmp_path / f"r{table}.csv").read_text().splitlines()) == 1 + rows[table]
        assert "MULTIPOLYGON" in (tmp_path / "r_zone.csv").read_text()
    elif form == "geoparquet":
        for table, count in rows.items():
            found = pq.read_table(tmp_path / f"r{table}.parquet")
            assert len(found) == count
            assert (b"geo" in found.schema.metadata) == ("geom" in found.column_names)
    else:
        layers = dict(pyogrio.list_layers(out))
        assert {name.removeprefix("d_1"): kind for name, kind in layers.items()} == {
            "_visits": None, "_flows": None, "_bin": None, "_zone": "MultiPolygon",
            "_visits_map": "MultiPolygon", "_flows_line": "LineString",
        }  # fmt: skip
        assert next(iter(layers)) == "d_1_visits_map", "programs open the first layer"
        for name in layers:
            assert pyogrio.read_info(out, layer=name)["features"] == rows[name.removeprefix("d_1")]
        assert sorted(f.suffix for f in tmp_path.iterdir()) == [".gpkg", ".json", ".txt"]
        notice = Path(f"{out}.README.txt").read_text()
        assert "- d_1_flows_line.margin: Half of the 95 % interval" in notice


def test_copied_and_withdrawn(url: str, shared_server: SharedServer) -> None:
    _ask(url, "public.areas")
    with cloned(shared_server.get(), shared_server.template(schema=False)) as other:
        copy = ("release", "publish", "--to", other, "--all")
        assert freqdp(url, *copy).succeeded()["copied"] == ["d_1"]
        for relation in ("d_current_visits_map", "d_1_flows_line", "d_1_zone"):
            rows = f"SELECT * FROM freqdp_release.{relation} ORDER BY 1, 2, 3"
            assert query(other, rows) == query(url, rows)
        assert _relations(other) == _relations(url)
        freqdp(url, "release", "withdraw", "d_1").succeeded()
        assert _relations(url) == []
        assert freqdp(url, *copy).succeeded()["removed"] == ["d_1"]
        assert _relations(other) == []


def test_held_and_approved(url: str) -> None:
    _ask(url, "grid:5km", hold=True)
    reads = (
        "SELECT has_table_privilege('freqdp_analyst', 'freqdp_release.d_1_visits_map', 'SELECT')"
    )
    assert not value(url, reads)
    freqdp(url, "release", "approve", "d_1").succeeded()
    assert value(url, reads)


_REFUSED: dict[str, tuple[str, dict[str, str], str]] = {
    "a table that is the source": ("public.w", {}, "reads the rows of"),
    "a view of the source": ("public.made", {"zone": "id"}, "reads the rows of"),
    "no zones": ("public.nowhere", {}, "there is no table or view"),
    "overlap": ("public.fat", {}, "overlap"),
    "invalid": ("public.bent", {}, "not valid"),
    "an unknown SRID": ("public.unknown", {}, "SRID is unknown"),
    "not a table": ("grid:500m", {"zone": "id"}, "is no table"),
    "empty bins": ("h3:5", {"bins": "hour-of-week"}, "no time of the period falls into"),
}


@pytest.mark.parametrize("case", _REFUSED)
def test_refused_before_anything_is_spent(url: str, case: str) -> None:
    zones, more, message = _REFUSED[case]
    for statement in (
        "CREATE VIEW made AS SELECT row_number() OVER ()::int AS id, ST_MakeEnvelope(2, 48.5, 2.1, 48.6, "
        "4326) AS geom FROM w LIMIT 1",
        "CREATE TABLE fat AS SELECT id, ST_Expand(geom, 0.01) AS geom FROM areas",
        "CREATE TABLE bent AS SELECT id, ST_GeomFromText('POLYGON((2.2 48.8, 2.25 48.85, 2.25 48.8, "
        "2.2 48.85, 2.2 48.8))', 4326) AS geom FROM areas LIMIT 1",
        "CREATE TABLE unknown AS SELECT id, ST_SetSRID(geom, 0) AS geom FROM areas",
    ):
        query(url, statement)
    for name in ("fat", "bent", "unknown"):
        query(url, f"ALTER TABLE {name} ADD PRIMARY KEY (id)")
    before = written(url)
    with pytest.raises(FreqdpError, match=message):
        _ask(url, zones, **more)
    with pytest.raises(BadInput, match="tally needs zones"):
        _ask(url, None)
    assert written(url) == before


def test_encoding_of_columns() -> None:
    """All sorts of columns, and none: the bytes are whole rows."""
    kinds = [("a", "int4"), ("b", "text"), ("c", "float8"), ("d", "geometry(MultiPolygon)")]
    rows = {"a": [1, 2], "b": ["", "Zürich"], "c": [0.5, -1.0], "d": [b"\x01", b""]}
    expected = b"".join([
        b"\x00\x04", b"\x00\x00\x00\x04\x00\x00\x00\x01", b"\x00\x00\x00\x00",
        b"\x00\x00\x00\x08" + np.array(0.5, ">f8").tobytes(), b"\x00\x00\x00\x01\x01",
        b"\x00\x04", b"\x00\x00\x00\x04\x00\x00\x00\x02", b"\x00\x00\x00\x07" + "Zürich".encode(),
        b"\x00\x00\x00\x08" + np.array(-1.0, ">f8").tobytes(), b"\x00\x00\x00\x00",
    ])  # fmt: skip
    assert encode_columns(kinds, rows).tobytes() == expected
    assert len(encode_columns(kinds, {name: [] for name, _ in kinds})) == 0
    numbers = encode_columns(kinds[::2], {"a": np.arange(2), "c": np.arange(2.0)})
    assert len(numbers) == 2 * (2 + 8 + 12)
