"""The options that say what release is wanted: made from what the methods declare."""

from __future__ import annotations

import inspect
from collections.abc import Collection
from typing import Annotated, Any

import typer

from freqdp_db.cli import completion
from freqdp_db.cli.numbers import whole_number
from freqdp_db.methods.kinds import Flag
from freqdp_db.methods.parameters import RELEASE, TOTALS, Parameter
from freqdp_db.methods.registry import DEFAULT_METHOD, METHODS

Dataset = Annotated[
    str,
    typer.Argument(
        help="Name of the dataset.", show_default=False, autocompletion=completion.datasets
    ),
]


def released(*states: str) -> Any:
    """The argument of commands that take a release in one of these states."""
    return typer.Argument(
        help="Name of the release.",
        show_default=False,
        autocompletion=completion.releases(*states),
    )


Memory = Annotated[
    str,
    typer.Option(
        "--memory",
        help="How much of the segments the search may hold: 256MB, 4GB. Less is slower; the result "
        "is the same.",
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        help="Who does the work: threads (of this process); dask (processes that it starts); "
        "dask://host:8786 or tls://host:8786 (a scheduler of yours). The result is the same. "
        "Default: FREQDP_ENGINE, then threads.",
        show_default=False,
    ),
]
Workers = Annotated[
    int | None, whole_number("--workers", "Processes of --engine dask. Default: one for each core.")
]
Signature = Annotated[int, whole_number("--signature", "m: size of a signature.")]
_PANEL = "Of the method"
SEED = frozenset({"seed"})
"""What commands leave out that never draw reproducibly."""
TRIED = frozenset({"seed", "time_step"})


def _method_help() -> str:
    joined = [m.name for m in METHODS.values() if m.after]
    compare = [m.name for m in METHODS.values() if not m.grantable]
    plain = [m for m in METHODS if m not in joined and m not in compare]
    text = f"One of {', '.join(plain)}"
    if joined:
        text += f"; {', '.join(joined)}, alone or after others: {DEFAULT_METHOD}+{joined[0]}"
    return f"{text}; to compare: {', '.join(compare)}."


def declared() -> dict[str, tuple[Parameter, list[str]]]:
    """Every parameter of any method, and which methods take it."""
    found: dict[str, tuple[Parameter, list[str]]] = {}
    for method in METHODS.values():
        for parameter in method.parameters:
            found.setdefault(parameter.name, (parameter, []))[1].append(method.name)
    for total in TOTALS.values():
        takers = [
            m.name for m in METHODS.values() if any(p.share_of == total.name for p in m.parameters)
        ]
        if total.name in found:
            takers += found.pop(total.name)[1]
        found = {total.name: (total, takers), **found}
    return found


def _help(parameter: Parameter, takers: list[str]) -> str:
    """What it is; where methods mean different things by one name, what each means."""
    if parameter in RELEASE:
        return parameter.help
    meant: dict[str, list[str]] = {}
    for name in takers:
        known = {p.name: p for p in METHODS[name].parameters}
        own = known.get(parameter.name, parameter)
        text = own.help
        if own.default is not None and not isinstance(own.kind, Flag):
            text += f" Default {own.kind.show(own.default)}."
        meant.setdefault(text, []).append(name)
    return " ".join(f"{', '.join(names)}: {text}" for text, names in meant.items())


def parameters(left_out: Collection[str]) -> list[inspect.Parameter]:
    """The options of a request, as parameters of a command."""
    method = Annotated[
        str, typer.Option("--method", help=_method_help(), autocompletion=completion.methods)
    ]
    found = [_parameter("method", method, DEFAULT_METHOD)]
    for name, (parameter, takers) in declared().items():
        if name in left_out:
            continue
        flag = isinstance(parameter.kind, Flag)
        option = typer.Option(
            parameter.option, help=_help(parameter, takers), show_default=False,
            rich_help_panel=_PANEL,
        )  # fmt: skip
        kind: Any = Annotated[bool, option] if flag else Annotated[str | None, option]
        found.append(_parameter(name, kind, False if flag else None))
    return found


def _parameter(name: str, kind: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)


def wished(arguments: dict[str, Any]) -> dict[str, Any]:
    """Take the options of a request out of a command's arguments."""
    names = [name for name in ("method", *declared()) if name in arguments]
    given = {name: arguments.pop(name) for name in names}
    # a flag that is not given is left to the method
    return {
        name: ("true" if value else None) if isinstance(value, bool) else value
        for name, value in given.items()
    }
