"""Budgets for persons: given as epsilon, kept as rho, and said in words."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import ceil

from freqdp_db.mechanisms.accounting import at_most, best_guess_any, epsilon_of
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.records.datasets import DatasetRow, open_account
from freqdp_db.storage.records.ledger import grant_budget, rho_of

DELTA = Decimal("0.000001")
"""What a person's epsilon is stated at, unless a release says otherwise."""
DEFAULT_EPSILON = Decimal(4)


def raise_for_persons(
    database: Database, dataset: DatasetRow, epsilon: Decimal, reason: str
) -> None:
    """Let the source spend so much more for each person; opens the ledger if there is none."""
    more = rho_of(database, epsilon, DELTA)
    with database.begin() as connection:
        account, _ = open_account(connection, database, dataset.account_id, "person")
        grant_budget(connection, database, account, more, reason)


def open_for_persons(database: Database, dataset: DatasetRow) -> None:
    """Open the ledger for persons of a source whose region is public, unless it has one."""
    if dataset.region is None:
        return
    opening = rho_of(database, DEFAULT_EPSILON, DELTA)
    # in one transaction: two who say the region at once do not both grant
    with database.begin() as connection:
        account, is_new = open_account(connection, database, dataset.account_id, "person")
        if is_new:
            grant_budget(connection, database, account, opening, "opening budget")


def in_words(rho: Decimal) -> str:
    """What a sum of rho means for one person."""
    if not rho:
        return "Nothing has been spent for persons yet."
    spent = Fraction(rho)
    # rounded up: a bound is never said smaller than it is
    epsilon = ceil(epsilon_of(spent, Fraction(DELTA)) * 1000) / 1000
    return (
        f"Together they are differentially private for one person with all data: epsilon "
        f"{epsilon:g} at delta {DELTA:f}. Anybody's best guess "
        "whether a person is in the data of all of these together is right with probability at "
        f"most {at_most(best_guess_any(spent))} (a coin: 0.5)."
    )
