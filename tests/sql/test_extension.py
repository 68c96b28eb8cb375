"""freqdp as an extension: what `init` makes, functions as its members, tables and views outside of it.

CREATE EXTENSION reads files of the server: these tests have one of their own, with a directory of
extensions that is theirs. The script by itself runs on the server of the other tests.
"""

from __future__ import annotations

import lzma
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from installed import OURS, POINTS, check_tables, psql, query, whole_job
from library import make_points, opened
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from servers import SharedServer, TestServer, cloned, destroy, run_program
from world import anonymize, freqdp, verify

import freqdp_db
from freqdp_db.db.extension import extension_files
from freqdp_db.db.schema import load_objects
from freqdp_db.db.tables import Names
from freqdp_db.server.binaries import Binaries, _share_dirs, find_binaries
from freqdp_db.server.embedded import EmbeddedServer

VERSION = freqdp_db.__version__
NAMES = {"private": "freqdp", "release": "freqdp_release"}
INSTALL = "CREATE EXTENSION freqdp; CALL freqdp.install()"


class _Server(EmbeddedServer):
    """A server with these programs."""

    def __init__(self, data_dir: Path, binaries: Binaries) -> None:
        super().__init__(data_dir)
        self.binaries = binaries

    def _binaries(self) -> Binaries:
        return self.binaries


@dataclass(frozen=True)
class Extensible:
    """A server and its directory of extensions."""

    server: TestServer
    folder: Path

    @contextmanager
    def database(self, *, template: str = "freqdp") -> Iterator[str]:
        """A database with PostGIS and nothing else."""
        with cloned(self.server, template) as url:
            yield url


def _with_own_extensions(root: Path) -> tuple[Binaries, Path]:
    """A PostgreSQL finds its files from where its program is: the same ones, but for this directory."""
    found = find_binaries()
    share = next(s for s in _share_dirs(found) if (s / "extension/postgis.control").exists())
    common = os.path.commonpath([found.bindir, share])
    bindir, own_share = root / found.bindir.relative_to(common), root / share.relative_to(common)
    bindir.mkdir(parents=True)
    for program in ("postgres", "initdb", "pg_ctl"):
        shutil.copy2(found.program(program), bindir)
    (own_share / "extension").mkdir(parents=True)
    for source, target in ((found.bindir.parent, bindir.parent), (share, own_share)):
        for entry in source.iterdir():
            if not (target / entry.name).exists():
                (target / entry.name).symlink_to(entry)
    for entry in (share / "extension").iterdir():
        if not entry.name.startswith("freqdp"):
            (own_share / "extension" / entry.name).symlink_to(entry)
    return replace(found, bindir=bindir), own_share / "extension"


@pytest.fixture(scope="module")
def extensible(shared_server: SharedServer) -> Iterator[Extensible]:
    root = Path(tempfile.mkdtemp(prefix="extension-", dir=shared_server.directory))
    root.chmod(0o711)
    binaries, folder = _with_own_extensions(root / "programs")
    server = _Server(root / "data", binaries)
    dsn = server.ensure_running()
    try:
        with freqdp_db.connect(dsn) as db:
            db.init_extension(folder)
        yield Extensible(TestServer(dsn, "extension"), folder)
    finally:
        destroy(server)
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def empty(extensible: Extensible) -> Iterator[str]:
    with extensible.database() as url:
        yield url


@pytest.fixture
def installed(empty: str) -> str:
    """A database with the extension, and what its procedure makes."""
    query(empty, INSTALL)
    return empty


def _catalog(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Every object of both schemas by its definition, owner, comment and rights; what `init` declares."""
    acl = "ARRAY(SELECT a::text FROM unnest({}) AS a ORDER BY 1)"
    relations = f"pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace AND {OURS}"
    statements = {
        "schemas": f"SELECT nspname, nspowner::regrole::text, {acl.format('nspacl')}, "
        f"obj_description(n.oid, 'pg_namespace') FROM pg_namespace n WHERE {OURS}",
        "functions": "SELECT p.oid::regprocedure::text, pg_get_functiondef(p.oid), "
        f"proowner::regrole::text, {acl.format('proacl')}, obj_description(p.oid, 'pg_proc') "
        "FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace "
        f"WHERE {OURS} AND p.proname <> 'install'",
        "relations": "SELECT c.oid::regclass::text, relkind::text, reloptions, relowner::regrole::text, "
        f"{acl.format('relacl')}, obj_description(c.oid, 'pg_class'), "
        "CASE WHEN relkind = 'v' THEN pg_get_viewdef(c.oid) END, "
        "CASE WHEN relkind IN ('i', 'I') THEN pg_get_indexdef(c.oid) END "
        f"FROM {relations}",
        "columns": "SELECT c.oid::regclass::text, attnum, attname, format_type(atttypid, atttypmod), "
        f"attnotnull, attidentity::text, attstorage::text, {acl.format('attacl')}, "
        "col_description(c.oid, attnum), pg_get_expr(adbin, adrelid) "
        f"FROM {relations} JOIN pg_attribute a ON a.attrelid = c.oid AND attnum > 0 AND NOT attisdropped "
        "LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum",
        "constraints": "SELECT c.oid::regclass::text, conname, pg_get_constraintdef(t.oid) "
        f"FROM {relations} JOIN pg_constraint t ON t.conrelid = c.oid",
        "triggers": "SELECT c.oid::regclass::text, pg_get_triggerdef(t.oid) "
        f"FROM {relations} JOIN pg_trigger t ON t.tgrelid = c.oid AND NOT tgisinternal",
        "methods": "SELECT name, position, declaration::text FROM freqdp.method",
        "texts": "SELECT * FROM freqdp.sql_object",
        "revision": "SELECT * FROM freqdp.schema_version",
    }
    pinned = make_conninfo(url, options="-c search_path=pg_catalog")
    return {
        what: query(pinned, f"{s} ORDER BY 1, 2" if what != "revision" else s, **NAMES)
        for what, s in statements.items()
    }


def _members(url: str) -> set[str]:
    statement = (
        "SELECT d.classid::regclass::text, coalesce(p.prokind::text, '') FROM pg_depend d "
        "JOIN pg_extension e ON e.oid = d.refobjid LEFT JOIN pg_proc p ON p.oid = d.objid "
        "WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND e.extname = 'freqdp'"
    )
    rows = query(url, statement)
    assert len(rows) > 40
    return {f"{kind} {of}" for kind, of in rows}


# --- both ways ----------------------------------------------------------------------------------


def test_it_makes_what_init_makes(extensible: Extensible, installed: str) -> None:
    listed = psql(installed, r"\dx freqdp").stdout
    assert f"freqdp | {VERSION}" in listed.replace("  ", " ")
    with extensible.database() as other:
        freqdp(other, "init").succeeded()
        expected, found = _catalog(other), _catalog(installed)
    for what, rows in expected.items():
        assert found[what] == rows, what
    assert freqdp(installed, "init").succeeded()["changed"] is False
    assert _members(installed) == {"pg_proc f", "pg_proc p"}, (
        "functions, and nothing that holds data"
    )
    with opened(installed) as database:
        check_tables(database)


def test_a_release_and_twice(installed: str) -> None:
    with opened(installed) as database:
        whole_job(database, make_points(installed, "points", POINTS))
    freqdp(installed, "ledger", "verify").succeeded()
    views = "SELECT oid FROM pg_class WHERE relkind = 'v' ORDER BY 1"
    before = _catalog(installed), query(installed, views)
    with psycopg.connect(installed) as connection:
        state = "SELECT current_user, current_setting('search_path')"
        session = connection.execute(state).fetchone()
        connection.execute("CALL freqdp.install()")
        assert connection.execute(state).fetchone() == session
    assert (_catalog(installed), query(installed, views)) == before


def test_the_script_by_itself(database_url: str, empty_database_url: str) -> None:
    """On any server: as CREATE EXTENSION runs it, in a schema that it has made."""
    names = Names("freqdp", "freqdp_release")
    script = extension_files(names, VERSION)[f"freqdp--{VERSION}.sql"]
    prelude = "CREATE SCHEMA freqdp; BEGIN; SET LOCAL check_function_bodies = off;"
    done = psql(empty_database_url, f"{prelude}\n{script}\nCALL freqdp.install();\nCOMMIT;")
    assert done.returncode == 0, done.stderr
    assert _catalog(empty_database_url) == _catalog(database_url)
    with opened(empty_database_url) as database:
        whole_job(database, make_points(empty_database_url, "points", POINTS))


# --- backup --------------------------------------------------------------------------------------


@pytest.fixture
def curator(extensible: Extensible, empty: str) -> Iterator[str]:
    """A database that belongs to somebody who is no superuser, and has installed the extension in it."""
    assert psql(empty, freqdp(empty, "init", "--sql", "--roles", in_words=True).out).returncode == 0
    query(empty, "CREATE ROLE curator")
    name = conninfo_to_dict(empty)["dbname"]
    query(empty, f'ALTER DATABASE "{name}" OWNER TO curator')
    url = make_conninfo(empty, options="-c role=curator")
    query(url, INSTALL)
    yield url
    query(
        empty, "REASSIGN OWNED BY curator TO CURRENT_USER; DROP OWNED BY curator; DROP ROLE curator"
    )


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "schemas"])
def test_dump_and_restore(
    extensible: Extensible, curator: str, tmp_path: Path, whole: bool
) -> None:
    """Ledger, releases, rights and owners are there again, though a superuser restores."""
    with opened(curator) as database:
        whole_job(database, make_points(curator, "points", POINTS))
    file = str(tmp_path / "freqdp.dump")
    part = ("--schema=freqdp", "--schema=freqdp_release", "--schema=world", "--extension=freqdp")
    run_program("pg_dump", "--format=custom", f"--file={file}", *(() if whole else part), curator)
    with extensible.database() as new:
        run_program(
            "pg_restore", "--single-transaction", "--exit-on-error", f"--dbname={new}", file
        )
        before, after = _catalog(curator), _catalog(new)
        # pg_dump numbers columns anew and writes conditions and default rights of sequences otherwise
        for what in ("schemas", "functions", "methods", "texts", "revision", "relations"):
            kept, found = ([r for r in c[what] if "S" not in r] for c in (before, after))
            assert found == kept, what
        assert _members(new) == _members(curator)
        owners = (
            "SELECT DISTINCT proowner::regrole::text FROM pg_proc "
            "WHERE pronamespace = 'freqdp'::regnamespace"
        )
        assert query(new, owners) == [("curator",)]
        assert freqdp(new, "init").succeeded()["changed"] is False
        head = query(curator, "SELECT ledger_head FROM freqdp_release.catalog")[0][0]
        freqdp(new, "ledger", "verify", "--head", head).succeeded()
        verify(new, "job_1")
        anonymize(new, "job", "lg", "--epsilon", "1")


# --- dropping, adopting, updating ----------------------------------------------------------------


@pytest.mark.parametrize("again", ["extension", "init"])
def test_dropped_and_made_again(installed: str, again: str) -> None:
    """It takes its functions along, and no table."""
    with opened(installed) as database:
        whole_job(database, make_points(installed, "points", POINTS))
    before = _catalog(installed)
    query(installed, "DROP EXTENSION freqdp")
    if again == "extension":
        query(installed, INSTALL)
        assert freqdp(installed, "init").succeeded()["changed"] is False
    else:
        assert freqdp(installed, "init").succeeded()["changed"] is True
        assert query(installed, "SELECT FROM pg_extension WHERE extname = 'freqdp'") == []
    assert _catalog(installed) == before
    freqdp(installed, "ledger", "verify").succeeded()
    verify(installed, "job_1")


def test_what_init_has_made_is_adopted(empty: str) -> None:
    freqdp(empty, "init").succeeded()
    with opened(empty) as database:
        whole_job(database, make_points(empty, "points", POINTS))
    before = _catalog(empty)
    query(empty, INSTALL)
    assert _catalog(empty) == before
    assert _members(empty) == {"pg_proc f", "pg_proc p"}
    verify(empty, "job_1")


def test_tables_of_an_earlier_version_are_upgraded(empty: str) -> None:
    """As `init` upgrades them."""
    dump = Path(__file__).parent / "installed_0_3_0.sql.xz"
    assert psql(empty, freqdp(empty, "init", "--sql", "--roles", in_words=True).out).returncode == 0
    assert psql(empty, lzma.decompress(dump.read_bytes()).decode()).returncode == 0
    query(empty, INSTALL)
    with opened(empty) as database:
        check_tables(database)
    assert freqdp(empty, "init").succeeded()["changed"] is False
    verify(empty, "frequencies")
    freqdp(empty, "ledger", "verify").succeeded()


def test_an_update(extensible: Extensible, empty: str) -> None:
    """From one that differs in a view and a function: `init` does not touch what is the extension's."""
    names, folder = Names("freqdp", "freqdp_release"), extensible.folder
    older = folder / "freqdp--0.3.9.sql"
    text = extension_files(names, "0.3.9")[older.name]
    assert "order of weight" in text and "CREATE FUNCTION" in text
    text = text.replace("order of weight", "another order")
    for item in load_objects(names):
        if item.path.endswith(("100_point_frequency.view.sql", "230_book_spend.function.sql")):
            text = text.replace(item.hash, "an older text")
    older.write_text(text)
    query(empty, "CREATE EXTENSION freqdp VERSION '0.3.9'; CALL freqdp.install()")
    refused = freqdp(empty, "init").refused("extension freqdp 0.3.9")
    assert "ALTER EXTENSION freqdp UPDATE, CALL freqdp.install()" in refused["remedy"]
    freqdp(empty, "dataset", "list").refused()
    freqdp(empty, "init", "--sql").refused("extension freqdp 0.3.9")
    made = freqdp(empty, "init", "--extension", str(folder), "--force").succeeded()
    assert made["statements"] == ["ALTER EXTENSION freqdp UPDATE", "CALL freqdp.install()"]
    update = folder / f"freqdp--0.3.9--{VERSION}.sql"
    assert str(update) in made["files"]
    query(empty, "; ".join(made["statements"]))
    older.unlink()
    update.unlink()
    with extensible.database() as other:
        freqdp(other, "init").succeeded()
        assert _catalog(empty) == _catalog(other)
    assert freqdp(empty, "init").succeeded()["changed"] is False


def test_half_of_it_is_not_taken_for_an_installation(empty: str) -> None:
    query(empty, "CREATE EXTENSION freqdp")
    refused = freqdp(empty, "init").refused()
    assert refused["remedy"] == "in the database: CALL freqdp.install()"
    query(empty, "CALL freqdp.install()")
    freqdp(empty, "dataset", "list").succeeded()


def test_it_is_uninstalled_as_ever(installed: str) -> None:
    done = psql(installed, freqdp(installed, "uninstall", "--sql").succeeded()["sql"])
    assert done.returncode == 0, done.stderr
    assert query(installed, "SELECT extname FROM pg_extension WHERE extname = 'freqdp'") == []


# --- files ---------------------------------------------------------------------------------------


def test_existing_files_are_kept(empty_database_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "made"
    command = ("init", "--extension", str(folder))
    freqdp(empty_database_url, *command).succeeded()
    (folder / "pg_tle.sql").write_text("mine")
    (folder / "freqdp.control").unlink()
    freqdp(empty_database_url, *command).refused("is there already")
    assert (folder / "pg_tle.sql").read_text() == "mine"
    assert not (folder / "freqdp.control").exists()
    freqdp(empty_database_url, *command, "--force").succeeded()
    freqdp(empty_database_url, "init", "--extension", str(folder / "pg_tle.sql")).refused(
        "--extension", "is not a folder"
    )


_PGTLE = """
CREATE SCHEMA pgtle;
CREATE TABLE pgtle.given (call text, arguments text[]);
CREATE FUNCTION pgtle.install_extension(
    name text, version text, description text, ext text, requires text[] DEFAULT NULL,
    schema text DEFAULT NULL
) RETURNS boolean LANGUAGE sql AS $$
    INSERT INTO pgtle.given VALUES ('new', ARRAY[name, version, ext, requires::text, schema])
    RETURNING true $$;
CREATE FUNCTION pgtle.install_extension_version_sql(name text, version text, ext text)
RETURNS boolean LANGUAGE sql AS $$
    INSERT INTO pgtle.given VALUES ('version', ARRAY[name, version, ext]) RETURNING true $$;
CREATE FUNCTION pgtle.install_update_path(name text, fromvers text, tovers text, ext text)
RETURNS boolean LANGUAGE sql AS $$
    INSERT INTO pgtle.given VALUES ('update', ARRAY[name, fromvers, tovers, ext]) RETURNING true $$;
CREATE FUNCTION pgtle.set_default_version(name text, version text) RETURNS boolean LANGUAGE sql AS $$
    INSERT INTO pgtle.given VALUES ('default', ARRAY[name, version]) RETURNING true $$;
"""


def test_pg_tle_is_given_the_same_script(empty_database_url: str) -> None:
    """Through its functions' signatures (1.5): it is no part of PostgreSQL's packages."""
    query(empty_database_url, _PGTLE)
    names = Names("freqdp", "freqdp_release")
    first, later = extension_files(names, "1.0"), extension_files(names, "1.1", "1.0")
    for files in (first, later):
        done = psql(empty_database_url, files["pg_tle.sql"])
        assert done.returncode == 0, done.stderr
    assert query(empty_database_url, "SELECT call, arguments FROM pgtle.given") == [
        ("new", ["freqdp", "1.0", first["freqdp--1.0.sql"], "{postgis}", "freqdp"]),
        ("version", ["freqdp", "1.1", later["freqdp--1.1.sql"]]),
        ("update", ["freqdp", "1.0", "1.1", later["freqdp--1.0--1.1.sql"]]),
        ("default", ["freqdp", "1.1"]),
    ]


def test_postgis_must_be_where_the_files_say(extensible: Extensible) -> None:
    with extensible.database(template="template1") as url:
        query(url, "CREATE SCHEMA gis; CREATE EXTENSION postgis SCHEMA gis")
        with pytest.raises(psycopg.errors.RaiseException, match="PostGIS is not in schema public"):
            query(url, "CREATE EXTENSION freqdp")
