"""Tables of ours that are called by a number: which there are."""

from __future__ import annotations

import re

import sqlalchemy as sa

from freqdp_db.storage.connection.engine import Database


def numbers_left(database: Database, pattern: re.Pattern[str]) -> list[int]:
    """The numbers in the names of standalone tables of the private schema: the group `number`."""
    with database.begin() as connection:
        names = connection.execute(
            sa.text(
                "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
                "WHERE n.nspname = :schema AND c.relkind = 'r' AND NOT c.relispartition"
            ),
            {"schema": database.settings.schema},
        ).scalars()
        return sorted({int(m["number"]) for name in names if (m := pattern.fullmatch(name))})
