"""What people write of datasets and releases: shares, amounts, names that can be kept, how to snap."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path

from freqdp_db.db.connection import Connection
from freqdp_db.db.names import format_relation, parse_relation
from freqdp_db.db.source import read_name
from freqdp_db.errors import BadInput
from freqdp_db.settings import MAX_IDENTIFIER_BYTES

NO_LIMIT = "none"
"""What stands for a limit that there is not."""
MAX_BUDGET = Decimal(1_000_000)
_LEAST = Decimal("0.001")
_MIN_GRID_M, _MAX_GRID_M = 0.01, 1_000_000.0


def parse_share(option: str, text: str, remedy: str | None = None) -> float:
    """A share of a person: `5%` or `0.05`."""
    written = text.strip()
    # without the sign, 1 may be meant as 1 % as well as as all
    most = Decimal(1) if written.endswith("%") else Decimal("0.999999999")
    try:
        value = Decimal(written.removesuffix("%").strip())
    except InvalidOperation:
        value = Decimal("nan")
    if written.endswith("%"):
        value /= 100
    if not value.is_finite() or not _LEAST <= value <= most:
        raise BadInput(
            f"{option} {text} is not a share between 0.1% and 100%",
            remedy=remedy or f"for example {option} 5%, or 0.05",
        )
    return float(value)


def in_percent(limit: float | None) -> str:
    """A limit as people write it: 5%."""
    return NO_LIMIT if limit is None else f"{100 * limit:.3g}%"


def parse_limit(text: str) -> float | None:
    """A share, or `none`."""
    if text.strip().lower() == NO_LIMIT:
        return None
    remedy = f"for example [[max_exposure]] 5%, or {NO_LIMIT} to have no limit"
    return parse_share("[[max_exposure]]", text, remedy)


def names_a_file(name: str) -> bool:
    """Whether a file in this folder can be called so: nothing that leads elsewhere or cannot be seen."""
    # as the SQL function is_release_name has it
    return not name.startswith(".") and not any(c in "/\\\x7f" or c < " " for c in name)


def file_called(name: str, suffix: str) -> Path:
    """The file of a release or dataset where none was named. Those of older versions have any name."""
    if not names_a_file(name):
        raise BadInput(f"{name!r} cannot give a file its name", remedy="name the file with [[out]]")
    return Path(f"{name}{suffix}")


def epsilon_number(option: str, text: str, largest: Decimal) -> Decimal:
    """An epsilon that the ledger can keep exactly and a person can read."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal("nan")
    if not value.is_finite() or value <= 0:
        raise BadInput(
            f"{option} {text} is not a number above 0", remedy=f"for example {option} 1.0"
        )
    if value > largest or value.as_tuple().exponent < -9:  # type: ignore[operator]
        raise BadInput(
            f"{option} {text} is not between 0.000000001 and {largest:,}, with up to 9 decimals",
            remedy=f"for example {option} 1.0",
        )
    return value


def check_name(option: str, name: str, limit: int = MAX_IDENTIFIER_BYTES) -> str:
    """A name that PostgreSQL can keep whole, and that a file can have."""
    if not name.strip() or len(name.encode()) > limit:
        raise BadInput(
            f"{option} {name!r} is not a usable name", remedy=f"give a name of 1 to {limit} bytes"
        )
    if not names_a_file(name):
        raise BadInput(
            f"{option} {name!r} is not a usable name: no file could be called so",
            remedy="give a name without /, \\ and control characters that does not begin with a dot",
        )
    return name


@dataclass(frozen=True)
class Snap:
    """What `--snap` said: grid:METRES, anchors:RELATION or exact."""

    kind: str
    text: str = field(compare=False)
    """As it was said, and is kept."""
    metres: float = 0.0
    relation: tuple[str, str] | None = None

    @classmethod
    def parse(cls, text: str) -> Snap:
        kind, _, value = text.partition(":")
        if kind == "exact" and not value:
            return cls("exact", text)
        if kind == "anchors" and value:
            return cls("anchors", text, relation=parse_relation(value, "[[snap]]"))
        if kind == "grid":
            try:
                metres = float(value)
            except ValueError:
                metres = math.nan
            if _MIN_GRID_M <= metres <= _MAX_GRID_M:
                return cls("grid", text, metres=metres)
        raise BadInput(
            f"[[snap]] {text!r} is not one of grid:METRES, anchors:SCHEMA.TABLE, exact",
            remedy="for example [[snap]] grid:100",
        )

    @classmethod
    def named(cls, connection: Connection, text: str) -> Snap:
        """The same, with the table that is meant: as it is called, if there is one, else folded."""
        snap = cls.parse(text)
        if snap.relation is None:
            return snap
        meant = read_name(connection, text.partition(":")[2], "[[snap]]")
        # what PostgreSQL reads anyway is kept as it was typed
        return snap if meant == snap.relation else cls.parse(f"anchors:{format_relation(*meant)}")


def grid_metres(text: str) -> float | None:
    """The side of the cells that places are centres of, in metres; None: they are in no grid."""
    snap = Snap.parse(text)
    return snap.metres if snap.kind == "grid" else None
