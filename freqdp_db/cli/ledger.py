"""`freqdp budget` and `freqdp ledger`."""

from __future__ import annotations

from typing import Annotated

import typer

import freqdp_db
from freqdp_db.cli.console import Session, command
from freqdp_db.cli.request import Dataset
from freqdp_db.errors import BadInput

app = typer.Typer(name="ledger", help="The ledger of privacy budgets.", no_args_is_help=True)


def register(root: typer.Typer) -> None:
    @command(root, "budget")
    def budget(
        session: Session,
        dataset: Dataset,
        raise_: Annotated[
            str | None,
            typer.Option("--raise", help="Raise the budget by so much epsilon for one --unit."),
        ] = None,
        reason: Annotated[
            str | None, typer.Option("--reason", help="Why it is raised; goes into the ledger.")
        ] = None,
        unit: Annotated[
            str,
            typer.Option(
                "--unit",
                help="What --raise is for: occurrence, or person (one object with all its data).",
            ),
        ] = "occurrence",
    ) -> None:
        """What a dataset's source may spend, has spent and has left, and by which releases."""
        if (raise_ is None) != (reason is None):
            raise BadInput("--raise and --reason go together", remedy="give both")
        if raise_ is not None and reason is not None:
            found = freqdp_db.raise_budget(session.target, dataset, raise_, reason, unit=unit)
        else:
            found = freqdp_db.budget(session.target, dataset)

        def show() -> None:
            for account in (found, *found.other_units):
                session.print(f"Budget {account.in_words}.")
                session.table(
                    ["entry", "kind", account.currency, "release", "reason", "by", "at"],
                    [
                        (e.entry, e.kind, f"{e.amount:f}", e.release, e.reason, e.actor,
                         f"{e.at:%Y-%m-%d %H:%M}")
                        for e in account.ledger
                    ],
                )  # fmt: skip
                session.print(account.meaning)

        session.answer(found, show)


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
    found = freqdp_db.verify_ledger(session.target, head=head)
    session.answer(
        found,
        lambda: session.print(
            f"The ledger's chains are whole; {found.heads} published head(s) are in them."
        ),
    )
