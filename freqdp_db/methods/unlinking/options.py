"""What `swap`, `cut` and `points` can be asked for."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from freqdp_db.errors import BadInput
from freqdp_db.methods.kinds import (
    US_PER_S,
    WIDEST_M,
    Choice,
    Duration,
    Flag,
    Meet,
    MeetingPlace,
    Name,
    Number,
    Whole,
)
from freqdp_db.methods.parameters import KnownOfBuild, parameter

if TYPE_CHECKING:
    from freqdp_db.methods.trips import TripRule
    from freqdp_db.methods.unlinking.swap import Meeting

_MINUTE_US = 60 * US_PER_S

BESIDE = (
    Name("city_1"),
    "Publish although these releases of the same source are out: true samples join them. Several with "
    "commas; DATASET_current: all of a dataset.",
)


def _clock_of(build: KnownOfBuild) -> int:
    from freqdp_db.methods.unlinking.clock import clock_for

    return clock_for(build.median_gap_us)


_CLOCK = (
    Duration("60s", zero=True),
    "Released times are on the nearest tick of one clock for all, one sample for each; 0s: as they are, so "
    "that devices are known by their seconds. Default: the median time between samples of the dataset, "
    "rounded up.",
)


def _grain_of(build: KnownOfBuild) -> Decimal | None:
    from freqdp_db.methods.unlinking.clock import grain_for

    return grain_for(build.snap)


_GRAIN = (
    Number(WIDEST_M, "20", unit="metres", decimals=2),
    "Released places are centres of cells with a side of so many metres. Default: 20 where the places of "
    "the build are exact, so that devices are not known by their digits.",
)


_CROWD = (
    Whole(2, 1_000_000, "10"),
    "Leave out every sample at a place where fewer objects of the build were: ever, or as --crowd-within "
    "says.",
)
_CROWD_WITHIN = (
    Choice(("ever", "hour", "day")),
    "When the objects of --crowd must have been there: ever, in the same hour of any day, or on the same "
    "day. Default: ever.",
)
_DATES = (
    Choice(("hour-of-week", "hour-of-day")),
    "Publish no date: released times are the weekday, hour and minute in one week for all, or the hour and "
    "minute of one day. Default: dates are kept.",
)


@dataclass(frozen=True)
class SwapOptions:
    meet: Meet = parameter(
        MeetingPlace(), "What a meeting is: one cell of so many metres, one window of time.",
        Meet(Decimal(500), 5 * _MINUTE_US),
    )  # fmt: skip
    widen: int = parameter(
        Whole(0, 8, "1"), "How often a cell may double its side for those who meet nobody.", 1
    )
    courses: int = parameter(
        Whole(0, 36, "6"),
        "Swap among those who come from one of so many directions; 0: among all.",
        6,
    )
    drop_unmixed: bool = parameter(Flag(), "Leave out objects that never meet anybody.", False)
    clock: int | None = parameter(*_CLOCK, of_build=_clock_of)
    grain: Decimal | None = parameter(*_GRAIN, of_build=_grain_of)
    beside: str | None = parameter(*BESIDE, public=False)

    @property
    def meeting(self) -> Meeting:
        from freqdp_db.methods.unlinking.swap import Meeting

        return Meeting(float(self.meet.metres), self.meet.us, self.widen, self.courses)


@dataclass(frozen=True)
class CrowdOptions:
    """Which samples are published at all, and with which dates: of every step that ends a method."""

    crowd: int | None = parameter(*_CROWD)
    crowd_within: str | None = parameter(*_CROWD_WITHIN)
    dates: str | None = parameter(*_DATES)

    def require_crowd(self, objects: int) -> None:
        """Refuse a crowd that no place can have, or a time without a crowd."""
        if self.crowd is None and self.crowd_within is not None:
            raise BadInput(
                f"[[crowd_within]] {self.crowd_within} has no crowd to count",
                remedy="say how many: [[crowd]] 10",
            )
        if self.crowd is not None and self.crowd > objects:
            raise BadInput(
                f"[[crowd]] {self.crowd:,} is more than the {objects:,} objects that there are",
                remedy=f"choose [[crowd]] of at most {objects:,}",
            )


@dataclass(frozen=True)
class CutOptions(CrowdOptions):
    trips: int = parameter(
        Duration("20min"), "A trip ends where somebody stays so long within 150 m.",
        20 * _MINUTE_US,
    )  # fmt: skip
    pieces: int = parameter(Duration("60min"), "The longest piece of a trip.", 60 * _MINUTE_US)
    quiet: int = parameter(
        Duration("5min", zero=True), "Left out between two pieces.", 5 * _MINUTE_US
    )
    silence: str | None = parameter(
        Choice(("together", "apart")),
        "together: one clock cuts the pieces of all objects, and nobody has samples in the quiet time "
        "between them. apart: each trip is cut from its own beginning. Default: together.",
        of_build=lambda build: "together",
    )
    ends: int = parameter(
        Whole(1, 1_000_000, "5"),
        "Pieces begin and end at places that at least so many objects visit in the source.",
        5,
    )
    roads: str | None = parameter(
        Name("public.roads"),
        "Public table of roads: nothing of a trip is published until it is 500 m in a straight line, 650 m "
        "by road and 8 junctions from where it begins, nor from there on before it ends. Default: ends are "
        "not trimmed by a map.",
    )
    samples: str | None = parameter(
        Choice(("all", "ends")),
        "Which samples of a piece are published: all, or its first and its last alone. Default: all.",
    )
    gap: int = parameter(
        Duration("30min"), "A trip ends where no sample comes for so long.", 30 * _MINUTE_US
    )
    clock: int | None = parameter(*_CLOCK, of_build=_clock_of)
    grain: Decimal | None = parameter(*_GRAIN, of_build=_grain_of)
    beside: str | None = parameter(*BESIDE, public=False)

    @property
    def rule(self) -> TripRule:
        from freqdp_db.methods.trips import TripRule

        return TripRule(self.trips, self.gap)

    @property
    def ends_in_source(self) -> bool:
        """Whether visits of ends are counted in the source. Releases without a clock are older: they
        counted what came into the step, with what a method before had put in."""
        return self.clock is not None

    @property
    def one_clock(self) -> bool:
        """Whether everybody is silent at the same times; releases that do not say so are older."""
        return self.silence == "together"


@dataclass(frozen=True)
class PointsOptions(CrowdOptions):
    share: Decimal | None = parameter(
        Number(Decimal(100), "20", unit="per cent", decimals=3),
        "Publish so many per cent of the samples, drawn at random. Default: all.",
    )
    dominance: Decimal | None = parameter(
        Number(Decimal(100), "33", unit="per cent", decimals=3),
        "Of the samples published of a place and hour of the day, at most so many per cent are one "
        "object's: further ones, drawn at random, are left out. Default: any number.",
    )
    clock: int | None = parameter(*_CLOCK, of_build=_clock_of)
    grain: Decimal | None = parameter(*_GRAIN, of_build=_grain_of)
    beside: str | None = parameter(*BESIDE, public=False)
