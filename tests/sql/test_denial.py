"""The denial matrix is the golden file, and an analyst gets at nothing else in any way we know of."""

from __future__ import annotations

import re
from collections.abc import Iterator

import psycopg
import pytest
from denial import GOLDEN, POINTS, make_world, matrix
from servers import clone_of, filled_once
from world import session_of

from freqdp_db.methods.registry import suffixes

denied_db = filled_once("denied", make_world)
world = clone_of("denied_db", scope="module")


@pytest.fixture
def analyst(world: str) -> Iterator[psycopg.Connection]:
    """A session of somebody who is an analyst and nothing else."""
    with session_of(world, "freqdp_analyst") as session:
        yield session


def test_matrix_is_the_golden_one(world: str) -> None:
    """Changed on purpose? Look at the difference, then: python tests/sql/denial.py"""
    assert matrix(world) == GOLDEN.read_text().splitlines()


# What runners only read, what they only add to, and columns that say who did what for which price.
READ = (
    "account",
    "population",
    "population_source",
    "spend",
    "method",
    "sql_object",
    "schema_version",
)
ADDED = ("build_source", "step_column", "release_key", "tf_target", "pf_target", "edit_run")
RECORDED = re.compile(
    r"\b(asked_by|cancel_asked_by|request|requested_by|approved_by|held|parameters|request_hash|account_id|"
    r"created_by)\b"
)


def test_golden_matrix_denies() -> None:
    """What must never be in the golden file, whoever writes it anew."""
    for line in GOLDEN.read_text().splitlines():
        kind, name = line.split()[:2]
        rights = dict(word.split("=", 1) for word in line.split(": ", 1)[1].split())
        assert rights["PUBLIC"] == "-", line
        readable = (
            "catalog",
            "series",
            *(f"{of}{part}" for of in ("d_1", "d_current") for part in suffixes()),
        )
        may = dict.fromkeys(readable, "SELECT") | {"tile(z": "EXECUTE"}
        schema, _, relation = name.rstrip(":").partition(".")
        if kind == "schema":
            assert rights["freqdp_analyst"] == ("-" if schema == "freqdp" else "USAGE")
        else:
            expected = may.get(relation, "-") if schema == "freqdp_release" else "-"
            assert rights["freqdp_analyst"] == expected, line
        if kind == "table" and relation in READ + ADDED:
            expected = "SELECT" if relation in READ else "SELECT,INSERT"
            assert rights["freqdp_runner"] == rights["freqdp_admin"] == expected, line
        changed = re.findall(r"UPDATE\(([^)]*)\)", rights["freqdp_runner"])
        assert not any(RECORDED.search(columns) for columns in changed), line
        if kind == "table" and rights["freqdp_auditor"] != "-":
            assert re.fullmatch(r"SELECT(\([a-z_,]+\))?", rights["freqdp_auditor"]), line
        if name == "freqdp.build:":
            readable_of_it = rights["freqdp_auditor"].partition("(")[2].rstrip(")").split(",")
            assert len(readable_of_it) > 10 and "grid" not in readable_of_it, "it has coordinates"


def test_definers_are_few_and_pinned(world: str) -> None:
    with psycopg.connect(world) as connection:
        rows = connection.execute(
            "SELECT proname, proconfig FROM pg_proc WHERE prosecdef AND pronamespace IN "
            "('freqdp'::regnamespace, 'freqdp_release'::regnamespace) ORDER BY 1"
        ).fetchall()
    names = [
        "approve_release", "attach_build", "cancel_job", "check_release", "claim_population",
        "create_build_table", "create_notes", "create_staging", "declare_unit", "drop_build",
        "drop_current", "drop_notes", "drop_release",
        "drop_staging", "finish_build_table", "finish_staging", "grant_budget", "grant_release",
        "index_staging", "leave_series", "name_population", "open_account", "publish_tables",
        "record_release", "revoke_release", "show_current", "trace_source",
    ]  # fmt: skip
    assert rows == [(name, ["search_path=pg_catalog, pg_temp"]) for name in names]


def test_nothing_belongs_to_anybody_but_the_owner(world: str) -> None:
    """Whoever owns a table others write to can have them run a default, a trigger or a policy."""
    with psycopg.connect(world) as connection:
        rows = connection.execute(
            "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n "
            "ON n.oid = c.relnamespace WHERE n.nspname IN ('freqdp', 'freqdp_release') "
            "AND c.relowner <> n.nspowner UNION ALL "
            "SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace n "
            "ON n.oid = p.pronamespace WHERE n.nspname IN ('freqdp', 'freqdp_release') "
            "AND p.proowner <> n.nspowner"
        ).fetchall()
        assert rows == []


# Tables, views, functions and sequences are in the matrix; these are ways around it, and some of each.
ATTEMPTS = [
    "SELECT * FROM world.points",
    "SELECT * FROM freqdp.sample_1",
    "SELECT user_level FROM freqdp.release",
    "SELECT * FROM freqdp.edit",
    "TABLE freqdp_release.d_seeded",
    "TABLE freqdp_release.d_seeded_trip",
    "SELECT * FROM freqdp.nearest_trajectories('d', public.ST_Point(0, 0), 5, true)",
    "SELECT freqdp.record_release('x', 1, 'lg', '{}', true, false, '0', '{}')",
    "SELECT nextval('freqdp.build_number')",
    # plans, with what the planner knows of values
    "EXPLAIN SELECT * FROM freqdp.sample WHERE location_id = 1",
    "EXPLAIN ANALYZE SELECT * FROM freqdp.trajectory WHERE object_key = 'o1'",
    "EXPLAIN (VERBOSE, COSTS) SELECT * FROM freqdp.point_frequency WHERE pf > 3",
    # column statistics
    "SELECT * FROM pg_statistic",
    "SELECT * FROM pg_statistic_ext_data",
    "SELECT * FROM pg_stats WHERE schemaname IN ('freqdp', 'world')",
    "SELECT * FROM pg_stats_ext WHERE schemaname IN ('freqdp', 'world')",
    # other ways to read a relation
    "COPY freqdp.sample TO STDOUT",
    "COPY (SELECT 1) TO PROGRAM 'cat'",
    "SELECT pg_read_file('postgresql.conf')",
    "DO $$ BEGIN LOCK TABLE freqdp.sample IN ACCESS SHARE MODE; END $$",
    "SELECT query_to_xml('SELECT * FROM freqdp.sample', true, false, '')",
    "SELECT table_to_xml('freqdp.sample'::regclass, true, false, '')",
    "CREATE TEMP TABLE mine () INHERITS (freqdp.sample)",
    "CREATE TEMP TABLE mine (LIKE freqdp.sample INCLUDING ALL)",
    "CREATE TEMP VIEW mine AS SELECT * FROM freqdp.sample",
    "CREATE TEMP TABLE mine (t int REFERENCES freqdp.dataset)",
    "DO $$ BEGIN EXECUTE 'SELECT 1 FROM freqdp.sample'; END $$",
    "SELECT (NULL::freqdp.trajectory).object_key",
    # planting something, for others to run
    "CREATE TABLE freqdp_release.mine (x int)",
    "CREATE VIEW freqdp_release.mine AS SELECT * FROM freqdp_release.d_1",
    "CREATE FUNCTION freqdp_release.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE TRIGGER mine BEFORE INSERT ON freqdp_release.catalog EXECUTE FUNCTION "
    "suppress_redundant_updates_trigger()",
    "CREATE RULE mine AS ON INSERT TO freqdp_release.d_1 DO INSTEAD NOTHING",
    # changing what is published
    "INSERT INTO freqdp_release.catalog SELECT * FROM freqdp_release.catalog",
    "UPDATE freqdp_release.d_1 SET seq = 0",
    "DELETE FROM freqdp_release.catalog",
    "TRUNCATE freqdp_release.d_1",
    # becoming somebody else
    "SET ROLE freqdp_runner",
    "SET ROLE freqdp_admin",
    "SET ROLE freqdp_auditor",
    "GRANT SELECT ON freqdp_release.d_seeded TO freqdp_analyst",
    "GRANT freqdp_runner TO CURRENT_USER",
    "ALTER TABLE freqdp_release.d_1 OWNER TO CURRENT_USER",
    "ALTER ROLE CURRENT_USER SUPERUSER",
]


def test_attempts_at_raw_data(analyst: psycopg.Connection) -> None:
    """Refused for want of a right, or nothing found; no message holds a value of the source."""
    refused = 0
    for attempt in ATTEMPTS:
        try:
            cursor = analyst.execute(attempt.encode())
        except (psycopg.errors.InsufficientPrivilege, psycopg.errors.WrongObjectType) as error:
            shown = str(error) + str(error.diag.message_detail) + str(error.diag.context)
            assert not any(f"'{o}'" in shown for o in {point[0] for point in POINTS}), shown
            assert isinstance(error, psycopg.errors.InsufficientPrivilege), attempt
            refused += 1
        else:
            assert "pg_stats" in attempt, f"allowed: {attempt}"
            assert cursor.fetchall() == [], attempt
    assert refused == len(ATTEMPTS) - 2 >= 20


def test_an_analyst_can_do_the_job(analyst: psycopg.Connection) -> None:
    rows = analyst.execute(
        "SELECT count(*), count(DISTINCT trajectory_id) FROM freqdp_release.d_1"
    ).fetchone()
    assert rows is not None and rows[0] > 0
    assert analyst.execute("SELECT guarantee ->> 'plain' FROM freqdp_release.catalog").fetchall()
    assert analyst.execute("SELECT count(*) FROM freqdp_release.d_1_line").fetchone()


def test_what_everyone_sees_are_names_and_counts(analyst: psycopg.Connection) -> None:
    """The system catalogues are open to all: they hold our names and sizes, and no value."""
    texts = analyst.execute(
        "SELECT c.relname || coalesce(obj_description(c.oid), '') || "
        "coalesce(pg_get_expr(c.relpartbound, c.oid), '') FROM pg_class c "
        "WHERE c.relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname = 'freqdp') "
        "UNION ALL SELECT query FROM pg_stat_activity WHERE usename <> current_user "
        "AND datname = current_database()"
    ).fetchall()
    assert texts
    keys = {point[0] for point in POINTS}
    for (text,) in texts:
        assert not keys & set((text or "").replace("'", " ").replace('"', " ").split()), text
