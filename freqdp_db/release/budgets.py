"""What sources may spend, and what they have spent it on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from freqdp_db.dataset.registration import MAX_BUDGET, epsilon_number
from freqdp_db.documents import Document
from freqdp_db.errors import BadInput, VerificationFailed
from freqdp_db.release.conflicts import with_true_samples
from freqdp_db.release.persons import in_words, raise_for_persons
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.records import ledger
from freqdp_db.storage.records.datasets import DatasetRow
from freqdp_db.storage.records.ledger import MEANING, Budget, Entry
from freqdp_db.storage.records.requests import published_beside

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
        # what was merged may have been Gaussian: that bounds less
        zcdp = sum((e.amount for e in spends if e.zcdp or e.kind == "merge"), Decimal(0))
        seeded = [str(entry.release) for entry in spends if entry.seeded]
        said = [in_words(self.protected, zcdp, self.spent - zcdp)]
        if self.true_samples:
            said.append(f"Published with true samples: {', '.join(self.true_samples)}.")
        return " ".join([*said, *map(_NOT_COVERED.format, seeded)])


@dataclass(frozen=True, kw_only=True)
class SourceBudget(UnitBudget):
    """All budgets of a source: this one, and one for each other unit."""

    other_units: list[UnitBudget]


def source_budget(database: Database, account_id: int) -> SourceBudget:
    """All budgets of a source, with all their entries."""
    with database.begin() as session:
        beside = with_true_samples(published_beside(session, database, account_id))
    first, *others = (
        UnitBudget(
            **vars(found),
            ledger=ledger.entries(database, found.account_id),
            true_samples=[f"{release.name} ({release.method})" for release in beside],
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
        with database.begin() as session:
            ledger.grant_budget(session, database, dataset.account_id, more, reason)
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
