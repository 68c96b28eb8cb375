"""Nobody gets others to run what they planted: a runner in our schemas, an analyst in `public`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from installed import psql
from library import make_points
from psycopg import sql
from servers import clone_of, filled_once
from world import anonymize, freqdp, login, query, session_of, value, verify, withdraw

import freqdp_db
from freqdp_db.db.extension import extension_files
from freqdp_db.db.tables import Names

POINTS = [(f"o{i % 6}", 60.0 * i, 100.0 * (i * 7 % 23), 100.0 * (i * 5 % 11)) for i in range(180)]
ADD = ("dataset", "add", "d", "--from", "world.points", "--object", "object", "--time", "at",
       "--geom", "geom", "--snap", "grid:100")  # fmt: skip


def _build(url: str) -> None:
    make_points(url, "points", POINTS)
    freqdp(url, *ADD).succeeded()
    freqdp(url, "dataset", "build", "d").succeeded()


planted_db = filled_once("planted", _build)
world = clone_of("planted_db")


@pytest.fixture
def runner(world: str) -> Iterator[psycopg.Connection]:
    with session_of(world, "freqdp_runner") as session:
        yield session


_FORGED = (
    "CREATE FUNCTION freqdp.{} RETURNS {} LANGUAGE sql AS "
    "$$ INSERT INTO freqdp.spend SELECT 1, 99, 'grant', 777777, NULL, 'x', 'x', now(), '', ''; {} $$"
)
PLANTED = [
    # overloads that fit a call of ours better than the function that is meant
    _FORGED.format("append_entry(int, varchar, numeric, bigint, text)", "text", "SELECT ''"),
    _FORGED.format("append_entry(int, name, numeric, int, text)", "text", "SELECT ''"),
    _FORGED.format("spend_of(text, json)", "record", "SELECT 'occurrence', 0.0"),
    _FORGED.format("entry_hash(int)", "text", "SELECT ''"),
    "CREATE FUNCTION freqdp_release.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE OPERATOR freqdp.= (LEFTARG = text, RIGHTARG = text, FUNCTION = pg_catalog.texteq)",
    "CREATE TYPE freqdp.mine AS (x int)",
    "CREATE DOMAIN freqdp_release.mine AS int",
    "CREATE TABLE freqdp.staging_77 (trajectory_id bigint DEFAULT 1)",
    "CREATE TABLE freqdp_release.mine (x int)",
    "CREATE VIEW freqdp_release.d_current AS SELECT 1 AS x",
    # what others write to and read through
    "ALTER TABLE freqdp.sample ALTER COLUMN seq SET DEFAULT 1",
    "ALTER TABLE freqdp.sample_1 ALTER COLUMN seq SET DEFAULT 1",
    "ALTER TABLE freqdp.staging_1 ALTER COLUMN seq SET DEFAULT 1",
    "ALTER TABLE freqdp.staging_1 ADD CHECK (seq > 0)",
    "ALTER TABLE freqdp.staging_1 ENABLE ROW LEVEL SECURITY",
    "ALTER TABLE freqdp.staging_1 OWNER TO CURRENT_USER",
    "CREATE POLICY mine ON freqdp.staging_1 USING (true)",
    "CREATE INDEX ON freqdp.staging_1 (abs(seq))",
    "CREATE RULE mine AS ON INSERT TO freqdp.staging_1 DO ALSO SELECT 1",
    "CREATE TRIGGER mine BEFORE TRUNCATE ON freqdp.staging_1 EXECUTE FUNCTION "
    "suppress_redundant_updates_trigger()",
    "TRUNCATE freqdp.staging_1",
    "DROP TABLE freqdp.staging_1",
    "UPDATE freqdp.staging_1 SET seq = 1",
    "CREATE TRIGGER mine BEFORE TRUNCATE ON freqdp_release.d_1 EXECUTE FUNCTION "
    "suppress_redundant_updates_trigger()",
    "INSERT INTO freqdp_release.d_1 SELECT * FROM freqdp_release.d_1",
    "INSERT INTO freqdp.sample_1 SELECT * FROM freqdp.sample_1",
    "CREATE OR REPLACE VIEW freqdp_release.d_current AS SELECT 1 AS x",
    # functions that only ours may call
    "SELECT freqdp.create_area_view('d_1', 32631, 32631)",
    "SELECT freqdp.let_runners_fill('spend')",
]


def test_a_runner_plants_nothing(world: str, runner: psycopg.Connection) -> None:
    """Among these the attacks that forged a grant of 777,777 and ran as the curator and administrator."""
    anonymize(world, "d", "lg", "--signature", "2")
    runner.execute("SELECT freqdp.create_staging(1, 'lg', '', 4326)")
    runner.execute(
        "INSERT INTO freqdp.staging_1 SELECT 1, 1, now(), 'SRID=4326;POINT(1 2)'::public.geometry"
    )
    budget = "SELECT granted, spent FROM freqdp.budget"
    before = query(world, budget)
    for statement in PLANTED:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            runner.execute(statement.encode())
            pytest.fail(f"allowed: {statement}")
    # who has no right to hand on is warned, and hands nothing on
    runner.execute("GRANT SELECT ON freqdp_release.d_1 TO PUBLIC")
    assert (
        value(world, "SELECT has_table_privilege('public', 'freqdp_release.d_1', 'SELECT')")
        is False
    )
    freqdp(world, "budget", "d", "--raise", "1", "--reason", "x").succeeded()
    assert query(world, budget) == [(before[0][0] + 1, before[0][1])]
    freqdp(world, "ledger", "verify").succeeded()


def test_a_runner_makes_and_drops_only_what_is_due(world: str, runner: psycopg.Connection) -> None:
    anonymize(world, "d", "lg", "--hold", "--signature", "2")
    for statement in (
        "SELECT freqdp.create_build_table(7, 'spend')",
        "SELECT freqdp.create_build_table(NULL, 'sample')",
        "SELECT freqdp.finish_build_table(1, 'spend')",
        "SELECT freqdp.drop_build(1)",
        "SELECT freqdp.drop_release(1, false)",
        "SELECT freqdp.grant_release(1)",
        "SELECT freqdp.show_current(1, '')",
        "SELECT freqdp.publish_tables(1, '{}')",
        "SELECT freqdp.create_notes('spend', 1)",
        "SELECT freqdp.drop_notes('spend', 1)",
        "SELECT freqdp.create_staging(1, 'lg', '_spend', 4326)",
        "SELECT freqdp.create_staging(1, 'glove', '_area', 4326)",
        "SELECT freqdp.index_staging(1, 'lg', '', 'spend')",
        "SELECT freqdp.index_staging(1, 'lg', '_spend', NULL)",
    ):
        with pytest.raises(psycopg.Error) as refused:
            runner.execute(statement.encode())
        assert (refused.value.sqlstate or "").startswith("QF"), (statement, refused.value)
    assert value(world, "SELECT count(*) FROM freqdp_release.d_1") > 0


# Types that statements of ours compare, join and put together; `unknown` cannot be planted.
_TYPES = (
    "text", "varchar", "name", "bpchar", "int2", "int4", "int8", "float4", "float8", "numeric",
    "oid", "regclass", "regtype", "regproc", "timestamptz", "timestamp", "date", "interval",
    "jsonb", "json", "bool", "uuid", "xid8",
)  # fmt: skip
_OPERATORS = [
    "=",
    "<>",
    "<",
    ">",
    "<=",
    ">=",
    "||",
    "+",
    "-",
    "*",
    "/",
    "->",
    "->>",
    "?",
    "~",
    "#>>",
]


_PLANT = """
CREATE PROCEDURE public.plant(what text, arguments text, returns text) LANGUAGE plpgsql AS $$
BEGIN
    -- a sequence remembers a call also where the transaction is rolled back
    EXECUTE format(
        'CREATE FUNCTION public.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L', what, arguments, returns,
        format('BEGIN PERFORM pg_catalog.nextval(%L); RAISE EXCEPTION %L; END',
            'public.caught', 'planted ' || what)
    );
EXCEPTION WHEN duplicate_function OR wrong_object_type OR invalid_function_definition
        OR feature_not_supported THEN
    NULL;
END $$;

CREATE PROCEDURE public.plant_operators(types text[], operators text[]) LANGUAGE plpgsql AS $$
DECLARE
    one text;
    other text;
    operator text;
BEGIN
    FOREACH one IN ARRAY types LOOP
        FOREACH other IN ARRAY types LOOP
            CALL public.plant('planted', one || ', ' || other, 'bool');
            FOREACH operator IN ARRAY operators LOOP
                EXECUTE format('CREATE OPERATOR public.%s (LEFTARG = %s, RIGHTARG = %s, '
                    'FUNCTION = public.planted)', operator, one, other);
            END LOOP;
        END LOOP;
    END LOOP;
END $$;

-- functions of the server's own with the same arguments, for paths on which public comes first
CREATE PROCEDURE public.plant_functions(names text[]) LANGUAGE plpgsql AS $$
DECLARE
    item record;
BEGIN
    FOR item IN
        SELECT p.proname, pg_get_function_identity_arguments(p.oid) AS arguments FROM pg_proc AS p
        WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f' AND p.proname = ANY (names)
    LOOP
        CALL public.plant(item.proname, item.arguments, 'text');
    END LOOP;
END $$;

-- PostGIS's, with arguments that end where its defaults begin, and of types that it casts from
CREATE PROCEDURE public.plant_postgis() LANGUAGE plpgsql AS $$
DECLARE
    item record;
    arguments text;
    other text;
BEGIN
    FOR item IN
        SELECT p.proname, p.pronargs, p.pronargdefaults, p.proargtypes::oid[] AS types FROM pg_proc AS p
        JOIN pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
        JOIN pg_extension AS e ON e.oid = d.refobjid AND e.extname = 'postgis'
        WHERE p.proname ~ '^(st_|geometrytype|geography|geometry|box3d|postgis_typmod_srid)'
    LOOP
        FOR final IN item.pronargs - item.pronargdefaults - 1 .. item.pronargs - 1 LOOP
            FOREACH other IN ARRAY ARRAY['', 'numeric', 'int8', 'int4', 'varchar', 'public.geometry'] LOOP
                SELECT string_agg(CASE
                    WHEN other IN ('numeric', 'int8', 'int4')
                        AND t.type IN ('float8'::regtype, 'int4'::regtype)
                        OR other = 'varchar' AND t.type = 'text'::regtype
                        OR other = 'public.geometry' AND t.type IN (
                            'public.box3d'::regtype, 'public.box2d'::regtype, 'public.geography'::regtype)
                    THEN other ELSE t.type::regtype::text END, ', ' ORDER BY t.n) INTO arguments
                FROM unnest(item.types[0:final]) WITH ORDINALITY AS t (type, n);
                CALL public.plant(item.proname, coalesce(arguments, ''), 'float8');
            END LOOP;
        END LOOP;
    END LOOP;
END $$;
"""
_FUNCTIONS = (
    "lower", "length", "now", "format", "hashtext", "hashtextextended", "set_config",
    "current_setting", "pg_try_advisory_xact_lock", "pg_advisory_xact_lock", "pg_has_role",
    "has_schema_privilege", "has_table_privilege", "has_database_privilege", "to_regclass",
    "format_type", "pg_backend_pid", "current_schema", "version", "quote_literal", "starts_with",
    "obj_description", "col_description", "clock_timestamp", "date_trunc", "pg_notify",
    "current_database", "pg_export_snapshot", "nextval", "jsonb_each", "trim_scale", "to_regtype",
    "pg_get_userbyid", "aclexplode", "acldefault", "octet_length", "encode", "sha256", "concat_ws",
)  # fmt: skip


@pytest.fixture
def hostile(empty_database_url: str) -> Iterator[str]:
    """A database in which an analyst has planted operators and functions, found first by all sessions."""
    make_points(empty_database_url, "points", POINTS)
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute("SET search_path = pg_catalog")
        connection.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")
        connection.execute("CREATE SEQUENCE public.caught")
        connection.execute("GRANT ALL ON public.caught TO PUBLIC")
        with session_of(empty_database_url) as analyst:
            analyst.execute("SET search_path = pg_catalog")
            analyst.execute(_PLANT)
            analyst.execute(
                "CALL public.plant_operators(%s::text[], %s::text[])",
                [list(_TYPES), list(_OPERATORS)],
            )
            analyst.execute("CALL public.plant_functions(%s::text[])", [list(_FUNCTIONS)])
            analyst.execute("CALL public.plant_postgis()")
            connection.execute(
                sql.SQL("ALTER DATABASE {} SET search_path = public, pg_catalog").format(
                    sql.Identifier(connection.info.dbname)
                )
            )
            yield empty_database_url


def _ask(url: str, statement: str) -> tuple[object, ...] | None:
    with psycopg.connect(url) as connection:
        connection.execute("SET search_path = pg_catalog")
        return connection.execute(statement.encode()).fetchone()


def test_nothing_in_public_is_called(hostile: str, tmp_path: Path) -> None:
    caught = "SELECT is_called, last_value FROM public.caught"
    planted = _ask(
        hostile,
        "SELECT count(*) FILTER (WHERE proname LIKE 'st@_%' ESCAPE '@'), count(*) FROM pg_proc p "
        "WHERE pronamespace = 'public'::regnamespace AND NOT EXISTS (SELECT FROM pg_depend d "
        "WHERE d.objid = p.oid AND d.deptype = 'e')",
    )
    assert planted is not None and planted[0] > 200 and planted[1] > 700  # type: ignore[operator]
    # a session that pins nothing is caught at once
    with (
        psycopg.connect(hostile) as connection,
        pytest.raises(psycopg.errors.RaiseException, match="planted"),
    ):
        connection.execute("SELECT 1 WHERE 'a'::varchar = 'b'::varchar")
    assert _ask(hostile, caught) == (True, 1)
    freqdp(hostile, "init").succeeded()
    freqdp(hostile, *ADD, "--where", "object <> 'o5'").succeeded()
    freqdp(hostile, "dataset", "build", "d").succeeded()
    anonymize(hostile, "d", "lg", "--signature", "2")
    anonymize(hostile, "d", "lg", "--signature", "2", "--new-draw", "--hold")
    verify(hostile, "d_1")
    freqdp(hostile, "evaluate", "d_1").succeeded()
    freqdp(hostile, "release", "approve", "d_2").succeeded()
    for kind in ("csv", "geoparquet", "gpkg"):
        target = str(tmp_path / kind)
        freqdp(hostile, "release", "export", "d_1", "--format", kind, "--out", target).succeeded()
        elsewhere = ("--format", kind, "--out", f"{target}2", "--srid", "4326")
        freqdp(hostile, "release", "export", "d_1", *elsewhere).succeeded()
    assert _ask(hostile, "SELECT freqdp.request_release('d', 'lg', 0.5, '{\"signature\": 2}')") == (
        1,
    )
    assert freqdp(hostile, "worker", "--once").code == 0
    assert _ask(hostile, "SELECT state FROM freqdp.job") == ("done",)
    withdraw(hostile, "d_1")
    freqdp(hostile, "ledger", "verify").succeeded()
    freqdp(hostile, "doctor")
    # a filter's names are looked up where only owners make functions: here PostGIS's need their schema
    again = ("dataset", "add", "e", *ADD[3:], "--where")
    refused = freqdp(hostile, *again, "ST_X(geom) > 0").refused("st_x")
    assert "public.ST_X" in refused["remedy"]
    freqdp(hostile, *again, "public.ST_X(geom) > 0").succeeded()
    trips = _ask(hostile, "SELECT count(*), max(length_m) FROM freqdp_release.d_current_trip")
    assert trips is not None and trips[0]
    assert _ask(hostile, caught) == (True, 1)


_MINE = """
CREATE TABLE freqdp.schema_version (version_num text);
INSERT INTO freqdp.schema_version VALUES ('0010');
CREATE TABLE freqdp.sql_object (position int, path text, identity text, kind text, hash text);
INSERT INTO freqdp.sql_object
VALUES (1, 'x', 'FUNCTION x(); RESET ROLE; SELECT nextval(''public.guarded''); --', 'function', '')
"""
_READ = """
CREATE FUNCTION freqdp.planted() RETURNS text LANGUAGE plpgsql AS
    $$ BEGIN PERFORM nextval('public.guarded'); RETURN 'FUNCTION x'; END $$;
ALTER TABLE freqdp.sql_object RENAME TO mine;
CREATE VIEW freqdp.sql_object AS
SELECT position, path, freqdp.planted() AS identity, kind, hash FROM freqdp.mine
"""


@pytest.mark.parametrize("planted", [_MINE, f"{_MINE};{_READ}"], ids=["a row", "a view"])
@pytest.mark.parametrize("by", ["init", "extension"])
def test_a_schema_that_somebody_made_first(empty_database_url: str, planted: str, by: str) -> None:
    """Whoever installs freqdp runs nothing that the owner of a schema of that name has put there."""
    url = empty_database_url
    with login(url) as name:
        # what a sequence has given stays given, whatever is rolled back
        query(url, "CREATE SEQUENCE public.guarded")
        for schema in ("freqdp", "freqdp_release"):
            query(url, f"CREATE SCHEMA {schema} AUTHORIZATION {name}")
        with psycopg.connect(url, autocommit=True) as session:
            session.execute(sql.SQL("SET SESSION AUTHORIZATION {}").format(sql.Identifier(name)))
            session.execute(planted.encode())
        if by == "init":
            assert freqdp(url, "init").code == 1
        else:
            script = extension_files(Names("freqdp", "freqdp_release"), freqdp_db.__version__)
            done = psql(url, script[f"freqdp--{freqdp_db.__version__}.sql"])
            assert "sql_object" in done.stderr
        assert value(url, "SELECT is_called FROM public.guarded") is False
