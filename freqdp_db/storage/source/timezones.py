"""Time zones, as the server knows them."""

from __future__ import annotations

import sqlalchemy as sa

from freqdp_db.errors import BadInput
from freqdp_db.storage.connection.engine import Connection


def require_timezone(connection: Connection, name: str) -> None:
    """Refuse a zone that AT TIME ZONE would not take."""
    known = connection.execute(
        sa.text("SELECT EXISTS (SELECT FROM pg_timezone_names WHERE lower(name) = lower(:name))"),
        {"name": name},
    ).scalar()
    if not known:
        raise BadInput(
            f"[[timezone]] {name!r} is not a time zone that the server knows",
            remedy="give a name such as UTC, Europe/Brussels or Asia/Shanghai",
        )
