"""What `recommend` was asked for, checked."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path

from freqdp_db.dataset.limits import parse_share
from freqdp_db.errors import BadInput
from freqdp_db.evaluation.evaluate import check_seed
from freqdp_db.evaluation.pages import files_in
from freqdp_db.evaluation.recommendation.purposes import Purpose, find_purpose
from freqdp_db.evaluation.recommendation.timing import LEAST_OBJECTS

PAGE = "recommendation.html"
_MOST_MINUTES = 1_440


@dataclass(frozen=True)
class Wishes:
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
    ) -> Wishes:
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
