"""The ledger of privacy budgets and the accounts that it is kept for, through their functions."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from psycopg import Rollback

from freqdp_db.db.connection import Connection, Database, Session
from freqdp_db.db.names import format_name, format_relation
from freqdp_db.db.source import Mapping
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
    query = "SELECT * FROM {p}.budget WHERE account_id = %s"
    found = database.rows_as(Budget, query, [account_id])
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
        none: dict[str, Any] = dict.fromkeys(
            ("granted", "spent", "remaining", "together"), _NOTHING
        )
        empty = replace(own, unit=str(unit), windows=0, entries=0, **none)
        own = next((b for b in budgets(database, account_id) if b.unit == unit), empty)
    if build is None or not own.entries:
        return own
    query = "SELECT {p}.spent_in(%s::int, {p}.units_of(%s::int, %s::text, %s, %s))"
    values = [own.account_id, own.population_id, own.unit, build.window_begin, build.window_end]
    spent = Decimal(database.one_value(query, values))
    return replace(own, spent=spent, remaining=own.granted - spent)


def budgets(database: Database, account_id: int) -> list[Budget]:
    """All budgets of the population that an account belongs to: one for each unit."""
    query = (
        "SELECT b.* FROM {p}.budget b JOIN {p}.budget own ON own.account_id = %s "
        "AND own.population_id = b.population_id ORDER BY b.account_id"
    )
    return database.rows_as(Budget, query, [account_id])


def entries(database: Database, account_id: int) -> list[Entry]:
    """All entries of a budget, oldest first."""
    query = (
        "SELECT s.entry, s.kind, s.amount, r.name AS release, s.reason, s.actor, s.at, s.hash, "
        "coalesce(r.parameters ? 'seed', false) AS seeded, "
        "coalesce(r.parameters ->> 'accounting' = 'zcdp', false) AS zcdp FROM {p}.spend s "
        "LEFT JOIN {p}.release r USING (release_id) WHERE s.account_id = %s ORDER BY s.entry"
    )
    return database.rows_as(Entry, query, [account_id])


def require_booked(database: Database, release_id: int) -> None:
    """Refuse a release whose entry in the ledger is not what its record costs."""
    database.call("require_booked", release_id)


def grant_budget(session: Session, account_id: int, amount: Decimal, reason: str) -> None:
    """Raise a budget: an entry, with who and why."""
    session.call("grant_budget", account_id, amount, reason)


def rho_of(database: Database, epsilon: Decimal, delta: Decimal) -> Decimal:
    """The rho that stands for (epsilon, delta), as the ledger for objects books it."""
    return Decimal(database.call("rho_of", epsilon, delta))


def chain_faults(database: Database) -> list[dict[str, Any]]:
    """Entries whose hash, predecessor or number is not what it should be.

    Hashes are computed here: whoever owns the schema can replace its function `entry_hash`.
    """
    query = (
        "SELECT account_id, entry, kind, amount, release_id, reason, actor, "
        "extract(epoch FROM at)::text AS at, previous_hash, hash, "
        "extract(epoch FROM lower(during))::text AS begins, "
        "extract(epoch FROM upper(during))::text AS ends FROM {p}.spend ORDER BY account_id, entry"
    )
    faults: list[dict[str, Any]] = []
    last: dict[str, Any] = {"account_id": None}
    for row in database.rows_as(dict[str, Any], query):
        follows = last["account_id"] == row["account_id"]
        if row["entry"] != (last["entry"] + 1 if follows else 1):
            fault = "an entry is missing before it"
        elif row["previous_hash"] != (last["hash"] if follows else ""):
            fault = "does not follow the entry before it"
        elif row["hash"] != entry_hash(row):
            fault = "was changed"
        else:
            fault = None
        if fault is not None:
            key = {name: row[name] for name in ("account_id", "entry")}
            faults.append({**key, "fault": fault})
        last = row
    return faults


def entry_hash(row: dict[str, Any]) -> str:
    """SHA-256 of a row of `spend`, whose own `hash` is not part of it; as SQL's `entry_hash` writes it.

    `at` is in seconds since 1970, and so are `begins` and `ends` of the time whose data it was spent on.
    """
    number = f"{row['amount']:f}"
    if "." in number:
        number = number.rstrip("0").rstrip(".")
    release, reason, actor = row["release_id"], row["reason"], row["actor"]
    parts = (
        row["account_id"], row["entry"], row["kind"], number, "-" if release is None else release,
        len(reason), reason, len(actor), actor, _microseconds(row["at"]), row["previous_hash"],
        *(_microseconds(end) for end in (row["begins"], row["ends"]) if end is not None),
    )  # fmt: skip
    return hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()


def _microseconds(seconds: str) -> str:
    return format(Decimal(seconds) * 1_000_000, ".0f") if Decimal(seconds).is_finite() else seconds


def missing_heads(database: Database, heads: list[str]) -> list[str]:
    """Which of these hashes are entries of no chain."""
    query = (
        "SELECT h FROM unnest(%s::text[]) h "
        "WHERE NOT EXISTS (SELECT 1 FROM {p}.spend s WHERE s.hash = h)"
    )
    return database.first_column(query, [heads])


def published_heads(database: Database) -> list[str]:
    """The heads that the catalogue's releases have published."""
    return database.first_column("SELECT ledger_head FROM {r}.catalog ORDER BY published_at")


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
    source: tuple[str, str],
    mapping: Mapping,
    persons: str | None,
    budget: Decimal,
) -> Claimed:
    """The account for occurrences of the population that a source is read from.

    It is the one called `persons`, else the one that has met any relation behind the source; if there
    is none, a new one is opened with `budget`.
    """
    query = "SELECT * FROM {p}.claim_population(%s::text, %s::text, %s::text, %s::text)"
    (claimed,) = connection.rows_as(Claimed, query, [*source, mapping.object, persons])
    if claimed.is_new:
        reason = "; ".join(["opening budget", *claimed.notes])
        grant_budget(connection, claimed.account, budget, reason)
    return claimed


def open_account(connection: Connection, account_id: int, unit: str) -> tuple[int, bool]:
    """The account for a unit of the population that an account belongs to; made if there is none.

    True: it is new. Who opens it at the same moment waits for the commit, and is told that it is not.
    """
    query = "SELECT opened, is_new FROM {p}.open_account(%s::int, %s::text)"
    ((opened, is_new),) = connection.execute(query, [account_id, unit]).fetchall()
    return opened, is_new


def declare_unit(session: Session, account_id: int, unit: str, timezone: str) -> None:
    """Say what guarantees for the persons of an account's population are for; said once."""
    session.call("declare_unit", account_id, unit, timezone)


def name_population(database: Database, dataset_id: int, persons: str) -> bool:
    """Call a dataset's population so. True: there was one of that name, and the two became one."""
    return bool(database.call("name_population", dataset_id, persons))


def require_traced(connection: Connection, dataset_id: int, build_id: int | None = None) -> None:
    """Refuse a source, or a build of it, whose rows are counted on another budget than the dataset's."""
    connection.call("trace_source", dataset_id, build_id)


def require_traceable(database: Database, dataset_id: int) -> None:
    """The same of a source as it is now; records nothing of it."""
    with database.begin() as connection, connection.savepoint():
        require_traced(connection, dataset_id)
        raise Rollback


def require_unit(connection: Connection, dataset_id: int, build_id: int) -> None:
    """Refuse a build whose releases for persons would be for another unit than its budget counts."""
    connection.call("require_unit", dataset_id, build_id)


def accounts_of_same_rows(session: Session, account_id: int) -> list[int]:
    """Accounts of populations that were read from a relation that this one's was too, its own among them.

    By whatever column their objects are told apart: the samples are the same.
    """
    query = """
        SELECT DISTINCT a.account_id
        FROM {p}.account AS own
        JOIN {p}.population_source AS mine ON mine.population_id = own.population_id
        JOIN {p}.population_source AS theirs ON (
            (mine.database_key, mine.relation_oid) = (theirs.database_key, theirs.relation_oid)
            AND mine.relation_oid <> 0
            OR (mine.source_schema, mine.source_relation)
                = (theirs.source_schema, theirs.source_relation)
        )
        JOIN {p}.account AS a ON a.population_id = theirs.population_id
        WHERE own.account_id = %s
        """
    return session.first_column(query, [account_id])
