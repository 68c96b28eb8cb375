"""The ledger of privacy budgets and the accounts that it is kept for, through their functions."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from psycopg import sql
from psycopg.rows import dict_row

from freqdp_db.db.connection import Connection, Database, driver
from freqdp_db.db.names import format_name, format_relation
from freqdp_db.db.source import Mapping
from freqdp_db.db.statements import call, one_value, private_name, rows_as
from freqdp_db.errors import NotFound
from freqdp_db.privacy.guarantee import ProtectedUnit

if TYPE_CHECKING:
    from freqdp_db.db.builds import BuildRow

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
    stretch: str | None
    """Of objects: the day, week or month that is protected at a time; None: all data of one."""
    timezone: str
    granted: Decimal
    spent: Decimal
    """On the window that most was spent on: different windows do not add up."""
    remaining: Decimal
    together: Decimal
    """Spent on all windows together."""
    windows: int
    """On how many windows something was spent; 0: on all data at once, or nothing was."""
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
        return ProtectedUnit(
            format_name(self.object_column),
            self.source,
            self.population,
            self.stretch,
            self.timezone,
        )

    @property
    def in_words(self) -> str:
        what = (
            self.protected.words
            if self.unit == "person"
            else f"one {self.unit} (objects: {self.protected.column})"
        )
        where = f" on the window with most of {self.windows}" if self.windows else ""
        return (
            f"for {what}: {self.currency} {self.spent:f} of {self.granted:f} spent{where}, "
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
    query = sql.SQL("SELECT * FROM {} WHERE account_id = %s").format(
        private_name(database, "budget")
    )
    with database.begin() as connection:
        found = rows_as(Budget, connection, query, [account_id])
    if not found:
        raise NotFound(f"there is no budget number {account_id}")
    return found[0]


def budget_of(
    database: Database, account_id: int, unit: str | None, build: BuildRow | None = None
) -> Budget:
    """The budget for a unit of the population that an account belongs to; an empty one if it has none.

    build: what is spent and left for its window; refused if that lies in no unit.
    """
    own = find_budget(database, account_id)
    if unit not in (None, own.unit):
        own = _for_unit(database, own, unit)
    if build is None or not own.entries:
        return own
    query = sql.SQL("SELECT {}(%s::int, {}(%s::int, %s::text, %s, %s))").format(
        private_name(database, "spent_in"), private_name(database, "units_of")
    )
    values = [own.account_id, own.population_id, own.unit, build.window_begin, build.window_end]
    with database.begin() as connection:
        spent = Decimal(one_value(connection, query, values))
    return replace(own, spent=spent, remaining=own.granted - spent)


def _for_unit(database: Database, own: Budget, unit: str | None) -> Budget:
    return next(
        (b for b in budgets(database, own.account_id) if b.unit == unit),
        replace(
            own,
            unit=str(unit),
            granted=_NOTHING,
            spent=_NOTHING,
            remaining=_NOTHING,
            together=_NOTHING,
            windows=0,
            entries=0,
        ),
    )


def budgets(database: Database, account_id: int) -> list[Budget]:
    """All budgets of the population that an account belongs to: one for each unit."""
    query = sql.SQL(
        "SELECT b.* FROM {b} b JOIN {b} own ON own.account_id = %s "
        "AND own.population_id = b.population_id ORDER BY b.account_id"
    ).format(b=private_name(database, "budget"))
    with database.begin() as connection:
        return rows_as(Budget, connection, query, [account_id])


def entries(database: Database, account_id: int) -> list[Entry]:
    """All entries of a budget, oldest first."""
    query = sql.SQL(
        "SELECT s.entry, s.kind, s.amount, r.name AS release, s.reason, s.actor, s.at, s.hash, "
        "coalesce(r.parameters ? 'seed', false) AS seeded, "
        "coalesce(r.parameters ->> 'accounting' = 'zcdp', false) AS zcdp FROM {} s LEFT JOIN {} r "
        "USING (release_id) WHERE s.account_id = %s ORDER BY s.entry"
    ).format(private_name(database, "spend"), private_name(database, "release"))
    with database.begin() as connection:
        return rows_as(Entry, connection, query, [account_id])


def require_booked(database: Database, release_id: int) -> None:
    """Refuse a release whose entry in the ledger is not what its record costs."""
    query = sql.SQL("SELECT {}(%s::int)").format(private_name(database, "require_booked"))
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
        "extract(epoch FROM at)::text AS at, previous_hash, hash, "
        "extract(epoch FROM lower(during))::text AS begins, "
        "extract(epoch FROM upper(during))::text AS ends FROM {} ORDER BY account_id, entry"
    ).format(private_name(database, "spend"))
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
    begins: str | None = None,
    ends: str | None = None,
) -> str:
    """SHA-256 of a row of `spend`, whose own `hash` is not part of it; as SQL's `entry_hash` writes it.

    at: seconds since 1970; begins, ends: the same, of the time whose data it was spent on.
    """
    number = f"{amount:f}"
    if "." in number:
        number = number.rstrip("0").rstrip(".")
    during = [_microseconds(end) for end in (begins, ends) if end is not None]
    parts = (
        account_id, entry, kind, number, "-" if release_id is None else release_id,
        len(reason), reason, len(actor), actor, _microseconds(at), previous_hash, *during,
    )  # fmt: skip
    return hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()


def _microseconds(seconds: str) -> str:
    return format(Decimal(seconds) * 1_000_000, ".0f") if Decimal(seconds).is_finite() else seconds


def missing_heads(database: Database, heads: list[str]) -> list[str]:
    """Which of these hashes are entries of no chain."""
    query = sql.SQL(
        "SELECT h FROM unnest(%s::text[]) h WHERE NOT EXISTS (SELECT 1 FROM {} s WHERE s.hash = h)"
    ).format(private_name(database, "spend"))
    with database.begin() as connection:
        return [str(row[0]) for row in driver(connection).execute(query, [heads])]


def published_heads(database: Database) -> list[str]:
    """The heads that the catalogue's releases have published."""
    query = sql.SQL("SELECT ledger_head FROM {} ORDER BY published_at").format(
        sql.Identifier(database.settings.release_schema, "catalog")
    )
    with database.begin() as connection:
        return [str(row[0]) for row in driver(connection).execute(query)]


# Which budget a source belongs to: that of the population whose rows it gives.


@dataclass(frozen=True)
class Claimed:
    """The account that a source spends from."""

    account: int
    is_new: bool
    notes: list[str]
    """What the owner should know of it, in words: budgets that were merged, populations that overlap."""


def claim_account(
    connection: Connection,
    database: Database,
    source: tuple[str, str],
    mapping: Mapping,
    persons: str | None,
    budget: Decimal,
) -> Claimed:
    """The account for occurrences of the population that a source is read from.

    It is the one called `persons`, else the one that has met any relation behind the source; if there
    is none, a new one is opened with `budget`.
    """
    query = sql.SQL("SELECT * FROM {}(%s::text, %s::text, %s::text, %s::text)").format(
        private_name(database, "claim_population")
    )
    (claimed,) = rows_as(Claimed, connection, query, [*source, mapping.object, persons])
    if claimed.is_new:
        reason = "; ".join(["opening budget", *claimed.notes])
        grant_budget(connection, database, claimed.account, budget, reason)
    return claimed


def open_account(
    connection: Connection, database: Database, account_id: int, unit: str
) -> tuple[int, bool]:
    """The account for a unit of the population that an account belongs to; made if there is none.

    True: it is new. Who opens it at the same moment waits for the commit, and is told that it is not.
    """
    query = sql.SQL("SELECT opened, is_new FROM {}(%s::int, %s::text)").format(
        private_name(database, "open_account")
    )
    found = driver(connection).execute(query, [account_id, unit]).fetchone()
    assert found is not None
    return found[0], found[1]


def declare_unit(
    connection: Connection, database: Database, account_id: int, unit: str, timezone: str
) -> None:
    """Say what guarantees for the persons of an account's population are for; said once."""
    query = sql.SQL("SELECT {}(%s::int, %s::text, %s::text)").format(
        private_name(database, "declare_unit")
    )
    driver(connection).execute(query, [account_id, unit, timezone])


def name_population(database: Database, dataset_id: int, persons: str) -> bool:
    """Call a dataset's population so. True: there was one of that name, and the two became one."""
    query = sql.SQL("SELECT {}(%s::int, %s::text)").format(
        private_name(database, "name_population")
    )
    with database.begin() as connection:
        return bool(one_value(connection, query, [dataset_id, persons]))


def require_traced(
    connection: Connection, database: Database, dataset_id: int, build_id: int | None = None
) -> None:
    """Refuse a source, or a build of it, whose rows are counted on another budget than the dataset's."""
    query = sql.SQL("SELECT {}(%s::int, %s::int)").format(private_name(database, "trace_source"))
    driver(connection).execute(query, [dataset_id, build_id])


def accounts_of_same_rows(connection: Connection, database: Database, account_id: int) -> list[int]:
    """Accounts of populations that were read from a relation that this one's was too, its own among them.

    By whatever column their objects are told apart: the samples are the same.
    """
    query = sql.SQL(
        """
        SELECT DISTINCT a.account_id
        FROM {account} AS own
        JOIN {source} AS mine ON mine.population_id = own.population_id
        JOIN {source} AS theirs ON (
            (mine.database_key, mine.relation_oid) = (theirs.database_key, theirs.relation_oid)
            AND mine.relation_oid <> 0
            OR (mine.source_schema, mine.source_relation)
                = (theirs.source_schema, theirs.source_relation)
        )
        JOIN {account} AS a ON a.population_id = theirs.population_id
        WHERE own.account_id = %s
        """
    ).format(
        account=private_name(database, "account"),
        source=private_name(database, "population_source"),
    )
    return [found for (found,) in driver(connection).execute(query, [account_id])]
