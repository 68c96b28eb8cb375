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
from typing import Any, NamedTuple, Protocol

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


@dataclass(frozen=True)
class Words:
    """Some of a few words, each once: `visits,flows`. A value is a tuple, in the declared order."""

    words: tuple[str, ...]

    @property
    def example(self) -> str:
        return ",".join(self.words[:2])

    def declaration(self) -> dict[str, Any]:
        return {"kind": "words", "words": list(self.words)}

    def from_text(self, text: str) -> tuple[str, ...]:
        given = [word.strip() for word in text.split(",")]
        if not set(given) <= set(self.words) or len(set(given)) < len(given):
            raise NotAcceptable(f"a list of {', '.join(self.words)}, each at most once")
        return tuple(word for word in self.words if word in given)

    def from_json(self, value: Any) -> tuple[str, ...]:
        return self.from_text(value if isinstance(value, str) else "")

    def to_json(self, value: Any) -> Any:
        return self.show(value)

    def show(self, value: Any) -> str:
        return ",".join(value)


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
class Zoning(AsText):
    """Where zones come from: `schema.table` (as its name), `grid:500m` or `h3:8`."""

    example: str = "grid:500m"

    def declaration(self) -> dict[str, Any]:
        return {"kind": "zones"}

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
class MeetingPlace(AsText):
    """A width and a span of time: `500m/5min`, `6km/2h`."""

    example: str = "500m/5min"

    def declaration(self) -> dict[str, Any]:
        return {"kind": "meeting", "place": _CELL.declaration(), "time": _WINDOW.declaration()}

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


@dataclass(frozen=True)
class LonLatBox(AsText):
    """West, south, east, north: `116.2,39.7,116.6,40.1`."""

    example: str = "116.2,39.7,116.6,40.1"

    def declaration(self) -> dict[str, Any]:
        return {"kind": "box"}

    def from_text(self, text: str) -> Box:
        parts = text.split(",")
        if len(parts) != 4 or not all(
            re.fullmatch(r" *-?[0-9]{1,3}(\.[0-9]{1,9})? *", p) for p in parts
        ):
            raise NotAcceptable("four numbers: west, south, east, north in degrees")
        box = Box(*(Decimal(p.strip()) for p in parts))
        if not (-180 <= box.west < box.east <= 180 and -90 <= box.south < box.north <= 90):
            raise NotAcceptable("a box: west before east and south before north, in degrees")
        return box

    def show(self, value: Any) -> str:
        return ",".join(map(plain, value))


_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}($|[T ])")


class Stretch(NamedTuple):
    """From a moment to another, the end not in it; in UTC."""

    begin: datetime
    end: datetime


@dataclass(frozen=True)
class TimeStretch(AsText):
    """Two dates or moments, in UTC unless they say otherwise: `2008-02-02/2008-02-09`."""

    example: str = "2008-02-02/2008-02-09"

    def declaration(self) -> dict[str, Any]:
        return {"kind": "stretch"}

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
            raise NotAcceptable("a stretch of time: its end is not after its begin")
        return known

    def show(self, value: Any) -> str:
        return "/".join(moment.isoformat() for moment in value)


# Kinds of parameters that say where: a box, or the outline of an area, in longitude and latitude.


MOST_CORNERS = 2_000
_NUMBER = r"-?[0-9]{1,3}(?:\.[0-9]+)?"
_WKT = re.compile(r"\s*(MULTIPOLYGON|POLYGON)\s*(\(.*\))\s*", re.IGNORECASE | re.DOTALL)
_RING = re.compile(rf"\(\s*({_NUMBER}\s+{_NUMBER}(?:\s*,\s*{_NUMBER}\s+{_NUMBER})*)\s*\)")
_AREA = (
    "a box (west, south, east, north) or a polygon of at least three and at most "
    f"{MOST_CORNERS:,} corners, in degrees"
)
_STEP = Decimal("0.0000001")

Corner = tuple[Decimal, Decimal]


class Outline(NamedTuple):
    """Closed rings of corners; a place is inside if an odd number of rings goes round it."""

    rings: tuple[tuple[Corner, ...], ...]

    @property
    def box(self) -> Box:
        """The box around it."""
        lon = [corner[0] for ring in self.rings for corner in ring]
        lat = [corner[1] for ring in self.rings for corner in ring]
        return Box(min(lon), min(lat), max(lon), max(lat))


@dataclass(frozen=True)
class LonLatArea(AsText):
    """A box `116.2,39.7,116.6,40.1`, or `POLYGON((116.2 39.7, ...))`, also with several parts."""

    example: str = LonLatBox.example

    def declaration(self) -> dict[str, Any]:
        return {"kind": "box"}

    def from_text(self, text: str) -> Box | Outline:
        if not _WKT.fullmatch(text):
            return LonLatBox().from_text(text)
        rings = tuple(_closed(ring.group(1)) for ring in _RING.finditer(text))
        return checked(rings, leftover=_RING.sub("", text))

    def show(self, value: Any) -> str:
        if isinstance(value, Box):
            return LonLatBox().show(value)
        return f"MULTIPOLYGON({', '.join(f'({_written(ring)})' for ring in value.rings)})"


def box_of(area: Box | Outline) -> Box:
    return area if isinstance(area, Box) else area.box


def checked(rings: tuple[tuple[Corner, ...], ...], leftover: str = "") -> Outline:
    """An outline, or a refusal of rings that are none."""
    stray = re.sub(r"MULTIPOLYGON|POLYGON|[(),\s]", "", leftover, flags=re.IGNORECASE)
    corners = [corner for ring in rings for corner in ring]
    if stray or not rings or len(corners) > MOST_CORNERS or min(map(len, rings)) < 4:
        raise NotAcceptable(_AREA)
    if any(abs(lon) > 180 or abs(lat) > 90 for lon, lat in corners):
        raise NotAcceptable(_AREA)
    outline = Outline(rings)
    if outline.box.west == outline.box.east or outline.box.south == outline.box.north:
        raise NotAcceptable(_AREA)
    return outline


def outline_in_geojson(text: str) -> Outline:
    """All polygons of a GeoJSON document; raises NotAcceptable."""
    try:
        rings = tuple(_rings_in(json.loads(text, parse_float=Decimal, parse_int=Decimal)))
    except (ValueError, TypeError, IndexError, AttributeError):
        raise NotAcceptable(_AREA) from None
    return checked(rings)


def _rings_in(document: Any) -> Iterator[tuple[Corner, ...]]:
    kind = document.get("type")
    if kind == "FeatureCollection":
        for feature in document["features"]:
            yield from _rings_in(feature)
    elif kind == "Feature":
        yield from _rings_in(document["geometry"])
    elif kind in ("Polygon", "MultiPolygon"):
        parts = document["coordinates"] if kind == "MultiPolygon" else [document["coordinates"]]
        for part in parts:
            for ring in part:
                yield _rounded([(Decimal(c[0]), Decimal(c[1])) for c in ring])


def _closed(text: str) -> tuple[Corner, ...]:
    pairs = [corner.split() for corner in text.split(",")]
    return _rounded([(Decimal(lon), Decimal(lat)) for lon, lat in pairs])


def _rounded(corners: list[Corner]) -> tuple[Corner, ...]:
    """To a centimetre, and closed."""
    ring = [
        (lon.quantize(_STEP).normalize(), lat.quantize(_STEP).normalize()) for lon, lat in corners
    ]
    return tuple(ring if ring[0] == ring[-1] else [*ring, ring[0]])


def _written(ring: tuple[Corner, ...]) -> str:
    return "(" + ", ".join(f"{plain(lon)} {plain(lat)}" for lon, lat in ring) + ")"
