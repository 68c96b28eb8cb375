"""Which budget a source belongs to: its own, or that of what it reads."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from freqdp_db.errors import BadInput
from freqdp_db.storage.connection.engine import Connection, Database
from freqdp_db.storage.connection.names import format_relation
from freqdp_db.storage.records.ledger import grant_budget
from freqdp_db.storage.source.lineage import lineage
from freqdp_db.storage.source.relations import Mapping

_LOCK = sa.text("SELECT pg_advisory_xact_lock(hashtextextended('freqdp sources ' || :schema, 0))")


def account_for(
    connection: Connection,
    database: Database,
    accounts: sa.Table,
    source: tuple[str, str],
    mapping: Mapping,
    budget: Decimal,
) -> tuple[int, bool]:
    """The account that a source spends from; opened with `budget` if there is none. True: it is new."""
    # two views of one table that are registered at once must not open two budgets
    connection.execute(_LOCK, {"schema": database.settings.schema})
    own = {
        "source_schema": source[0],
        "source_relation": source[1],
        "object_column": mapping.object,
        "unit": "occurrence",
    }
    known = connection.execute(sa.select(accounts.c.account_id).filter_by(**own)).scalar()
    if known is None:
        known = _shared(connection, accounts, source, mapping.object)
    if known is not None:
        return known, False
    opened = connection.execute(
        sa.insert(accounts).values(**own).returning(accounts.c.account_id)
    ).scalar_one()
    grant_budget(connection, database, opened, budget, "opening budget")
    return opened, True


def other_accounts(
    connection: Connection, accounts: sa.Table, source: tuple[str, str]
) -> list[Any]:
    """Accounts of other relations whose rows come from the same tables."""
    mine = lineage(connection, *source)
    rows = connection.execute(
        sa.select(
            accounts.c.account_id,
            accounts.c.source_schema,
            accounts.c.source_relation,
            accounts.c.object_column,
        )
        .where(accounts.c.unit == "occurrence")
        .order_by(accounts.c.account_id)
    ).all()
    return [
        row
        for row in rows
        if (row.source_schema, row.source_relation) != source
        and mine.meets(lineage(connection, row.source_schema, row.source_relation))
    ]


def _shared(
    connection: Connection, accounts: sa.Table, source: tuple[str, str], key: str
) -> int | None:
    """The account of what the source reads, or of what reads the same."""
    found = other_accounts(connection, accounts, source)
    read = lineage(connection, *source).relations
    # what it reads itself comes before what reads the same tables
    for nearer in (
        [row for row in found if row.object_column == key],
        [row for row in found if (row.source_schema, row.source_relation) in read],
    ):
        found = [row for row in found if row in nearer] or found
    if len(found) > 1:
        named = ", ".join(
            f"{format_relation(row.source_schema, row.source_relation)} (objects: "
            f"{row.object_column})"
            for row in found
        )
        raise BadInput(
            f"--from {format_relation(*source)} reads what has several budgets: {named}",
            remedy="read from one of them only, and call the object's column as it is called there",
        )
    return found[0].account_id if found else None
