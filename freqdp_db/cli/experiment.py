"""`freqdp experiment`: methods against each other on a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from freqdp_db.cli.console import Session, command
from freqdp_db.cli.evaluate import MapOption, RoadsOption, road_table
from freqdp_db.cli.numbers import whole_number
from freqdp_db.cli.request import Signature


def register(app: typer.Typer) -> None:
    @command(app, "experiment")
    def experiment(
        session: Session,
        dataset: Annotated[str, typer.Argument(help="Name of the dataset.", show_default=False)],
        method: Annotated[
            list[str] | None,
            typer.Option(
                "--method",
                help="May be repeated; with a spread or radius: lg:paper, rsc:500. Default: all.",
            ),
        ] = None,
        epsilon: Annotated[
            list[str] | None, typer.Option("--epsilon", help="May be repeated. Default 1.")
        ] = None,
        objects: Annotated[
            list[int] | None,
            whole_number("--objects", "How many objects; may be repeated. Default: all."),
        ] = None,
        seeds: Annotated[int, whole_number("--seeds", "Runs of each, with seeds 1, 2, ...")] = 5,
        signature: Signature = 10,
        time_step: Annotated[
            list[str] | None,
            typer.Option(
                "--time-step",
                help="Released times: none, 60s, 5min; may be repeated. Default none.",
            ),
        ] = None,
        roads: RoadsOption = None,
        map_: MapOption = None,
        out: Annotated[
            Path | None, typer.Option("--out", help="Folder to write. Default: experiment_DATASET.")
        ] = None,
        force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    ) -> None:
        """Measure methods side by side: a table and two figures. Publishes and spends nothing."""
        from freqdp_db.evaluation.experiment.design import Wishes, experiment_on

        wishes = Wishes(
            methods=method,
            epsilons=epsilon,
            sizes=objects,
            seeds=seeds,
            signature=signature,
            time_steps=time_step,
            roads=road_table(roads, map_),
            out=out,
            overwrite=force,
        )
        progress = session.progress()
        written = experiment_on(session.database(), dataset, wishes, progress)
        session.answer(
            {
                "dataset": dataset,
                "files": [str(f) for f in written.files],
                "runs": written.runs,
                "seconds": progress.seconds,
            },
            lambda: session.print_all(
                [written.markdown, "Wrote " + ", ".join(str(f) for f in written.files)]
            ),
        )
