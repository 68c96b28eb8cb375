"""Budgets for one object with all its data: given as epsilon, kept as rho, and said in words."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from freqdp_db.mechanisms.accounting import (
    best_guess_any,
    cost_of_replacing,
    cost_of_several,
    epsilon_of,
    percent_at_most,
    rounded_up,
)
from freqdp_db.methods.protected_unit import ProtectedUnit
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.records.accounts import open_account
from freqdp_db.storage.records.datasets import DatasetRow
from freqdp_db.storage.records.ledger import grant_budget, rho_of

DELTA = Decimal("0.000001")
"""What an object's epsilon is stated at, unless a release says otherwise."""
DEFAULT_EPSILON = Decimal(4)


def raise_for_persons(
    database: Database, dataset: DatasetRow, epsilon: Decimal, reason: str
) -> None:
    """Let the source spend so much more for each object; opens the ledger if there is none."""
    more = rho_of(database, epsilon, DELTA)
    with database.begin() as connection:
        account, _ = open_account(connection, database, dataset.account_id, "person")
        grant_budget(connection, database, account, more, reason)


def open_for_persons(database: Database, dataset: DatasetRow) -> None:
    """Open the ledger for objects of a source whose region is public, unless it has one."""
    if dataset.region is None:
        return
    opening = rho_of(database, DEFAULT_EPSILON, DELTA)
    # in one transaction: two who say the region at once do not both grant
    with database.begin() as connection:
        account, is_new = open_account(connection, database, dataset.account_id, "person")
        if is_new:
            grant_budget(connection, database, account, opening, "opening budget")


def in_words(protected: ProtectedUnit, zcdp: Decimal, pure: Decimal = Decimal(0)) -> str:
    """What a sum of rho means for one object: what zCDP releases spent, and what pure ones did."""
    if not zcdp + pure:
        return f"Nothing has been spent for {protected.words} yet."
    spent, one = Fraction(zcdp + pure), protected.noun
    replaced = cost_of_replacing(Fraction(zcdp), Fraction(pure))
    epsilon, of_two = (
        rounded_up(epsilon_of(rho, Fraction(DELTA))) for rho in (spent, cost_of_several(spent, 2))
    )
    return (
        f"Together they are differentially private for {protected.words} with all its data: epsilon "
        f"{epsilon} at delta {DELTA:f}. Starting from even odds and knowing everybody else's data, "
        f"nobody can guess from these releases alone whether a given {one} is in the data and be "
        f"right more than {percent_at_most(best_guess_any(spent))} of the time, or which of two "
        f"{one}s is in it more than {percent_at_most(best_guess_any(replaced))} of the time. Somebody "
        f"who is k objects costs k^2 times rho: for two, epsilon {of_two}. What is added up here is "
        "synthetic (differentially private) releases; releases with true samples of the same objects "
        "are not in this sum."
    )
