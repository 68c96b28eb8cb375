"""Where things are: the connection, the two schemas, the data directory. Read once, at the edge."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from freqdp_db.errors import BadInput

PRIVATE_SCHEMA = "freqdp"
RELEASE_SCHEMA = "freqdp_release"
MAX_IDENTIFIER_BYTES = 63
# The roles carry the private schema's name and a suffix of up to eight bytes.
MAX_SCHEMA_BYTES = 54


@dataclass(frozen=True)
class Settings:
    """What a process needs to know before it connects."""

    dsn: str | None = None
    """A libpq connection string or URL; None means libpq's own variables, else the embedded server."""
    schema: str = PRIVATE_SCHEMA
    release_schema: str = RELEASE_SCHEMA
    data_dir: Path | None = None
    """The embedded server's directory; None means the default for this user."""

    def role(self, kind: str) -> str:
        """Name of a group role. Roles are cluster-wide, so they carry the private schema's name."""
        return f"{self.schema}_{kind}"


def load_settings(
    environ: Mapping[str, str] = os.environ,
    *,
    dsn: str | None = None,
    schema: str | None = None,
    release_schema: str | None = None,
) -> Settings:
    """Options first, then the environment (DATABASE_URL, FREQDP_SCHEMA, ...), then defaults."""
    data_dir = environ.get("FREQDP_DATA_DIR")
    settings = Settings(
        dsn=dsn or environ.get("DATABASE_URL") or None,
        schema=schema or environ.get("FREQDP_SCHEMA") or PRIVATE_SCHEMA,
        release_schema=release_schema or environ.get("FREQDP_RELEASE_SCHEMA") or RELEASE_SCHEMA,
        data_dir=Path(data_dir) if data_dir else None,
    )
    for option, name in (
        ("[[schema]]", settings.schema),
        ("[[release_schema]]", settings.release_schema),
    ):
        # % stands for a parameter, in names too, wherever a statement has parameters
        if not name or {"\x00", "%"} & set(name) or len(name.encode()) > MAX_SCHEMA_BYTES:
            raise BadInput(
                f"{option} {name!r} is not a usable schema name",
                remedy=f"give a name of 1 to {MAX_SCHEMA_BYTES} bytes, without %",
            )
        if name == "public" or name.startswith("pg_"):
            raise BadInput(
                f"{option} {name!r} is reserved", remedy="give the schema a name of its own"
            )
    if settings.schema == settings.release_schema:
        raise BadInput(
            f"[[schema]] and [[release_schema]] are both {settings.schema!r}",
            remedy="give them two names: one is private, one is published",
        )
    return settings


def libpq_is_configured(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the caller pointed libpq at a server of their own."""
    return any(environ.get(v) for v in ("PGHOST", "PGHOSTADDR", "PGSERVICE", "PGDATABASE"))
