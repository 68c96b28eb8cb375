"""What an installation is made of: revisions of its tables, run by Alembic, and the objects of `sql/`.

Alembic is imported where it is used: only `init` needs it.
"""

from __future__ import annotations

import hashlib
import io
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import freqdp_db
from freqdp_db.db.names import literal, quoted
from freqdp_db.db.tables import Names

if TYPE_CHECKING:
    from alembic.config import Config

_FILE = re.compile(r"^(?P<number>\d{3})_(?P<name>\w+)\.(?P<kind>view|function)\.sql$")
# Every function is taken from PUBLIC where it is made: with its types, as an upgrade drops it.
_IDENTITY = re.compile(r"^REVOKE ALL ON (?P<identity>FUNCTION .+) FROM PUBLIC;$", re.MULTILINE)


def resource(folder: str) -> Path:
    """`sql` or `migrations`: inside an installed wheel, or beside the package in a checkout."""
    package = Path(freqdp_db.__file__).parent
    installed = package / f"_{folder}"
    return installed if installed.is_dir() else package.parent / folder


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


# The replaceable objects: found in `sql/`, dropped and applied around every migration.


@dataclass(frozen=True)
class SqlObject:
    """One file of `sql/`."""

    path: str
    kind: str
    identity: str
    text: str
    hash: str


@lru_cache
def load_objects(names: Names) -> tuple[SqlObject, ...]:
    """All objects, in the order of their numbers, which is the order of their dependencies.

    Read once: every command compares them with what the database has, and files that an upgrade of the
    package puts in their place belong to other code than what runs.
    """
    root = resource("sql")
    objects = []
    for file in sorted(root.rglob("*.sql"), key=lambda f: f.name):
        match = _FILE.match(file.name)
        if match is None:
            raise RuntimeError(f"sql/{file.relative_to(root)} is not named NNN_object.kind.sql")
        text = file.read_text(encoding="utf-8")
        found = _IDENTITY.search(text)
        identity = f"{match['kind'].upper()} ${{private}}.{match['name']}"
        objects.append(
            SqlObject(
                path=str(file.relative_to(root)),
                kind=match["kind"],
                identity=found["identity"] if found else identity,
                text=render(text, names),
                hash=hashlib.sha256(text.encode()).hexdigest(),
            )
        )
    return tuple(objects)


# The revisions of the tables.


def all_revisions() -> list[str]:
    """From the oldest: they are numbered, and their files begin with the number."""
    files = (resource("migrations") / "versions").glob("[0-9]*.py")
    return sorted(path.name.partition("_")[0] for path in files)


def head_revision() -> str:
    """The newest revision."""
    return all_revisions()[-1]


def alembic_config(names: Names) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(resource("migrations")).replace("%", "%%"))
    config.attributes["names"] = names
    return config


def script(names: Names, revision: str | None, until: str = "head") -> str:
    """What brings the tables from this revision (None: from nothing) to another one, as SQL."""
    from alembic import command

    config = alembic_config(names)
    config.output_buffer = io.StringIO()
    command.upgrade(config, f"{revision}:{until}" if revision else until, sql=True)
    return config.output_buffer.getvalue().strip()


def run_revision(text: str) -> None:
    """The statements of a revision, with this installation's names in place: part of the script."""
    from alembic import op

    context = op.get_context()
    names: Names = context.config.attributes["names"]  # type: ignore[union-attr]
    # as it is: SQLAlchemy would read colons as parameters, and double the signs of percent
    context.impl.static_output(render(text, names).strip())
