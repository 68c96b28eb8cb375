"""`freqdp evaluate`, `freqdp experiment` and `freqdp match`: how private and useful; roads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import freqdp_db
from freqdp_db.cli.console import Session, command
from freqdp_db.cli.numbers import whole_number
from freqdp_db.cli.request import Dataset, Engine, Signature, Workers, released

if TYPE_CHECKING:
    from freqdp_db.interface.evaluation import Evaluated

SeedOption = Annotated[
    int,
    whole_number("--seed", "Picks the samples, queries and resamples of the metrics."),
]

RoadsOption = Annotated[
    str | None,
    typer.Option("--roads", help="Edge table of roads: schema.table."),
]
MapOption = Annotated[
    list[str] | None,
    typer.Option("--map", help="With --roads: ours=theirs, such as geom=the_geom."),
]


def register(app: typer.Typer) -> None:
    @command(app, "evaluate")
    def evaluate(
        session: Session,
        release: Annotated[str, released("published")],
        roads: RoadsOption = None,
        map_: MapOption = None,
        seed: SeedOption = 1,
        engine: Engine = None,
        workers: Workers = None,
    ) -> None:
        """Measure a release against its originals: attacks, utility, recovery. For the curator's eyes."""
        found = freqdp_db.evaluate(
            session.target,
            release,
            roads=roads,
            map=map_,
            seed=seed,
            engine=engine,
            workers=workers,
            progress=session.progress(),
        )

        session.answer(found, lambda: show_evaluation(session, found))

    @command(app, "experiment")
    def experiment(
        session: Session,
        dataset: Dataset,
        method: Annotated[
            list[str] | None,
            typer.Option(
                "--method",
                help="May be repeated; with a spread, a radius or an accounting: lg:paper, rsc:500, "
                "strict:pure. Default: those of the paper.",
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
        trips: Annotated[
            bool,
            typer.Option(
                "--trips",
                help="Measure synthetic methods as they are compared: on trips in the region, "
                "with a resample of the objects beside them.",
            ),
        ] = False,
        each_trip: Annotated[
            bool,
            typer.Option("--each-trip", help="With --trips: take every trip for an object."),
        ] = False,
        paper: Annotated[
            bool,
            typer.Option(
                "--paper",
                help="The paper's whole table beside its published values, and its two figures; "
                "needs --roads.",
            ),
        ] = False,
        poi: Annotated[
            str | None,
            typer.Option("--poi", help="With --paper: points of interest for klt: schema.table."),
        ] = None,
        category: Annotated[
            str | None, typer.Option("--category", help="With --poi: its column of categories.")
        ] = None,
        out: Annotated[
            Path | None, typer.Option("--out", help="Folder to write. Default: experiment_DATASET.")
        ] = None,
        force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
        engine: Engine = None,
        workers: Workers = None,
    ) -> None:
        """Measure methods side by side: a table and two figures. Publishes and spends nothing."""
        found = freqdp_db.experiment(
            session.target,
            dataset,
            method=method,
            epsilon=epsilon,
            objects=objects,
            seeds=seeds,
            signature=signature,
            time_step=time_step,
            roads=roads,
            map=map_,
            trips=trips,
            each_trip=each_trip,
            paper=paper,
            poi=poi,
            category=category,
            out=out,
            force=force,
            engine=engine,
            workers=workers,
            progress=session.progress(),
        )
        session.answer(
            found,
            lambda: session.print_all(
                [found.markdown, "Wrote " + ", ".join(str(f) for f in found.files)]
            ),
        )

    @command(app, "match")
    def match(
        session: Session,
        dataset: Dataset,
        roads: Annotated[str, typer.Option("--roads", help="Edge table: schema.table.")],
        into: Annotated[str, typer.Option("--into", help="Table to make: schema.table.")],
        map_: MapOption = None,
        replace: Annotated[
            bool, typer.Option("--replace", help="Drop a table of that name first.")
        ] = False,
    ) -> None:
        """Put a dataset's samples on roads (Newson and Krumm), in a table of yours."""
        found = freqdp_db.match(
            session.target, dataset, roads, into,
            map=map_, replace=replace, progress=session.progress(),
        )  # fmt: skip
        session.answer(
            found,
            lambda: session.print(
                f"{found.table}: {found.rows:,} of {found.samples:,} samples are on a road, "
                f"{found.driven_km:,.0f} km of road driven by {found.trajectories:,} objects, "
                f"{found.breaks:,} breaks."
            ),
        )


def show_evaluation(session: Session, found: Evaluated) -> None:
    """The answers to three questions first, then the numbers, in words."""
    for verdict in found.verdicts:
        session.print(f"{verdict.question} {verdict.answer.capitalize()}. {verdict.meaning}")
    for group, rows in found.in_words().items():
        session.print("")
        session.table(
            [group.lower(), "value", "metric"],
            [(what, f"{value:.4f}", name) for what, value, name, _ in rows],
        )
    session.print("")
    if found.beside:
        session.print(f"{found.beside} more numbers stand beside these: --json has them all.")
    if found.publishable:
        session.print(f"May be published: {', '.join(found.publishable)}. The others are for you.")
