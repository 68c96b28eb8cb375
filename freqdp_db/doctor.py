"""`freqdp doctor`: what a working installation needs, one finding each."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass

from freqdp_db.errors import FreqdpError
from freqdp_db.settings import Settings
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.schema.grants import ROLES
from freqdp_db.storage.schema.upgrade import (
    existing_roles,
    find_postgis,
    require_current,
    server_version,
)

_MIN_SERVER = 140000


@dataclass(frozen=True)
class Finding:
    what: str
    ok: bool
    remedy: str | None = None


def _refused(error: FreqdpError) -> Finding:
    told = error.as_options()
    return Finding(str(told["message"]), False, told["remedy"])


def diagnose(settings: Settings, reach: Callable[[], Database]) -> list[Finding]:
    """Check from the ground up; stop where nothing further can be known."""
    findings = [
        Finding(
            f"free disk here: {shutil.disk_usage('/').free / 1e9:.0f} GB",
            shutil.disk_usage("/").free > 2e9,
            "free some space",
        )
    ]
    try:
        database = reach()
    except FreqdpError as error:
        return [*findings, _refused(error)]
    with database.begin() as connection:
        version, shown = server_version(connection)
        findings.append(
            Finding(f"PostgreSQL {shown}", version >= _MIN_SERVER, "use PostgreSQL 14 or newer")
        )
        postgis = find_postgis(connection)
        findings.append(
            Finding(
                f"PostGIS in schema {postgis}" if postgis else "PostGIS is not installed here",
                postgis is not None,
                "as a superuser or the database's owner: CREATE EXTENSION postgis",
            )
        )
        roles = [settings.role(kind) for kind in ROLES]
        present = existing_roles(connection, roles)
    try:
        require_current(database)
        findings.append(Finding(f"schema {settings.schema} is up to date", True))
    except FreqdpError as error:
        findings.append(_refused(error))
    missing = [r for r in roles if r not in present]
    findings.append(
        Finding(
            "group roles: " + (", ".join(missing) + " missing" if missing else ", ".join(roles)),
            not missing,
            "freqdp init --roles (needs CREATEROLE), or freqdp init --sql for the DBA",
        )
    )
    return findings
