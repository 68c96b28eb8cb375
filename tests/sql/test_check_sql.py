"""The static check of our SQL finds what it is there for."""

from __future__ import annotations

import pytest
from check_sql import NAMES, faults, scripts, uncast_behind_definers

from freqdp_db.db.schema import load_objects

REVOKE = "REVOKE ALL ON FUNCTION p.f() FROM PUBLIC;"
PIN = "SET search_path = pg_catalog, pg_temp"
GOOD = f"CREATE FUNCTION p.f() RETURNS int LANGUAGE plpgsql {PIN} AS $$ BEGIN {{}} END $$; {REVOKE}"

FAULTY = {
    "search_path": [
        "CREATE FUNCTION p.f() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN 1; END $$;" + REVOKE,
        "CREATE FUNCTION p.f() RETURNS int LANGUAGE plpgsql SECURITY DEFINER "
        "SET search_path = public AS $$ BEGIN RETURN 1; END $$;" + REVOKE,
        "CREATE FUNCTION p.f() RETURNS int LANGUAGE plpgsql SECURITY DEFINER "
        "SET search_path = pg_catalog AS $$ BEGIN RETURN 1; END $$;" + REVOKE,
        "CREATE FUNCTION p.f() RETURNS int LANGUAGE sql SECURITY DEFINER RETURN 1;" + REVOKE,
    ],
    "BEGIN ATOMIC": [
        f"CREATE FUNCTION p.f() RETURNS int LANGUAGE sql {PIN} AS 'SELECT 1';" + REVOKE
    ],
    "not taken from PUBLIC": [
        GOOD.format("RETURN 1;").replace(REVOKE, ""),
        GOOD.format("RETURN 1;").replace("p.f() FROM", "p.g() FROM"),
        GOOD.format("RETURN 1;").replace("FROM PUBLIC", "FROM someone"),
    ],
    "granted to PUBLIC": [
        "GRANT SELECT ON p.t TO PUBLIC",
        "GRANT EXECUTE ON FUNCTION p.f() TO someone, PUBLIC",
    ],
    "relation t has no schema": [
        "CREATE VIEW p.v AS SELECT * FROM t",
        "CREATE VIEW p.v AS SELECT * FROM p.u WHERE EXISTS (SELECT 1 FROM t)",
        "CREATE TABLE t (x int)",
        GOOD.format("PERFORM 1 FROM t; RETURN 1;"),
        GOOD.format("RETURN (SELECT count(*) FROM t);"),
        GOOD.format("IF EXISTS (SELECT 1 FROM t) THEN RETURN 2; END IF; RETURN 1;"),
        "CREATE FUNCTION p.f() RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT count(*) FROM t; END;"
        + REVOKE,
    ],
    "st_x has no schema": [
        "CREATE VIEW p.v AS SELECT ST_X(g) FROM p.t",
        GOOD.format("RETURN st_x(NULL);"),
    ],
    "type geometry has no schema": [
        "CREATE TABLE p.t (g geometry)",
        "CREATE VIEW p.v AS SELECT g::geometry FROM p.t",
    ],
    "f has no schema": [GOOD.format("RETURN 1;").replace("p.f", "f")],
    "CREATE OR REPLACE": ["CREATE OR REPLACE VIEW p.v AS SELECT 1 AS x"],
    "dynamic SQL": [
        GOOD.format("EXECUTE 'SELECT 1'; RETURN 1;"),
        GOOD.format("EXECUTE format('SELECT %s', 1); RETURN 1;"),
        GOOD.format("EXECUTE format('SELECT %I, %1$s', 1); RETURN 1;"),
        GOOD.format("EXECUTE format(p.made(), 1); RETURN 1;"),
    ],
    "without a cast": [
        GOOD.format(body).replace("plpgsql", "plpgsql SECURITY DEFINER")
        for body in (
            "RETURN p.g(1);",
            "RETURN p.g(1::int, 'x');",
            "PERFORM p.g(x) FROM p.t; RETURN 1;",
            "IF EXISTS (SELECT FROM p.g(NULL)) THEN RETURN 2; END IF; RETURN 1;",
        )
    ],
}


@pytest.mark.parametrize("fault", FAULTY)
def test_faults_are_found(fault: str) -> None:
    for text in FAULTY[fault]:
        assert any(fault in found for found in faults(text)), text


def test_good_sql_passes() -> None:
    assert faults(GOOD.format("RETURN (WITH t AS (SELECT 1) SELECT count(*) FROM t);")) == []
    assert faults("CREATE VIEW p.v AS SELECT s.ST_X(g) FROM p.t") == []
    assert faults(GOOD.format("EXECUTE format('DROP TABLE %I.%2$I', 'p', 'x'); RETURN 1;")) == []
    definer = GOOD.replace("plpgsql", "plpgsql SECURITY DEFINER")
    assert faults(definer.format("RETURN p.g(1::int, 'x'::text) + length('x');")) == []


def test_functions_behind_definers_are_looked_at() -> None:
    inner = GOOD.format("RETURN p.h(1);").replace("p.f", "p.g")
    outer = GOOD.replace("plpgsql", "plpgsql SECURITY DEFINER").format("RETURN p.g();")
    assert faults(inner) == faults(outer) == []
    found = list(uncast_behind_definers({"inner": inner, "outer": outer}))
    assert [origin for origin, _ in found] == ["inner"]
    assert list(uncast_behind_definers({"inner": inner})) == []


def test_all_of_ours_is_looked_at() -> None:
    origins = [origin for origin, _ in scripts()]
    assert sum(origin.startswith("sql/") for origin in origins) >= 20
    assert sum(origin.startswith("migrations/") for origin in origins) >= 40
    assert sum(origin.endswith("rights.py") for origin in origins) >= 20
    assert [fault for _, text in scripts() for fault in faults(text)] == []
    assert list(uncast_behind_definers({o.path: o.text for o in load_objects(NAMES)})) == []
