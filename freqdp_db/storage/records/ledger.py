"""The ledger of a source's privacy budget, through its functions."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from psycopg import sql
from psycopg.rows import dict_row

from freqdp_db.errors import NotFound
from freqdp_db.methods.protected_unit import ProtectedUnit
from freqdp_db.storage.connection.engine import Connection, Database, driver
from freqdp_db.storage.connection.names import format_name, format_relation
from freqdp_db.storage.connection.statements import call, own, rows_as

CURRENCIES = {"occurrence": "epsilon", "person": "rho"}
MEANING = "The ledger limits draws; it does not bound what the tables reveal."
"""Of a ledger for occurrences."""
_NOTHING = Decimal(0)


def per_unit(unit: str, protected: ProtectedUnit) -> str:
    """What an amount is spent for, in words: `per occurrence`, `for one bike (column ...)`."""
    return f"for {protected.words}" if unit == "person" else f"per {unit}"


@dataclass(frozen=True)
class Budget:
    """What a population may spend, has spent and has left, for one unit."""

    account_id: int
    population_id: int
    population: str | None
    """As its owner calls those whose data it is; None: not named."""
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
        """The relation that it was opened for, as it can be typed again."""
        return format_relation(self.source_schema, self.source_relation)

    @property
    def protected(self) -> ProtectedUnit:
        """Whose objects it protects."""
        return ProtectedUnit(format_name(self.object_column), self.source, self.population)

    @property
    def in_words(self) -> str:
        what = (
            self.protected.words
            if self.unit == "person"
            else f"one {self.unit} (objects: {self.protected.column})"
        )
        return (
            f"for {what}: {self.currency} {self.spent:f} of {self.granted:f} spent, "
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
    zcdp: bool
    """Whether its release costs what Gaussian noise costs; what is epsilon-DP books half its square."""


def find_budget(database: Database, account_id: int) -> Budget:
    query = sql.SQL("SELECT * FROM {} WHERE account_id = %s").format(own(database, "budget"))
    with database.begin() as connection:
        found = rows_as(Budget, connection, query, [account_id])
    if not found:
        raise NotFound(f"there is no budget number {account_id}")
    return found[0]


def budget_of(database: Database, account_id: int, unit: str | None) -> Budget:
    """The budget for a unit of the population that an account belongs to; an empty one if it has none."""
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
    """All budgets of the population that an account belongs to: one for each unit."""
    query = sql.SQL(
        "SELECT b.* FROM {b} b JOIN {b} own ON own.account_id = %s "
        "AND own.population_id = b.population_id ORDER BY b.account_id"
    ).format(b=own(database, "budget"))
    with database.begin() as connection:
        return rows_as(Budget, connection, query, [account_id])


def entries(database: Database, account_id: int) -> list[Entry]:
    """All entries of a budget, oldest first."""
    query = sql.SQL(
        "SELECT s.entry, s.kind, s.amount, r.name AS release, s.reason, s.actor, s.at, s.hash, "
        "coalesce(r.parameters ? 'seed', false) AS seeded, "
        "coalesce(r.parameters ->> 'accounting' = 'zcdp', false) AS zcdp FROM {} s LEFT JOIN {} r "
        "USING (release_id) WHERE s.account_id = %s ORDER BY s.entry"
    ).format(own(database, "spend"), own(database, "release"))
    with database.begin() as connection:
        return rows_as(Entry, connection, query, [account_id])


def require_booked(database: Database, release_id: int) -> None:
    """Refuse a release whose entry in the ledger is not what its record costs."""
    query = sql.SQL("SELECT {}(%s::int)").format(own(database, "require_booked"))
    with database.begin() as connection:
        driver(connection).execute(query, [release_id])


def grant_budget(
    connection: Connection, database: Database, account_id: int, amount: Decimal, reason: str
) -> None:
    """Raise a budget: an entry, with who and why."""
    call(connection, database, "grant_budget", account_id, amount, reason)


def rho_of(database: Database, epsilon: Decimal, delta: Decimal) -> Decimal:
    """The rho that stands for (epsilon, delta), as the ledger for objects books it."""
    with database.begin() as connection:
        return Decimal(call(connection, database, "rho_of", epsilon, delta))


def chain_faults(database: Database) -> list[dict[str, Any]]:
    """Entries whose hash, predecessor or number is not what it should be.

    Hashes are computed here: whoever owns the schema can replace its function `entry_hash`.
    """
    query = sql.SQL(
        "SELECT account_id, entry, kind, amount, release_id, reason, actor, "
        "extract(epoch FROM at)::text AS at, previous_hash, hash FROM {} ORDER BY account_id, entry"
    ).format(own(database, "spend"))
    faults: list[dict[str, Any]] = []
    last: dict[str, Any] = {"account_id": None}
    with database.begin() as connection, driver(connection).cursor(row_factory=dict_row) as cursor:
        for row in cursor.execute(query):
            follows = last["account_id"] == row["account_id"]
            if row["entry"] != (last["entry"] + 1 if follows else 1):
                fault = "an entry is missing before it"
            elif row["previous_hash"] != (last["hash"] if follows else ""):
                fault = "does not follow the entry before it"
            elif row["hash"] != entry_hash(**row):
                fault = "was changed"
            else:
                fault = None
            if fault is not None:
                key = {name: row[name] for name in ("account_id", "entry")}
                faults.append({**key, "fault": fault})
            last = row
    return faults


def entry_hash(
    *,
    account_id: int,
    entry: int,
    kind: str,
    amount: Decimal,
    release_id: int | None,
    reason: str,
    actor: str,
    at: str,
    previous_hash: str,
    hash: str,
) -> str:
    """SHA-256 of a row of `spend`, whose own `hash` is not part of it; as SQL's `entry_hash` writes it.

    at: seconds since 1970.
    """
    number = f"{amount:f}"
    if "." in number:
        number = number.rstrip("0").rstrip(".")
    seconds = Decimal(at)
    us = format(seconds * 1_000_000, ".0f") if seconds.is_finite() else at
    parts = (
        account_id, entry, kind, number, "-" if release_id is None else release_id,
        len(reason), reason, len(actor), actor, us, previous_hash,
    )  # fmt: skip
    return hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()


def missing_heads(database: Database, heads: list[str]) -> list[str]:
    """Which of these hashes are entries of no chain."""
    query = sql.SQL(
        "SELECT h FROM unnest(%s::text[]) h WHERE NOT EXISTS (SELECT 1 FROM {} s WHERE s.hash = h)"
    ).format(own(database, "spend"))
    with database.begin() as connection:
        return [str(row[0]) for row in driver(connection).execute(query, [heads])]


def published_heads(database: Database) -> list[str]:
    """The heads that the catalogue's releases have published."""
    query = sql.SQL("SELECT ledger_head FROM {} ORDER BY published_at").format(
        sql.Identifier(database.settings.release_schema, "catalog")
    )
    with database.begin() as connection:
        return [str(row[0]) for row in driver(connection).execute(query)]
