"""JSON whose numbers are exact: json makes floats of them, and a float is not what was asked for."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any


def as_json(value: Any) -> str:
    """A document as JSON text. Decimals are numbers, written out."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)}: {as_json(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(as_json, value)) + "]"
    return json.dumps(value)


def from_json(text: str) -> Any:
    """A document from JSON text: numbers are ints or Decimals."""
    return json.loads(text, parse_float=Decimal)
