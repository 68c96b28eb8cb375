"""Which budget a source belongs to: that of the population whose rows it gives."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from psycopg import sql

from freqdp_db.storage.connection.engine import Connection, Database, driver
from freqdp_db.storage.connection.statements import one_value, own, rows_as
from freqdp_db.storage.records.ledger import grant_budget
from freqdp_db.storage.source.relations import Mapping


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
        own(database, "claim_population")
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
        own(database, "open_account")
    )
    found = driver(connection).execute(query, [account_id, unit]).fetchone()
    assert found is not None
    return found[0], found[1]


def name_population(database: Database, dataset_id: int, persons: str) -> bool:
    """Call a dataset's population so. True: there was one of that name, and the two became one."""
    query = sql.SQL("SELECT {}(%s::int, %s::text)").format(own(database, "name_population"))
    with database.begin() as connection:
        return bool(one_value(connection, query, [dataset_id, persons]))


def require_traced(
    connection: Connection, database: Database, dataset_id: int, build_id: int | None = None
) -> None:
    """Refuse a source, or a build of it, whose rows are counted on another budget than the dataset's."""
    query = sql.SQL("SELECT {}(%s::int, %s::int)").format(own(database, "trace_source"))
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
    ).format(account=own(database, "account"), source=own(database, "population_source"))
    return [found for (found,) in driver(connection).execute(query, [account_id])]
