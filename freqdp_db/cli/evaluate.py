"""`freqdp evaluate`: how private and how useful a release is."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from freqdp_db.cli.console import Session, command, whole_number

SeedOption = Annotated[
    int,
    typer.Option(
        "--seed",
        help="Picks the samples, queries and resamples of the metrics.",
        parser=whole_number("--seed"),
    ),
]


def register(app: typer.Typer) -> None:
    @command(app, "evaluate")
    def evaluate(
        session: Session,
        release: Annotated[str, typer.Argument(help="Name of the release.", show_default=False)],
        seed: SeedOption = 1,
    ) -> None:
        """Measure a release against its originals: attacks and utility. For the curator's eyes."""
        from freqdp_db.evaluation.evaluate import check_seed
        from freqdp_db.evaluation.evaluate import evaluate as run
        from freqdp_db.evaluation.metrics import PUBLISHABLE
        from freqdp_db.evaluation.verdicts import verdicts
        from freqdp_db.storage.releases import find_release

        check_seed(seed)
        database = session.database()
        progress = session.progress()
        found = run(database, find_release(database, release), progress, seed)
        answers = verdicts(found.values)

        def show() -> None:
            session.table(
                ["metric", "value", "may be published"],
                [(n, f"{v:.4f}", n in PUBLISHABLE) for n, v in sorted(found.values.items())],
            )
            for verdict in answers:
                session.print(
                    f"{verdict.question} {verdict.answer.capitalize()}. {verdict.meaning}"
                )

        session.answer(
            {
                "release": release,
                "metrics": found.values,
                "publishable": sorted(PUBLISHABLE & found.values.keys()),
                "verdicts": [asdict(v) for v in answers],
                "seed": seed,
                "seconds": progress.seconds,
            },
            show,
        )
