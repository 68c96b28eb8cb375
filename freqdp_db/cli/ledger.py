"""`freqdp budget` and `freqdp ledger`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from freqdp_db.cli.console import Session, command

app = typer.Typer(name="ledger", help="The ledger of privacy budgets.", no_args_is_help=True)


def register(root: typer.Typer) -> None:
    @command(root, "budget")
    def budget(
        session: Session,
        dataset: Annotated[str, typer.Argument(help="Name of the dataset.", show_default=False)],
        raise_: Annotated[
            str | None, typer.Option("--raise", help="Raise the budget by so much epsilon.")
        ] = None,
        reason: Annotated[
            str | None, typer.Option("--reason", help="Why it is raised; goes into the ledger.")
        ] = None,
    ) -> None:
        """What a dataset's source may spend, has spent and has left, and by which releases."""
        from freqdp_db.dataset.registration import MAX_BUDGET, epsilon_number
        from freqdp_db.errors import BadInput
        from freqdp_db.storage.records import ledger
        from freqdp_db.storage.records.datasets import find_dataset

        database = session.database()
        row = find_dataset(database, dataset)
        if (raise_ is None) != (reason is None):
            raise BadInput("--raise and --reason go together", remedy="give both")
        if reason is not None and not reason.strip():
            raise BadInput("--reason is empty", remedy="say why: it goes into the ledger")
        if raise_ is not None:
            ledger.grant_budget(
                database,
                row.account_id,
                epsilon_number("--raise", raise_, MAX_BUDGET),
                reason or "",
            )
        accounts = ledger.budgets(database, row.account_id)
        entries = {a.unit: ledger.entries(database, a.account_id) for a in accounts}

        def show() -> None:
            for account in accounts:
                session.print(
                    f"{account.source_schema}.{account.source_relation} (objects: "
                    f"{account.object_column}), for one {account.unit}: {account.currency} "
                    f"{account.spent:f} of {account.granted:f} spent, {account.remaining:f} left."
                )
                session.table(
                    ["entry", "kind", account.currency, "release", "reason", "by", "at"],
                    [
                        (e.entry, e.kind, f"{e.amount:f}", e.release, e.reason, e.actor,
                         f"{e.at:%Y-%m-%d %H:%M}")
                        for e in entries[account.unit]
                    ],
                )  # fmt: skip
                session.print(ledger.MEANING[account.unit])

        documents = [
            {**asdict(a), "ledger": [asdict(e) for e in entries[a.unit]]} for a in accounts
        ]
        session.answer({**documents[0], "other_units": documents[1:]}, show)


@command(app, "verify")
def verify(
    session: Session,
    head: Annotated[
        str | None,
        typer.Option("--head", help="A ledger_head that a release published: must still be there."),
    ] = None,
) -> None:
    """Check the hash chains. Exit 3 if an entry was changed or is missing.

    The heads in the catalogue are looked up too. Only a head that was kept elsewhere (--head) shows
    that ledger and catalogue were rewritten together.
    """
    from freqdp_db.errors import VerificationFailed
    from freqdp_db.storage.records import ledger

    database = session.database()
    faults = ledger.chain_faults(database)
    if faults:
        first = faults[0]
        raise VerificationFailed(
            f"{len(faults)} ledger entries are not right; the first: budget {first['account_id']}, "
            f"entry {first['entry']} {first['fault']}",
            remedy="restore the ledger from a backup and find out who changed it",
        )
    heads = [*ledger.published_heads(database), *([] if head is None else [head])]
    missing = ledger.missing_heads(database, heads)
    if missing:
        raise VerificationFailed(
            f"the published head {missing[0]} is in no chain: the ledger was rewritten or cut off",
            remedy="restore the ledger from a backup and find out who changed it",
        )
    session.answer(
        {"valid": True, "heads": len(heads), "head_found": None if head is None else True},
        lambda: session.print(
            f"The ledger's chains are whole; {len(heads)} published head(s) are in them."
        ),
    )
