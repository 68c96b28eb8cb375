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

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_EARTH_KM = 6371.0
_NEAR_KM, _FAR_KM = 100.0, 250.0
_NEARER = 3.0
"""How many times nearer a swapped position has to be before it is believed."""
_LAST_TOWN_LATITUDE = 72.0
_FAR_DEGREES = 6.0
_MUCH, _TIMES_ITS_PART = 0.25, 5
"""An object with so large a share of all samples, and so many times its part, is one too many."""
_NO_REGION = (
    "This is read from the data: a [[region]] for a guarantee for persons must not be "
    "taken from it."
)
_LATITUDE_NAMES = {"lat", "latitude", "y"}
_LONGITUDE_NAMES = {"lon", "lng", "long", "longitude", "x"}
_ISO_6709 = re.compile(r"([+-])(\d{2})(\d{2})(\d{2})?([+-])(\d{3})(\d{2})(\d{2})?")


@dataclass(frozen=True)
class RoundedBox:
    """Degrees of longitude and latitude, rounded outwards to hundredths: no sample's own position."""

    west: float
    south: float
    east: float
    north: float

    @classmethod
    def around(cls, lon: Metres, lat: Metres) -> RoundedBox:
        least = (math.floor(round(100 * float(side.min()), 6)) / 100 for side in (lon, lat))
        most = (math.ceil(round(100 * float(side.max()), 6)) / 100 for side in (lon, lat))
        return cls(*least, *most)

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
        where = "Where: nothing can be told in degrees."
        if self.extent is not None:
            near = ""
            km = self.near_km or 0.0
            # a town far away tells nobody where the data lie
            if self.near is not None and km <= _FAR_KM:
                far = "near" if km <= _NEAR_KM else f"{km:,.0f} km from"
                near = f", {far} " + self.near.rpartition("/")[2].replace("_", " ")
            region = "" if self.region_declared else f" {_NO_REGION}"
            where = f"Where: {self.extent}{near}.{region}"
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
    extent = town = far_km = None
    warnings: list[str] = []
    if count.any():
        middle = _median(lon, count), _median(lat, count)
        extent = RoundedBox.around(lon, lat)
        town, far_km = _nearest_town(middle) or (None, None)
        warnings += _swapped(middle, timezone, columns)
        warnings += _outside(lon, lat, count, region)
        warnings += _far(lon, lat, count, utm_srid)
    warnings += [*_strange_times(times, epoch_unit), *_one_of_all(lengths)]
    first, last = (_EPOCH + timedelta(microseconds=us) for us in (times.first, times.last))
    remarks = [Remark(warning) for warning in warnings]
    return Findings(
        extent, town, far_km, first, last, epoch_unit, remarks, region_declared=region is not None
    )


def _median(values: Metres, count: Ints) -> float:
    """Each value counts as often as it is met."""
    order = np.argsort(values)
    met = np.cumsum(count[order])
    return float(values[order[np.searchsorted(met / met[-1], 0.5)]])


# Where time zones are: a coarse map of the inhabited world that most machines have already.


@cache
def _towns() -> tuple[list[str], Metres, Metres]:
    """The zones of the list `zone.tab`, with longitudes and latitudes of a town each; none: no list."""
    files = [Path(folder) / "zone.tab" for folder in zoneinfo.TZPATH]
    found = [path.read_text("utf-8") for path in files if path.is_file()]
    try:
        found.append(
            (importlib.resources.files("tzdata") / "zoneinfo" / "zone.tab").read_text("utf-8")
        )
    except (ModuleNotFoundError, FileNotFoundError):
        found.append("")
    rows = [line.split("\t") for line in found[0].splitlines() if line[:1] not in ("", "#")]
    places = np.array([_degrees(row[1]) for row in rows]).reshape(-1, 2)
    return [row[2] for row in rows], places[:, 0], places[:, 1]


def _degrees(text: str) -> tuple[float, float]:
    """ISO 6709: +5050+00420 is 4.33 east, 50.83 north."""
    match = _ISO_6709.fullmatch(text)
    assert match is not None, text
    values = []
    for sign, degrees, minutes, seconds in (match.groups()[4:], match.groups()[:4]):
        size = int(degrees) + int(minutes) / 60 + int(seconds or 0) / 3600
        values.append(-size if sign == "-" else size)
    return values[0], values[1]


def _nearest_town(
    place: tuple[float, float], timezone: str | None = None
) -> tuple[str, float] | None:
    """The zone whose town is nearest, and how far that is along a great circle, in km.

    timezone: this one, if there is a town for it.
    """
    names, *towns = _towns()
    if not names:
        return None
    lon, lat = (np.radians(side) for side in towns)
    own_lon, own_lat = map(math.radians, place)
    bent = np.sin((lat - own_lat) / 2) ** 2
    bent += math.cos(own_lat) * np.cos(lat) * np.sin((lon - own_lon) / 2) ** 2
    away = 2 * _EARTH_KM * np.arcsin(np.sqrt(np.minimum(bent, 1.0)))
    nearest = names.index(timezone) if timezone in names else int(np.argmin(away))
    return names[nearest], float(away[nearest])


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
    back = middle[1], middle[0]
    here, there = (_nearest_town(place, timezone) for place in (middle, back))
    if here is None or there is None or abs(back[1]) > _LAST_TOWN_LATITUDE:
        return []
    if here[1] <= _FAR_KM or here[1] <= _NEARER * there[1]:
        return []
    return [
        f"longitude and latitude look swapped: the middle of the data lies {here[1]:,.0f} km from "
        f"{here[0]}; the other way round it would lie {there[1]:,.0f} km from {there[0]}."
    ]


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
