"""What `recommend` is asked for: the checked options, and the purposes that a release may serve.

A purpose rates a release by one number from 0 to 1. 0 is "nothing in common with the original", 1 is
"the same". They compare methods on one dataset and are no scores to quote. A divergence (JSD, at most
ln 2) becomes 1 - sqrt(JSD / ln 2): the root makes a distance of it, and keeps small losses visible.

- `density`: 1 - sqrt(JSD / ln 2) of samples by 500 m cell and hour of the day (metric `density`).
- `flows`: mean of F1 and of 1 - relative error (at most 1) of the 100 largest flows (`flow.f1`, `flow`).
- `trips`: mean of 1 - sqrt(JSD / ln 2) of trip lengths, durations, and moves between cells of 1 km
  (`length`, `duration`, `transitions`).
- of `counts`, density and flows are counted in the zones of its tables: visits of persons by zone and
  hour, trips between zones.
- `histories`: share of each object's visits that stays its own (1 - `inf.sym`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path

from freqdp_db.dataset.text_values import parse_share
from freqdp_db.errors import BadInput
from freqdp_db.evaluation.evaluate import check_seed
from freqdp_db.evaluation.figures import files_in
from freqdp_db.methods.contract import KINDS, Kind

_WORDS = ((0.9, "nearly as before"), (0.7, "well"), (0.5, "roughly"), (0.25, "poorly"))
"""From this number on; what is below the last is hardly kept."""


@dataclass(frozen=True)
class Purpose:
    """One use of a release, and how well it serves it."""

    name: str
    asks: str
    """What its analysts want to know."""
    counted: str
    """What the number counts, in a sentence."""
    score: Callable[[Mapping[str, float]], float]
    kinds: frozenset[Kind] = field(default_factory=lambda: frozenset(KINDS))
    """Releases of these kinds can serve it at all."""


def kept(divergence: float) -> float:
    """A divergence as a number from 0 (nothing in common) to 1 (the same)."""
    return 1.0 - math.sqrt(min(max(divergence / math.log(2.0), 0.0), 1.0))


def _flows(values: Mapping[str, float]) -> float:
    return (values["flow.f1"] + 1.0 - min(values["flow"], 1.0)) / 2


def _trips(values: Mapping[str, float]) -> float:
    return sum(kept(values[name]) for name in ("length", "duration", "transitions")) / 3


PURPOSES = {
    purpose.name: purpose
    for purpose in (
        Purpose(
            "density",
            "where and when there are many",
            "How alike the counts by place (cells of 500 m) and hour of the day are.",
            lambda values: kept(values["density"]),
        ),
        Purpose(
            "flows",
            "how many travel from where to where",
            "How many of the 100 largest flows between areas of 1 km are found again, and how right "
            "their sizes are.",
            _flows,
        ),
        Purpose(
            "trips",
            "how far, how long and which way trips go",
            "How alike lengths and durations of trips and moves between areas of 1 km are.",
            _trips,
            frozenset(KINDS) - {"counts"},
        ),
        Purpose(
            "histories",
            "what one object does over time",
            "How much of each object's visits stays its own, of all that is then under its name.",
            lambda values: 1.0 - values["inf.sym"],
            frozenset({"edited"}),
        ),
    )
}


def find_purpose(name: str) -> Purpose:
    if name not in PURPOSES:
        raise BadInput(
            f"[[purpose]] {name!r} is not known", remedy="use one of " + ", ".join(PURPOSES)
        )
    return PURPOSES[name]


def in_words(usefulness: float) -> str:
    """How well it is kept."""
    return next((words for least, words in _WORDS if usefulness >= least), "hardly")


PAGE = "recommendation.html"
_MOST_MINUTES = 1_440
LEAST_OBJECTS = 4


@dataclass(frozen=True)
class RecommendOptions:
    """A checked request."""

    risk: float
    purpose: Purpose
    objects: int | None
    """None: as many as fit into the time."""
    minutes: float
    seed: int
    roads: str | None
    """A public table of roads, for methods that keep to some."""
    out: Path | None
    overwrite: bool

    @classmethod
    def parse(
        cls,
        *,
        risk: str | float | Decimal,
        purpose: str,
        objects: int | None,
        minutes: str | float | Decimal,
        seed: int,
        roads: str | None,
        out: Path | str | None,
        force: bool,
    ) -> RecommendOptions:
        check_seed(seed)
        return cls(
            risk=parse_share("[[risk]]", str(risk)),
            purpose=find_purpose(purpose),
            objects=objects,
            minutes=parse_minutes(str(minutes)),
            seed=seed,
            roads=roads,
            out=None if out is None else Path(out),
            overwrite=force,
        )

    def require_possible(self, objects: int) -> None:
        """Refuse a number of objects that there is not."""
        if objects < LEAST_OBJECTS:
            raise BadInput(
                f"the dataset has {objects} objects: there is nobody to hold out",
                remedy=f"it takes at least {LEAST_OBJECTS}, and hundreds to mean something",
            )
        if self.objects is not None and not LEAST_OBJECTS <= self.objects <= objects:
            raise BadInput(
                f"[[objects]] {self.objects} is not possible: the dataset has {objects:,}",
                remedy=f"give a number from {LEAST_OBJECTS} to {objects}; half of them are held out",
            )

    def page(self, dataset: str) -> Path:
        """Where the page goes; refused if it is there."""
        folder = self.out or Path(f"recommend_{dataset}")
        (file,) = files_in(folder, [PAGE], overwrite=self.overwrite)
        return file.resolve()


def parse_minutes(text: str) -> float:
    try:
        value = Decimal(text.strip())
    except InvalidOperation:
        value = Decimal("nan")
    if not value.is_finite() or not 0 < value <= _MOST_MINUTES:
        raise BadInput(
            f"[[minutes]] {text} is not a number of minutes above 0, up to {_MOST_MINUTES:,}",
            remedy="for example [[minutes]] 10",
        )
    return float(value)
