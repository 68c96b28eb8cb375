"""Where time zones are: a coarse map of the inhabited world that most machines have already.

The list `zone.tab` of the time zone database has a town for each zone. Where it is missing, nothing
is known, and a build says less about its extent.
"""

from __future__ import annotations

import importlib.resources
import math
import re
import zoneinfo
from functools import cache
from pathlib import Path

_EARTH_KM = 6371.0
_COORDINATES = re.compile(r"([+-])(\d{2})(\d{2})(\d{2})?([+-])(\d{3})(\d{2})(\d{2})?")
_LAST_TOWN_LATITUDE = 72.0
_FAR_KM = 250.0
_NEARER = 3.0
"""How many times nearer a swapped position has to be before it is believed."""

LonLat = tuple[float, float]


@cache
def towns() -> dict[str, LonLat]:
    """The zones by name, each with a town's longitude and latitude; empty if there is no list."""
    found = {}
    for line in _list().splitlines():
        if not line.startswith("#") and len(parts := line.split("\t")) >= 3:
            found[parts[2]] = _degrees(parts[1])
    return found


def _list() -> str:
    for folder in zoneinfo.TZPATH:
        path = Path(folder) / "zone.tab"
        if path.is_file():
            return path.read_text("utf-8")
    try:
        return (importlib.resources.files("tzdata") / "zoneinfo" / "zone.tab").read_text("utf-8")
    except (ModuleNotFoundError, FileNotFoundError):
        return ""


def _degrees(text: str) -> LonLat:
    """ISO 6709: +5050+00420 is 4.33 east, 50.83 north."""
    match = _COORDINATES.fullmatch(text)
    assert match is not None, text
    values = []
    for sign, degrees, minutes, seconds in (match.groups()[4:], match.groups()[:4]):
        size = int(degrees) + int(minutes) / 60 + int(seconds or 0) / 3600
        values.append(-size if sign == "-" else size)
    return values[0], values[1]


def distance_km(one: LonLat, other: LonLat) -> float:
    """Along a great circle."""
    (a, b), (c, d) = (map(math.radians, p) for p in (one, other))
    h = math.sin((d - b) / 2) ** 2 + math.cos(b) * math.cos(d) * math.sin((c - a) / 2) ** 2
    return 2 * _EARTH_KM * math.asin(math.sqrt(min(h, 1.0)))


def nearest_town(place: LonLat) -> tuple[str, float] | None:
    """The zone whose town is nearest, and how far it is."""
    found = [(distance_km(place, town), name) for name, town in towns().items()]
    return (min(found)[1], min(found)[0]) if found else None


def looks_swapped(place: LonLat, timezone: str) -> str | None:
    """Why longitude and latitude look swapped, in words; None if they do not."""
    back = place[1], place[0]
    if abs(back[1]) > _LAST_TOWN_LATITUDE:
        return None
    if timezone in towns():
        here, there = (distance_km(p, towns()[timezone]) for p in (place, back))
        from_what = name = timezone
    else:
        nearest, other = nearest_town(place), nearest_town(back)
        if nearest is None or other is None:
            return None
        (from_what, here), (name, there) = nearest, other
    if here > _FAR_KM and here > _NEARER * there:
        return (
            f"the middle of the data lies {here:,.0f} km from {from_what}; the other way round it "
            f"would lie {there:,.0f} km from {name}"
        )
    return None
