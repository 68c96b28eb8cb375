"""JSON whose numbers are exact: json makes floats of them, and a float is not what was asked for."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from freqdp_db.errors import BadInput

_MOST_DIGITS = 1000


def as_json(value: Any) -> str:
    """A document as JSON text. Decimals are numbers, written out."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)}: {as_json(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(as_json, value)) + "]"
    return json.dumps(value)


def _whole(digits: str) -> int | Decimal:
    # Python takes long numbers for an attack: converting them takes longer than their length
    return int(digits) if len(digits) <= _MOST_DIGITS else Decimal(digits)


def from_json(text: str) -> Any:
    """A document from JSON text: numbers are ints or Decimals. Raises BadInput."""
    try:
        return json.loads(text, parse_float=Decimal, parse_int=_whole)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise BadInput(
            f"a JSON document cannot be read ({type(error).__name__})",
            remedy="give one that is flat, with numbers of a usual size",
        ) from None
