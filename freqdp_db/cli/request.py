"""The options that say what release is wanted: made from what the methods declare."""

from __future__ import annotations

import inspect
from collections.abc import Collection
from typing import Annotated, Any

import typer

from freqdp_db.cli.numbers import whole_number
from freqdp_db.methods.kinds import Flag
from freqdp_db.methods.parameters import RELEASE, TOTALS, Parameter
from freqdp_db.methods.registry import DEFAULT_METHOD, METHODS

Dataset = Annotated[str, typer.Argument(help="Name of the dataset.", show_default=False)]
Memory = Annotated[
    str,
    typer.Option(
        "--memory",
        help="How much of the segments the search may hold: 256MB, 4GB. Less is slower; the result "
        "is the same.",
    ),
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
        text += f"; {', '.join(joined)}, alone or after others: lg+{joined[0]}"
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
    """What the option is; where methods mean different things by it, what it is for each."""
    if parameter in RELEASE:
        return _described(parameter)
    meanings: dict[str, list[str]] = {}
    for taker in takers:
        own = next((p for p in METHODS[taker].parameters if p.name == parameter.name), parameter)
        meanings.setdefault(_described(own), []).append(taker)
    return " ".join(f"{', '.join(methods)}: {text}" for text, methods in meanings.items())


def _described(parameter: Parameter) -> str:
    if parameter.default is None or isinstance(parameter.kind, Flag):
        return parameter.help
    return f"{parameter.help} Default {parameter.kind.show(parameter.default)}."


def parameters(left_out: Collection[str]) -> list[inspect.Parameter]:
    """The options of a request, as parameters of a command."""
    method = Annotated[str, typer.Option("--method", help=_method_help())]
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
