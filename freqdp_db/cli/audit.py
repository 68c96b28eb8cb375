"""`freqdp audit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from freqdp_db.cli.console import Session, command
from freqdp_db.cli.numbers import whole_number
from freqdp_db.cli.request import TRIED, Dataset

if TYPE_CHECKING:
    from freqdp_db.release.request import Request


def register(app: typer.Typer) -> None:
    @command(app, "audit", without=TRIED)
    def audit(
        session: Session,
        dataset: Dataset,
        request: Request,
        runs: Annotated[
            int, whole_number("--runs", "Runs in each of two neighbouring worlds.")
        ] = 40_000,
    ) -> None:
        """Bound epsilon from below, by experiment. Publishes and spends nothing; for the curator.

        Exit 3 if a mechanism loses more than it claims.
        """
        from freqdp_db.evaluation.audit.audit import audit as run
        from freqdp_db.storage.records.datasets import find_dataset

        database = session.database()
        found = run(
            database, find_dataset(database, dataset), request, session.progress(), runs=runs
        )
        found.require_within_claims()

        def show() -> None:
            session.print(
                f"{found.dataset}, method {found.request.method.name}: epsilon is at least so much, "
                f"by experiment (all of it at {found.confidence:.1%} confidence)."
            )
            session.table(
                ["artefact", "lists", "neighbour", "claimed", "at least", "runs", "verdict"],
                found.rows(),
            )
            session.print(
                "Held equal: candidates and point lists are those of the first world, as the "
                "guarantee assumes. Where lists move, and for the table of trajectories, nothing is "
                "claimed: one world shows what the other cannot. Nothing was published or spent."
            )

        session.answer(found.document(), show)
