"""What `glove`, `klt` and `w4m` can be asked for."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from freqdp_db.errors import BadInput
from freqdp_db.methods.kinds import (
    US_PER_S,
    Choice,
    Duration,
    Meet,
    MeetingPlace,
    Name,
    Number,
    Whole,
)
from freqdp_db.methods.parameters import parameter
from freqdp_db.methods.unlinking.options import CutOptions

_MINUTE_US = 60 * US_PER_S
LARGEST_K = 100


@dataclass(frozen=True)
class GloveOptions:
    k: int = parameter(Whole(2, LARGEST_K, "5"), "So many objects are made alike at least.", 5)
    widest: Meet | None = parameter(
        MeetingPlace("6km/2h"),
        "Leave out, for the whole group, what would be wider or longer than this: 6km/2h.",
    )
    pieces: int | None = parameter(
        Duration("30min"),
        "First cut trips into pieces of at most so long, and make pieces of the same time alike.",
    )
    leftovers: str = parameter(
        Choice(("join", "suppress")),
        "Whoever finds fewer than k others joins the nearest group, or is left out.",
        "join",
    )

    @property
    def cutting(self) -> CutOptions | None:
        """How trips are cut first: as `cut` does, but at any place, since nobody is alone there."""
        if self.pieces is None:
            return None
        return CutOptions(
            trips=20 * _MINUTE_US,
            pieces=self.pieces,
            quiet=5 * _MINUTE_US,
            ends=1,
            silence="apart",
            samples=None,
            gap=30 * _MINUTE_US,
            crowd=None,
            crowd_within=None,
            dates=None,
            clock=None,
            grain=None,
            beside=None,
        )


@dataclass(frozen=True)
class KltOptions(GloveOptions):
    poi: str | None = parameter(
        Name("public.poi"), "Table or view of points of interest: schema.name."
    )
    category: str = parameter(
        Name("category"), "Its column that says what each of them is.", "category"
    )
    l: int = parameter(  # noqa: E741
        Whole(1, 1000, "3"), "Every area holds points of so many categories at least.", 3
    )
    t: Decimal = parameter(
        Number(Decimal(100), "0.1"),
        "How far the categories of an area may be from those of all points (KL divergence).",
        Decimal("0.1"),
    )


@dataclass(frozen=True)
class W4mOptions:
    k: int = parameter(Whole(2, LARGEST_K, "5"), "So many objects are made alike at least.", 5)
    delta: Decimal = parameter(
        Number(Decimal(100_000), "1000", unit="metres"),
        "Objects of a cluster are never further apart than so many metres.",
        Decimal(1000),
    )
    trash: Decimal = parameter(
        Number(Decimal(100), "10", unit="per cent", decimals=3),
        "So many per cent of the objects may be left out because they are like nobody.",
        Decimal(10),
    )
    distance: str = parameter(
        Choice(("lstd", "edr")),
        "How alike two objects are: lstd compares them at equal shares of their time, edr counts "
        "the samples that have no like in the other.",
        "lstd",
    )


def require_enough(k: int, objects: int) -> None:
    """Refuse to make more objects alike than there are."""
    if k > objects:
        raise BadInput(
            f"[[k]] {k} is more than the {objects:,} objects that there are",
            remedy=f"choose [[k]] of at most {objects:,}, or a dataset of more objects",
        )
