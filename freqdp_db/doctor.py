"""`freqdp doctor`: what a working installation needs, one finding each."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from freqdp_db.db.connection import (
    Connection,
    Database,
    Login,
    login_of,
    logins_of_analysts,
    may_use,
)
from freqdp_db.db.names import find_postgis, format_name
from freqdp_db.db.published import missing_message, missing_relations
from freqdp_db.db.rights import ROLES
from freqdp_db.db.schema import (
    INIT_REMEDY,
    ROLES_REMEDY,
    existing_roles,
    objects_of_others,
    open_estimates,
    require_current,
    server_version,
)
from freqdp_db.errors import FreqdpError
from freqdp_db.settings import Settings, libpq_is_configured

_MIN_SERVER = 140000
_MOST_NAMED = 5


@dataclass(frozen=True)
class Finding:
    what: str
    ok: bool
    remedy: str | None = None
    advice: bool = False
    """Nothing is missing, but the remedy is worth a thought."""


def diagnose(settings: Settings, reach: Callable[[], Database]) -> list[Finding]:
    """Check from the ground up; stop where nothing further can be known. Makes nothing."""
    free = shutil.disk_usage("/").free
    findings = [Finding(f"free disk here: {free / 1e9:.0f} GB", free > 2e9, "free some space")]
    try:
        missing = None if settings.dsn or libpq_is_configured() else _no_embedded_server(settings)
        if missing is not None:
            return [*findings, missing]
        database = reach()
    except FreqdpError as error:
        return [*findings, _refused(error)]
    with database.begin() as connection:
        login = login_of(connection, settings)
        findings += _server(connection, login)
    ours = _schemas(database, login)
    with database.begin() as connection:
        return [*findings, ours, *_contents(connection, settings, login, whole=ours.ok)]


def _refused(error: FreqdpError) -> Finding:
    said = error.as_options()
    return Finding(str(said["message"]), False, said["remedy"])


def _no_embedded_server(settings: Settings) -> Finding | None:
    """Nobody named a server, and there is no embedded one yet: to look is not to make one."""
    from freqdp_db.server.binaries import find_binaries
    from freqdp_db.server.embedded import EmbeddedServer

    server = EmbeddedServer(settings.data_dir)
    if server.exists():
        return None
    find_binaries(None)  # says what to install, if there is nothing to make one with
    return Finding(
        f"no server yet: none is named by --dsn, DATABASE_URL or PG* variables, and there is no "
        f"embedded one in {server.layout.data_dir} yet",
        True,
        "name your server with --dsn or DATABASE_URL; otherwise the first command that needs a server "
        "creates the embedded one there (FREQDP_DATA_DIR: elsewhere)",
        advice=True,
    )


def _server(connection: Connection, login: Login) -> Iterator[Finding]:
    """The server, the login and PostGIS."""
    version, shown = server_version(connection)
    yield Finding(f"PostgreSQL {shown}", version >= _MIN_SERVER, "use PostgreSQL 14 or newer")
    yield Finding(login.words(), True)
    postgis = find_postgis(connection)
    if postgis is None:
        yield Finding(
            "PostGIS is not installed here",
            False,
            "as a superuser or the database's owner: CREATE EXTENSION postgis",
        )
        return
    if may_use(connection, postgis):
        yield Finding(f"PostGIS in schema {postgis}", True)
    else:
        schema, user = format_name(postgis), format_name(login.user)
        yield Finding(
            f"PostGIS is in schema {postgis}, which {login.user} may not use",
            False,
            f"its owner can: GRANT USAGE ON SCHEMA {schema} TO {user}",
        )
    if open_functions := open_estimates(connection, postgis):
        yield Finding(
            "PostGIS tells every login of this database where the rows of any table with statistics "
            f"lie, source tables included: {', '.join(open_functions)}",
            True,
            "its owner can revoke them from PUBLIC: the end of `freqdp init --sql` has the statement",
            advice=True,
        )


def _schemas(database: Database, login: Login) -> Finding:
    """Ours are there, belong to this software, and this login may use them."""
    settings = database.settings
    if login.sees_private:
        try:
            require_current(database)
        except FreqdpError as error:
            return _refused(error)
        return Finding(f"schema {settings.schema} is up to date", True)
    if login.sees_released:
        return Finding(
            f"schema {settings.release_schema} can be read: this login is an analyst's, for release "
            "list, show, export and report --public",
            True,
        )
    if login.there:
        analyst, runner, admin = (settings.role(k) for k in ("analyst", "runner", "admin"))
        user = format_name(login.user)
        return Finding(
            f"{login.user} may use neither schema {settings.schema} nor {settings.release_schema}",
            False,
            f"an administrator can: GRANT {format_name(analyst)} TO {user} (to read releases), "
            f"{format_name(runner)} (to make them) or {format_name(admin)} (to register datasets)",
        )
    return Finding(
        f"this database has no schema {settings.schema!r} of freqdp's", False, INIT_REMEDY
    )


def _contents(
    connection: Connection, settings: Settings, login: Login, *, whole: bool
) -> Iterator[Finding]:
    """What is in the schemas, and who may see it. `whole`: the schemas are as they should be."""
    if whole and login.sees_released:
        for name in missing_relations(connection, settings.release_schema):
            yield Finding(
                missing_message(settings.release_schema, name),
                False,
                "rename it back, or withdraw its release: freqdp release withdraw NAME",
            )
    roles = [settings.role(kind) for kind in ROLES]
    present = existing_roles(connection, roles)
    missing = [r for r in roles if r not in present]
    yield Finding(
        "group roles: " + (", ".join(missing) + " missing" if missing else ", ".join(roles)),
        not missing,
        f"freqdp init --roles (needs CREATEROLE), or {ROLES_REMEDY}",
    )
    if found := objects_of_others(connection, settings):
        yield Finding(
            f"in {settings.schema} and {settings.release_schema} these belong to others than the owner "
            f"of schema {settings.schema}, and others may run what they say: {', '.join(found)}",
            False,
            "run `freqdp init` as a superuser, which gives freqdp's own back; drop what is not freqdp's",
        )
    names = logins_of_analysts(connection, settings) if login.sees_private else []
    if names:
        shown = ", ".join(names[:_MOST_NAMED]) + (", ..." if len(names) > _MOST_NAMED else "")
        yield Finding(
            f"analysts log in here ({shown}): they can read how many rows private tables have, and "
            "their sizes (pg_stat_all_tables, pg_class); a database of their own closes that: "
            "freqdp release publish --all --to DSN",
            True,
        )
