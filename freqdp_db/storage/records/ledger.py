"""The ledger of a source's privacy budget, through its functions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from psycopg import sql
from psycopg.rows import dict_row

from freqdp_db.errors import NotFound
from freqdp_db.storage.connection.engine import Connection, Database, driver
from freqdp_db.storage.connection.names import format_relation

CURRENCIES = {"occurrence": "epsilon", "person": "rho"}
MEANING = "The ledger limits draws; it does not bound what the tables reveal."
"""Of a ledger for occurrences."""
_NOTHING = Decimal(0)


@dataclass(frozen=True)
class Budget:
    """What a source may spend, has spent and has left, for one unit."""

    account_id: int
    source_schema: str
    source_relation: str
    object_column: str
    unit: str
    granted: Decimal
    spent: Decimal
    remaining: Decimal
    entries: int
    head: str | None

    @property
    def currency(self) -> str:
        return CURRENCIES[self.unit]

    @property
    def source(self) -> str:
        """The relation, as it can be typed again."""
        return format_relation(self.source_schema, self.source_relation)

    @property
    def in_words(self) -> str:
        return (
            f"for one {self.unit}: {self.currency} {self.spent:f} of {self.granted:f} spent, "
            f"{self.remaining:f} left"
        )


@dataclass(frozen=True)
class Entry:
    entry: int
    kind: str
    amount: Decimal
    release: str | None
    reason: str
    actor: str
    at: datetime
    hash: str
    seeded: bool
    """Whether its release's noise can be drawn again: then it guarantees nothing."""


def _private(database: Database, name: str) -> sql.Identifier:
    return sql.Identifier(database.settings.schema, name)


def find_budget(database: Database, account_id: int) -> Budget:
    with database.begin() as connection, driver(connection).cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(
            sql.SQL("SELECT * FROM {} WHERE account_id = %s").format(_private(database, "budget")),
            [account_id],
        ).fetchone()
    if row is None:
        raise NotFound(f"there is no budget number {account_id}")
    return Budget(**row)


def budget_of(database: Database, account_id: int, unit: str | None) -> Budget:
    """The budget for a unit of the source that an account belongs to; an empty one if it has none."""
    own = find_budget(database, account_id)
    if unit in (None, own.unit):
        return own
    return next(
        (b for b in budgets(database, account_id) if b.unit == unit),
        replace(
            own, unit=str(unit), granted=_NOTHING, spent=_NOTHING, remaining=_NOTHING, entries=0
        ),
    )


def budgets(database: Database, account_id: int) -> list[Budget]:
    """All budgets of the source that an account belongs to: one for each unit."""
    with database.begin() as connection, driver(connection).cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(
            sql.SQL(
                "SELECT b.* FROM {b} b JOIN {b} own ON own.account_id = %s "
                "AND own.source_schema = b.source_schema AND own.object_column = b.object_column "
                "AND own.source_relation = b.source_relation ORDER BY b.account_id"
            ).format(b=_private(database, "budget")),
            [account_id],
        )
        return [Budget(**row) for row in rows]


def entries(database: Database, account_id: int) -> list[Entry]:
    """All entries of a budget, oldest first."""
    query = sql.SQL(
        "SELECT s.entry, s.kind, s.amount, r.name AS release, s.reason, s.actor, s.at, s.hash, "
        "coalesce(r.parameters ? 'seed', false) AS seeded FROM {} s LEFT JOIN {} r "
        "USING (release_id) WHERE s.account_id = %s ORDER BY s.entry"
    ).format(_private(database, "spend"), _private(database, "release"))
    with database.begin() as connection, driver(connection).cursor(row_factory=dict_row) as cursor:
        return [Entry(**row) for row in cursor.execute(query, [account_id])]


def book_spend(connection: Connection, database: Database, release_id: int, reason: str) -> str:
    """Book what a recorded release spends, or refuse; returns the entry's hash."""
    row = (
        driver(connection)
        .execute(
            sql.SQL("SELECT {}(%s, %s)").format(_private(database, "book_spend")),
            [release_id, reason],
        )
        .fetchone()
    )
    assert row is not None
    return str(row[0])


def grant_budget(
    connection: Connection, database: Database, account_id: int, amount: Decimal, reason: str
) -> None:
    """Raise a budget: an entry, with who and why."""
    driver(connection).execute(
        sql.SQL("SELECT {}(%s, %s, %s)").format(_private(database, "grant_budget")),
        [account_id, amount, reason],
    )


def rho_of(database: Database, epsilon: Decimal, delta: Decimal) -> Decimal:
    """The rho that stands for (epsilon, delta), as the ledger for persons books it."""
    with database.begin() as connection:
        row = (
            driver(connection)
            .execute(
                sql.SQL("SELECT {}(%s, %s)").format(_private(database, "rho_of")), [epsilon, delta]
            )
            .fetchone()
        )
    assert row is not None
    return Decimal(row[0])


def chain_faults(database: Database) -> list[dict[str, Any]]:
    """Entries whose hash, predecessor or number is not what it should be."""
    query = sql.SQL(
        """
        SELECT account_id, entry, fault FROM (
            SELECT s.account_id, s.entry,
                CASE
                    WHEN s.entry <> 1 + coalesce(lag(s.entry) OVER chain, 0)
                    THEN 'an entry is missing before it'
                    WHEN s.previous_hash <> coalesce(lag(s.hash) OVER chain, '')
                    THEN 'does not follow the entry before it'
                    WHEN s.hash <> {hash}(s.account_id, s.entry, s.kind, s.amount, s.release_id,
                        s.reason, s.actor, s.at, s.previous_hash) THEN 'was changed'
                END AS fault
            FROM {spend} s WINDOW chain AS (PARTITION BY s.account_id ORDER BY s.entry)
        ) checked WHERE fault IS NOT NULL ORDER BY account_id, entry
        """
    ).format(hash=_private(database, "entry_hash"), spend=_private(database, "spend"))
    with database.begin() as connection, driver(connection).cursor(row_factory=dict_row) as cursor:
        return list(cursor.execute(query))


def missing_heads(database: Database, heads: list[str]) -> list[str]:
    """Which of these hashes are entries of no chain."""
    query = sql.SQL(
        "SELECT h FROM unnest(%s::text[]) h WHERE NOT EXISTS (SELECT 1 FROM {} s WHERE s.hash = h)"
    ).format(_private(database, "spend"))
    with database.begin() as connection:
        return [str(row[0]) for row in driver(connection).execute(query, [heads])]


def published_heads(database: Database) -> list[str]:
    """The heads that the catalogue's releases have published."""
    query = sql.SQL("SELECT ledger_head FROM {} ORDER BY published_at").format(
        sql.Identifier(database.settings.release_schema, "catalog")
    )
    with database.begin() as connection:
        return [str(row[0]) for row in driver(connection).execute(query)]
