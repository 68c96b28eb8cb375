"""Public zones, roads and time bins, and how samples are assigned to them.

A zone is a polygon in the build's metres. Arrays number zones from 0. The tables of a release number the
zones from 1, then the districts, and last the city; roads likewise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, get_args
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from freqdp_db.errors import BadInput
from freqdp_db.model.arrays import Ids, Ints, Metres, offsets_of
from freqdp_db.model.days import DAY_US, HOUR_US, local_times

if TYPE_CHECKING:
    from freqdp_db.methods.counts.polygons import Polygons
    from freqdp_db.methods.synthesis.public import Period
    from freqdp_db.model.trajectories import ReleaseCoordinates
    from freqdp_db.roads.network import Network

OUTSIDE = -1
"""Number of the zone, road or bin of what lies in none."""
Shapes: TypeAlias = Sequence[bytes] | NDArray[np.void]


@dataclass(frozen=True, eq=False)
class Squares:
    """Square zones: cells of a grid whose lines are at multiples of the width."""

    width: float
    """Metres."""
    column: int
    row: int
    """Number of the first column and row of `zone`, in widths from 0."""
    zone: Ids
    """Zone of each square, by row and column; OUTSIDE: none."""

    def locate(self, x: Metres, y: Metres) -> Ids:
        """The zone of each place, or OUTSIDE."""
        rows, columns = self.zone.shape
        column = np.floor(x / self.width) - self.column
        row = np.floor(y / self.width) - self.row
        inside = (column >= 0) & (column < columns) & (row >= 0) & (row < rows)
        found = np.full(len(x), OUTSIDE, np.int32)
        at = row[inside].astype(np.int64), column[inside].astype(np.int64)
        found[inside] = self.zone[at]
        return found


_DISTANCES = (0.1, 1.2, 1.6, 2.3, 3.3, 4.5, 6.0, 8.0, 11.0)
"""Lower edges of the classes of distance from the second on, in median distances between neighbours."""
DISTANCE_CLASSES = len(_DISTANCES) + 1


@dataclass(frozen=True, eq=False)
class Geography:
    """Zones or roads with their districts: the levels of area that counts are published for."""

    finest: ClassVar[str]
    """Name of the finest level, in the column `level`."""
    whole: ClassVar[str]
    """Name of the city as a whole."""

    name: tuple[str, ...]
    """Name of each zone or road."""
    district: Ids
    """District of each zone or road, from 0."""
    district_name: tuple[str, ...]
    x: Metres
    y: Metres
    """Centre of each zone or road, in the build's metres."""

    def __len__(self) -> int:
        return len(self.name)

    @property
    def districts(self) -> int:
        return len(self.district_name)

    def district_centres(self) -> tuple[Metres, Metres]:
        """Centre of each district: the mean of the centres of its zones or roads."""
        inside = np.bincount(self.district, minlength=self.districts)
        x, y = (
            np.bincount(self.district, c, minlength=self.districts) / inside
            for c in (self.x, self.y)
        )
        return x, y

    def digest(self) -> bytes:
        """Hash of the names, districts and centres, to the metre."""
        whole = hashlib.blake2b(digest_size=8)
        whole.update("\0".join([*self.name, "", *self.district_name]).encode())
        for column in (self.district, np.rint(self.x), np.rint(self.y)):
            whole.update(column.astype("<i8").tobytes())
        return whole.digest()

    # Numbers in the tables.

    @property
    def ids(self) -> Ints:
        return np.arange(1, len(self) + 1, dtype=np.int64)

    @property
    def district_ids(self) -> Ints:
        return np.arange(len(self) + 1, self.city_id, dtype=np.int64)

    @property
    def city_id(self) -> int:
        return len(self) + self.districts + 1

    @property
    def parents(self) -> Ints:
        """For each number of the tables, that of its district or of the city; 0 for the city."""
        parent = np.full(self.city_id, self.city_id, np.int64)
        parent[: len(self)] = self.district_ids[self.district]
        parent[-1] = 0
        return parent

    def rows_with(self, blocks: Iterable[Shapes]) -> Iterator[Mapping[str, Any]]:
        """Rows of the table `_zone` or `_road`. blocks: the shapes of all numbers, in blocks."""
        columns: dict[str, Any] = {
            self.finest: np.arange(1, self.city_id + 1),
            "name": [*self.name, *self.district_name, self.whole],
            "level": [self.finest] * len(self) + ["district"] * self.districts + ["city"],
            "parent": self.parents,
        }
        begin = 0
        for shapes in blocks:
            end = begin + len(shapes)
            yield {name: column[begin:end] for name, column in columns.items()} | {"geom": shapes}
            begin = end
        assert begin == self.city_id


@dataclass(frozen=True, eq=False)
class Zones(Geography):
    """The zones of a release."""

    finest = "zone"
    whole = "all zones"

    shapes: Callable[[], Iterable[Shapes]]
    """Returns the shapes of zones, districts and the city in this order, in blocks: multipolygons as EWKB
    in the SRID of the source. A function, because only the table `_zone` needs the shapes of squares."""
    places: Squares | Polygons
    """Assigns places to zones."""

    def locate(self, x: Metres, y: Metres) -> Ids:
        """The zone of each place, in the build's metres, or OUTSIDE.

        A place on a border always belongs to the same one of both zones. Where polygons overlap slightly,
        it belongs to the zone with the lower number.
        """
        return self.places.locate(x, y)

    def distance_classes(self) -> Ints:
        """Class of distance of each pair of districts, in the order of origin, then destination.

        Distances are measured in the median distance between neighbouring districts.
        """
        x, y = self.district_centres()
        away = np.hypot(x[:, None] - x, y[:, None] - y)
        nearest = np.sort(away, axis=1)[:, 1:2]
        unit = float(np.median(nearest)) if nearest.size else 1.0
        return np.searchsorted(_DISTANCES, away.ravel() / unit, side="right").astype(np.int64)

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """Rows of the table `_zone`."""
        return self.rows_with(self.shapes())


@dataclass(frozen=True, eq=False)
class Roads(Geography):
    """The roads of a release: those of a public table whose middle lies in a zone, in the district of
    that zone."""

    finest = "road"
    whole = "all roads"

    network: Network
    number: Ids
    """For each road of the network its number in this release, from 0, or OUTSIDE."""

    @classmethod
    def of(cls, network: Network, zones: Zones) -> Roads:
        x, y = network.middles()
        zone = zones.locate(x, y)
        kept = np.flatnonzero(zone != OUTSIDE)
        known, district = np.unique(zones.district[zone[kept]], return_inverse=True)
        number = np.full(len(network), OUTSIDE, np.int32)
        number[kept] = np.arange(len(kept))
        return cls(
            tuple(map(str, network.road_id[kept].tolist())),
            district.astype(np.int32),
            tuple(zones.district_name[d] for d in known),
            x[kept],
            y[kept],
            network,
            number,
        )

    def rows(self, coordinates: ReleaseCoordinates, srid: int) -> Iterator[Mapping[str, Any]]:
        """Rows of the table `_road`, in the coordinates of the release, whose SRID is given.

        A road is one line; the shape of a district or of the city is the lines of its roads.
        """
        road, x, y = self.network.corners()
        inside = self.number[road] != OUTSIDE
        x, y = coordinates.points(x[inside], y[inside])
        corners = np.column_stack([x, y]).astype("<f8")
        begins = offsets_of(self.number[road[inside]], len(self)).tolist()
        line = b"\x01" + np.array([2], "<u4").tobytes()
        lines = [
            line + np.array([end - begin], "<u4").tobytes() + corners[begin:end].tobytes()
            for begin, end in pairwise(begins)
        ]
        by_district: list[list[bytes]] = [[] for _ in self.district_name]
        for one, district in zip(lines, self.district.tolist(), strict=True):
            by_district[district].append(one)
        yield from self.rows_with(
            [_multi_line(parts, srid) for parts in level]
            for level in ([[one] for one in lines], by_district, [lines])
        )


@lru_cache(maxsize=1)
def roads_in(network: Network, zones: Zones) -> Roads:
    """`Roads.of`, cached: all steps of a release get the same object."""
    return Roads.of(network, zones)


def _multi_line(lines: Sequence[bytes], srid: int) -> bytes:
    """A multi line string as EWKB, from its lines as WKB."""
    head = b"\x01" + np.array([0x20000005, srid, len(lines)], "<u4").tobytes()
    return head + b"".join(lines)


def blocks_of(x: Metres, y: Metres, width: float) -> tuple[Ids, tuple[str, ...]]:
    """District of each zone if none are given: the square of a grid that its centre lies in, and their
    names.

    width: side of a square, in metres.
    """
    column, row = (np.floor(side / width).astype(np.int64) for side in (x, y))
    south, high = int(row.min()), int(np.ptp(row)) + 1
    known, which = np.unique(column * high + row - south, return_inverse=True)
    return which.astype(np.int32), square_names(known // high, known % high + south, width)


def square_names(column: Ints, row: Ints, width: float) -> tuple[str, ...]:
    """Names of squares: the south-western corner, in metres east and north."""
    east, north = (
        {n: f"{n * width:.10g}{side}" for n in np.unique(numbers).tolist()}
        for numbers, side in ((column, "E"), (row, "N"))
    )
    return tuple(
        f"{east[c]} {north[r]}" for c, r in zip(column.tolist(), row.tolist(), strict=True)
    )


def block_width(x: Metres, y: Metres) -> float:
    """Width with which about sqrt(zones) squares cover the centres of all zones, in metres."""
    wide = max(float(np.ptp(x)), 1.0), max(float(np.ptp(y)), 1.0)
    return float(np.sqrt(wide[0] * wide[1] / np.sqrt(len(x))))


# Time bins.


BinKind: TypeAlias = Literal["15min", "hour", "day", "hour-of-day", "hour-of-week", "parts-of-day"]
BIN_KINDS: tuple[BinKind, ...] = get_args(BinKind)
MOST_BINS = 40_000

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_PARTS = {"night": 0, "morning": 6, "midday": 10, "afternoon": 15, "evening": 19}
"""Hour at which each part begins; it ends where the next one begins."""
_CALENDAR_WIDTHS_US = {"15min": HOUR_US // 4, "hour": HOUR_US, "day": DAY_US}
_QUARTER_US = HOUR_US // 4
_DAYS_AFTER_MONDAY = 5
"""2000-01-01, day 0, was a Saturday."""
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Bins:
    """Time bins over a public period, by the clock of a time zone.

    Calendar bins (15min, hour, day) follow each other through the period; the first and the last are cut
    off where it begins and ends. When clocks are put back, the repeated hour is two bins; when they are
    put forward, the skipped hour is none. The day on which this happens is one bin of 25 or 23 hours.
    Clock bins (hour-of-day, hour-of-week, parts-of-day) contain the same hours of all days; a repeated
    hour falls into the same bin twice.
    """

    kind: BinKind
    period: Period
    timezone: str

    def __len__(self) -> int:
        if self.kind in _CALENDAR_WIDTHS_US:
            return len(self._edges) - 1
        return {"hour-of-day": 24, "hour-of-week": 168, "parts-of-day": len(_PARTS)}[self.kind]

    def of(self, at: Ints) -> Ids:
        """The bin of each time; OUTSIDE if it is not in the period."""
        inside = (at >= self.period.begin) & (at < self.period.end)
        if self.kind in _CALENDAR_WIDTHS_US:
            found = np.searchsorted(self._edges, at, side="right") - 1
        else:
            found = self._of_clock(np.clip(at, self.period.begin, self.period.end - 1))
        return np.where(inside, found, OUTSIDE).astype(np.int32)

    def require_filled(self) -> None:
        """Refuse bins that are always empty, and periods with too many bins; raises BadInput."""
        if self.kind in _CALENDAR_WIDTHS_US:
            if (self.period.end - self.period.begin) // _CALENDAR_WIDTHS_US[self.kind] > MOST_BINS:
                raise BadInput(
                    f"[[bins]] {self.kind}: the period has more than {MOST_BINS:,} of them",
                    remedy="choose wider bins, or a shorter [[period]]",
                )
            return
        begins = np.append(self._quarters, self.period.begin)
        filled = np.unique(self._of_clock(begins))
        empty = sorted(set(range(len(self))) - set(filled.tolist()))
        if empty:
            raise BadInput(
                f"[[bins]] {self.kind}: no time of the period falls into {len(empty)} of {len(self)} bins "
                f"({self.names[empty[0]]}" + (", ...)" if len(empty) > 1 else ")"),
                remedy="choose other bins, such as [[bins]] hour, or a longer [[period]]",
            )

    def _of_clock(self, at: Ints) -> NDArray[np.int64]:
        hour = local_times(at, self.timezone) // HOUR_US
        if self.kind == "hour-of-week":
            return (hour + 24 * _DAYS_AFTER_MONDAY) % 168
        if self.kind == "hour-of-day":
            return hour % 24
        return np.searchsorted(list(_PARTS.values()), hour % 24, side="right") - 1

    @property
    def _quarters(self) -> Ints:
        """All quarters of an hour that begin in the period. Clocks change only at these moments."""
        first = -(-self.period.begin // _QUARTER_US)
        last = -(-self.period.end // _QUARTER_US)
        return np.arange(first, last, dtype=np.int64) * _QUARTER_US

    @cached_property
    def _edges(self) -> Ints:
        """Begins of calendar bins, and the end of the last one."""
        quarters = self._quarters
        at = np.concatenate([[self.period.begin], quarters[quarters > self.period.begin]])
        local = local_times(at, self.timezone)
        new = np.diff(local // _CALENDAR_WIDTHS_US[self.kind]) != 0
        if self.kind != "day":
            new |= np.diff(local - at) != 0
        return np.concatenate([at[:1], at[1:][new], [self.period.end]])

    @cached_property
    def _spans(self) -> list[tuple[str, str]]:
        """Begin and end of each bin as text, in local time."""
        if self.kind in _CALENDAR_WIDTHS_US:
            zone = ZoneInfo(self.timezone)
            moments = [
                (_EPOCH + timedelta(microseconds=int(at))).astimezone(zone).isoformat()
                for at in self._edges
            ]
            return list(pairwise(moments))
        if self.kind == "parts-of-day":
            hours = [*_PARTS.values(), 24]
            return [(_clock(a), _clock(b)) for a, b in pairwise(hours)]
        day = [(_clock(hour), _clock(hour + 1)) for hour in range(24)]
        if self.kind == "hour-of-day":
            return day
        return [(f"{name} {a}", f"{name} {b}") for name in _DAYS for a, b in day]

    @cached_property
    def names(self) -> list[str]:
        """Name of each bin."""
        spans = self._spans
        if self.kind == "parts-of-day":
            return [f"{part} {a}-{b}" for part, (a, b) in zip(_PARTS, spans, strict=True)]
        if self.kind == "day":
            return [begin[:10] for begin, _ in spans]
        if self.kind in _CALENDAR_WIDTHS_US:
            return [f"{begin[:10]} {begin[11:16]}{begin[-6:]}" for begin, _ in spans]
        return [f"{begin}-{end[-5:]}" for begin, end in spans]

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """Rows of the table `_bin`; the first one stands for all bins together."""
        zone = ZoneInfo(self.timezone)
        whole = [
            (_EPOCH + timedelta(microseconds=at)).astimezone(zone).isoformat()
            for at in (self.period.begin, self.period.end)
        ]
        yield {
            "bin": np.arange(len(self) + 1),
            "name": ["all", *self.names],
            "begins": [whole[0], *(begin for begin, _ in self._spans)],
            "ends": [whole[1], *(end for _, end in self._spans)],
        }


def _clock(hour: int) -> str:
    return f"{hour:02d}:00"
