"""`freqdp evaluate --table`: tables that were made elsewhere, and rule books."""

from __future__ import annotations

from pathlib import Path

from servers import clone_of, filled_once
from world import freqdp, query, written

_COLUMNS = ("--against", "city", "--trajectory", "id", "--time", "at", "--geom", "geom")


def _make_tables(url: str) -> None:
    """As somebody makes them by hand."""
    query(
        url,
        "CREATE SCHEMA hand; "
        # new ids, and nothing else
        "CREATE TABLE hand.renamed AS SELECT md5('x' || object_id) AS id, at, geom FROM demo.city; "
        "CREATE TABLE hand.key AS SELECT DISTINCT md5('x' || object_id) AS id, object_id "
        "FROM demo.city; "
        # an id a day
        "CREATE TABLE hand.daily AS SELECT object_id || to_char(at, '-DD') AS id, at, geom "
        "FROM demo.city; "
        # nobody's: all moved by 20 km
        "CREATE TABLE hand.nobody AS SELECT object_id AS id, at, "
        "ST_Translate(geom, 0.3, 0.2) AS geom FROM demo.city",
    )


tables_db = filled_once("tables", _make_tables, "city_db")
tables = clone_of("tables_db")


def test_new_ids_alone_hide_nobody(tables: str, tmp_path: Path) -> None:
    before, page = written(tables), tmp_path / "page.html"
    asked = ("evaluate", "--table", "hand.renamed", *_COLUMNS)
    found = freqdp(tables, *asked, "--out", str(page)).succeeded()
    assert found["release"] == "hand.renamed" and found["key"] == "matched"
    assert found["kind"] == "edited"
    assert found["trajectories"] == found["attributed"] == found["objects"] == 40
    assert found["metrics"]["la"] == 1.0 and found["metrics"]["exposure"] > 0.99
    assert found["metrics"]["inf"] == 0.0 and found["metrics"]["query_error"] == 0.0
    assert found["verdicts"][0]["answer"] == "yes"
    text = page.read_text("utf-8")
    assert "<h1>Table hand.renamed</h1>" in text and "nothing is guaranteed" in text
    assert written(tables) == before, "nothing is stored or spent"
    by_key = freqdp(tables, *asked, "--key", "hand.key").succeeded()
    assert by_key["key"] == "given"
    assert by_key["metrics"] == found["metrics"], "matching found whose each trajectory is"
    freqdp(tables, *asked, "--out", str(page)).refused("is there already")


def test_pieces_and_nobodys(tables: str) -> None:
    daily = freqdp(tables, "evaluate", "--table", "hand.daily", *_COLUMNS).succeeded()
    assert daily["kind"] == "unlinked" and daily["objects"] == 40
    assert daily["attributed"] == daily["trajectories"] > 40
    assert "exposure.relink.1" in daily["metrics"], "pieces are joined again"
    nobody = freqdp(tables, "evaluate", "--table", "hand.nobody", *_COLUMNS).succeeded()
    assert nobody["kind"] == "synthetic" and nobody["attributed"] == 0
    assert nobody["metrics"]["exposure"] < daily["metrics"]["exposure"]
    words = freqdp(tables, "evaluate", "--table", "hand.daily", *_COLUMNS, in_words=True).out
    assert "Whose they are was found by matching" in words


def test_rule_books(tables: str) -> None:
    answer = freqdp(
        tables,
        "evaluate",
        "--table",
        "hand.renamed",
        *_COLUMNS,
        "--rules",
        "usdot",
        "--rules",
        "mds",
    )
    assert answer.code == 3, "broken rules are for scripts, too"
    rules = answer.document["rules"]
    assert [r["book"] for r in rules] == ["usdot"] * 3 + ["mds"] * 2
    assert not any(r["passed"] for r in rules)
    query(tables, "CREATE TABLE hand.one AS SELECT 1 AS id, at, geom FROM hand.nobody LIMIT 1")
    alone = freqdp(tables, "evaluate", "--table", "hand.one", *_COLUMNS, "--rules", "usdot")
    assert alone.code == 0 and all(r["passed"] for r in alone.document["rules"])
