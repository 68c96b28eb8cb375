"""`<name>_trip`, `_line` by days and the views of the newest release: what analysts begin with."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import sql
from world import add_city, anonymize, as_role, freqdp, query, value, verify, withdraw

from freqdp_db.release import pipeline
from freqdp_db.release.request import Request


def test_views_follow_the_release(city: str) -> None:
    """Granted, shown as the newest, and gone with it; a view of somebody's is in the way."""
    anonymize(city, "city", "lg", "--epsilon", "0.5", "--signature", "3")
    analyst = as_role(city, "analyst")
    with psycopg.connect(analyst) as reader:
        for part in ("", "_line", "_trip"):
            for of in ("city_1", "city_current"):
                relation = sql.Identifier("freqdp_release", of + part)
                assert reader.execute(
                    sql.SQL("SELECT * FROM {} LIMIT 1").format(relation)
                ).fetchone()
    bare = query(
        city,
        "SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid "
        "WHERE c.relnamespace = 'freqdp_release'::regnamespace AND c.relkind IN ('r', 'v') "
        "AND a.attnum > 0 AND c.relname <> 'catalog' AND col_description(c.oid, a.attnum) IS NULL",
    )
    assert bare == []
    # one trajectory is found by the key, not by reading all of them
    plan = query(city, "EXPLAIN SELECT * FROM freqdp_release.city_1_trip WHERE trajectory_id = 1")
    assert any("Index Cond: (trajectory_id = " in line for (line,) in plan), plan
    query(city, "CREATE VIEW public.mine AS SELECT count(*) FROM freqdp_release.city_1_trip")
    waiting = withdraw(city, "city_1")
    assert "public.mine" in waiting["waits_for"]
    query(city, "DROP VIEW public.mine")
    withdraw(city, "city_1")
    left = query(
        city,
        "SELECT relname FROM pg_class WHERE relnamespace = 'freqdp_release'::regnamespace "
        "AND relkind IN ('r', 'v')",
    )
    assert left == [("catalog",), ("series",)]


def test_no_trips_where_points_are_only_middles(city: str) -> None:
    anonymize(city, "city", "glove", "--k", "2")
    assert value(city, "SELECT to_regclass('freqdp_release.city_1_trip')") is None
    assert value(city, "SELECT to_regclass('freqdp_release.city_current_line')") is not None


@pytest.mark.parametrize("method", ["glove", "lg+cut"])
def test_the_columns_of_a_release_are_known_before_it_is_made(city: str, method: str) -> None:
    request = Request.parse(method)
    anonymize(city, "city", method)
    kinds = "replace(replace(format_type(atttypid, atttypmod), ',32631', ''), ',4326', '')"
    for relation in request.method.relations:
        found = query(
            city,
            f"SELECT attname::text, {kinds} FROM pg_attribute WHERE attrelid = to_regclass(%s) "
            "AND attnum > 0 ORDER BY attnum",
            f"freqdp_release.city_current{relation.suffix}",
        )
        assert [name for name, _ in found] == relation.names, relation.suffix
        geometries = [c.kind for c in relation.columns if c.kind.startswith("geometry")]
        assert [kind for _, kind in found if kind.startswith("geometry")] == geometries


def test_a_view_that_comes_meanwhile_does_not_lose_the_release(
    city: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    anonymize(city, "city", "glove", "--k", "2")
    query(city, "CREATE VIEW public.v AS SELECT area FROM freqdp_release.city_current")
    with monkeypatch.context() as patched:
        patched.setattr(pipeline, "require_replaceable", lambda *of: None)
        refused = freqdp(city, "anonymize", "city", "--method", "lg", "--epsilon", "1").refused(
            "'city_2' is made, but not published", "public.v"
        )
    assert "freqdp release resume city_2" in refused["remedy"]
    spent = value(city, "SELECT sum(spent) FROM freqdp.budget")
    query(city, "DROP VIEW public.v")
    assert freqdp(city, "release", "resume", "city_2").succeeded()["state"] == "published"
    assert value(city, "SELECT sum(spent) FROM freqdp.budget") == spent


def test_days_are_those_of_the_dataset(city: str) -> None:
    add_city(city, "far", "--timezone", "Asia/Tokyo")
    freqdp(city, "dataset", "build", "far").succeeded()
    anonymize(city, "far", "swap")
    wrong = value(
        city,
        "SELECT count(*) FROM freqdp_release.far_1_line, LATERAL ST_DumpPoints(geom) AS d "
        "WHERE (to_timestamp(ST_M(d.geom)) AT TIME ZONE 'Asia/Tokyo')::date <> day",
    )
    days = value(city, "SELECT count(DISTINCT day) FROM freqdp_release.far_1_line")
    assert wrong == 0 and days > 1
    verify(city, "far_1")
