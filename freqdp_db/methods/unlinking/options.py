"""What `swap` and `cut` can be asked for."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from freqdp_db.methods.kinds import US_PER_S, Duration, Flag, Name, Whole
from freqdp_db.methods.parameters import parameter
from freqdp_db.methods.places_and_times import Meet, MeetingPlace

if TYPE_CHECKING:
    from freqdp_db.methods.unlinking.meetings import Meeting
    from freqdp_db.methods.unlinking.trips import StayRule

_MINUTE_US = 60 * US_PER_S

BESIDE = (
    Name("city_1"),
    "Publish although this release of the same source is out: its true samples join both.",
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
    beside: str | None = parameter(*BESIDE, public=False)

    @property
    def meeting(self) -> Meeting:
        from freqdp_db.methods.unlinking.meetings import Meeting

        return Meeting(float(self.meet.metres), self.meet.us, self.widen, self.courses)


@dataclass(frozen=True)
class CutOptions:
    trips: int = parameter(
        Duration("20min"), "A trip ends where somebody stays so long within 150 m.",
        20 * _MINUTE_US,
    )  # fmt: skip
    pieces: int = parameter(Duration("60min"), "The longest piece of a trip.", 60 * _MINUTE_US)
    quiet: int = parameter(
        Duration("5min", zero=True), "Left out between two pieces.", 5 * _MINUTE_US
    )
    ends: int = parameter(
        Whole(1, 1_000_000, "5"),
        "Pieces begin and end at places that at least so many objects visit.",
        5,
    )
    gap: int = parameter(
        Duration("30min"), "A trip ends where no sample comes for so long.", 30 * _MINUTE_US
    )
    beside: str | None = parameter(*BESIDE, public=False)

    @property
    def rule(self) -> StayRule:
        from freqdp_db.methods.unlinking.trips import StayRule

        return StayRule(self.trips, self.gap)
