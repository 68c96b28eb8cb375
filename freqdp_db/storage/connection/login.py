"""Who is connected, to what, and with which rights."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from freqdp_db.settings import Settings
from freqdp_db.storage.connection.engine import Connection, driver

_KINDS = ("admin", "runner", "analyst", "auditor")


@dataclass(frozen=True)
class Login:
    """A connection as a person would name it."""

    server: str
    database: str
    user: str
    """As whom: after SET ROLE, that role."""
    roles: list[str]
    """Group roles of ours that it has."""
    superuser: bool
    there: bool
    """Both of our schemas exist."""
    sees_private: bool
    sees_released: bool

    def words(self) -> str:
        held = "superuser" if self.superuser else ", ".join(self.roles) or "none of freqdp's roles"
        return f"{self.server}, database {self.database}, user {self.user} ({held})"


def login_of(connection: Connection, settings: Settings) -> Login:
    row = connection.execute(
        sa.text(
            "SELECT current_database() AS database, current_user AS user, "
            "(SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AS superuser, "
            "ARRAY(SELECT rolname::text FROM pg_roles WHERE rolname = ANY(:roles) "
            "AND pg_has_role(current_user, oid, 'MEMBER') ORDER BY 1) AS roles"
        ),
        {"roles": [settings.role(kind) for kind in _KINDS]},
    ).one()
    schemas = connection.execute(
        sa.text(
            "SELECT nspname::text, has_schema_privilege(oid, 'USAGE') FROM pg_namespace "
            "WHERE nspname IN (:private, :released)"
        ),
        {"private": settings.schema, "released": settings.release_schema},
    )
    seen = {name: bool(may) for name, may in schemas}
    info = driver(connection).info
    return Login(
        f"server at {info.host or 'the default socket'}, port {info.port}",
        row.database,
        row.user,
        list(row.roles),
        bool(row.superuser),
        len(seen) == 2,
        seen.get(settings.schema, False),
        seen.get(settings.release_schema, False),
    )


def may_use(connection: Connection, schema: str) -> bool:
    """Whether names in a schema can be used."""
    return bool(
        connection.execute(
            sa.text("SELECT has_schema_privilege(:schema, 'USAGE')"), {"schema": schema}
        ).scalar()
    )


def logins_of_analysts(connection: Connection, settings: Settings) -> list[str]:
    """Who can log in to this database as an analyst and as nothing more."""
    return list(
        connection.execute(
            sa.text(
                "SELECT l.rolname::text FROM pg_roles l JOIN pg_roles g ON g.rolname = :analyst "
                "WHERE l.rolcanlogin AND NOT l.rolsuper AND pg_has_role(l.oid, g.oid, 'MEMBER') "
                "AND has_database_privilege(l.oid, current_database(), 'CONNECT') "
                "AND NOT EXISTS (SELECT FROM pg_roles w WHERE w.rolname = :runner "
                "AND pg_has_role(l.oid, w.oid, 'MEMBER')) ORDER BY 1"
            ),
            {"analyst": settings.role("analyst"), "runner": settings.role("runner")},
        ).scalars()
    )
