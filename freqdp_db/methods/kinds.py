"""Kinds of parameters: how a value is read from text and from JSON, and written as JSON.

A kind is declared once, here. `declaration` is what SQL checks requests by: the function
`check_parameter` reads it, and a test gives both many cases.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Protocol

MAX_DECIMALS = 9
WIDEST_M = Decimal(10_000_000)
_UNITS_S = {"us": Decimal("1e-6"), "ms": Decimal("1e-3"), "s": Decimal(1), "min": Decimal(60),
            "m": Decimal(60), "h": Decimal(3600), "d": Decimal(86400)}  # fmt: skip
_DURATION = re.compile(r" *([0-9]+\.?[0-9]*|\.[0-9]+) *(us|ms|s|min|m|h|d)? *")
_LONGEST_TEXT = 20
_YEAR_S = 366 * 86_400
US_PER_S = 1_000_000


class NotAcceptable(ValueError):
    """A value is not of its kind; the text says what one would be."""


class Kind(Protocol):
    """What values a parameter takes."""

    @property
    def example(self) -> str: ...

    def declaration(self) -> dict[str, Any]: ...

    def from_text(self, text: str) -> Any: ...

    def from_json(self, value: Any) -> Any: ...

    def to_json(self, value: Any) -> Any: ...

    def show(self, value: Any) -> str: ...


def _exact(value: Any) -> Decimal:
    """A JSON number as it was written: SQL and Python mean the same by it."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise NotAcceptable("a number")
    return Decimal(value)


def plain(number: Decimal) -> str:
    """Without an exponent and without trailing zeros."""
    return format(number.normalize(), "f")


@dataclass(frozen=True)
class Number:
    """An exact number above 0, or one of a few words."""

    high: Decimal
    example: str
    unit: str = ""
    words: tuple[str, ...] = ()
    decimals: int = MAX_DECIMALS
    low: Decimal = Decimal(0)
    """The least value; 0: everything above 0."""
    recorded: Decimal | None = None
    """How large it may be in the record of a release: earlier versions let more through; None: as high."""

    def declaration(self) -> dict[str, Any]:
        return {
            "kind": "number",
            "low": self.low,
            "high": self.high,
            "words": list(self.words),
            "decimals": self.decimals,
        }

    def _checked(self, value: Decimal) -> Decimal:
        what = f"a number of {self.unit} " if self.unit else "a number "
        nor = "".join(f", nor `{word}`" for word in self.words)
        if not value.is_finite() or value <= 0:
            raise NotAcceptable(f"{what}above 0{nor}")
        exponent = -int(value.as_tuple().exponent)
        if not self.low <= value <= self.high or exponent > self.decimals:
            least = plain(self.low) if self.low else f"0.{'0' * (self.decimals - 1)}1"
            raise NotAcceptable(
                f"between {least} and {self.high:,}, with up to {self.decimals} decimals{nor}"
            )
        return value

    def from_text(self, text: str) -> Decimal | str:
        if text in self.words:
            return text
        if self.unit == "metres":
            text = text.strip().removesuffix("m").strip()
        try:
            return self._checked(Decimal(text))
        except InvalidOperation:
            return self._checked(Decimal("nan"))

    def from_json(self, value: Any) -> Decimal | str:
        return value if value in self.words else self._checked(_exact(value))

    def to_json(self, value: Any) -> Any:
        return value if value in self.words else Decimal(plain(value))

    def show(self, value: Any) -> str:
        return str(value) if value in self.words else plain(value)


@dataclass(frozen=True)
class Whole:
    """A whole number of a range."""

    low: int
    high: int
    example: str

    def declaration(self) -> dict[str, Any]:
        return {"kind": "whole", "low": self.low, "high": self.high}

    def _checked(self, value: int) -> int:
        if not self.low <= value <= self.high:
            high = "2^63 - 1" if self.high == 2**63 - 1 else f"{self.high:,}"
            raise NotAcceptable(f"a whole number from {self.low:,} to {high}")
        return value

    def from_text(self, text: str) -> int:
        # at most as long as the largest number: `int` takes long over a million digits
        if not re.fullmatch(r"-?[0-9]{1,20}", text.strip()):
            return self._checked(self.low - 1)
        return self._checked(int(text))

    def from_json(self, value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            return self._checked(self.low - 1)
        return self._checked(value)

    def to_json(self, value: Any) -> Any:
        return value

    def show(self, value: Any) -> str:
        return str(value)


@dataclass(frozen=True)
class Duration:
    """A span of time: in microseconds as a value, in seconds as JSON."""

    example: str = "60s"
    zero: bool = False
    """Whether it may be 0."""

    def declaration(self) -> dict[str, Any]:
        return {"kind": "duration", "zero": self.zero}

    def _checked(self, seconds: Decimal) -> int:
        us = seconds * US_PER_S
        if (
            us < 0
            or (us == 0 and not self.zero)
            or us != us.to_integral_value()
            or seconds > _YEAR_S
        ):
            raise NotAcceptable("a whole number of microseconds above 0, up to a year")
        return int(us)

    def from_text(self, text: str) -> int:
        match = _DURATION.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
        if match is None:
            raise NotAcceptable("a duration above 0")
        return self._checked(Decimal(match[1]) * _UNITS_S[match[2] or "s"])

    def from_json(self, value: Any) -> int:
        return self.from_text(value) if isinstance(value, str) else self._checked(_exact(value))

    def to_json(self, value: Any) -> Any:
        return Decimal(plain(Decimal(value) / US_PER_S))

    def show(self, value: Any) -> str:
        return f"{plain(Decimal(value) / US_PER_S)}s"


@dataclass(frozen=True)
class Flag:
    """Yes or no."""

    example: str = "true"

    def declaration(self) -> dict[str, Any]:
        return {"kind": "flag"}

    def from_text(self, text: str) -> bool:
        if text not in ("true", "false"):
            raise NotAcceptable("true or false")
        return text == "true"

    def from_json(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise NotAcceptable("true or false")
        return value

    def to_json(self, value: Any) -> Any:
        return value

    def show(self, value: Any) -> str:
        return "yes" if value else "no"


class AsText(ABC):
    """A kind whose JSON is the text that people write."""

    @abstractmethod
    def from_text(self, text: str) -> Any: ...

    def from_json(self, value: Any) -> Any:
        return self.from_text(value if isinstance(value, str) else "")

    def to_json(self, value: Any) -> Any:
        return self.show(value)

    def show(self, value: Any) -> str:
        return str(value)


@dataclass(frozen=True)
class Choice(AsText):
    """One of a few words."""

    words: tuple[str, ...]

    @property
    def example(self) -> str:
        return self.words[0]

    def declaration(self) -> dict[str, Any]:
        return {"kind": "choice", "words": list(self.words)}

    def from_text(self, text: str) -> str:
        if text not in self.words:
            raise NotAcceptable("one of " + ", ".join(self.words))
        return text


@dataclass(frozen=True)
class Name(AsText):
    """The name of a relation or column of the user's, as people type it; looked up when it is used."""

    example: str

    def declaration(self) -> dict[str, Any]:
        return {"kind": "name"}

    def from_text(self, text: str) -> str:
        if not text.strip() or "\x00" in text or len(text) > 200:
            raise NotAcceptable("the name of something in the database")
        return text.strip()
