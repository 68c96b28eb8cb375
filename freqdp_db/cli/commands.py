"""The commands that are verbs of the Python object, made from their declarations."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from keyword import iskeyword
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import typer

from freqdp_db.api import Freqdp
from freqdp_db.cli import answers, completion, request
from freqdp_db.cli.console import Session, add_command, integer_of, parameter
from freqdp_db.commands import (
    Argument,
    Command,
    Declared,
    MethodName,
    MethodParameters,
    Option,
    commands_of,
    parameters_of,
)
from freqdp_db.errors import BadInput, in_options, option_of


@dataclass(frozen=True)
class _Verb:
    """A verb of the Python object, as a command or as one of those that a command chooses from."""

    name: str
    command: Command
    parameters: list[Declared]
    of_methods: MethodParameters | None

    @classmethod
    def of(cls, name: str, command: Command) -> _Verb:
        return cls(name, command, *parameters_of(getattr(Freqdp, name)))

    @property
    def switch(self) -> str | None:
        """The option that chooses it."""
        if self.command.switch is None:
            return None
        own = (p.option for p in self.parameters if p.name == self.command.switch)
        return next(own, option_of(self.command.switch))

    @property
    def help(self) -> str:
        return inspect.getdoc(getattr(Freqdp, self.name)) or ""

    def call(self, session: Session, arguments: dict[str, Any]) -> None:
        """Do it, print what it gives back, and end as that says."""
        given = {p.name: arguments[_key(p)] for p in self.parameters}
        if self.of_methods is not None:
            given |= request.given_parameters(arguments)
        found = getattr(session.freqdp, self.name)(**given)
        session.answer(found, lambda: answers.show(session, self.name, found, given))
        if getattr(found, "exit_code", 0):
            raise typer.Exit(found.exit_code)


def add_commands(app: typer.Typer, groups: dict[str, typer.Typer]) -> None:
    """Add every verb that is a command to the app, or to its group."""
    found: dict[tuple[str, ...], list[_Verb]] = {}
    for name, declared in commands_of(Freqdp):
        found.setdefault(declared.path, []).append(_Verb.of(name, declared))
    for path, verbs in found.items():
        _add(groups[path[0]] if len(path) > 1 else app, path[-1], verbs)


def _add(app: typer.Typer, name: str, verbs: list[_Verb]) -> None:
    parameters: dict[str, inspect.Parameter] = {}
    for verb in verbs:
        for declared in verb.parameters:
            if _key(declared) not in parameters:
                parameters[_key(declared)] = _of_parameter(declared, verbs)
        if verb.switch is not None and _name(verb.switch) not in parameters:
            flag = typer.Option(verb.switch, help=verb.command.help)
            parameters[_name(verb.switch)] = parameter(_name(verb.switch), bool, flag, False)
        if verb.of_methods is not None:
            parameters |= {p.name: p for p in request.options(verb.of_methods)}

    def do(session: Session, arguments: dict[str, Any]) -> None:
        _chosen(verbs, arguments).call(session, arguments)

    add_command(app, name, do, list(parameters.values()), verbs[0].help)


def _chosen(verbs: list[_Verb], arguments: dict[str, Any]) -> _Verb:
    """The verb whose switch is given, else the one that has none."""
    for verb in verbs:
        if verb.switch is None:
            continue
        switch = arguments[_name(verb.switch)]
        on = switch is not None and switch is not False
        own = [p for p in verb.parameters if p.required and isinstance(p.says, Option)]
        for p in own:
            if (arguments[_key(p)] is not None) != on:
                raise BadInput(f"{verb.switch} and {p.option} go together", remedy="give both")
        if on:
            return verb
    plain = next((verb for verb in verbs if verb.switch is None), None)
    if plain is None:
        raise BadInput(
            f"{verbs[0].switch} is missing: this command changes nothing by itself",
            remedy=f"read what it prints, then run it: "
            f"freqdp {' '.join(verbs[0].command.path)} {verbs[0].switch} | psql ...",
        )
    return plain


def _name(option: str) -> str:
    """What a function calls the value of an option."""
    name = option.partition("/")[0].removeprefix("--").replace("-", "_")
    return f"{name}_" if iskeyword(name) else name


def _key(declared: Declared) -> str:
    return declared.name if isinstance(declared.says, Argument) else _name(declared.option)


def _of_parameter(declared: Declared, verbs: list[_Verb]) -> inspect.Parameter:
    kind, parser = _kind(declared)
    default = declared.default
    # what a switch brings is not asked for without it
    if declared.required and not any(
        verb.switch is None and declared in verb.parameters for verb in verbs
    ):
        default = None
    if default is None:
        kind = kind | None
    if isinstance(declared.says, Argument):
        info = typer.Argument(
            help=in_options(declared.says.help),
            show_default=False,
            autocompletion=_completer(declared.says),
        )
        return parameter(declared.name, kind, info, default)
    by_method = isinstance(declared.says, MethodName)
    info = typer.Option(
        declared.option,
        help=request.method_help() if by_method else _help(declared, verbs),
        parser=parser,
        show_default=declared.says.show_default,
        envvar=declared.says.environment,
        autocompletion=completion.methods if by_method else None,
    )
    return parameter(_key(declared), kind, info, default)


def _help(declared: Declared, verbs: list[_Verb]) -> str:
    """Where the verbs of a command mean different things by one option, what each means."""
    texts = [in_options(declared.says.help)]
    for verb in verbs:
        for p in verb.parameters:
            text = in_options(p.says.help)
            if p.option == declared.option and text not in texts:
                texts.append(f"With {verb.switch}: {text[0].lower()}{text[1:]}")
    return " ".join(texts)


def _kind(declared: Declared) -> tuple[Any, Any]:
    """The type of a value as typer knows it, and what parses it."""
    union = get_origin(declared.kind) in (Union, UnionType)
    kinds = [k for k in get_args(declared.kind) if k is not NoneType] if union else [declared.kind]
    if get_origin(kinds[0]) is Sequence:
        whole = get_args(kinds[0]) == (int,)
        return (list[int], integer_of(declared.option)) if whole else (list[str], None)
    if kinds == [int]:
        return int, integer_of(declared.option)
    if kinds in ([bool], [float]):
        return kinds[0], None
    return (Path if Path in kinds else str), None


def _completer(says: Argument) -> Any:
    if says.dataset:
        return completion.datasets
    return completion.releases(*says.states) if says.states else None
