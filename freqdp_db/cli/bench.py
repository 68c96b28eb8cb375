"""`freqdp bench`: how fast the search and the whole job are, on a dataset or a made-up city."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from freqdp_db.cli.console import Session, command
from freqdp_db.cli.numbers import whole_number
from freqdp_db.cli.request import Signature

app = typer.Typer(name="bench", help="Measure the search and the whole job.", no_args_is_help=True)

Dataset = Annotated[
    str | None,
    typer.Argument(help="A registered dataset. Default: a made-up city.", show_default=False),
]
Sizes = Annotated[str, typer.Option("--sizes", help="Numbers of trajectories, with commas.")]
Method = Annotated[str, typer.Option("--method", help="lg, gl, pure-g or pure-l.")]
Epsilon = Annotated[str, typer.Option("--epsilon", help="Total, as for anonymize.")]
Seed = Annotated[
    int,
    whole_number("--seed", "Which objects and which noise."),
]
Picture = Annotated[
    str | None, typer.Option("--picture", help="Draw it, too: a file ending in .png or .svg.")
]


@command(app, "search")
def search(
    session: Session,
    dataset: Dataset = None,
    sizes: Sizes = "1000,10000",
    queries: Annotated[
        int,
        whole_number("--queries", "How many queries to ask; slow strategies get a part of them."),
    ] = 2000,
    strategies: Annotated[
        str | None, typer.Option("--strategies", help="Names, with commas. Default: all.")
    ] = None,
    epsilon: Epsilon = "1",
    signature: Signature = 10,
    seed: Seed = 1,
    picture: Picture = None,
) -> None:
    """Time per query of every search strategy and of PostGIS's GiST, and whether they agree."""
    from freqdp_db.interface.benchmarks import bench_searches

    found = bench_searches(
        session.target,
        dataset,
        sizes=sizes,
        queries=queries,
        strategies=strategies,
        epsilon=epsilon,
        signature=signature,
        seed=seed,
        picture=picture,
        progress=session.progress(),
    )

    def show() -> None:
        for run in found.runs:
            session.print(
                f"{run.trajectories:,} trajectories, {run.segments:,} distinct segments: "
                f"{run.queries:,} queries for the nearest trajectories, one core"
            )
            session.table(_HEADERS, [_cells(s, run.times_faster(s.name)) for s in run.strategies])
            session.print("nearest segments of one trajectory")
            session.table(_HEADERS, [_cells(s, None) for s in run.local])
            session.print("")
        equal = found.answers_equal
        session.print(
            "All answers are equal, ties included." if equal else "THE ANSWERS DIFFER: report this."
        )

    session.answer(found, show)


_HEADERS = [
    "strategy",
    "queries",
    "us/query",
    "x default",
    "distances",
    "cells",
    "build s",
    "index MB",
]


def _cells(measured: Any, factor: float | None) -> list[Any]:
    return [
        measured.name,
        measured.queries,
        round(measured.us_per_query, 1),
        None if factor is None else round(factor, 1),
        round(measured.distances_per_query),
        None if measured.cells_per_query is None else round(measured.cells_per_query),
        round(measured.build_s, 2),
        round(measured.index_mb),
    ]


@command(app, "pipeline")
def pipeline(
    session: Session,
    dataset: Dataset = None,
    sizes: Sizes = "1000,2000,5000,10000",
    method: Method = "gl",
    epsilon: Epsilon = "1",
    signature: Signature = 10,
    seed: Seed = 1,
    picture: Picture = None,
) -> None:
    """Build, anonymize and verify by stage, beside the copy floor, in schemas that are dropped again."""
    from freqdp_db.interface.benchmarks import bench_pipelines

    found = bench_pipelines(
        session.target,
        dataset,
        sizes=sizes,
        method=method,
        epsilon=epsilon,
        signature=signature,
        seed=seed,
        picture=picture,
        progress=session.progress,
    )

    def show() -> None:
        session.table(
            ["objects", "samples", "floor", "build", "/floor", "release", "/floor", "MB"],
            [
                [
                    run.trajectories, run.samples, round(run.floor_s, 1), round(run.build_s, 1),
                    round(run.ratios["build"], 2), round(run.anonymize_s, 1),
                    round(run.ratios["anonymize_and_verify"], 2), round(run.peak_rss_mb),
                ]
                for run in found.runs
            ],
        )  # fmt: skip
        session.print(
            "Seconds; /floor: times the copy floor; release: from start to published, verified; "
            "MB: peak memory."
        )
        last = found.runs[-1]
        for title, stages in (
            ("copy floor", last.floor_parts),
            ("build", last.build_stages),
            ("anonymize and verify", last.anonymize_stages),
        ):
            session.print(f"\n{title}, {last.trajectories:,} trajectories")
            session.pairs([(name.removesuffix("_s"), f"{s:.2f} s") for name, s in stages.items()])
        if found.growth_exponent is not None:
            session.print(f"\nanonymize with verify grows as n^{found.growth_exponent:.2f}")

    session.answer(found, show)
