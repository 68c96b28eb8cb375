"""Kinds of parameters: how a value is read from text and from JSON, and written as JSON.

A kind is declared once, here. `declaration` is what SQL checks requests by: the function
`check_parameter` reads it, and a test gives both many cases.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar, NamedTuple

MAX_DECIMALS = 9
WIDEST_M = Decimal(10_000_000)
US_PER_S = 1_000_000
_UNITS_S = {"us": Decimal("1e-6"), "ms": Decimal("1e-3"), "s": Decimal(1), "min": Decimal(60),
            "m": Decimal(60), "h": Decimal(3600), "d": Decimal(86400)}  # fmt: skip
_DURATION = re.compile(r" *([0-9]+\.?[0-9]*|\.[0-9]+) *(us|ms|s|min|m|h|d)? *")
_LONGEST_TEXT = 20
_YEAR_S = 366 * 86_400


class NotAcceptable(ValueError):
    """A value is not of its kind; the text says what one would be."""


class Kind(ABC):
    """What values a parameter takes; its JSON is the text that people write, unless it says otherwise."""

    name: ClassVar[str]
    """As SQL knows the kind."""
    example: str

    def declaration(self) -> dict[str, Any]:
        """What SQL checks by."""
        return {"kind": self.name}

    @abstractmethod
    def from_text(self, text: str) -> Any:
        """A value; raises NotAcceptable."""

    def from_json(self, value: Any) -> Any:
        """The same from JSON, in which numbers are int or Decimal."""
        return self.from_text(value if isinstance(value, str) else "")

    def to_json(self, value: Any) -> Any:
        return self.show(value)

    def show(self, value: Any) -> str:
        return str(value)


def _exact(value: Any) -> Decimal:
    """A JSON number as it was written: SQL and Python mean the same by it."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise NotAcceptable("a number")
    return Decimal(value)


def plain(number: Decimal) -> str:
    """Without an exponent and without trailing zeros."""
    return format(number.normalize(), "f")


@dataclass(frozen=True)
class Number(Kind):
    """An exact number above 0, or one of a few words."""

    name = "number"
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
        limits = {"low": self.low, "high": self.high, "decimals": self.decimals}
        return super().declaration() | limits | {"words": list(self.words)}

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
class Whole(Kind):
    """A whole number of a range."""

    name = "whole"
    low: int
    high: int
    example: str

    def declaration(self) -> dict[str, Any]:
        return super().declaration() | {"low": self.low, "high": self.high}

    def from_text(self, text: str) -> int:
        # at most as long as the largest number: `int` takes long over a million digits
        return self.from_json(int(text) if re.fullmatch(r"\s*-?[0-9]{1,20}\s*", text) else None)

    def from_json(self, value: Any) -> int:
        if type(value) is not int or not self.low <= value <= self.high:
            high = "2^63 - 1" if self.high == 2**63 - 1 else f"{self.high:,}"
            raise NotAcceptable(f"a whole number from {self.low:,} to {high}")
        return value

    def to_json(self, value: Any) -> Any:
        return value


@dataclass(frozen=True)
class Duration(Kind):
    """A span of time: in microseconds as a value, in seconds as JSON."""

    name = "duration"
    example: str = "60s"
    zero: bool = False
    """Whether it may be 0."""

    def declaration(self) -> dict[str, Any]:
        return super().declaration() | {"zero": self.zero}

    def _checked(self, seconds: Decimal) -> int:
        us = seconds * US_PER_S
        possible = 0 < seconds <= _YEAR_S or (seconds == 0 and self.zero)
        if not possible or us != us.to_integral_value():
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
        return f"{self.to_json(value):f}s"


@dataclass(frozen=True)
class Flag(Kind):
    """Yes or no."""

    name = "flag"
    example: str = "true"

    def from_text(self, text: str) -> bool:
        return self.from_json({"true": True, "false": False}.get(text))

    def from_json(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise NotAcceptable("true or false")
        return value

    def to_json(self, value: Any) -> Any:
        return value

    def show(self, value: Any) -> str:
        return "yes" if value else "no"


@dataclass(frozen=True)
class Choice(Kind):
    """One of a few words."""

    name = "choice"
    words: tuple[str, ...]

    @property
    def example(self) -> str:  # type: ignore[override]
        return self.words[0]

    def declaration(self) -> dict[str, Any]:
        return super().declaration() | {"words": list(self.words)}

    def from_text(self, text: str) -> str:
        if text not in self.words:
            raise NotAcceptable("one of " + ", ".join(self.words))
        return text


@dataclass(frozen=True)
class Words(Choice):
    """Some of a few words, each once: `visits,flows`. A value is a tuple, in the declared order."""

    name = "words"

    @property
    def example(self) -> str:  # type: ignore[override]
        return ",".join(self.words[:2])

    def from_text(self, text: str) -> tuple[str, ...]:  # type: ignore[override]
        given = [word.strip() for word in text.split(",")]
        if not set(given) <= set(self.words) or len(set(given)) < len(given):
            raise NotAcceptable(f"a list of {', '.join(self.words)}, each at most once")
        return tuple(word for word in self.words if word in given)

    def show(self, value: Any) -> str:
        return ",".join(value)


@dataclass(frozen=True)
class Name(Kind):
    """The name of a relation or column of the user's, as people type it; looked up when it is used."""

    name = "name"
    example: str

    def from_text(self, text: str) -> str:
        if not text.strip() or "\x00" in text or len(text) > 200:
            raise NotAcceptable("the name of something in the database")
        return text.strip()


class SquareGrid(NamedTuple):
    """Squares of a grid, so many metres wide."""

    metres: Decimal

    def __str__(self) -> str:
        return f"grid:{plain(self.metres)}m"


class HexagonGrid(NamedTuple):
    """Cells of H3."""

    resolution: int

    def __str__(self) -> str:
        return f"h3:{self.resolution}"


_GRID = re.compile(r"grid: *([0-9]{1,6}(?:\.[0-9]{1,3})?) *(m|km)")
_H3 = re.compile(r"h3: *([0-9]{1,2})")
_NARROWEST_GRID_M, _WIDEST_GRID_M = 10, 100_000
_FINEST_H3 = 12


@dataclass(frozen=True)
class Zoning(Kind):
    """Where zones come from: `schema.table` (as its name), `grid:500m` or `h3:8`."""

    name = "zones"
    example: str = "grid:500m"

    def from_text(self, text: str) -> str | SquareGrid | HexagonGrid:
        text = text.strip()
        if match := _GRID.fullmatch(text):
            metres = Decimal(match[1]).scaleb(3 if match[2] == "km" else 0)
            if not _NARROWEST_GRID_M <= metres <= _WIDEST_GRID_M:
                raise NotAcceptable("a grid of 10 m to 100 km")
            return SquareGrid(metres)
        if match := _H3.fullmatch(text):
            if int(match[1]) > _FINEST_H3:
                raise NotAcceptable(f"a resolution of H3 from 0 to {_FINEST_H3}")
            return HexagonGrid(int(match[1]))
        if ":" in text:
            raise NotAcceptable(
                "schema.table, a grid such as grid:500m, or a resolution of H3: h3:8"
            )
        return Name(self.example).from_text(text)


# Kinds of parameters that say where and when: a meeting, a box, a stretch of time.


class Meet(NamedTuple):
    """A cell of so many metres, and a window of so many microseconds."""

    metres: Decimal
    us: int


@dataclass(frozen=True)
class MeetingPlace(Kind):
    """A width and a span of time: `500m/5min`, `6km/2h`."""

    name = "meeting"
    example: str = "500m/5min"

    def declaration(self) -> dict[str, Any]:
        parts = {"place": _CELL.declaration(), "time": _WINDOW.declaration()}
        return super().declaration() | parts

    def from_text(self, text: str) -> Meet:
        place, slash, time = text.partition("/")
        place = place.strip()
        if not slash or not place.endswith("m"):
            raise NotAcceptable(f"a number of metres and a duration, such as {self.example}")
        thousand = place.endswith("km")
        metres, us = _CELL.from_text(place[: -2 if thousand else -1]), _WINDOW.from_text(time)
        assert isinstance(metres, Decimal)
        if thousand:
            metres = _CELL.from_json(metres.scaleb(3))
            assert isinstance(metres, Decimal)
        if metres < 1 or not US_PER_S <= us <= _DAY_S * US_PER_S:
            raise NotAcceptable("a cell of 1 m to 100 km and a window of a second to a day")
        return Meet(metres, us)

    def show(self, value: Any) -> str:
        return f"{plain(value.metres)}m/{_WINDOW.show(value.us)}"


_DAY_S = 86_400
_CELL = Number(Decimal(100_000), "500", unit="metres")
_WINDOW = Duration("5min")


class Box(NamedTuple):
    """A box in longitude and latitude."""

    west: Decimal
    south: Decimal
    east: Decimal
    north: Decimal


_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}($|[T ])")


class Stretch(NamedTuple):
    """From a moment to another, the end not in it; in UTC."""

    begin: datetime
    end: datetime


@dataclass(frozen=True)
class TimeStretch(Kind):
    """Two dates or moments, in UTC unless they say otherwise: `2008-02-02/2008-02-09`."""

    name = "stretch"
    example: str = "2008-02-02/2008-02-09"

    def from_text(self, text: str) -> Stretch:
        parts = [part.strip() for part in text.split("/")]
        try:
            # a date with an offset but no time would be read as a time
            moments = [datetime.fromisoformat(p) for p in parts if _MOMENT.match(p)]
        except ValueError:
            moments = []
        if len(parts) != 2 or len(moments) != 2:
            raise NotAcceptable(
                "two dates or moments with a slash between them, such as 2008-02-02 or "
                "2008-02-02T00:00+08:00"
            )
        known = Stretch(*(m.replace(tzinfo=UTC) if m.tzinfo is None else m.astimezone(UTC)
                          for m in moments))  # fmt: skip
        if not known.begin < known.end:
            raise NotAcceptable("a stretch of time: its end is not after its start")
        return known

    def show(self, value: Any) -> str:
        return "/".join(moment.isoformat() for moment in value)


# Where: a box, or the outline of an area, in longitude and latitude.


MOST_CORNERS = 2_000
_NUMBER = r"-?[0-9]{1,3}(?:\.[0-9]+)?"
_BOX = re.compile(",".join([r" *(-?[0-9]{1,3}(?:\.[0-9]{1,9})?) *"] * 4))
_WKT = re.compile(r"\s*(MULTIPOLYGON|POLYGON)\s*(\(.*\))\s*", re.IGNORECASE | re.DOTALL)
_RING = re.compile(rf"\(\s*({_NUMBER}\s+{_NUMBER}(?:\s*,\s*{_NUMBER}\s+{_NUMBER})*)\s*\)")
_AREA = (
    "a box (west, south, east, north) or a polygon of at least three and at most "
    f"{MOST_CORNERS:,} corners, in degrees"
)
_CENTIMETRE = Decimal("0.0000001")

Corner = tuple[Decimal, Decimal]


class Outline(NamedTuple):
    """Closed rings of corners; a place is inside if an odd number of rings goes round it."""

    rings: tuple[tuple[Corner, ...], ...]

    @property
    def box(self) -> Box:
        """The box around it."""
        lon, lat = zip(*(corner for ring in self.rings for corner in ring), strict=True)
        return Box(min(lon), min(lat), max(lon), max(lat))


@dataclass(frozen=True)
class LonLatArea(Kind):
    """A box `116.2,39.7,116.6,40.1`, or `POLYGON((116.2 39.7, ...))`, also with several parts."""

    name = "box"
    example: str = "116.2,39.7,116.6,40.1"

    def from_text(self, text: str) -> Box | Outline:
        if _WKT.fullmatch(text):
            stray = re.sub(r"MULTIPOLYGON|POLYGON|[(),\s]", "", _RING.sub("", text), flags=re.I)
            rings = [[c.split() for c in ring[1].split(",")] for ring in _RING.finditer(text)]
            return _outline([] if stray else rings)
        match = _BOX.fullmatch(text)
        if match is None:
            raise NotAcceptable("four numbers: west, south, east, north in degrees")
        box = Box(*map(Decimal, match.groups()))
        if not (-180 <= box.west < box.east <= 180 and -90 <= box.south < box.north <= 90):
            raise NotAcceptable("a box: west before east and south before north, in degrees")
        return box

    def show(self, value: Any) -> str:
        if isinstance(value, Box):
            return ",".join(map(plain, value))
        rings = (", ".join(f"{plain(x)} {plain(y)}" for x, y in ring) for ring in value.rings)
        return f"MULTIPOLYGON({', '.join(f'(({ring}))' for ring in rings)})"


def box_of(area: Box | Outline) -> Box:
    return area if isinstance(area, Box) else area.box


def outline_in_geojson(text: str) -> Outline:
    """All polygons of a GeoJSON document; raises NotAcceptable."""
    try:
        rings = list(_rings_in(json.loads(text, parse_float=Decimal, parse_int=Decimal)))
        return _outline(rings)
    except (ValueError, TypeError, IndexError, AttributeError, ArithmeticError):
        raise NotAcceptable(_AREA) from None


def _rings_in(document: Any) -> Iterator[Any]:
    kind = document.get("type")
    if kind == "FeatureCollection":
        for feature in document["features"]:
            yield from _rings_in(feature)
    elif kind == "Feature":
        yield from _rings_in(document["geometry"])
    elif kind == "MultiPolygon":
        for part in document["coordinates"]:
            yield from part
    elif kind == "Polygon":
        yield from document["coordinates"]


def _outline(given: list[Any]) -> Outline:
    """Rings of corners, to a centimetre and closed; refuses what are none."""
    rings: list[tuple[Corner, ...]] = []
    for corners in given:
        ring = [(_to_centimetre(c[0]), _to_centimetre(c[1])) for c in corners]
        rings.append(tuple(ring if ring[0] == ring[-1] else [*ring, ring[0]]))
    if not rings or sum(map(len, rings)) > MOST_CORNERS or min(map(len, rings)) < 4:
        raise NotAcceptable(_AREA)
    outline = Outline(tuple(rings))
    west, south, east, north = outline.box
    if not (-180 <= west < east <= 180 and -90 <= south < north <= 90):
        raise NotAcceptable(_AREA)
    return outline


def _to_centimetre(degrees: str | Decimal) -> Decimal:
    return Decimal(degrees).quantize(_CENTIMETRE).normalize()
