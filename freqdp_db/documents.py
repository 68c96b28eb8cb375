"""What the interface gives back: frozen dataclasses whose document is what `--json` prints."""

from __future__ import annotations

from dataclasses import Field, field, fields, is_dataclass
from typing import Any, ClassVar

_ASIDE = "aside"


def aside() -> Any:
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
    """Dataclasses as dictionaries, however deep."""
    if isinstance(value, Document):
        return value.document()
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return {k: plain(v) for k, v in value.items()} if isinstance(value, dict) else value
