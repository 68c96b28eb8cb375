"""`freqdp plan`, `freqdp anonymize` and `freqdp audit`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import freqdp_db
from freqdp_db.cli.console import Session, command
from freqdp_db.cli.numbers import whole_number
from freqdp_db.cli.request import SEED, TRIED, Dataset, Engine, Memory, Workers


def register(app: typer.Typer) -> None:
    @command(app, "plan", without=SEED)
    def plan(
        session: Session,
        dataset: Dataset,
        request: dict[str, Any],
        engine: Engine = None,
        workers: Workers = None,
    ) -> None:
        """What anonymize would spend, edit and take. Spends nothing; for the curator's eyes."""
        session.show(
            freqdp_db.plan(
                session.target,
                dataset,
                **request,
                engine=engine,
                workers=workers,
                progress=session.progress(),
            )
        )

    @command(app, "anonymize", without=())
    def anonymize(
        session: Session,
        dataset: Dataset,
        request: dict[str, Any],
        as_: Annotated[
            str | None, typer.Option("--as", help="Name of the release. Default: <dataset>_<n>.")
        ] = None,
        new_draw: Annotated[
            bool,
            typer.Option(
                "--new-draw", help="Draw afresh even if this request was answered before."
            ),
        ] = False,
        hold: Annotated[
            bool,
            typer.Option(
                "--hold", help="For curators only, until `freqdp release approve` grants it."
            ),
        ] = False,
        memory: Memory = "4GB",
        engine: Engine = None,
        workers: Workers = None,
    ) -> None:
        """Anonymize a dataset and publish the result as a new table."""
        session.show(
            freqdp_db.anonymize(
                session.target,
                dataset,
                **request,
                name=as_,
                new_draw=new_draw,
                hold=hold,
                memory=memory,
                engine=engine,
                workers=workers,
                progress=session.progress(),
            )
        )

    @command(app, "audit", without=TRIED)
    def audit(
        session: Session,
        dataset: Dataset,
        request: dict[str, Any],
        runs: Annotated[
            int, whole_number("--runs", "Runs in each of two neighbouring worlds.")
        ] = 40_000,
    ) -> None:
        """Bound epsilon from below, by experiment. Publishes and spends nothing; for the curator.

        Exit 3 if a mechanism loses more than it claims.
        """
        found = freqdp_db.audit(
            session.target, dataset, **request, runs=runs, progress=session.progress()
        )

        def show() -> None:
            session.print(
                f"{found.dataset}, method {found.request.method.name}; an object is "
                f"{found.protected.words}. Epsilon is at least so much, by experiment (all of it at "
                f"{found.confidence:.1%} confidence)."
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

        session.answer(found, show)
