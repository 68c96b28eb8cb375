"""What a build found in its source: where and when it lies, and what looks wrong. For the curator."""

from __future__ import annotations

import importlib.resources
import math
import re
import zoneinfo
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import numpy as np

from freqdp_db.dataset.cleaning import within
from freqdp_db.dataset.projection import MEASURED_DEGREES, degrees_from_meridian
from freqdp_db.errors import Remark
from freqdp_db.methods.kinds import LonLatArea, Outline, box_of
from freqdp_db.model.arrays import Ints, Metres

# Where time zones are: a coarse map of the inhabited world that most machines have already.
#
# The list `zone.tab` of the time zone database has a town for each zone. Where it is missing, nothing
# is known, and a build says less about its extent.


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


_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_FAR_DEGREES = 6.0
_MUCH, _TIMES_ITS_PART = 0.25, 5
"""An object with so large a share of all samples, and so many times its part, is one too many."""
_TAIL = 0.005
"""Of the samples, so many may lie outside on each side of what is called most of them."""
_NEAR_KM = 100.0
_NO_REGION = (
    "This is read from the data: a [[region]] for a guarantee for persons must not be "
    "taken from it."
)
_LATITUDE_NAMES = {"lat", "latitude", "y"}
_LONGITUDE_NAMES = {"lon", "lng", "long", "longitude", "x"}


@dataclass(frozen=True)
class RoundedBox:
    """Degrees of longitude and latitude, rounded outwards to hundredths: no sample's own position."""

    west: float
    south: float
    east: float
    north: float

    @classmethod
    def around(cls, west: float, south: float, east: float, north: float) -> RoundedBox:
        least = (math.floor(round(100 * v, 6)) / 100 for v in (west, south))
        most = (math.ceil(round(100 * v, 6)) / 100 for v in (east, north))
        return cls(*least, *most)

    def much_wider(self, other: RoundedBox) -> bool:
        """Whether it is more than twice as wide or as high."""
        return self.east - self.west > 2 * (other.east - other.west) or (
            self.north - self.south > 2 * (other.north - other.south)
        )

    def __str__(self) -> str:
        return (
            f"longitude {self.west:.2f} to {self.east:.2f}, "
            f"latitude {self.south:.2f} to {self.north:.2f}"
        )


@dataclass(frozen=True)
class Findings:
    """What a build found."""

    extent: RoundedBox | None
    """None: no place can be told in degrees."""
    most: RoundedBox | None
    """Where all but one in a hundred lie, on each axis."""
    near: str | None
    """The time zone whose town is nearest to the middle, if the machine has a list of them."""
    near_km: float | None
    """How far it is."""
    first_at: datetime
    last_at: datetime
    epoch_unit: str | None
    """What numbers were read as: seconds, milliseconds, ... since 1970; None: times are times."""
    warnings: list[Remark]
    region_declared: bool = False

    def lines(self) -> list[str]:
        """In words."""
        near = ""
        if self.near is not None and self.near_km is not None:
            town = self.near.rpartition("/")[2].replace("_", " ")
            far = f", {self.near_km:,.0f} km from {town}"
            near = far if self.near_km > _NEAR_KM else f", near {town}"
        where = "Where: nothing can be told in degrees."
        if self.extent is not None and self.most is not None:
            where = f"Where: {self.extent}{near}."
            if self.extent.much_wider(self.most):
                where = (
                    f"Where: 99 of 100 samples at {self.most} (each by itself){near}; "
                    f"all: {self.extent}."
                )
            if not self.region_declared:
                where += f" {_NO_REGION}"
        when = f"When: {self.first_at:%Y-%m-%d %H:%M} to {self.last_at:%Y-%m-%d %H:%M} UTC."
        if self.epoch_unit is not None:
            when += f" Numbers were read as {self.epoch_unit} since 1970."
        return [where, when, *(f"Warning: {warning.text}" for warning in self.warnings)]


@dataclass(frozen=True)
class SeenTimes:
    """Of some samples."""

    first: int
    last: int
    """Microseconds since 2000-01-01."""
    future: int
    """How many lie more than a day after they were read."""
    early: int
    """How many are older than 1980."""

    def __add__(self, other: SeenTimes) -> SeenTimes:
        return SeenTimes(
            min(self.first, other.first),
            max(self.last, other.last),
            self.future + other.future,
            self.early + other.early,
        )


def moment(when: datetime) -> int:
    """Microseconds since 2000-01-01."""
    return (when - _EPOCH) // timedelta(microseconds=1)


def seen_times(at: Ints, read_at: datetime) -> SeenTimes:
    return SeenTimes(
        int(at.min()),
        int(at.max()),
        int((at > moment(read_at + timedelta(days=1))).sum()),
        int((at < moment(datetime(1980, 1, 1, tzinfo=UTC))).sum()),
    )


def look_at(
    lon: Metres,
    lat: Metres,
    count: Ints,
    times: SeenTimes,
    lengths: Ints,
    *,
    timezone: str,
    epoch_unit: str | None,
    columns: tuple[str, str] | None,
    region: str | None,
    utm_srid: int | None,
) -> Findings:
    """Look at the places of a build, how many samples each has, and when the samples are.

    lengths: how many samples each object has. columns: those of longitude and latitude. utm_srid: the
    zone that was chosen from the data.
    """
    known = within(lon, lat, (360.0, 90.0))
    lon, lat, count = lon[known], lat[known], count[known]
    extent = most = town = None
    about_places: list[str] = []
    if count.any():
        west, middle_lon, east = _quantiles(lon, count)
        south, middle_lat, north = _quantiles(lat, count)
        middle = middle_lon, middle_lat
        extent = RoundedBox.around(
            float(lon.min()), float(lat.min()), float(lon.max()), float(lat.max())
        )
        most = RoundedBox.around(west, south, east, north)
        town = nearest_town(middle)
        about_places = [
            *_swapped(middle, timezone, columns),
            *_outside(lon, lat, count, region),
            *_far(lon, lat, count, utm_srid),
        ]
    first, last = (_EPOCH + timedelta(microseconds=us) for us in (times.first, times.last))
    warnings = [*about_places, *_strange_times(times, epoch_unit), *_one_of_all(lengths)]
    return Findings(
        extent,
        most,
        None if town is None else town[0],
        None if town is None else town[1],
        first,
        last,
        epoch_unit,
        [Remark(warning) for warning in warnings],
        region is not None,
    )


def _quantiles(values: Metres, count: Ints) -> tuple[float, float, float]:
    """Where most begin, the middle, and where most end; each value counts as often as it is met."""
    order = np.argsort(values)
    share = np.cumsum(count[order]) / count.sum()
    at = [int(np.searchsorted(share, q)) for q in (_TAIL, 0.5, 1 - _TAIL)]
    begin, middle, end = (float(values[order[min(i, len(order) - 1)]]) for i in at)
    return begin, middle, end


def _swapped(
    middle: tuple[float, float], timezone: str, columns: tuple[str, str] | None
) -> list[str]:
    if columns is not None:
        lon, lat = (name.lower() for name in columns)
        if lon in _LATITUDE_NAMES and lat in _LONGITUDE_NAMES:
            return [
                f"[[lon]] {columns[0]} and [[lat]] {columns[1]} are called the other way round: are they "
                "swapped?"
            ]
    why = looks_swapped(middle, timezone)
    return [] if why is None else [f"longitude and latitude look swapped: {why}."]


def _outside(lon: Metres, lat: Metres, count: Ints, region: str | None) -> list[str]:
    if region is None:
        return []
    area = LonLatArea().from_text(region)
    box = box_of(area)
    west, south, east, north = (float(v) for v in (box.west, box.south, box.east, box.north))
    out = (lon < west) | (lon > east) | (lat < south) | (lat > north)
    there = int(count[out].sum())
    if not there:
        return []
    named = (
        "the box around the polygons of [[region]]"
        if isinstance(area, Outline)
        else f"[[region]] {region}"
    )
    said = f"{there:,} samples ({there / count.sum():.1%}) lie outside {named}"
    back = (lat >= west) & (lat <= east) & (lon >= south) & (lon <= north)
    if int(count[out & back].sum()) > there / 2:
        said += ", most of them inside if longitude and latitude are swapped"
    return [said + "."]


def _far(lon: Metres, lat: Metres, count: Ints, utm_srid: int | None) -> list[str]:
    if utm_srid is None:
        return []
    apart = degrees_from_meridian(lon, utm_srid)
    far = apart > _FAR_DEGREES
    there = int(count[far].sum())
    if not there:
        return []
    # a transverse Mercator stretches by 1 + (distance from its meridian / radius)^2 / 2
    measured = far & (apart <= MEASURED_DEGREES)
    stretch = np.radians(apart[measured]) * np.cos(np.radians(lat[measured]))
    beyond = int(count[apart > MEASURED_DEGREES].sum())
    harm = []
    if measured.any():
        harm.append(f"distances there are up to {float((stretch**2).max()) / 2:.0%} too long")
    if beyond:
        harm.append(f"those of {beyond:,} beyond {MEASURED_DEGREES:.0f} degrees say nothing")
    return [
        f"{there:,} samples ({there / count.sum():.1%}) lie more than {_FAR_DEGREES:.0f} degrees of "
        f"longitude from the middle of UTM zone {utm_srid}, up to {apart.max():.0f}: "
        f"{', '.join(harm)}. Leave them out with [[where]], or give a projection that covers them with "
        "[[srid]]."
    ]


def _one_of_all(lengths: Ints) -> list[str]:
    if not len(lengths):
        return []
    share = int(lengths.max()) / int(lengths.sum())
    if share < _MUCH or share * len(lengths) < _TIMES_ITS_PART:
        return []
    return [
        f"one of {len(lengths):,} objects has {share:.0%} of all samples: check that [[object]] tells "
        "them apart (one key for all that are unknown makes one object of them)."
    ]


def _strange_times(times: SeenTimes, epoch_unit: str | None) -> list[str]:
    found = []
    read_as = "" if epoch_unit is None else f" (read as {epoch_unit} since 1970)"
    if times.future:
        found.append(
            f"{times.future:,} samples lie in the future{read_as}: check [[time]] and [[timezone]]."
        )
    if times.early:
        found.append(f"{times.early:,} samples are older than 1980{read_as}: check [[time]].")
    return found
