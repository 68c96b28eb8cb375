"""A release of counts through the product: queries of the page, files, the report, and what is measured."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as Xml

import psycopg
import pyogrio
import pytest
from psycopg.conninfo import make_conninfo
from servers import clone_of, filled_once
from world import add_city, freqdp, query, report, serve, try_only, value

from freqdp_db.privacy.noise import SeededSource
from freqdp_db.release import pipeline

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "counts.md"
_FACTS = ("--region", "4.26,50.79,4.44,50.91", "--period", "2024-03-04/2024-03-06")
_COUNTS = ("anonymize", "vans", "--method", "counts", "--zones", "grid:1km", "--epsilon", "2")


def _make(url: str) -> None:
    """A small city with a release of counts."""
    freqdp(url, "load", "demo", "--objects", "400", "--days", "2").succeeded()
    add_city(url, "vans", "--timezone", "Europe/Brussels", *_FACTS)
    freqdp(url, "dataset", "build", "vans").succeeded()
    freqdp(url, "budget", "vans", "--unit", "person", "--raise", "20", "--reason", "x").succeeded()
    with pytest.MonkeyPatch.context() as patched:
        # what is measured below would lie beyond its bounds in some draw
        patched.setattr(pipeline, "SecureSource", lambda: SeededSource(1))
        freqdp(url, *_COUNTS).succeeded()


counts_db = filled_once("counts", _make)
made = clone_of("counts_db", scope="module")


def test_queries_of_the_page(made: str) -> None:
    """As an analyst: each runs, and gives what it is there for."""
    queries = re.findall(r"^```sql\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    analyst = make_conninfo(made, options="-c role=freqdp_analyst -c search_path=public")
    with psycopg.connect(analyst, autocommit=True) as connection:
        heat, flows, departures = (connection.execute(q.encode()).fetchall() for q in queries[:3])
    zones = value(made, "SELECT count(*) FROM freqdp_release.vans_1_zone WHERE level = 'zone'")
    districts = value(
        made, "SELECT count(*) FROM freqdp_release.vans_1_zone WHERE level = 'district'"
    )
    assert len(heat) == zones and heat[0][1] > 0
    assert flows and all(shown > margin for _, _, shown, margin, _ in flows)
    assert len(departures) == 24 * districts


def test_what_analysts_are_told(made: str) -> None:
    shown = freqdp(made, "release", "show", "vans_1", in_words=True).out
    assert "freqdp_release.vans_1_visits, version 1" in shown
    assert "freqdp_release.vans_1_flows_line" in shown and "margin" in shown
    assert "counts for less than 1" in shown
    (comment,) = query(made, "SELECT obj_description('freqdp_release.vans_1_visits'::regclass)")[0]
    assert "epsilon 2" in comment and "not counted because of" in comment
    bins = query(made, "SELECT col_description('freqdp_release.vans_1_bin'::regclass, 2)")
    assert "Europe/Brussels" in bins[0][0]


def test_layers_that_a_map_finds(made: str) -> None:
    """What QGIS lists: the kind of geometry and the SRID of each."""
    layers = query(
        made,
        "SELECT f_table_name, type, srid FROM geometry_columns "
        "WHERE f_table_name LIKE 'vans\\_1%' ORDER BY 1",
    )
    assert layers == [
        ("vans_1_flows_line", "LINESTRING", 4326),
        ("vans_1_visits_map", "MULTIPOLYGON", 4326),
        ("vans_1_zone", "MULTIPOLYGON", 4326),
    ]


def test_one_geopackage(made: str, tmp_path: Path) -> None:
    out = tmp_path / "counts.gpkg"
    freqdp(made, "release", "export", "vans_1", "--format", "gpkg", "--out", str(out)).succeeded()
    layers = dict(pyogrio.list_layers(out))
    assert layers["vans_1_visits_map"] == "MultiPolygon"
    assert layers["vans_1_flows_line"] == "LineString" and layers["vans_1_trips"] is None
    for layer in layers:
        rows = value(made, f"SELECT count(*) FROM freqdp_release.{layer}")
        assert pyogrio.read_info(out, layer=layer)["features"] == rows
    for layer in ("vans_1_visits_map", "vans_1_flows_line"):
        fields = set(pyogrio.read_info(out, layer=layer)["fields"])
        assert {"value", "margin", "estimate", "bin_name", "level"} <= fields
    # in QGIS, flows are drawn above the map of visits
    project = Xml.fromstring(out.with_name("counts.gpkg.qgs").read_text("utf-8").partition("\n")[2])
    drawn = [node.get("name") for node in project.findall("layer-tree-group/layer-tree-layer")]
    assert drawn == ["vans_1_flows_line", "vans_1_visits_map"]


def test_margins_and_membership(made: str) -> None:
    measured = freqdp(made, "evaluate", "vans_1").succeeded()
    found = measured.get("metrics", measured)
    for name in ("visits.zone", "visits.district", "flows.zone", "flows.district", "stays.zone"):
        assert 0.92 <= found[f"counts.coverage.{name}"] <= 0.98, name
    # nothing random is in it
    assert found["membership.auc.unprotected"] > 0.7
    assert found["membership.auc"] < 0.65
    # one in ten is a taxi and has very many visits: too few for the first round to see, unless noise helps
    assert 0.1 < found["counts.lost.visits"] < 0.95
    assert 0 <= found["counts.lost.stays"] < 0.6


def test_reports(made: str, tmp_path: Path) -> None:
    for public in (False, True):
        page = report(made, "vans_1", tmp_path, *(["--public"] if public else []))
        assert "24 maps of the zones" in page and "The largest flows" in page
        assert "How sure the numbers are" in page and page.count("<svg") >= 3
        assert "http://" not in re.sub(r"http://www\.w3\.org/\S+", "", page)


def test_held_approved_and_asked_for_in_sql(made: str) -> None:
    freqdp(made, *_COUNTS, "--tables", "visits", "--hold", "--as", "held").succeeded()
    freqdp(made, "release", "approve", "held").succeeded()
    query(
        made,
        'SELECT freqdp.request_release(\'vans\', \'counts\', 1, \'{"zones": "h3:7", "tables": "flows"}\')',
    )
    assert serve(made).done == 1
    newest = query(
        made, "SELECT relations FROM freqdp_release.catalog ORDER BY published_at DESC LIMIT 1"
    )
    suffixes = [name.split("_", 2)[2] for name in newest[0][0]]
    assert sorted(suffixes) == ["bin", "flows", "flows_line", "zone"]


@pytest.mark.parametrize("purpose", ["density", "flows"])
def test_recommend_tries_counts(
    made: str, purpose: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try_only(monkeypatch, "cut")
    found = freqdp(
        made, "recommend", "vans", "--risk", "20%", "--for", purpose, "--minutes", "30", "--objects",
        "200", "--out", str(tmp_path / purpose),
    ).succeeded()  # fmt: skip
    (counts,) = (c for c in found["candidates"] if c["method"] == "counts")
    assert counts["kind"] == "counts" and counts["risk"] < 0.3 and 0 <= counts["usefulness"] < 1
    assert "counts" in (tmp_path / purpose / "recommendation.html").read_text("utf-8")
