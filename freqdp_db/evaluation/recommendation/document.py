"""What a recommendation says: as data, and in words."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from freqdp_db.documents import Document
from freqdp_db.evaluation.recommendation.choosing import Candidate, percent, share

FOR_THE_CURATOR = (
    "The choice itself reads the data, and the page shows what was measured of them: it is for the "
    "curator. Nothing was published or spent."
)


@dataclass(frozen=True)
class LeftOut:
    """What was not tried, and why."""

    label: str
    reason: str


@dataclass(frozen=True)
class Recommendation(Document):
    """What to use for a dataset, why, and what else was tried."""

    dataset: str
    purpose: str
    risk: float
    """The limit."""
    objects: int
    """So many made the trial releases; as many others were held out."""
    objects_in_all: int
    seed: int
    minutes: float
    seconds: float
    recommended: str | None
    """The label of a candidate; None: nothing meets the risk."""
    nearest: str | None
    """If nothing does: what comes nearest."""
    why: str
    command: str | None
    """Asks for what is recommended, or for what comes nearest."""
    guarantee: str
    """What can be had with a guarantee for one object, which no measurement replaces."""
    candidates: list[Candidate]
    left_out: list[LeftOut]
    notes: list[str]
    file: Path

    @property
    def picked(self) -> Candidate | None:
        """What is recommended, or comes nearest."""
        name = self.recommended or self.nearest
        return next((c for c in self.candidates if c.label == name), None)

    @property
    def caution(self) -> str:
        """What has to be said beside what is recommended."""
        return "" if self.picked is None else self.picked.caution

    def ordered(self) -> list[Candidate]:
        """The picked one first, then what meets the risk, then the rest; the most useful first."""
        picked = self.recommended or self.nearest
        return sorted(
            self.candidates,
            key=lambda c: (
                c.label != picked,
                not c.meets,
                c.usefulness is None,
                -(c.usefulness or 0.0),
                c.risk,
            ),
        )

    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """The table."""
        return [
            (
                ("* " if c.label in (self.recommended, self.nearest) else "  ") + c.label,
                f"{percent(c.risk)}, at most {percent(c.risk_high)} ({c.risk_words})",
                percent(c.half_high),
                f"{share(c.usefulness)} ({c.use_words})",
                "yes" if c.meets else "no",
            )
            for c in self.ordered()
        ]

    def lines(self) -> list[str]:
        """The answer, below the table."""
        head = self.why
        if self.recommended:
            beside = f", with caution: {self.caution}" if self.caution else ""
            head = f"Recommended for {self.dataset}: {self.recommended}{beside}. {self.why}"
        lines = [head]
        if self.command:
            lines.append(f"  {self.command}")
        lines += [self.guarantee, *self.notes]
        lines += [f"Not tried: {left.label}: {left.reason}" for left in self.left_out]
        return [*lines, FOR_THE_CURATOR, f"The page: {self.file}"]
