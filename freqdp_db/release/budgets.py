"""What sources may spend, and what they have spent it on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from freqdp_db.dataset.text_values import MAX_BUDGET, epsilon_number
from freqdp_db.db import ledger
from freqdp_db.db.connection import Database
from freqdp_db.db.datasets import DatasetRow
from freqdp_db.db.ledger import MEANING, Budget, Entry, grant_budget, open_account, rho_of
from freqdp_db.db.releases import releases_of_same_rows
from freqdp_db.errors import BadInput, VerificationFailed
from freqdp_db.model.documents import Document
from freqdp_db.privacy.accounting import (
    best_guess_any,
    cost_of_replacing,
    cost_of_several,
    epsilon_of,
    percent_at_most,
    pure_epsilon,
    rounded_up,
)
from freqdp_db.privacy.guarantee import DELTA, ProtectedUnit
from freqdp_db.release.conflicts import names_of, with_true_samples

# Budgets for one object with all its data: given as epsilon, kept as rho, and said in words.


DEFAULT_EPSILON = Decimal(4)


def raise_for_persons(
    database: Database, dataset: DatasetRow, epsilon: Decimal, reason: str
) -> None:
    """Let the source spend so much more for each object; opens the ledger if there is none."""
    more = rho_of(database, epsilon, DELTA)
    with database.begin() as connection:
        account, _ = open_account(connection, dataset.account_id, "person")
        grant_budget(connection, account, more, reason)


def open_for_persons(database: Database, dataset: DatasetRow) -> None:
    """Open the ledger for objects of a source whose region is public, unless it has one."""
    if dataset.region is None:
        return
    opening = rho_of(database, DEFAULT_EPSILON, DELTA)
    # in one transaction: two who say the region at once do not both grant
    with database.begin() as connection:
        account, is_new = open_account(connection, dataset.account_id, "person")
        if is_new:
            grant_budget(connection, account, opening, "opening budget")


def in_words(protected: ProtectedUnit, zcdp: Decimal, pure: Decimal = Decimal(0)) -> str:
    """What a sum of rho means for one object: what zCDP releases spent, and what pure ones did."""
    if not zcdp + pure:
        return f"Nothing has been spent for {protected.words} yet."
    rho, one = Fraction(zcdp + pure), protected.noun
    replaced = cost_of_replacing(Fraction(zcdp), Fraction(pure))
    epsilon, of_two = (
        rounded_up(epsilon_of(cost, Fraction(DELTA))) for cost in (rho, cost_of_several(rho, 2))
    )
    return (
        f"Together they are differentially private for {protected.words} with {protected.extent}: epsilon "
        f"{epsilon} at delta {DELTA:f}. Starting from even odds and knowing everybody else's data, "
        f"nobody can guess from these releases alone whether a given {one} is in the data and be "
        f"right more than {percent_at_most(best_guess_any(rho))} of the time, or which of two "
        f"{one}s is in it more than {percent_at_most(best_guess_any(replaced))} of the time. Somebody "
        f"who is k objects costs k^2 times rho: for two, epsilon {of_two}. What is added up here is "
        "synthetic (differentially private) releases; releases with true samples of the same objects "
        "are not in this sum."
    )


_HEAD = re.compile("[0-9a-f]{64}")
_REMEDY = "restore the ledger from a backup and find out who changed it"
_NOT_COVERED = "This does not hold for {}: its noise was seeded, and it guarantees nothing."


@dataclass(frozen=True, kw_only=True)
class UnitBudget(Budget, Document):
    """The budget of a source for one unit, with all its entries."""

    ledger: list[Entry]
    true_samples: list[str]
    """Published releases with true samples of the same objects, which no such budget counts."""

    @property
    def meaning(self) -> str:
        """What it bounds, in words."""
        if self.unit != "person":
            return MEANING
        spends = [entry for entry in self.ledger if entry.kind != "grant"]
        # what was merged may have been pure, which costs more when one object replaces another
        zcdp = sum((e.amount for e in spends if e.zcdp), Decimal(0))
        seeded = [str(entry.release) for entry in spends if entry.seeded]
        # of several windows it is not said which the fullest one's releases were: all pure bounds most
        pure = self.together - zcdp if not self.windows else min(self.spent, self.together - zcdp)
        said = [in_words(self.protected, self.spent - pure, pure)]
        if self.stretch is not None and self.windows > 1:
            epsilon = epsilon_of(Fraction(self.together), Fraction(DELTA))
            # a release that is gone with a merged budget may have been either
            if all(entry.release is not None and not entry.zcdp for entry in spends):
                plainly = sum(pure_epsilon(Fraction(entry.amount)) for entry in spends)
                epsilon = min(epsilon, Fraction(plainly))
            said.append(
                f"That is for the {self.stretch} with most spent. Different {self.stretch}s do not add "
                f"up, so the budget is there again for each; {self.protected.noun}s with data in all "
                f"{self.windows} windows that were released: epsilon {rounded_up(epsilon)} at delta "
                f"{DELTA:f}."
            )
        if self.true_samples:
            said.append(f"Published with true samples: {', '.join(self.true_samples)}.")
        return " ".join([*said, *map(_NOT_COVERED.format, seeded)])


@dataclass(frozen=True, kw_only=True)
class SourceBudget(UnitBudget):
    """All budgets of a source: this one, and one for each other unit."""

    other_units: list[UnitBudget]


def source_budget(database: Database, account_id: int) -> SourceBudget:
    """All budgets of a source, with all their entries."""
    beside = with_true_samples(releases_of_same_rows(database, account_id))
    first, *others = (
        UnitBudget(
            **vars(found),
            ledger=ledger.entries(database, found.account_id),
            true_samples=names_of(beside),
        )
        for found in ledger.budgets(database, account_id)
    )
    return SourceBudget(**vars(first), other_units=others)


def raise_budget(
    database: Database, dataset: DatasetRow, amount: str, reason: str, unit: str
) -> None:
    """Let a dataset's source spend so much epsilon more for a unit: `occurrence` or `person`."""
    if not reason.strip():
        raise BadInput("[[reason]] is empty", remedy="say why: it goes into the ledger")
    more = epsilon_number("[[amount]]", amount, MAX_BUDGET)
    if unit == "person":
        raise_for_persons(database, dataset, more, reason)
    elif unit == "occurrence":
        ledger.grant_budget(database, dataset.account_id, more, reason)
    else:
        raise BadInput(f"[[unit]] {unit!r} is not known", remedy="use occurrence or person")


def verify_ledger(database: Database, head: str | None) -> int:
    """Check all chains, and that published heads and this one are in them; how many heads there were."""
    if head is not None and not _HEAD.fullmatch(head := head.lower()):
        raise BadInput(
            f"[[head]] {head!r} is no head of a ledger: those are 64 hexadecimal digits",
            remedy="give the ledger_head of a release, as the catalogue or an exported guarantee "
            "has it",
        )
    faults = ledger.chain_faults(database)
    if faults:
        first = faults[0]
        raise VerificationFailed(
            f"{len(faults)} ledger entries are not right; the first: budget "
            f"{first['account_id']}, entry {first['entry']} {first['fault']}",
            remedy=_REMEDY,
        )
    heads = [*ledger.published_heads(database), *([] if head is None else [head])]
    missing = ledger.missing_heads(database, heads)
    if missing:
        raise VerificationFailed(
            f"the published head {missing[0]} is in no chain: the ledger was rewritten or cut off",
            remedy=_REMEDY,
        )
    return len(heads)
