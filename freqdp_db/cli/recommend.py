"""`freqdp recommend`: which method to use, on these data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import freqdp_db
from freqdp_db.cli.console import Session, command
from freqdp_db.cli.numbers import whole_number
from freqdp_db.cli.request import Dataset

if TYPE_CHECKING:
    from freqdp_db.interface.recommending import Recommendation

_HEADERS = ["  candidate", "an attacker learns", "of whom over half", "usefulness", "within"]


def register(app: typer.Typer) -> None:
    @command(app, "recommend")
    def recommend(
        session: Session,
        dataset: Dataset,
        risk: Annotated[
            str, typer.Option("--risk", help="What an attacker may learn of a person: 5%, 0.05.")
        ] = "5%",
        for_: Annotated[
            str,
            typer.Option("--for", help="What analysts ask: density, flows, trips or histories."),
        ] = "density",
        objects: Annotated[
            int | None,
            whole_number(
                "--objects",
                "Try it on so many, half of them held out. Default: what fits into the time.",
            ),
        ] = None,
        minutes: Annotated[
            str, typer.Option("--minutes", help="How long it may take; what is left out is said.")
        ] = "10",
        roads: Annotated[
            str | None,
            typer.Option(
                "--roads",
                help="Public table of roads that made-up trips keep to: schema.table. Slower.",
            ),
        ] = None,
        out: Annotated[
            Path | None,
            typer.Option("--out", help="Folder for the page. Default: recommend_DATASET."),
        ] = None,
        seed: Annotated[
            int, whole_number("--seed", "Picks the halves, the noise and the attackers' luck.")
        ] = 1,
        force: Annotated[bool, typer.Option("--force", help="Overwrite an existing page.")] = False,
    ) -> None:
        """Try methods on your data: which keeps the risk and serves best? Publishes and spends nothing.

        Writes a page with a picture and answers with one command to copy. For the curator's eyes.
        """
        found = freqdp_db.recommend(
            session.target,
            dataset,
            risk=risk,
            purpose=for_,
            objects=objects,
            minutes=minutes,
            roads=roads,
            out=out,
            seed=seed,
            force=force,
            progress=session.progress(),
        )
        session.answer(found, lambda: show(session, found))


def show(session: Session, found: Recommendation) -> None:
    """The table, and the answer below it."""
    session.table(_HEADERS, found.rows())
    session.print_all(["", *found.lines()])
