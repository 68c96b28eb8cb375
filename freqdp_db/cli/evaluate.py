"""`freqdp evaluate` and `freqdp match`: how private and useful a release is; samples on roads."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from freqdp_db.cli.console import Session, command
from freqdp_db.cli.numbers import whole_number
from freqdp_db.errors import BadInput

if TYPE_CHECKING:
    from freqdp_db.roads.tables import RoadTable

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


def road_table(roads: str | None, map_: list[str] | None) -> RoadTable | None:
    """What --roads and --map say."""
    from freqdp_db.roads.tables import RoadTable
    from freqdp_db.storage.connection.names import parse_relation
    from freqdp_db.storage.source.road_tables import column_mapping

    mapping = column_mapping(map_ or [])
    if roads is None:
        if mapping:
            raise BadInput("--map is given without --roads", remedy="name the edge table: --roads")
        return None
    return RoadTable(parse_relation(roads, "--roads"), mapping)


def register(app: typer.Typer) -> None:
    @command(app, "evaluate")
    def evaluate(
        session: Session,
        release: Annotated[str, typer.Argument(help="Name of the release.", show_default=False)],
        roads: RoadsOption = None,
        map_: MapOption = None,
        seed: SeedOption = 1,
    ) -> None:
        """Measure a release against its originals: attacks, utility, recovery. For the curator's eyes."""
        from freqdp_db.evaluation.evaluate import check_seed
        from freqdp_db.evaluation.evaluate import evaluate as run
        from freqdp_db.evaluation.metrics import PUBLISHABLE
        from freqdp_db.evaluation.report.verdicts import verdicts
        from freqdp_db.storage.records.releases import find_release

        check_seed(seed)
        table = road_table(roads, map_)
        database = session.database()
        progress = session.progress()
        found = run(database, find_release(database, release), progress, seed, table)
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

    @command(app, "match")
    def match(
        session: Session,
        dataset: Annotated[str, typer.Argument(help="Name of the dataset.", show_default=False)],
        roads: Annotated[str, typer.Option("--roads", help="Edge table: schema.table.")],
        into: Annotated[str, typer.Option("--into", help="Table to make: schema.table.")],
        map_: MapOption = None,
        replace: Annotated[
            bool, typer.Option("--replace", help="Drop a table of that name first.")
        ] = False,
    ) -> None:
        """Put a dataset's samples on roads (Newson and Krumm), in a table of yours."""
        from freqdp_db.roads.tables import match_dataset
        from freqdp_db.storage.connection.names import parse_relation
        from freqdp_db.storage.records.datasets import find_dataset

        table = road_table(roads, map_)
        assert table is not None
        target = parse_relation(into, "--into")
        database = session.database()
        row = find_dataset(database, dataset)
        progress = session.progress()
        found = match_dataset(
            database,
            row,
            row.require_build(),
            table,
            target,
            "replace" if replace else "create",
            progress,
        )
        session.answer(
            {**asdict(found), "seconds": progress.seconds},
            lambda: session.print(
                f"{found.table}: {found.rows:,} of {found.samples:,} samples are on a road, "
                f"{found.driven_km:,.0f} km of road driven by {found.trajectories:,} objects, "
                f"{found.breaks:,} breaks."
            ),
        )
