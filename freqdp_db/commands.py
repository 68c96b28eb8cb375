"""What an object with verbs is made of: how each says what it is on the command line; its connection.

A verb is declared once, as a method of `freqdp_db.api.Freqdp`: its signature, the help text of each
parameter in `Annotated[...]`, its docstring, and `@command("dataset add")` for its place. The command
line, the keys of `freqdp.toml` and the reference pages are made from that. A parameter without an
`Argument` or an `Option` exists in Python only.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar, get_args, get_origin

from freqdp_db.errors import option_of
from freqdp_db.progress import Progress
from freqdp_db.settings import Settings

if TYPE_CHECKING:
    from freqdp_db.db.builds import Window
    from freqdp_db.db.connection import Database
    from freqdp_db.db.datasets import DatasetRow
    from freqdp_db.db.releases import ReleaseRow
    from freqdp_db.engines.partitions import Engine as RunningEngine


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


# The database that verbs work on: reached when one first needs it, and what they all ask of it.


class Connected:
    """The connection of an object with verbs."""

    def __init__(
        self,
        settings: Settings,
        *,
        command: str = "library",
        progress: Callable[[], Progress] = Progress,
    ) -> None:
        self.settings = settings
        self._command = command
        """What the server shows this session as."""
        self._progress = progress
        self._database: Database | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the database; a verb that is called later connects again."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def _connected(self) -> Database:
        """The database, whatever is in it."""
        from freqdp_db.db.connection import connect

        if self._database is None:
            self._database = connect(self.settings, self._command)
        return self._database

    def _installed(self) -> Database:
        """The database; refused if its schema is missing or stale."""
        from freqdp_db.db.schema import require_current

        database = self._connected()
        if self._reads_private():
            require_current(database)
        return database

    def _reads_private(self) -> bool:
        """Whether this login may read the private schema; if not, it is an analyst's."""
        from freqdp_db.db.schema import reads_private

        return reads_private(self._connected())

    def _compiled(self) -> Progress:
        """A progress for work that needs the compiled kernels, which are compiled if they are not."""
        from freqdp_db.compiling import compile_kernels

        progress = self._progress()
        compile_kernels(progress)
        return progress

    def _dataset(self, name: str) -> tuple[Database, DatasetRow]:
        """The database, and a dataset that must be there."""
        from freqdp_db.db.datasets import find_dataset

        database = self._installed()
        return database, find_dataset(database, name)

    def _release(self, name: str) -> tuple[Database, ReleaseRow]:
        """The database, and a release that must be there."""
        from freqdp_db.db.releases import find_release

        database = self._installed()
        return database, find_release(database, name)

    def _window(self, dataset: DatasetRow, word: str | None) -> Window | None:
        """The window that a word means in the time zone of a dataset, if it is over."""
        from freqdp_db.db.builds import ended_window

        if word is None:
            return None
        return ended_window(self._installed(), word, dataset.mapping.timezone)

    @contextmanager
    def _started(
        self, engine: str | None, workers: int | None, *, kernels: bool = True
    ) -> Iterator[tuple[Progress, RunningEngine]]:
        """What tells the block's progress, and the chosen engine, started."""
        from freqdp_db.engines.partitions import choose_engine, use_engine

        chosen = choose_engine(engine, workers)
        progress = self._compiled() if kernels else self._progress()
        with use_engine(chosen, self._connected().conninfo, progress) as running:
            yield progress, running
