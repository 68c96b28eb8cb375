"""The plan of a release: which vectors, over which grids, with which shares and clips.

The first round counts objects and how many trips each has; from these noisy numbers, the region and
the budget the plan of the second round follows by whole-number and plain rules. No data is seen here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from freqdp_db.columns.arrays import Ints
from freqdp_db.methods.synthesis.layout import (
    BEND_GROUPS,
    BENDS,
    DAYPARTS,
    DISTANCE_CLASSES,
    HEADINGS,
    METRE_CLASSES,
    REACHES,
    STEP_CLASSES,
    Grids,
)
from freqdp_db.methods.synthesis.public import Period, Region

SCALE = 2**16
"""Contributions are whole multiples of 1 / SCALE of a count."""
LARGEST_BOUND = 2**30
"""No clip is larger, so that no sum of squares leaves 64 bits; one that is too low costs little."""
SHARES = 1000
SIZE_CLASSES = 24
"""Classes of the number of trips of one object: from 2**(j/2) to below 2**((j+1)/2)."""
ZONES_ALONG = 6
ENOUGH_FOR_FLOWS = 600.0
"""From this strength on (objects times sqrt(2 rho)) the matrix of flows is measured directly."""
MOST_PER_ZONE = 5


@dataclass(frozen=True)
class Statistic:
    """One vector that is measured."""

    name: str
    size: int
    share: int
    """Of the budget, in thousandths; 0: not measured."""
    bound: int
    """No object's vector is longer than this (L2; L1 for pure), in units of 1 / SCALE."""


@dataclass(frozen=True)
class MeasurementPlan:
    grids: Grids
    period: Period
    statistics: list[Statistic]

    @property
    def sizes(self) -> list[int]:
        return [statistic.size for statistic in self.statistics]


FIRST_ROUND = (
    Statistic("objects", 1, 10, SCALE),
    Statistic("sizes", SIZE_CLASSES, 20, SCALE),
)

# Shares by what is measured: with few objects, with many, and for pure accounting.
_FEW = {
    "trips": 10, "origins": 90, "destinations": 90, "same_zone": 60, "distances": 40,
    "visits": 280, "moves": 90, "turns": 25, "steps": 55, "bends": 20, "metres": 60, "hours": 30,
    "days": 20, "pace": 20, "fine": 80, "flows": 0,
}  # fmt: skip
_MANY = {
    "trips": 10, "origins": 70, "destinations": 70, "same_zone": 40, "distances": 30,
    "visits": 220, "moves": 130, "turns": 20, "steps": 50, "bends": 20, "metres": 20, "hours": 30,
    "days": 20, "pace": 20, "fine": 130, "flows": 90,
}  # fmt: skip
_PURE = {
    "trips": 20, "origins": 85, "destinations": 85, "same_zone": 60, "distances": 45,
    "visits": 520, "moves": 0, "turns": 25, "steps": 45, "bends": 20, "metres": 35, "hours": 15,
    "days": 10, "pace": 5, "fine": 0, "flows": 0,
}  # fmt: skip
# Clips for each trip that an object of the lower quartile has. A clip that is too low costs hardly
# anything (signal and noise shrink together, objects only come to count alike); one that is too high
# is noise for nothing. So these are low.
_CLIP_L2 = {
    "trips": 0.0, "origins": 0.4, "destinations": 0.4, "same_zone": 0.2, "distances": 0.4,
    "visits": 0.8, "moves": 0.7, "turns": 2.0, "steps": 0.25, "bends": 0.25, "metres": 0.25, "hours": 0.25,
    "days": 0.3, "pace": 60.0, "fine": 1.0, "flows": 0.25,
}  # fmt: skip
_CLIP_L1 = {
    "trips": 0.0, "origins": 0.8, "destinations": 0.8, "same_zone": 0.25, "distances": 0.8,
    "visits": 4.0, "moves": 4.0, "turns": 4.0, "steps": 0.8, "bends": 0.8, "metres": 0.8, "hours": 0.8,
    "days": 0.8, "pace": 60.0, "fine": 5.0, "flows": 0.8,
}  # fmt: skip


def quantile_class(sizes: Ints, share: Fraction) -> int:
    """The class up to which this share of the objects lies, by the noisy histogram."""
    running, cumulated = 0, []
    for count in sizes:
        running += int(count)
        cumulated.append(running)
    total = max(max(cumulated), 0)
    for j, reached in enumerate(cumulated):
        if reached > 0 and reached >= share * total:
            return j
    return 0


def second_round(
    region: Region, period: Period, objects: int, sizes: Ints, whole: Fraction, *, pure: bool
) -> MeasurementPlan:
    """The plan that follows from the first round's noisy numbers (in whole objects)."""
    strength = max(objects, 1) * (float(whole) / 8 if pure else math.sqrt(2 * float(whole)))
    shares = _PURE if pure else _MANY if strength >= ENOUGH_FOR_FLOWS else _FEW
    grids = chosen_grids(region, strength)
    clips = _CLIP_L1 if pure else _CLIP_L2
    typical = 2.0 ** (quantile_class(sizes, Fraction(1, 4)) / 2)
    # the far classes are mostly noise, so that the median says more about the largest
    many = 2.0 ** (quantile_class(sizes, Fraction(1, 2)) / 2 + 1)
    lengths = {
        "trips": 1,
        "origins": grids.zones,
        "destinations": grids.zones,
        "same_zone": grids.zones,
        "distances": DISTANCE_CLASSES,
        "visits": grids.cells,
        "moves": grids.cells * HEADINGS,
        "turns": HEADINGS,
        "steps": REACHES * STEP_CLASSES,
        "bends": BEND_GROUPS * BENDS,
        "metres": METRE_CLASSES,
        "hours": 24,
        "days": period.days,
        "pace": 2 * DAYPARTS,
        "fine": grids.fine,
        "flows": grids.zones**2,
    }
    statistics = [
        Statistic(
            name, size, shares[name], _bound(many if name == "trips" else clips[name] * typical)
        )
        for name, size in lengths.items()
    ]
    return MeasurementPlan(grids, period, statistics)


def _bound(clip: float) -> int:
    return min(max(SCALE, math.floor(clip * SCALE)), LARGEST_BOUND)


def chosen_grids(region: Region, strength: float) -> Grids:
    """Cells so many that a typical one still stands out of the noise; about 1.5 for each unit."""
    zones_x, zones_y = sides(region, ZONES_ALONG)
    per_zone = math.floor(math.sqrt(1.5 * strength / (zones_x * zones_y)) + 0.5)
    per_zone = min(max(per_zone, 1), MOST_PER_ZONE)
    return Grids(region, zones_x, zones_y, per_zone, 3 if per_zone <= 3 else 2)


def sides(region: Region, along: int) -> tuple[int, int]:
    """Zones along both sides: `along` on the longer, about as wide on the shorter."""
    longest = max(region.width, region.height)
    return (
        max(1, math.floor(along * region.width / longest + 0.5)),
        max(1, math.floor(along * region.height / longest + 0.5)),
    )
