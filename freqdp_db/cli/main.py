"""The command `freqdp`: commands made from the declarations of the verbs, their tree, and the exit codes.

Each command has the options that its verb's signature declares, completion, and the call itself.
"""

import errno
import inspect
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from keyword import iskeyword
from pathlib import Path
from types import FrameType, NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

import typer

from freqdp_db import __version__
from freqdp_db.api import Freqdp
from freqdp_db.cli import answers
from freqdp_db.cli.console import PROGRAM, Session
from freqdp_db.cli.demo import Demo
from freqdp_db.commands import (
    Argument,
    Command,
    Declared,
    MethodName,
    MethodParameters,
    Option,
    command,
    commands_of,
    parameters_of,
)
from freqdp_db.errors import (
    BadInput,
    ConnectionFailed,
    FreqdpError,
    Interrupted,
    in_options,
    option_of,
)
from freqdp_db.methods.kinds import Flag
from freqdp_db.methods.parameters import RELEASE, TOTALS, Parameter
from freqdp_db.methods.registry import METHODS
from freqdp_db.model.documents import json_text, printable
from freqdp_db.settings import Settings, libpq_is_configured, load_settings

if TYPE_CHECKING:
    from freqdp_db.server.embedded import EmbeddedServer, ServerStatus


# typer carries its own copy of click in newer versions: take the classes from typer.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]
ClickException: type[Exception] = UsageError.__bases__[0]

# The options that say what release is wanted: made from what the methods declare.


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


def _parameter_help(declaration: Parameter, takers: list[str]) -> str:
    """What it is; where methods mean different things by one name, what each means."""
    if declaration in RELEASE:
        return declaration.help
    kinds = {METHODS[name].kind for name in takers}
    everyone = takers == [m.name for m in METHODS.values() if m.kind in kinds]
    meant: dict[str, list[str]] = {}
    for name in takers:
        known = {p.name: p for p in METHODS[name].parameters}
        own = known.get(declaration.name, declaration)
        text = own.help
        if own.default is not None and not isinstance(own.kind, Flag):
            text += f" Default {own.kind.show(own.default)}."
        meant.setdefault(text, []).append(name)
    if len(kinds) == len(meant) == 1 and everyone:
        return next(iter(meant))
    return " ".join(f"{', '.join(names)}: {text}" for text, names in meant.items())


def _panel(declaration: Parameter, takers: list[str]) -> str:
    """Under which heading its option stands."""
    kinds = {METHODS[name].kind for name in takers}
    if declaration in RELEASE:
        return "Every method"
    if len(kinds) > 1:
        return "Methods of several kinds"
    (kind,) = kinds
    return f"{kind.capitalize()}: {', '.join(m.name for m in METHODS.values() if m.kind == kind)}"


def options(of_methods: MethodParameters) -> list[inspect.Parameter]:
    """The parameters of all methods, as options of a command."""
    found = []
    for name, (declaration, takers) in declared().items():
        if name in of_methods.without:
            continue
        flag = isinstance(declaration.kind, Flag)
        option = typer.Option(
            declaration.option, help=_parameter_help(declaration, takers), show_default=False,
            rich_help_panel=_panel(declaration, takers),
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


# What a shell completes: methods, datasets and releases. Press TAB twice.
#
# It asks the database that the command would use, but starts none, and says nothing if it cannot.


Completer = Callable[[typer.Context, str], list[str]]
_SECONDS = "2"


def methods(incomplete: str) -> list[tuple[str, str]]:
    """Methods, and after a `+` those that may follow."""
    before, plus, _ = incomplete.rpartition("+")
    found = [m for m in METHODS.values() if m.after or not plus]
    return [(before + plus + m.name, m.summary) for m in found
            if (before + plus + m.name).startswith(incomplete)]  # fmt: skip


def datasets(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of datasets."""
    return _starting(incomplete, ctx, Freqdp.dataset_names)


def releases(*states: str) -> Completer:
    """Names of releases in these states."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        return _starting(incomplete, ctx, lambda freqdp: freqdp.release_names(*states))

    return complete


def _starting(incomplete: str, ctx: typer.Context, ask: Callable[[Freqdp], list[str]]) -> list[str]:
    # a shell shows whatever is printed here in the middle of the line: rather nothing
    try:
        settings = _settings(ctx)
        if not _is_there(settings):
            return []
        os.environ.setdefault("PGCONNECT_TIMEOUT", _SECONDS)
        with Freqdp(settings) as freqdp:
            return sorted(name for name in ask(freqdp) if name.startswith(incomplete))
    except Exception:
        return []


def _settings(ctx: typer.Context) -> Settings:
    """With the options that stand before and after the command's name."""
    given: dict[str, str | None] = {}
    where: typer.Context | None = ctx
    while where is not None:
        for option in ("dsn", "schema", "release_schema"):
            given[option] = given.get(option) or where.params.get(option)
        where = where.parent  # type: ignore[assignment]
    return load_settings(**given)  # type: ignore[arg-type]


def _is_there(settings: Settings) -> bool:
    """False if the embedded server is meant and does not run: nobody starts it by pressing a key."""
    if settings.dsn is not None or libpq_is_configured():
        return True
    from freqdp_db.server.embedded import EmbeddedServer

    return EmbeddedServer(settings.data_dir).status().running


# The options of every command.

_ROOT: dict[str, Any] = {}
"""Those given before the command's name; those given after it win."""
_COMMON = {
    "dsn": "Database to use: URL or libpq string. Default: DATABASE_URL, then PG* variables, then the "
    "embedded server.",
    "json": "Answer with one JSON document.",
    "schema": "Private schema (FREQDP_SCHEMA; default freqdp).",
    "release_schema": "Schema of releases (FREQDP_RELEASE_SCHEMA; default freqdp_release).",
}


def remember_root(**options: Any) -> None:
    """Keep the common options that stand before the command's name."""
    _ROOT.clear()
    _ROOT.update({k: v for k, v in options.items() if v})


def common_options(*, hidden: bool = False) -> list[inspect.Parameter]:
    found = []
    for name, text in _COMMON.items():
        flag = name == "json"
        option = typer.Option(
            option_of(name), help=text, rich_help_panel="Every command", hidden=hidden
        )
        found.append(parameter(name, bool if flag else str | None, option, False if flag else None))
    return found


def _session(arguments: dict[str, Any], command: str) -> Session:
    """What the common options say; takes them out of the arguments."""
    common: dict[str, Any] = {key: arguments.pop(key) or _ROOT.get(key) for key in _COMMON}
    as_json = bool(common.pop("json"))
    return Session(load_settings(**common), json=as_json, command=command)


def as_function(run: Callable[..., None], parameters: Sequence[inspect.Parameter]) -> Any:
    """The same function, with the signature from which typer makes a command."""
    run.__signature__ = inspect.Signature(list(parameters))  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def parameter(name: str, kind: Any, declared: Any, default: Any) -> inspect.Parameter:
    """A parameter of a command, for typer; `declared`: a typer.Option or a typer.Argument."""
    annotation = Annotated[kind, declared]
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default
    )


# A command for each verb, or for several verbs that an option chooses from.


@dataclass(frozen=True)
class _Verb:
    """A verb, as a command or as one of those that a command chooses from."""

    name: str
    function: Callable[..., Any]
    holder: Callable[[Session], Any]
    """Gives the object whose method it is."""
    command: Command
    parameters: list[Declared]
    of_methods: MethodParameters | None

    @property
    def switch(self) -> str | None:
        """The option that chooses it."""
        if self.command.switch is None:
            return None
        own = (p.option for p in self.parameters if p.name == self.command.switch)
        return next(own, option_of(self.command.switch))

    def call(self, session: Session, arguments: dict[str, Any]) -> None:
        """Do it, print what it gives back, and end as that says."""
        given = {p.name: arguments[_key(p)] for p in self.parameters}
        if self.of_methods is not None:
            given |= given_parameters(arguments)
        found = getattr(self.holder(session), self.name)(**given)
        session.answer(found, lambda: answers.show(session, self.name, found, given))
        if getattr(found, "exit_code", 0):
            raise typer.Exit(found.exit_code)


def add_commands(
    app: typer.Typer,
    groups: dict[str, typer.Typer],
    face: type,
    holder: Callable[[Session], Any],
) -> None:
    """Add every verb of a class that is a command to the app, or to its group."""
    found: dict[tuple[str, ...], list[_Verb]] = {}
    for name, declared in commands_of(face):
        function = getattr(face, name)
        verb = _Verb(name, function, holder, declared, *parameters_of(function))
        found.setdefault(declared.path, []).append(verb)
    for path, verbs in found.items():
        _add(groups[path[0]] if len(path) > 1 else app, path, verbs)


def _add(app: typer.Typer, path: tuple[str, ...], verbs: list[_Verb]) -> None:
    parameters: dict[str, inspect.Parameter] = {}
    for verb in verbs:
        for declared in verb.parameters:
            if _key(declared) not in parameters:
                parameters[_key(declared)] = _of_parameter(declared, verbs)
        if verb.switch is not None and _name(verb.switch) not in parameters:
            flag = typer.Option(verb.switch, help=verb.command.help)
            parameters[_name(verb.switch)] = parameter(_name(verb.switch), bool, flag, False)
        if verb.of_methods is not None:
            parameters |= {p.name: p for p in options(verb.of_methods)}

    def run(**arguments: Any) -> None:
        session = _session(arguments, " ".join(path))
        try:
            with session.freqdp:
                chosen = _chosen(verbs, arguments)
                _require_own_arguments(chosen, verbs, arguments)
                chosen.call(session, arguments)
        except KeyboardInterrupt:
            # typer would end without a word
            raise Interrupted from None

    function = as_function(run, [*parameters.values(), *common_options()])
    unknown = {"ignore_unknown_options": verbs[0].command.passes_options}
    paragraphs = (inspect.getdoc(verbs[0].function) or "").split("\n\n")
    text = "\n\n".join(" ".join(paragraph.split("\n")) for paragraph in paragraphs)
    app.command(path[-1], help=text, context_settings=unknown)(function)


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


def _require_own_arguments(chosen: _Verb, verbs: list[_Verb], arguments: dict[str, Any]) -> None:
    """Refuse positional arguments that the chosen verb lacks, or that it does not take."""
    for declared in {p.name: p for verb in verbs for p in verb.parameters}.values():
        if not isinstance(declared.says, Argument) or not declared.required:
            continue
        given = arguments[declared.name]
        if given is None and declared in chosen.parameters:
            raise UsageError(f"Missing argument '{declared.name}'.")
        if given is not None and declared not in chosen.parameters:
            raise BadInput(
                f"{chosen.switch} and the argument {given!r} do not go together",
                remedy="give one of both",
            )


def _name(option: str) -> str:
    """What a function calls the value of an option."""
    name = option.partition("/")[0].removeprefix("--").replace("-", "_")
    return f"{name}_" if iskeyword(name) else name


def _key(declared: Declared) -> str:
    return declared.name if isinstance(declared.says, Argument) else _name(declared.option)


def _of_parameter(declared: Declared, verbs: list[_Verb]) -> inspect.Parameter:
    kind, parser = _kind(declared)
    default = declared.default
    # what a switch brings is not asked for without it, nor what another verb takes where it is on
    takers = [verb for verb in verbs if declared in verb.parameters]
    needed = (
        len(takers) == len(verbs)
        if isinstance(declared.says, Argument)
        else any(verb.switch is None for verb in takers)
    )
    if declared.required and not needed:
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
        help=method_help() if by_method else _help(declared, verbs),
        parser=parser,
        show_default=declared.says.show_default,
        envvar=declared.says.environment,
        autocompletion=methods if by_method else None,
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


def integer_of(option: str) -> Callable[[str | int], int]:
    """Reads a whole number, and refuses in our own words: typer's leave out the value."""

    def integer(text: str | int) -> int:
        try:
            return int(text)
        except ValueError:
            raise BadInput(
                f"{option} {text!r} is not a whole number", remedy="write digits only"
            ) from None

    return integer


def _completer(says: Argument) -> Any:
    if says.dataset:
        return datasets
    return releases(*says.states) if says.states else None


# `freqdp db`: the embedded server.

# With these set, libpq would go to another server than the one that psql is told.
_MISLEADING = ("PGHOSTADDR", "PGSERVICE")


class Server:
    """The commands of the embedded server."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def _server(self) -> "EmbeddedServer":
        from freqdp_db.server.embedded import EmbeddedServer

        return EmbeddedServer(self._session.settings.data_dir)

    @command("db start")
    def start(self) -> dict[str, Any]:
        """Start the embedded server; create it the first time."""
        from freqdp_db.server.embedded import connection_url

        server = self._server()
        url = connection_url(server.ensure_running())
        return {**vars(server.status()), "url": url}

    @command("db stop")
    def stop(self) -> dict[str, bool]:
        """Stop the embedded server; the data stays."""
        return {"stopped": self._server().stop()}

    @command("db status")
    def status(self) -> "ServerStatus":
        """Say whether the embedded server runs, and where its files are."""
        return self._server().status()

    @command("db url")
    def url(self) -> dict[str, str]:
        """Print the embedded server's URL, for psql, SQLAlchemy or --dsn; does not start it."""
        from freqdp_db.server.embedded import connection_url

        return {"url": connection_url(self._server().conninfo())}

    @command("db psql", passes_options=True)
    def psql(
        self,
        arguments: Annotated[
            Sequence[str] | None,
            Argument("Passed on to psql, as in `freqdp db psql -c 'SELECT 1'`."),
        ] = None,
    ) -> dict[str, list[str]]:
        """Open psql on the embedded server. With --json: print the command instead of running it."""
        server = self._server()
        server.ensure_running()
        words = [*server.psql_command(), *(arguments or [])]
        if not self._session.json:
            sys.stdout.flush()
            environment = {k: v for k, v in os.environ.items() if k not in _MISLEADING}
            os.execvpe(words[0], words, environment)
        return {"command": words}


# The program: its tree of commands, signals and exit codes.

EXIT_REFUSED = 1
EXIT_USAGE = 2
_SHOWN_OF_PATH = 60
_SECONDS_TO_INTERRUPT_AGAIN = 0.05

GROUPS = {
    "db": "The embedded server. FREQDP_DATA_DIR says where its files are.",
    "load": "Load files into plain tables.",
    "dataset": "Register and build datasets.",
    "release": "Look after releases.",
    "ledger": "The ledger of privacy budgets.",
    "schedule": "Releases that workers ask for by themselves.",
    "bench": "Measure the search and the whole job.",
}
app = typer.Typer(
    name=PROGRAM,
    help="Anonymize trajectories that sit in PostgreSQL/PostGIS and publish them as versioned tables.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"freqdp {__version__}\n")
        raise typer.Exit


_received: list[int] = []
"""The signals that have interrupted the command that runs."""


def interrupt(signum: int, frame: FrameType | None) -> None:
    _received.append(signum)
    raise KeyboardInterrupt


def interrupt_again(ignored: Any) -> None:
    """An interrupt that came inside of a finaliser, where Python ignores every exception, comes again.

    By the clock: a finaliser may run anywhere, so that nothing that takes a lock may be done here.
    """
    if ignored.exc_type is KeyboardInterrupt:
        signal.setitimer(signal.ITIMER_REAL, _SECONDS_TO_INTERRUPT_AGAIN)
    else:
        sys.__unraisablehook__(ignored)


def _require_text(arguments: Sequence[str]) -> None:
    """Refuse bytes that are not UTF-8: no name in the database could be meant by them."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise BadInput(
                f"the argument {argument!a} is not valid UTF-8",
                remedy="check the encoding of the terminal or the script",
            ) from None


@cache
def _tree() -> Any:
    """The commands, with flags that are shown as flags: without the type of a value."""
    tree = typer.main.get_command(app)
    waiting: list[Any] = [tree]
    while waiting:
        command = waiting.pop()
        waiting += getattr(command, "commands", {}).values()
        helps = command.get_help_option(typer.Context(command, help_option_names=["-h", "--help"]))
        for parameter in (*command.params, helps):
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
    return tree


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code: 0 done, 1 refused, 2 usage, 3 not verified."""
    as_json = "--json" in arguments
    _received.clear()
    try:
        _require_text(arguments)
        result: Any = _tree()(args=list(arguments), standalone_mode=False)
        return result if isinstance(result, int) else 0
    except FreqdpError as error:
        # an interrupt can leave a connection amid a statement: what then fails comes of the interrupt
        if _received and isinstance(error, ConnectionFailed):
            return _interrupted(as_json)
        _show_error(error.as_options(), as_json)
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):  # outside of a command: they turn it into our own
        return _interrupted(as_json)
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        _show_error(_too_long(str(error.filename)).as_options(), as_json)
        return EXIT_REFUSED
    except ClickException as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # it has shown the help
            return 0
        unacceptable = (
            isinstance(error, typer.BadParameter) and "Missing" not in type(error).__name__
        )
        text = error.format_message() if hasattr(error, "format_message") else str(error)
        _show_error(
            {"error": type(error).__name__, "message": text, "remedy": "see --help"}, as_json
        )
        return EXIT_REFUSED if unacceptable else EXIT_USAGE
    except Exception as error:
        if not _comes_of_an_interrupt(error):
            raise
        return _interrupted(as_json)


def _interrupted(as_json: bool) -> int:
    _show_error(Interrupted().as_options(), as_json)
    return Interrupted.exit_code


def _comes_of_an_interrupt(error: BaseException | None) -> bool:
    """A module that is interrupted while it is imported says that it cannot be."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__
    return error is not None


_groups = {
    name: typer.Typer(name=name, help=text, no_args_is_help=True) for name, text in GROUPS.items()
}
add_commands(app, _groups, Freqdp, lambda session: session.freqdp)
add_commands(app, _groups, Server, Server)
add_commands(app, _groups, Demo, Demo)
_root = as_function(
    lambda version, **common: remember_root(**common),
    [
        parameter(
            "version",
            bool,
            typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
            False,
        ),
        *common_options(hidden=True),
    ],
)
app.callback()(_root)
for _group in _groups.values():
    app.add_typer(_group)


def _too_long(path: str) -> BadInput:
    begin = path if len(path) <= _SHOWN_OF_PATH else path[:_SHOWN_OF_PATH] + "..."
    return BadInput(
        f"the file name {begin!r} is too long ({len(path.encode()):,} bytes)",
        remedy="give a shorter one: file systems take 255 bytes for each part of a path",
    )


def _show_error(document: dict[str, Any], as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json_text(document) + "\n")
    sys.stderr.write(printable(f"freqdp: {document['message']}\n"))
    if document.get("remedy"):
        sys.stderr.write(printable(f"  -> {document['remedy']}\n"))


def main() -> None:
    # what drivers log, with tracebacks, when a connection breaks is said by our own errors
    logging.basicConfig(handlers=[logging.NullHandler()])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
        # a shell ignores interrupts of what it starts in the background
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    sys.unraisablehook = interrupt_again
    sys.exit(run(sys.argv[1:]))
