"""`freqdp plan` and `freqdp anonymize`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from freqdp_db.cli.console import Session, command
from freqdp_db.cli.request import SEED, Dataset, Memory

if TYPE_CHECKING:
    from freqdp_db.release.request import Request


def register(app: typer.Typer) -> None:
    @command(app, "plan", without=SEED)
    def plan(
        session: Session,
        dataset: Dataset,
        request: Request,
    ) -> None:
        """What anonymize would spend, edit and take. Spends nothing; for the curator's eyes."""
        from freqdp_db.release.planning import make_plan
        from freqdp_db.storage.records.datasets import find_dataset

        database = session.database()
        row = find_dataset(database, dataset)
        found = make_plan(database, row, request, session.progress(kernels=True))
        session.answer(found.document(), lambda: session.print_all(found.lines()))

    @command(app, "anonymize", without=())
    def anonymize(
        session: Session,
        dataset: Dataset,
        request: Request,
        as_: Annotated[
            str | None, typer.Option("--as", help="Name of the release. Default: <dataset>_<n>.")
        ] = None,
        new_draw: Annotated[
            bool,
            typer.Option(
                "--new-draw", help="Draw afresh even if this request was answered before."
            ),
        ] = False,
        memory: Memory = "4GB",
    ) -> None:
        """Anonymize a dataset and publish the result as a new table."""
        from freqdp_db.release.paging import parse_memory
        from freqdp_db.release.pipeline import anonymize as run
        from freqdp_db.release.summary import describe_outcome, outcome_document
        from freqdp_db.storage.records.datasets import find_dataset

        limit = parse_memory(memory)
        database = session.database()
        row = find_dataset(database, dataset)
        progress = session.progress(kernels=True)
        outcome = run(database, row, request, progress, name=as_, new_draw=new_draw, memory=limit)
        document: dict[str, Any] = {
            **outcome_document(database, outcome),
            "seconds": progress.seconds,
        }
        session.answer(document, lambda: session.print_all(describe_outcome(database, outcome)))
