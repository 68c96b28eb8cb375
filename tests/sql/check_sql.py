"""Static check of all our SQL, with PostgreSQL's own parser. Part of `make lint`:

    python tests/sql/check_sql.py

Fails on: a function without a pinned search_path (a body that is bound when it is created needs
none, unless it is SECURITY DEFINER); a relation, PostGIS function or PostGIS type without its
schema; a function that is not taken from PUBLIC where it is made, anything that is granted to
PUBLIC; CREATE OR REPLACE, which keeps what somebody else may have planted; dynamic SQL other than
`format` of a constant with %I and %L; a call without a cast of each argument in a function that is
SECURITY DEFINER or that such a one calls: an overload might fit it better than the function meant.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pglast
from pglast import ast as nodes
from pglast.enums import RoleSpecType

from freqdp_db.db.rights import grant_statements, role_statement
from freqdp_db.db.schema import load_objects, ownership_statement, render, resource
from freqdp_db.db.tables import Names

NAMES = Names(schema="private", release_schema="release", postgis="postgis")
PINNED = ("pg_catalog", "pg_temp")
_OTHER_VALUE = re.compile(r"%(?!(\d+\$)?[IL])")
_POSTGIS_TYPES = {"geometry", "geography", "box2d", "box3d"}


def faults(text: str) -> list[str]:
    """What is wrong with a script."""
    found: list[str] = []
    statements = [raw.stmt for raw in pglast.parse_sql(text)]
    taken = {
        _name(target.objname)
        for s in statements
        if isinstance(s, nodes.GrantStmt) and not s.is_grant and _to_public(s)
        for target in s.objects
        if isinstance(target, nodes.ObjectWithArgs)
    }
    for statement in statements:
        if isinstance(statement, nodes.GrantStmt) and statement.is_grant and _to_public(statement):
            found.append("a right is granted to PUBLIC")
        if isinstance(statement, (nodes.CreateFunctionStmt, nodes.ViewStmt)) and statement.replace:
            found.append("CREATE OR REPLACE")
        if isinstance(statement, nodes.CreateFunctionStmt):
            name = _name(statement.funcname)
            if name not in taken:
                found.append(f"{name} is not taken from PUBLIC")
            if "." not in name:
                found.append(f"{name} has no schema")
            found += [f"{name}: {fault}" for fault in _function(statement, text)]
        found += _unqualified(statement)
    return found


def _name(parts: Any) -> str:
    return ".".join(part.sval for part in parts)


def _to_public(statement: nodes.GrantStmt) -> bool:
    return any(g.roletype == RoleSpecType.ROLESPEC_PUBLIC for g in statement.grantees or ())


def _function(statement: nodes.CreateFunctionStmt, text: str) -> Iterator[str]:
    options = {option.defname: option.arg for option in statement.options}
    path = next(
        (
            tuple(a.val.sval for a in option.arg.args)
            for option in statement.options
            if option.defname == "set" and option.arg.name == "search_path"
        ),
        None,
    )
    definer = "security" in options and bool(options["security"].boolval)
    if path != PINNED and (definer or statement.sql_body is None):
        yield f"its search_path is not pinned to {', '.join(PINNED)}"
    if options["language"].sval != "plpgsql":
        if statement.sql_body is None:
            yield "its body is not bound when it is created: write BEGIN ATOMIC"
        return
    for kind, query in _queries(pglast.parse_plpgsql(text)):
        parsed = _parsed(query)
        if kind == "PLpgSQL_stmt_dynexecute" and not _is_quoted_format(parsed):
            yield "dynamic SQL"
        yield from _unqualified(parsed)
    if definer:
        yield from uncast_calls(text)


def _is_quoted_format(tree: Any) -> bool:
    """Whether an expression is format('...', ...) whose values are identifiers and literals."""
    (target,) = tree[0].stmt.targetList
    call = target.val
    if not isinstance(call, nodes.FuncCall) or _name(call.funcname) != "format":
        return False
    template = call.args[0]
    return isinstance(template, nodes.A_Const) and not _OTHER_VALUE.search(
        template.val.sval.replace("%%", "")
    )


def _calls(text: str) -> Iterator[nodes.FuncCall]:
    """Calls of functions with a schema that is not the server's own, in the bodies of plpgsql functions."""
    for _, query in _queries(pglast.parse_plpgsql(text)):
        for node in _walk(_parsed(query)):
            if (
                isinstance(node, nodes.FuncCall)
                and len(node.funcname) == 2
                and node.funcname[0].sval != "pg_catalog"
            ):
                yield node


def uncast_calls(text: str) -> Iterator[str]:
    for call in _calls(text):
        if not all(isinstance(argument, nodes.TypeCast) for argument in call.args or ()):
            yield f"{_name(call.funcname)} is called without a cast of each argument"


def uncast_behind_definers(texts: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The same of functions that SECURITY DEFINER ones call, however deep: they run as the owner."""
    bodies: dict[str, tuple[str, str]] = {}
    pending = []
    for origin, text in texts.items():
        for raw in pglast.parse_sql(text):
            made = raw.stmt
            if not isinstance(made, nodes.CreateFunctionStmt):
                continue
            options = {option.defname: option.arg for option in made.options}
            if options["language"].sval == "plpgsql":
                bodies[_name(made.funcname)] = origin, text
                if "security" in options and options["security"].boolval:
                    pending.append(_name(made.funcname))
    seen = set(pending)
    while pending:
        origin, text = bodies[pending.pop()]
        yield from ((origin, fault) for fault in uncast_calls(text))
        called = {_name(call.funcname) for call in _calls(text)} & bodies.keys() - seen
        seen |= called
        pending += called


def _queries(tree: Any, kind: str = "") -> Iterator[tuple[str, str]]:
    """Every piece of SQL of a plpgsql body, with the statement that it belongs to."""
    if isinstance(tree, list):
        for part in tree:
            yield from _queries(part, kind)
    elif isinstance(tree, dict):
        for key, value in tree.items():
            if key == "query" and isinstance(value, str):
                yield kind, value
            elif key == "params":
                yield from _queries(value, key)  # values of USING are no part of the statement
            else:
                yield from _queries(value, key if key.startswith("PLpgSQL_stmt") else kind)


def _parsed(query: str) -> Any:
    """A statement, or the expression of an assignment or a condition."""
    _, assigned, value = query.partition(":=")
    for candidate in (query, f"SELECT {value if assigned else query}"):
        try:
            return pglast.parse_sql(candidate)
        except pglast.parser.ParseError:
            continue
    raise ValueError(f"neither a statement nor an expression: {query}")


def _unqualified(tree: Any) -> list[str]:
    found = list(_walk(tree))
    # names that the statement itself gives
    own = {n.ctename for n in found if isinstance(n, nodes.CommonTableExpr)}
    faulty = []
    for node in found:
        if isinstance(node, nodes.RangeVar) and not node.schemaname and node.relname not in own:
            faulty.append(f"relation {node.relname} has no schema")
        elif isinstance(node, nodes.FuncCall):
            name = _name(node.funcname)
            if name.startswith(("st_", "_st_", "postgis_")):
                faulty.append(f"function {name} has no schema")
        elif isinstance(node, nodes.TypeName):
            name = _name(node.names or ())
            if name in _POSTGIS_TYPES:
                faulty.append(f"type {name} has no schema")
    return faulty


def _walk(tree: Any) -> Iterator[nodes.Node]:
    if isinstance(tree, tuple):
        for part in tree:
            yield from _walk(part)
    elif isinstance(tree, nodes.Node):
        yield tree
        for attribute in tree:
            yield from _walk(getattr(tree, attribute))


def revisions() -> Iterator[tuple[str, str]]:
    """The SQL of each migration: what it hands to run_revision."""
    for path in sorted((resource("migrations") / "versions").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "run_revision":
                (text,) = node.args
                assert isinstance(text, ast.Constant) and isinstance(text.value, str), path
                for statement in pglast.split(render(text.value, NAMES)):
                    yield f"migrations/versions/{path.name}", statement


def scripts() -> Iterator[tuple[str, str]]:
    """Everything that an installation runs: where it comes from, and its text."""
    for item in load_objects(NAMES):
        yield f"sql/{item.path}", item.text
    yield from revisions()
    for statement in (role_statement(NAMES), ownership_statement(NAMES), *grant_statements(NAMES)):
        yield "freqdp_db/db/rights.py", statement


def main() -> int:
    wrong = [f"{origin}: {fault}" for origin, text in scripts() for fault in faults(text)]
    objects = {f"sql/{item.path}": item.text for item in load_objects(NAMES)}
    wrong += [f"{origin}: {fault}" for origin, fault in uncast_behind_definers(objects)]
    checked = {Path(origin) for origin, _ in scripts()}
    print("\n".join(wrong) if wrong else f"All SQL checks passed ({len(checked)} files).")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
