"""The options that say what release is wanted: one list of them, for every command that asks."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from freqdp_db.cli.numbers import whole_number

Dataset = Annotated[str, typer.Argument(help="Name of the dataset.", show_default=False)]
Memory = Annotated[
    str,
    typer.Option(
        "--memory",
        help="How much of the segments the search may hold: 256MB, 4GB. Less is slower; the result "
        "is the same.",
    ),
]
_Method = Annotated[
    str,
    typer.Option(
        "--method", help="lg (local, then global), gl, pure-g, pure-l; to compare: sc, rsc."
    ),
]
_Epsilon = Annotated[
    str | None, typer.Option("--epsilon", help="Total; halves where two mechanisms run. Default 1.")
]
_EpsilonGlobal = Annotated[
    str | None, typer.Option("--epsilon-global", help="For the trajectory frequencies.")
]
_EpsilonLocal = Annotated[
    str | None, typer.Option("--epsilon-local", help="For the point frequencies.")
]
Signature = Annotated[
    int,
    whole_number("--signature", "m: size of a signature."),
]
_Spread = Annotated[
    str,
    typer.Option("--spread", help="Metres within which a place is inserted, or `paper`."),
]
_Radius = Annotated[
    str | None,
    typer.Option("--radius", help="rsc: metres around the dropped places. Default 1000."),
]
_TimeStep = Annotated[
    str | None, typer.Option("--time-step", help="Coarsen released times: 60s, 5min, 1h.")
]
_Seed = Annotated[
    int | None,
    whole_number("--seed", "Reproducible noise, for tests: the release is NOT private."),
]

_OPTIONS: dict[str, tuple[Any, Any]] = {
    "method": (_Method, "lg"),
    "epsilon": (_Epsilon, None),
    "epsilon_global": (_EpsilonGlobal, None),
    "epsilon_local": (_EpsilonLocal, None),
    "signature": (Signature, 10),
    "spread": (_Spread, "500"),
    "radius": (_Radius, None),
    "time_step": (_TimeStep, None),
    "seed": (_Seed, None),
}
MECHANISM = ("method", "epsilon", "epsilon_global", "epsilon_local", "signature")
SCHEDULED = (*MECHANISM, "spread", "time_step")
PLANNED = (*MECHANISM, "spread", "radius", "time_step")
EVERYTHING = (*PLANNED, "seed")


def parameters(names: Iterable[str]) -> list[inspect.Parameter]:
    """These options, as parameters of a command."""
    return [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
        for name, (kind, default) in _OPTIONS.items()
        if name in names
    ]
