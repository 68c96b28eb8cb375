"""Kinds of parameters that say where: a box, or the outline of an area, in longitude and latitude."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from freqdp_db.methods.kinds import AsText, NotAcceptable, plain
from freqdp_db.methods.places_and_times import Box, LonLatBox

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
