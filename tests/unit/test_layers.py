"""The layers of ARCHITECTURE.md: who may import whom, what pure means, and where SQL lives."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import freqdp_db

ROOT = Path(freqdp_db.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))

_BASE = {"errors", "progress", "settings", "model", "engines"}
_METHODS = {"privacy", "roads", "search", "methods"}
# What each room may import. Evaluation reads originals: only the verbs and paper/ may have it.
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "progress": set(),
    "settings": {"errors"},
    "model": {"errors"},
    "engines": {"errors", "progress", "model"},
    "server": {"errors"},
    "privacy": {"model"},
    "roads": {"progress", "model", "engines"},
    "search": {"model", "engines"},
    "methods": {"errors", "progress", "model", "engines", "privacy", "roads", "search"},
    # its schema installs what the methods declare
    "db": {"errors", "settings", "model", "privacy", "roads", "server", "methods"},
    "loading": {"errors", "model", "roads"},
    "load": {"errors", "progress", "model", "db", "loading"},
    "dataset": _BASE | _METHODS | {"db"},
    "release": _BASE | _METHODS | {"db", "dataset"},
    "jobs": _BASE | {"privacy", "methods", "db", "dataset", "release"},
    "evaluation": _BASE | _METHODS | {"db", "dataset", "release"},
    # what reproduces the paper
    "paper": _BASE
    | _METHODS
    | {"db", "dataset", "release", "load", "evaluation", "connected", "commands", "results"},
    "compiling": _BASE | _METHODS | {"dataset"},
    "doctor": {"errors", "settings", "server", "db"},
    "results": _BASE | {"methods", "db", "dataset", "release", "evaluation", "doctor"},
    "commands": {"errors"},
    "connected": _BASE | {"db", "compiling"},
    # every verb, and freqdp.toml, which is read by their declarations
    "api": _BASE
    | {"methods", "db", "loading", "load", "dataset", "release", "jobs", "evaluation", "paper"}
    | {"compiling", "connected", "doctor", "results", "commands"},
    # methods: their declarations make the options; server: `freqdp db` is about nothing else
    "cli": {"errors", "settings", "progress", "model", "commands", "methods", "server", "api"}
    # what is printed is typed
    | {"results", "paper", "evaluation", "release", "jobs", "dataset", "db"},
    "__main__": {"cli"},
    "__init__": {"errors", "progress", "api"},
}
# The methods that the paper compares with are made where it is reproduced.
REGISTRY, OF_THE_REGISTRY = "methods/registry.py", {"paper"}
PURE = ("model", "privacy", "search", "loading", "methods/frequency")
IMPURE_MODULES = {
    "sqlalchemy", "psycopg", "psycopg_binary", "geoalchemy2", "alembic", "sqlite3",
    "os", "time", "random", "secrets", "uuid", "opendp", "socket", "subprocess", "getpass",
}  # fmt: skip
IMPURE_CALLS = re.compile(
    r"^(os\.environ|os\.getenv|os\.urandom|(datetime\.)?(datetime|date)\.(now|utcnow|today)"
    r"|np\.random(?!\.Generator)|numpy\.random(?!\.Generator))"
)
RANDOM_SOURCE = "privacy/noise.py"
# The embedded server is made with a few statements of its own, before there is anything of ours.
SPEAK_SQL = {"db", "server"}
DATABASE_MODULES = {"sqlalchemy", "psycopg", "psycopg_binary", "geoalchemy2", "alembic"}
# A GeoPackage is a SQLite file: its SQL speaks to nobody's server.
SQLITE_FILES = {"release/export/formats.py"}
SQL_TEXT = re.compile(
    r"^\s*(SELECT|INSERT INTO|UPDATE|DELETE FROM|COPY|CREATE|ALTER|DROP|GRANT|REVOKE|TRUNCATE"
    r"|COMMENT ON|ANALYZE|VACUUM|SET LOCAL|SET|LOCK TABLE|WITH|EXPLAIN)\s+[\w({*\"]"
)


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _layer(path: Path) -> str:
    layer = path.relative_to(ROOT).with_suffix("").parts[0]
    return "api" if layer == "configuration" else layer


def _in(*rooms: str) -> list[Path]:
    return [path for path in MODULES if _name(path).startswith(tuple(f"{r}/" for r in rooms))]


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _imported(tree: ast.Module) -> Iterator[str]:
    """Full names of everything imported, also inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """String literals and what f-strings begin with; docstrings are none."""
    docstrings = {
        id(node.value) for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }  # fmt: skip
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in docstrings:
            continue
        if isinstance(node.value, str):
            yield node.lineno, node.value


def test_imports_point_up() -> None:
    wrong = []
    for path in MODULES:
        layer = _layer(path)
        assert layer in ALLOWED, f"{layer} has no row in the table of layers"
        # `import freqdp_db` gives the version and nothing else (see below)
        allowed = ALLOWED[layer] | {"", "__version__", layer}
        allowed |= OF_THE_REGISTRY if _name(path) == REGISTRY else set()
        ours = [name for name in _imported(_tree(path)) if name.split(".")[0] == "freqdp_db"]
        wrong += [
            f"{_name(path)}: {name}"
            for name in ours
            if name.partition(".")[2].split(".")[0].replace("configuration", "api") not in allowed
        ]
    assert wrong == []


def test_nothing_below_calls_the_front_door() -> None:
    """`freqdp_db.connect` is an import that the table does not see."""
    for path in MODULES:
        asked = {
            node.attr
            for node in ast.walk(_tree(path))
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "freqdp_db"
        }
        assert asked <= {"__version__", "__file__"}, f"{_name(path)} asks for {sorted(asked)}"


def test_the_command_line_imports_only_types_of_what_the_verbs_give_back() -> None:
    rooms = {"results", "paper", "evaluation", "release", "jobs", "dataset", "db"}
    for path in _in("cli"):
        at_run_time = [
            name
            for node in _tree(path).body
            if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
            for name in _imported(ast.Module([node], []))
        ]
        asked = {name.split(".")[1] for name in at_run_time if name.startswith("freqdp_db.")}
        assert not asked & rooms, f"{_name(path)} imports {sorted(asked & rooms)}"


def test_table_has_no_circles() -> None:
    """The table is a partial order, so that what it allows cannot be a loop."""
    left = dict(ALLOWED)
    while left:
        ready = [layer for layer, needs in left.items() if not needs & left.keys()]
        assert ready, f"these import each other: {sorted(left)}"
        for layer in ready:
            del left[layer]


def test_pure_packages() -> None:
    """No database, no clock, no environment, no randomness but the one source."""
    seeded = {"np.random", "np.random.default_rng"}
    for path in _in(*PURE):
        tree, name = _tree(path), _name(path)
        modules = {imported.split(".")[0] for imported in _imported(tree)}
        allowed = {"os"} if name == RANDOM_SOURCE else set()
        assert not modules & (IMPURE_MODULES - allowed), name
        used = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        calls = {call for call in used if IMPURE_CALLS.match(call)}
        if name == RANDOM_SOURCE:
            assert calls == {"os.urandom", *seeded}
        else:
            # the city is made from the generator it is given, batch by batch from seeds of its own
            assert calls <= (seeded if _layer(path) == "loading" else set()), name


def test_no_generator_without_a_seed() -> None:
    for path in MODULES:
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("default_rng"):
                assert node.args and not isinstance(node.args[0], ast.Constant), _name(path)


def test_pure_packages_load_no_database_driver() -> None:
    """Also not by way of something that they import."""
    names = [
        ".".join(("freqdp_db", *path.relative_to(ROOT).with_suffix("").parts))
        for path in _in(*PURE)
    ]
    code = f"""
import importlib, sys
for name in {names!r}:
    importlib.import_module(name)
print(*sorted(m for m in sys.modules if m.split(".")[0] in {DATABASE_MODULES!r}
              or m.startswith("freqdp_db.db")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_only_db_speaks_sql() -> None:
    for path in MODULES:
        if _layer(path) in SPEAK_SQL:
            continue
        tree = _tree(path)
        drivers = {name.split(".")[0] for name in _imported(tree)} & DATABASE_MODULES
        assert not drivers, f"{_name(path)} imports {sorted(drivers)}: that belongs to db/"
        if _name(path) in SQLITE_FILES or _layer(path) == "cli":
            continue  # without a driver the command line can only print SQL, for people to copy
        texts = [
            f"line {line}: {text.strip()[:60]}"
            for line, text in _texts(tree)
            if SQL_TEXT.match(text)
        ]
        assert not texts, f"{_name(path)} holds SQL: {texts}"


def test_the_loop_over_steps_exists_once() -> None:
    """Whoever walks over a method's steps and carries them out does it through `run_steps`."""
    for path in MODULES:
        called = {
            node.func.attr
            for node in ast.walk(_tree(path))
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and ast.unparse(node.func.value) not in {"self", "super()"}
        }
        journals = {"methods/loop.py", "release/verification.py", "release/pipeline.py"}
        if {"carry_out", "replay"} & called and _layer(path) != "methods":
            assert _name(path) in journals, f"{_name(path)} carries steps out by itself"


def test_what_only_shows_something_waits_for_no_compiler() -> None:
    """`--help` shows the parameters of all methods; `release list` and `show` only read rows."""
    shown = ["freqdp_db.methods.registry", "freqdp_db.db.releases", "freqdp_db.release.catalogue"]
    slow = {"numba", "scipy", "pyarrow", "pyproj", "geoalchemy2", "alembic", "matplotlib"}
    code = f"import sys, {', '.join(shown)}; print(*{slow!r} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_modules_are_named_for_what_they_hold() -> None:
    assert {path.stem for path in MODULES}.isdisjoint({"utils", "helpers", "common", "misc"})
