"""What the verbs give back: frozen dataclasses whose document is what `--json` prints."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import Field, field, fields, is_dataclass
from typing import Any, ClassVar

from freqdp_db.errors import Remark

_ASIDE = "aside"
# What moves the cursor, changes colours or titles, or turns text around: controls, and those of bidi text.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def not_in_json() -> Any:
    """A field that helps to say it in words and is no part of the document."""
    return field(metadata={_ASIDE: True}, repr=False, kw_only=True)


class Document:
    """Base of frozen dataclasses."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def document(self) -> dict[str, Any]:
        """As plain values, in order; moments, exact numbers and paths are left what they are."""
        return {
            f.name: plain(getattr(self, f.name)) for f in fields(self) if not f.metadata.get(_ASIDE)
        }


def plain(value: Any) -> Any:
    """Dataclasses as dictionaries, however deep; remarks by the keys of parameters."""
    if isinstance(value, Remark):
        return str(value)
    if isinstance(value, Document):
        return value.document()
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return {k: plain(v) for k, v in value.items()} if isinstance(value, dict) else value


def printable(text: str, *, one_line: bool = False) -> str:
    """A text that may quote anybody's: what a terminal would obey is written out, as \\x1b."""
    shown = _CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)
    return shown.replace("\n", "\\n") if one_line else shown


def json_text(document: Any, default: Callable[[Any], Any] = str, indent: int | None = None) -> str:
    """JSON for people and programs: readable, and without what a terminal would obey."""
    text = json.dumps(document, default=default, ensure_ascii=False, indent=indent)
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
