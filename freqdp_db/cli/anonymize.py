"""`freqdp plan` and `freqdp anonymize`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from freqdp_db.cli.console import Session, command, whole_number

Dataset = Annotated[str, typer.Argument(help="Name of the dataset.", show_default=False)]
MethodOption = Annotated[
    str,
    typer.Option(
        "--method", help="lg (local, then global), gl, pure-g, pure-l; to compare: sc, rsc."
    ),
]
Epsilon = Annotated[
    str | None, typer.Option("--epsilon", help="Total; halves where two mechanisms run. Default 1.")
]
EpsilonGlobal = Annotated[
    str | None, typer.Option("--epsilon-global", help="For the trajectory frequencies.")
]
EpsilonLocal = Annotated[
    str | None, typer.Option("--epsilon-local", help="For the point frequencies.")
]
Signature = Annotated[
    int,
    whole_number("--signature", "m: size of a signature."),
]
Spread = Annotated[
    str,
    typer.Option("--spread", help="Metres within which a place is inserted, or `paper`."),
]
Radius = Annotated[
    str | None,
    typer.Option("--radius", help="rsc: metres around the dropped places. Default 1000."),
]
TimeStep = Annotated[
    str | None, typer.Option("--time-step", help="Coarsen released times: 60s, 5min, 1h.")
]
Seed = Annotated[
    int | None,
    whole_number("--seed", "Reproducible noise, for tests: the release is NOT private."),
]
Memory = Annotated[
    str,
    typer.Option(
        "--memory",
        help="How much of the segments the search may hold: 256MB, 4GB. Less is slower; the result "
        "is the same.",
    ),
]


def register(app: typer.Typer) -> None:
    @command(app, "plan")
    def plan(
        session: Session,
        dataset: Dataset,
        method: MethodOption = "lg",
        epsilon: Epsilon = None,
        epsilon_global: EpsilonGlobal = None,
        epsilon_local: EpsilonLocal = None,
        signature: Signature = 10,
        spread: Spread = "500",
        radius: Radius = None,
        time_step: TimeStep = None,
    ) -> None:
        """What anonymize would spend, edit and take. Spends nothing; for the curator's eyes."""
        from freqdp_db.release.planning import make_plan
        from freqdp_db.release.request import Request
        from freqdp_db.storage.datasets import find_dataset

        request = Request.parse(
            method=method,
            epsilon=epsilon,
            epsilon_global=epsilon_global,
            epsilon_local=epsilon_local,
            signature=signature,
            spread=spread,
            radius=radius,
            time_step=time_step,
        )
        database = session.database()
        row = find_dataset(database, dataset)
        found = make_plan(database, row, request, session.progress(kernels=True))
        session.answer(found.document(), lambda: session.print_all(found.lines()))

    @command(app, "anonymize")
    def anonymize(
        session: Session,
        dataset: Dataset,
        method: MethodOption = "lg",
        epsilon: Epsilon = None,
        epsilon_global: EpsilonGlobal = None,
        epsilon_local: EpsilonLocal = None,
        signature: Signature = 10,
        spread: Spread = "500",
        radius: Radius = None,
        time_step: TimeStep = None,
        as_: Annotated[
            str | None, typer.Option("--as", help="Name of the release. Default: <dataset>_<n>.")
        ] = None,
        new_draw: Annotated[
            bool,
            typer.Option(
                "--new-draw", help="Draw afresh even if this request was answered before."
            ),
        ] = False,
        seed: Seed = None,
        memory: Memory = "4GB",
    ) -> None:
        """Anonymize a dataset and publish the result as a new table."""
        from freqdp_db.release.paging import parse_memory
        from freqdp_db.release.pipeline import anonymize as run
        from freqdp_db.release.request import Request
        from freqdp_db.release.summary import describe_outcome, outcome_document
        from freqdp_db.storage.datasets import find_dataset

        request = Request.parse(
            method=method,
            epsilon=epsilon,
            epsilon_global=epsilon_global,
            epsilon_local=epsilon_local,
            signature=signature,
            spread=spread,
            radius=radius,
            time_step=time_step,
            seed=seed,
        )
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
