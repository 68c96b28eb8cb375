"""The replaceable SQL objects: found in `sql/`, dropped and applied around every migration."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

import freqdp_db
from freqdp_db.db.tables import Names

_FILE = re.compile(r"^(?P<number>\d{3})_(?P<name>\w+)\.(?P<kind>view|function|procedure)\.sql$")
_IDENTITY = re.compile(r"^-- identity: (?P<identity>.+)$", re.MULTILINE)


def resource(folder: str) -> Path:
    """`sql` or `migrations`: inside an installed wheel, or beside the package in a checkout."""
    package = Path(freqdp_db.__file__).parent
    installed = package / f"_{folder}"
    return installed if installed.is_dir() else package.parent / folder


@dataclass(frozen=True)
class SqlObject:
    """One file of `sql/`."""

    number: int
    path: str
    kind: str
    identity: str
    text: str
    hash: str


def quoted(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def render(text: str, names: Names) -> str:
    """Put this installation's names into a SQL text: ${private} quoted, ${private:name} as a literal."""
    schemas = {
        "private": names.schema,
        "release": names.release_schema,
        "postgis": names.postgis,
    }
    roles = {kind: f"{names.schema}_{kind}" for kind in ("runner", "analyst")}
    for word, name in schemas.items():
        text = text.replace(f"${{{word}}}", quoted(name))
    for word, name in (schemas | roles).items():
        text = text.replace(f"${{{word}:name}}", literal(name))
    return text


def load_objects(names: Names) -> list[SqlObject]:
    """All objects, in the order of their numbers, which is the order of their dependencies."""
    root = resource("sql")
    objects = []
    for file in sorted(root.rglob("*.sql"), key=lambda f: f.name):
        match = _FILE.match(file.name)
        if match is None:
            raise RuntimeError(f"sql/{file.relative_to(root)} is not named NNN_object.kind.sql")
        text = file.read_text(encoding="utf-8")
        identity = _IDENTITY.search(text)
        objects.append(
            SqlObject(
                number=int(match["number"]),
                path=str(file.relative_to(root)),
                kind=match["kind"],
                identity=identity["identity"]
                if identity
                else f"{match['kind'].upper()} ${{private}}.{match['name']}",
                text=render(text, names),
                hash=hashlib.sha256(text.encode()).hexdigest(),
            )
        )
    return objects
