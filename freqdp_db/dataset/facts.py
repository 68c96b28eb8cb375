"""Public facts of a dataset: where and when its data may lie. Said by its owner, never read from it."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np

from freqdp_db.columns.build import Build
from freqdp_db.columns.ragged import offsets_from
from freqdp_db.errors import BadInput
from freqdp_db.methods.areas import LonLatArea, Outline, box_of, outline_in_geojson
from freqdp_db.methods.contract import Facts
from freqdp_db.methods.kinds import NotAcceptable
from freqdp_db.methods.places_and_times import Box, TimeStretch
from freqdp_db.storage.connection.engine import Connection, Database
from freqdp_db.storage.records.datasets import DatasetRow, set_facts
from freqdp_db.storage.source.areas import read_area
from freqdp_db.storage.source.relations import read_name

if TYPE_CHECKING:
    from freqdp_db.dataset.projection import ReferenceSystem
    from freqdp_db.methods.synthesis.public import Corners, Period, Region

_EPOCH = datetime.fromisoformat("2000-01-01T00:00:00+00:00")
_EDGE_POINTS = 33
_GEOJSON = (".geojson", ".json")
_FILES = (*_GEOJSON, ".wkt", ".txt")
_TABLE = re.compile(r'[^\W\d]\w*\.[^\W\d]\w*|".+"\.".+"')


def check_region(text: str) -> None:
    """Refuse what is no region; a table is looked at when it is read."""
    if not _TABLE.fullmatch(text):
        parse_region(None, text)


def parse_region(connection: Connection | None, text: str) -> str:
    """As it is kept: a box or an outline; from a file or a table of polygons, too."""
    try:
        return LonLatArea().show(_area(connection, text))
    except NotAcceptable as error:
        raise BadInput(
            f"--region {text} is not {error}",
            remedy=f"for example --region {LonLatArea().example}, a file of GeoJSON or WKT, or "
            "--region schema.table of polygons",
        ) from None


def _area(connection: Connection | None, text: str) -> Box | Outline:
    path = Path(text)
    if path.suffix.lower() in _FILES:
        try:
            inside = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            raise BadInput(
                f"--region {text} cannot be read", remedy="name a file of GeoJSON or WKT"
            ) from None
        if path.suffix.lower() in _GEOJSON:
            return outline_in_geojson(inside)
        return LonLatArea().from_text(inside)
    if _TABLE.fullmatch(text):
        assert connection is not None, "a table is read from a database"
        return outline_in_geojson(read_area(connection, read_name(connection, text, "--region")))
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
            f"--period {text} is not {error}",
            remedy=f"for example --period {TimeStretch().example}",
        ) from None


def srid_of(region: str) -> int:
    """The UTM zone of a region: a projection that is not read from the data."""
    from freqdp_db.dataset.projection import seen_degrees, utm_srid

    box = box_of(LonLatArea().from_text(region))
    middle = [float(box.west + box.east) / 2], [float(box.south + box.north) / 2]
    return utm_srid(seen_degrees(*(np.array(m) for m in middle)))


def change_facts(
    database: Database, dataset: DatasetRow, region: str | None, period: str | None
) -> None:
    """Say or change what is public; what is None stays as it is."""
    known = dataset.region
    if region is not None:
        with database.begin() as connection:
            known = parse_region(connection, region)
    when = dataset.period
    if period is not None:
        when = parse_period(period, dataset.mapping.timezone)
    srid = dataset.srid
    if srid is None and known is not None:
        srid = srid_of(known)
    set_facts(database, dataset.dataset_id, known, when, srid)


def _corners(plane: ReferenceSystem, region: Box | Outline) -> Corners | None:
    """The outline of an area in metres; between its corners it runs straight."""
    from freqdp_db.dataset.projection import from_lon_lat
    from freqdp_db.methods.synthesis.public import Corners

    if isinstance(region, Box):
        return None
    flat = np.array([corner for ring in region.rings for corner in ring], np.float64)
    x, y = from_lon_lat(plane, flat[:, 0], flat[:, 1])
    return Corners(x, y, offsets_from(np.array([len(ring) for ring in region.rings])))


def facts_of(build: Build) -> Facts:
    """Turns a region and a period into the build's metres and microseconds."""

    def facts(region: Any, period: Any) -> tuple[Region, Period]:
        assert build.systems is not None, "the build was read without its reference systems"
        return facts_in(build.srid, build.systems[0], build.timezone)(region, period)

    return facts


def facts_in(srid: int, definition: str, timezone: str) -> Facts:
    """The same, in metres of the SRID and local time of the zone."""

    def facts(region: Any, period: Any) -> tuple[Region, Period]:
        from freqdp_db.dataset.projection import ReferenceSystem, from_lon_lat
        from freqdp_db.methods.synthesis.public import Period, Region

        edge = np.linspace(0, 1, _EDGE_POINTS)
        plane = ReferenceSystem.parse(srid, definition)
        west, south, east, north = map(float, box_of(region))
        lon, lat = west + (east - west) * edge, south + (north - south) * edge
        around = (
            np.concatenate([lon, lon, np.full(_EDGE_POINTS, west), np.full(_EDGE_POINTS, east)]),
            np.concatenate([np.full(_EDGE_POINTS, south), np.full(_EDGE_POINTS, north), lat, lat]),
        )
        x, y = from_lon_lat(plane, *around)
        offset = period.begin.astimezone(ZoneInfo(timezone)).utcoffset() or timedelta()
        micro = timedelta(microseconds=1)
        return (
            Region(
                float(x.min()),
                float(y.min()),
                float(x.max()),
                float(y.max()),
                _corners(plane, region),
            ),
            Period(
                (period.begin - _EPOCH) // micro, (period.end - _EPOCH) // micro, offset // micro
            ),
        )

    return facts
