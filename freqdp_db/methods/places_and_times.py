"""Kinds of parameters that say where and when: a meeting, a box, a stretch of time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from freqdp_db.methods.kinds import US_PER_S, AsText, Duration, NotAcceptable, Number, plain


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
