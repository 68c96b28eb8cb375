"""How a verb of the Python object says what it is on the command line.

A verb is declared once, as a method of `freqdp_db.api.Freqdp`: its signature, the help text of each
parameter in `Annotated[...]`, its docstring, and `@command("dataset add")` for its place. The command
line, the keys of `freqdp.toml` and the reference pages are made from that. A parameter without an
`Argument` or an `Option` exists in Python only.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, get_args, get_origin

from freqdp_db.errors import option_of

Function = TypeVar("Function", bound=Callable[..., Any])
_DECLARED = "freqdp_command"


@dataclass(frozen=True)
class Argument:
    """A positional argument."""

    help: str
    dataset: bool = False
    """A shell completes it with the names of datasets."""
    states: tuple[str, ...] = ()
    """A shell completes it with the names of releases in these states."""


@dataclass(frozen=True)
class Option:
    """An option, called as its parameter is unless `name` says otherwise."""

    help: str
    name: str | None = None
    environment: str | None = None
    """A variable that stands for it."""
    show_default: bool = True


@dataclass(frozen=True)
class MethodName(Option):
    """The method of a release: its help lists those there are."""

    help: str = "The method, or several joined by +: lg, lg+swap, strict."


@dataclass(frozen=True)
class MethodParameters:
    """What any method takes, as options; `without`: but for these."""

    without: tuple[str, ...] = ()


@dataclass(frozen=True)
class Command:
    """Where on the command line a verb stands."""

    path: tuple[str, ...]
    switch: str | None
    """The option that chooses this verb among those of one command; None: it is the command itself."""
    help: str
    """Of the switch, where it is a flag and no parameter of the verb."""
    passes_options: bool
    """Options that it does not know are arguments."""


@dataclass(frozen=True)
class Declared:
    """A parameter of a verb."""

    name: str
    kind: Any
    default: Any
    says: Argument | Option

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty

    @property
    def option(self) -> str:
        """As the command line spells it."""
        given = self.says.name if isinstance(self.says, Option) else None
        return given or option_of(self.name)


def command(
    path: str, *, switch: str | None = None, help: str = "", passes_options: bool = False
) -> Callable[[Function], Function]:
    """Put a verb on the command line; `switch`: the option that chooses it in a command of another's."""

    def declare(verb: Function) -> Function:
        setattr(verb, _DECLARED, Command(tuple(path.split()), switch, help, passes_options))
        return verb

    return declare


def commands_of(face: type) -> Iterator[tuple[str, Command]]:
    """The verbs of a class and its bases that are commands, in the order in which they are written."""
    for owner in face.__mro__:
        for name, verb in vars(owner).items():
            if hasattr(verb, _DECLARED):
                yield name, getattr(verb, _DECLARED)


def declaration_of(face: type, name: str) -> Command:
    """Where on the command line a verb of a class stands."""
    declared: Command = getattr(getattr(face, name), _DECLARED)
    return declared


def parameters_of(verb: Callable[..., Any]) -> tuple[list[Declared], MethodParameters | None]:
    """What a verb takes on the command line, and which of the methods' parameters besides."""
    found: list[Declared] = []
    of_methods = None
    for parameter in inspect.signature(verb).parameters.values():
        if get_origin(parameter.annotation) is not Annotated:
            continue
        kind, says = get_args(parameter.annotation)[:2]
        if isinstance(says, MethodParameters):
            of_methods = says
        else:
            found.append(Declared(parameter.name, kind, parameter.default, says))
    return found, of_methods


DATASET = Argument("Name of the dataset.", dataset=True)
Dataset = Annotated[str, DATASET]
Published = Annotated[str, Argument("Name of the release.", states=("published",))]
Method = Annotated[str | None, MethodName()]
Memory = Annotated[
    int | str,
    Option(
        "Memory for the segments of the search: 256MB, 4GB. Less is slower; the result is the same."
    ),
]
Engine = Annotated[
    str | None,
    Option(
        "What does the work: threads (of this process); dask (local processes); dask://host:8786 or "
        "tls://host:8786 (your scheduler). The result is the same. Default: FREQDP_ENGINE, then threads.",
        show_default=False,
    ),
]
Workers = Annotated[int | None, Option("Processes of [[engine]] dask. Default: one for each core.")]
Signature = Annotated[int, Option("m: size of a signature.")]
Force = Annotated[bool, Option("Overwrite existing files.")]
Roads = Annotated[str | None, Option("Edge table of roads: schema.table.")]
Columns = Annotated[
    Sequence[str] | None, Option("With [[roads]]: ours=theirs, such as geom=the_geom.")
]
