"""Public facts of a dataset: where and when its data may lie. Said by its owner, never read from it."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np

from freqdp_db.db.builds import BuildRow, load_locations, samples_by_place
from freqdp_db.db.connection import Database
from freqdp_db.db.datasets import DatasetRow, change_dataset
from freqdp_db.db.source import definition_of, read_name, require_not_from
from freqdp_db.errors import BadInput
from freqdp_db.methods.contract import Facts
from freqdp_db.methods.kinds import (
    Box,
    Corner,
    LonLatArea,
    NotAcceptable,
    Outline,
    Stretch,
    TimeStretch,
    box_of,
    outline_in_geojson,
)
from freqdp_db.model.arrays import Flags, Metres, offsets_from
from freqdp_db.model.trajectories import Build

if TYPE_CHECKING:
    from freqdp_db.dataset.projection import ReferenceSystem
    from freqdp_db.methods.synthesis.public import Corners, Period, Region


_EPOCH = datetime.fromisoformat("2000-01-01T00:00:00+00:00")
_OUTLINE_M = 0.01
_MOST_OUTLINE_CORNERS = 100_000
_GEOJSON = (".geojson", ".json")
_FILES = (*_GEOJSON, ".wkt", ".txt")
_TABLE = re.compile(r'[^\W\d]\w*\.[^\W\d]\w*|".+"\.".+"')


def check_region(text: str) -> None:
    """Refuse what is no region; a table is looked at when it is read."""
    if not _TABLE.fullmatch(text):
        parse_region(None, text)


def parse_region(
    database: Database | None,
    text: str,
    source: tuple[str, str] | None = None,
    persons: str | None = None,
) -> str:
    """As it is kept: a box or an outline; from a file or a table of polygons, too.

    source: the relation that the table must not be made from; persons: a population whose tables it must
    not be made from either.
    """
    try:
        return LonLatArea().show(_area(database, text, source, persons))
    except NotAcceptable as error:
        raise BadInput(
            f"[[region]] {text} is not {error}",
            remedy=f"for example [[region]] {LonLatArea().example}, a file of GeoJSON or WKT, or "
            "[[region]] schema.table of polygons",
        ) from None


def _area(
    database: Database | None, text: str, source: tuple[str, str] | None, persons: str | None
) -> Box | Outline:
    path = Path(text)
    if path.suffix.lower() in _FILES:
        try:
            inside = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            raise BadInput(
                f"[[region]] {text} cannot be read", remedy="name a file of GeoJSON or WKT"
            ) from None
        if path.suffix.lower() in _GEOJSON:
            return outline_in_geojson(inside)
        return LonLatArea().from_text(inside)
    if _TABLE.fullmatch(text):
        from freqdp_db.db.source_maps import read_area

        assert database is not None, "a table is read from a database"
        with database.begin(snapshot=True) as connection:
            relation = read_name(connection, text, "[[region]]")
            if source is not None:
                require_not_from(connection, "[[region]]", relation, source, persons=persons)
            return outline_in_geojson(read_area(connection, relation))
    return LonLatArea().from_text(text)


def parse_period(text: str, timezone: str) -> str:
    """As it is kept. Moments without a zone are local."""

    parts = []
    for part in text.split("/"):
        try:
            moment = datetime.fromisoformat(part.strip())
        except ValueError:
            parts.append(part)
            continue
        local = moment.tzinfo is None
        parts.append((moment.replace(tzinfo=ZoneInfo(timezone)) if local else moment).isoformat())
    try:
        return TimeStretch().show(TimeStretch().from_text("/".join(parts)))
    except NotAcceptable as error:
        raise BadInput(
            f"[[period]] {text} is not {error}",
            remedy=f"for example [[period]] {TimeStretch().example}",
        ) from None


def srid_of(region: str) -> int:
    """The UTM zone of a region: a projection that is not read from the data."""
    from freqdp_db.dataset.projection import seen_degrees, utm_srid

    box = box_of(LonLatArea().from_text(region))
    middle = [float(box.west + box.east) / 2], [float(box.south + box.north) / 2]
    return utm_srid(seen_degrees(*(np.array(m) for m in middle)))


def change_facts(
    database: Database,
    dataset: DatasetRow,
    region: str | None,
    period: str | None,
    persons: str | None = None,
) -> None:
    """Say or change what is public; what is None stays as it is.

    persons: the population that the dataset is about to belong to.
    """
    known = dataset.region
    if region is not None:
        source = dataset.source_schema, dataset.source_relation
        known = parse_region(database, region, source, persons)
    when = dataset.period
    if period is not None:
        when = parse_period(period, dataset.mapping.timezone)
    srid = dataset.srid
    if srid is None and known is not None:
        srid = srid_of(known)
    change_dataset(database, dataset.dataset_id, region=known, period=when, srid=srid)


@dataclass(frozen=True, eq=False)
class DeclaredArea:
    """A region as its owner said it: in degrees, between the corners straight."""

    plane: ReferenceSystem
    area: Box | Outline

    def holds(self, x: Metres, y: Metres) -> Flags:
        """Which of these places, in metres of the plane, lie inside."""
        from freqdp_db.dataset.projection import to_lon_lat

        return self.holds_degrees(*to_lon_lat(self.plane, x, y))

    def holds_degrees(self, lon: Metres, lat: Metres) -> Flags:
        """The same of positions in degrees; the east and north edges of a box do not belong to it."""
        if isinstance(self.area, Box):
            west, south, east, north = map(float, self.area)
            inside: Flags = (lon >= west) & (lon < east) & (lat >= south) & (lat < north)
            return inside
        return _in_degrees(self.area).holds(lon, lat)

    def outline(self) -> Corners:
        """In metres, with so many corners that straight lines between them leave it by a centimetre."""
        from freqdp_db.dataset.projection import from_lon_lat
        from freqdp_db.methods.synthesis.public import Corners

        rings, lengths = _in_degrees(self.area), []
        found_x, found_y = [], []
        for first, end in pairwise(rings.offsets):
            lon, lat = rings.x[first:end], rings.y[first:end]
            x, y = from_lon_lat(self.plane, lon, lat)
            while len(lon) < _MOST_OUTLINE_CORNERS:
                middle = (lon[1:] + lon[:-1]) / 2, (lat[1:] + lat[:-1]) / 2
                mx, my = from_lon_lat(self.plane, *middle)
                off = np.hypot(mx - (x[1:] + x[:-1]) / 2, my - (y[1:] + y[:-1]) / 2)
                at = np.flatnonzero(off > _OUTLINE_M) + 1
                if not len(at):
                    break
                lon, lat = (
                    np.insert(c, at, m[at - 1]) for c, m in zip((lon, lat), middle, strict=True)
                )
                x, y = np.insert(x, at, mx[at - 1]), np.insert(y, at, my[at - 1])
            lengths.append(len(x))
            found_x.append(x)
            found_y.append(y)
        return Corners(
            np.concatenate(found_x), np.concatenate(found_y), offsets_from(np.array(lengths))
        )


def _in_degrees(area: Box | Outline) -> Corners:
    from freqdp_db.methods.synthesis.public import Corners

    rings = area.rings if isinstance(area, Outline) else (_ring(area),)
    flat = np.array([corner for ring in rings for corner in ring], np.float64)
    return Corners(
        flat[:, 0].copy(), flat[:, 1].copy(), offsets_from(np.array([len(ring) for ring in rings]))
    )


def _ring(box: Box) -> tuple[Corner, ...]:
    west, south, east, north = box
    return ((west, south), (east, south), (east, north), (west, north), (west, south))


def facts_of(build: Build) -> Facts:
    """Turns a region and a period into the build's metres and microseconds."""

    def facts(region: Any, period: Any) -> tuple[Region, Period]:
        assert build.systems is not None, "the build was read without its reference systems"
        return facts_in(build.srid, build.systems[0], build.timezone)(region, period)

    return facts


def facts_in(srid: int, definition: str, timezone: str) -> Facts:
    """The same, in metres of the SRID and local time of the zone."""
    return partial(_facts, srid, definition, timezone)


@lru_cache(maxsize=4)
def _facts(
    srid: int, definition: str, timezone: str, area: Box | Outline, period: Stretch
) -> tuple[Region, Period]:
    from freqdp_db.dataset.projection import ReferenceSystem
    from freqdp_db.methods.synthesis.public import Period, Region

    declared = DeclaredArea(ReferenceSystem.parse(srid, definition), area)
    outline = declared.outline()
    micro, zone = timedelta(microseconds=1), ZoneInfo(timezone)
    offset, at_end = (
        (moment.astimezone(zone).utcoffset() or timedelta()) // micro
        for moment in (period.begin, period.end)
    )
    return (
        Region(
            float(outline.x.min()),
            float(outline.y.min()),
            float(outline.x.max()),
            float(outline.y.max()),
            outline,
            declared,
        ),
        Period(
            (period.begin - _EPOCH) // micro,
            (period.end - _EPOCH) // micro,
            offset,
            at_end - offset,
        ),
    )


# How many samples of a build lie inside the public region and period. For the curator.


_FEW = 0.5


@dataclass(frozen=True)
class Coverage:
    """How much of a build the public region and period cover. Exact: never released."""

    samples: int
    inside: int

    def lines(self, dataset: str) -> list[str]:
        """In words; a warning where it is little."""
        share = self.inside / max(self.samples, 1)
        said = (
            f"{self.inside:,} of {self.samples:,} samples ({share:.1%}) lie inside the region and the "
            "period"
        )
        if share >= _FEW:
            return [f"{said}."]
        return [
            f"Warning: {said}. What lies outside is left out of releases with a guarantee for persons: "
            "check that [[region]] is WEST,SOUTH,EAST,NORTH in degrees and that [[period]] covers the "
            f"data (freqdp dataset set {shlex.quote(dataset)})."
        ]


def coverage_of(
    database: Database, dataset: DatasetRow, build: BuildRow, region: Any, period: Any
) -> Coverage:
    """Count the samples of a build inside an area and a stretch of time."""
    with database.begin(snapshot=True) as connection:
        definition = definition_of(connection, build.srid, "SRID")
        places, _ = load_locations(connection, build)
        samples = samples_by_place(connection, build, period.begin, period.end)
    area, _ = facts_in(build.srid, definition, dataset.mapping.timezone)(region, period)
    return Coverage(build.samples, int(samples[area.holds(places.x, places.y)].sum()))


def declared_coverage(database: Database, dataset: DatasetRow, build: BuildRow) -> Coverage | None:
    """The same for what the owner has declared; None: not both."""
    if dataset.region is None or dataset.period is None:
        return None
    region = LonLatArea().from_text(dataset.region)
    return coverage_of(database, dataset, build, region, TimeStretch().from_text(dataset.period))
