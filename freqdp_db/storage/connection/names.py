"""Names of relations as people type them: `schema.table`, with PostgreSQL's own quoting rules."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from psycopg import sql

from freqdp_db.errors import BadInput
from freqdp_db.settings import MAX_IDENTIFIER_BYTES

_PART = re.compile(r'"((?:[^"\x00]|"")*)"|([^\W\d][\w$]*)')
_PLAIN = re.compile(r"[a-z_][a-z0-9_$]*")


def parse_relation(text: str, option: str = "the name", *, fold: bool = True) -> tuple[str, str]:
    """Split `table`, `schema.table` or `"My Schema"."t.x"` into (schema, name).

    Unquoted parts are folded to lower case, as PostgreSQL does; without `fold` they stay as typed.
    The schema is `public` only when it is left out. Raises BadInput, naming `option`.
    """
    parts: list[str] = []
    position = 0
    while True:
        match = _PART.match(text, position)
        if match is None:
            raise _malformed(text, option)
        quoted, plain = match.groups()
        unquoted = _fold(plain) if plain is not None and fold else plain
        parts.append(unquoted if quoted is None else quoted.replace('""', '"'))
        position = match.end()
        if position == len(text):
            break
        if text[position] != "." or len(parts) == 2:
            raise _malformed(text, option)
        position += 1
    for part in parts:
        if not part:
            raise _malformed(text, option)
        if len(part.encode()) > MAX_IDENTIFIER_BYTES:
            raise BadInput(
                f"{option} {text!r} has a part of more than {MAX_IDENTIFIER_BYTES} bytes",
                remedy="PostgreSQL would cut it off; give a shorter name",
            )
    return (parts[0], parts[1]) if len(parts) == 2 else ("public", parts[0])


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question that begins a remedy, if something that there is is called almost so."""
    close = difflib.get_close_matches(name, list(known), 1)
    return f"did you mean {format_name(close[0])}? " if close else ""


def format_relation(schema: str, name: str) -> str:
    """The name as it can be typed again: quoted where PostgreSQL would need it."""
    return f"{format_name(schema)}.{format_name(name)}"


def format_name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"'


def identifier(relation: tuple[str, str]) -> sql.Identifier:
    """The relation for a statement."""
    return sql.Identifier(*relation)


def _fold(name: str) -> str:
    # Only ASCII letters: what the server does with others depends on its encoding.
    return "".join(c.lower() if c.isascii() else c for c in name)


def _malformed(text: str, option: str) -> BadInput:
    return BadInput(
        f"{option} {text!r} is not a name of the form schema.table",
        remedy='write schema.table; other characters need double quotes: "My Schema".t',
    )
