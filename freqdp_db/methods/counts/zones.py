"""Zones, roads and time bins: public and complete, and how samples are assigned to them.

A zone is a polygon in the build's metres. Zones have numbers: in arrays from 0; in the tables of a release
the zones come first, from 1, then the districts, then the city as a whole. So have roads.
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
"""The zone of a place that lies in none, and the bin of a time that lies in none."""
Shapes: TypeAlias = Sequence[bytes] | NDArray[np.void]


@dataclass(frozen=True, eq=False)
class Squares:
    """Squares of a grid whose lines lie at multiples of the width."""

    width: float
    column: int
    row: int
    """The first column and the first row."""
    zone: Ids
    """Of each square, by row and column; OUTSIDE: it is no zone."""

    def locate(self, x: Metres, y: Metres) -> Ids:
        rows, columns = self.zone.shape
        column = np.floor(x / self.width) - self.column
        row = np.floor(y / self.width) - self.row
        inside = (column >= 0) & (column < columns) & (row >= 0) & (row < rows)
        found = np.full(len(x), OUTSIDE, np.int32)
        at = row[inside].astype(np.int64), column[inside].astype(np.int64)
        found[inside] = self.zone[at]
        return found


_DISTANCES = (0.1, 1.2, 1.6, 2.3, 3.3, 4.5, 6.0, 8.0, 11.0)
"""Where classes of distance begin, in units of that between neighbours."""
DISTANCE_CLASSES = len(_DISTANCES) + 1


@dataclass(frozen=True, eq=False)
class Geography:
    """What counts are of: zones or roads, the districts that they belong to, and all of them together."""

    finest: ClassVar[str]
    """What the finest level is called."""
    whole: ClassVar[str]
    """What everything together is called."""

    name: tuple[str, ...]
    """Of each zone or road."""
    district: Ids
    """Of each, from 0."""
    district_name: tuple[str, ...]
    x: Metres
    y: Metres
    """The middle of each, in the build's metres."""

    def __len__(self) -> int:
        return len(self.name)

    @property
    def districts(self) -> int:
        return len(self.district_name)

    def district_centres(self) -> tuple[Metres, Metres]:
        """The mean of the middles of their zones."""
        inside = np.bincount(self.district, minlength=self.districts)
        x, y = (
            np.bincount(self.district, c, minlength=self.districts) / inside
            for c in (self.x, self.y)
        )
        return x, y

    def digest(self) -> bytes:
        """Tells these from others: by names, districts and where the middles are, to the metre."""
        told = hashlib.blake2b(digest_size=8)
        told.update("\0".join([*self.name, "", *self.district_name]).encode())
        for column in (self.district, np.rint(self.x), np.rint(self.y)):
            told.update(column.astype("<i8").tobytes())
        return told.digest()

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
        """Of each number in the tables, the one that it belongs to: a district, the city, or 0."""
        parent = np.full(self.city_id, self.city_id, np.int64)
        parent[: len(self)] = self.district_ids[self.district]
        parent[-1] = 0
        return parent

    def rows_with(self, blocks: Iterable[Shapes]) -> Iterator[Mapping[str, Any]]:
        """Those of the table `_zone` or `_road`. blocks: the shapes of all numbers, block by block."""
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
    """Gives those of zones, then of districts, then of the city, block by block: EWKB, multipolygons in the
    SRID of the source. Those of squares are made when asked for: only the table `_zone` needs them."""
    places: Squares | Polygons
    """How places are assigned."""

    def locate(self, x: Metres, y: Metres) -> Ids:
        """The zone of each place, in the build's metres, or OUTSIDE.

        A place on a border belongs to one of its sides, always to the same; where polygons overlap by a
        hair, to the zone with the lower number.
        """
        return self.places.locate(x, y)

    def distance_classes(self) -> Ints:
        """How far each two districts are apart, in the order of origin and destination.

        A class below `DISTANCE_CLASSES`, by the median distance between neighbours.
        """
        x, y = self.district_centres()
        away = np.hypot(x[:, None] - x, y[:, None] - y)
        nearest = np.sort(away, axis=1)[:, 1:2]
        unit = float(np.median(nearest)) if nearest.size else 1.0
        return np.searchsorted(_DISTANCES, away.ravel() / unit, side="right").astype(np.int64)

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """Those of the table `_zone`."""
        return self.rows_with(self.shapes())


@dataclass(frozen=True, eq=False)
class Roads(Geography):
    """The roads of a release: those of a public table whose middle lies in a zone, and its district."""

    finest = "road"
    whole = "all roads"

    network: Network
    number: Ids
    """Of each road of the network, its number here, from 0, or OUTSIDE."""

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

    def rows(self, shown: ReleaseCoordinates, srid: int) -> Iterator[Mapping[str, Any]]:
        """Those of the table `_road`. shown: leads to the SRID of the source.

        Roads are lines of one part; districts and the city are the lines of their roads.
        """
        road, x, y = self.network.corners()
        inside = self.number[road] != OUTSIDE
        x, y = shown.points(x[inside], y[inside])
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
    """CountTables once for the steps of a release: what is known of its neighbours is kept with it."""
    return Roads.of(network, zones)


def _multi_line(lines: Sequence[bytes], srid: int) -> bytes:
    """EWKB."""
    head = b"\x01" + np.array([0x20000005, srid, len(lines)], "<u4").tobytes()
    return head + b"".join(lines)


def blocks_of(x: Metres, y: Metres, width: float) -> tuple[Ids, tuple[str, ...]]:
    """Districts where none are given: squares of a grid, by the middles of the zones. Width in metres."""
    column, row = (np.floor(side / width).astype(np.int64) for side in (x, y))
    south, high = int(row.min()), int(np.ptp(row)) + 1
    known, which = np.unique(column * high + row - south, return_inverse=True)
    return which.astype(np.int32), square_names(known // high, known % high + south, width)


def square_names(column: Ints, row: Ints, width: float) -> tuple[str, ...]:
    """A square is called by its south-western corner, in metres east and north."""
    east, north = (
        {n: f"{n * width:.10g}{side}" for n in np.unique(numbers).tolist()}
        for numbers, side in ((column, "E"), (row, "N"))
    )
    return tuple(
        f"{east[c]} {north[r]}" for c, r in zip(column.tolist(), row.tolist(), strict=True)
    )


def block_width(x: Metres, y: Metres) -> float:
    """The width of squares of which about sqrt(zones) cover the middles of the zones."""
    wide = max(float(np.ptp(x)), 1.0), max(float(np.ptp(y)), 1.0)
    return float(np.sqrt(wide[0] * wide[1] / np.sqrt(len(x))))


# Time bins.


BinKind: TypeAlias = Literal["15min", "hour", "day", "hour-of-day", "hour-of-week", "parts-of-day"]
BIN_KINDS: tuple[BinKind, ...] = get_args(BinKind)
MOST_BINS = 40_000

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_PARTS = {"night": 0, "morning": 6, "midday": 10, "afternoon": 15, "evening": 19}
"""Each begins at this hour and ends where the next begins."""
_WIDTHS = {"15min": HOUR_US // 4, "hour": HOUR_US, "day": DAY_US}
_QUARTER_US = HOUR_US // 4
_MONDAY = 5
"""2000-01-01, from which days are counted, was so many days after a Monday."""
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Bins:
    """Time bins over a public period, by the clock of a time zone.

    Bins of the calendar (15min, hour, day) follow each other through the period, cut off where it begins
    and ends. The hour that a clock shows twice is two bins, the one that it skips is none; such a day has
    25 or 23 hours and is one bin. Bins of the clock (hour-of-day, hour-of-week, parts-of-day) hold the
    same hours of all days: the hour that is shown twice counts for the same bin.
    """

    kind: BinKind
    period: Period
    timezone: str

    def __len__(self) -> int:
        if self.kind in _WIDTHS:
            return len(self._edges) - 1
        return {"hour-of-day": 24, "hour-of-week": 168, "parts-of-day": len(_PARTS)}[self.kind]

    def of(self, at: Ints) -> Ids:
        """The bin of each time, or OUTSIDE the period."""
        inside = (at >= self.period.begin) & (at < self.period.end)
        if self.kind in _WIDTHS:
            found = np.searchsorted(self._edges, at, side="right") - 1
        else:
            found = self._of_clock(np.clip(at, self.period.begin, self.period.end - 1))
        return np.where(inside, found, OUTSIDE).astype(np.int32)

    def require_filled(self) -> None:
        """Refuse bins that no time of the period falls into, and periods of too many bins."""
        if self.kind in _WIDTHS:
            if (self.period.end - self.period.begin) // _WIDTHS[self.kind] > MOST_BINS:
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
            return (hour + 24 * _MONDAY) % 168
        if self.kind == "hour-of-day":
            return hour % 24
        return np.searchsorted(list(_PARTS.values()), hour % 24, side="right") - 1

    @property
    def _quarters(self) -> Ints:
        """The quarters of an hour that begin in the period: clocks change only there."""
        first = -(-self.period.begin // _QUARTER_US)
        last = -(-self.period.end // _QUARTER_US)
        return np.arange(first, last, dtype=np.int64) * _QUARTER_US

    @cached_property
    def _edges(self) -> Ints:
        """Where bins of the calendar begin, and where the last one ends."""
        quarters = self._quarters
        at = np.concatenate([[self.period.begin], quarters[quarters > self.period.begin]])
        local = local_times(at, self.timezone)
        new = np.diff(local // _WIDTHS[self.kind]) != 0
        if self.kind != "day":
            new |= np.diff(local - at) != 0
        return np.concatenate([at[:1], at[1:][new], [self.period.end]])

    @cached_property
    def _spans(self) -> list[tuple[str, str]]:
        """From when to when each bin is, as text by the local clock."""
        if self.kind in _WIDTHS:
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
        """What each bin is called."""
        spans = self._spans
        if self.kind == "parts-of-day":
            return [f"{part} {a}-{b}" for part, (a, b) in zip(_PARTS, spans, strict=True)]
        if self.kind == "day":
            return [begin[:10] for begin, _ in spans]
        if self.kind in _WIDTHS:
            return [f"{begin[:10]} {begin[11:16]}{begin[-6:]}" for begin, _ in spans]
        return [f"{begin}-{end[-5:]}" for begin, end in spans]

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """Those of the table `_bin`: first that of all bins together."""
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
