"""The options that say what release is wanted: made from what the methods declare."""

from __future__ import annotations

import inspect
from typing import Any

import typer

from freqdp_db.cli.console import parameter
from freqdp_db.commands import MethodParameters
from freqdp_db.methods.kinds import Flag
from freqdp_db.methods.parameters import RELEASE, TOTALS, Parameter
from freqdp_db.methods.registry import METHODS

_PANEL = "Of the method"


def method_help() -> str:
    """Which methods there are."""
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
        for declaration in method.parameters:
            found.setdefault(declaration.name, (declaration, []))[1].append(method.name)
    for total in TOTALS.values():
        takers = [
            m.name for m in METHODS.values() if any(p.share_of == total.name for p in m.parameters)
        ]
        if total.name in found:
            takers += found.pop(total.name)[1]
        found = {total.name: (total, takers), **found}
    return found


def _help(declaration: Parameter, takers: list[str]) -> str:
    """What it is; where methods mean different things by one name, what each means."""
    if declaration in RELEASE:
        return declaration.help
    meant: dict[str, list[str]] = {}
    for name in takers:
        known = {p.name: p for p in METHODS[name].parameters}
        own = known.get(declaration.name, declaration)
        text = own.help
        if own.default is not None and not isinstance(own.kind, Flag):
            text += f" Default {own.kind.show(own.default)}."
        meant.setdefault(text, []).append(name)
    return " ".join(f"{', '.join(names)}: {text}" for text, names in meant.items())


def options(of_methods: MethodParameters) -> list[inspect.Parameter]:
    """The parameters of all methods, as options of a command."""
    found = []
    for name, (declaration, takers) in declared().items():
        if name in of_methods.without:
            continue
        flag = isinstance(declaration.kind, Flag)
        option = typer.Option(
            declaration.option, help=_help(declaration, takers), show_default=False,
            rich_help_panel=_PANEL,
        )  # fmt: skip
        kind: Any = bool if flag else str | None
        found.append(parameter(name, kind, option, False if flag else None))
    return found


def given_parameters(arguments: dict[str, Any]) -> dict[str, Any]:
    """Those of a command's arguments that are parameters of a method."""
    given = {name: arguments[name] for name in declared() if name in arguments}
    # a flag that is not given is left to the method
    return {
        name: ("true" if value else None) if isinstance(value, bool) else value
        for name, value in given.items()
    }
