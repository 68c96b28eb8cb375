"""Releases that are held until somebody approves them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from freqdp_db.dataset.limits import in_percent
from freqdp_db.documents import Document
from freqdp_db.interface.connecting import Connection, reached, working
from freqdp_db.progress import Progress
from freqdp_db.release.summary import not_covered_beside, not_protected_lines
from freqdp_db.storage.records.datasets import get_dataset
from freqdp_db.storage.records.releases import find_release


@dataclass(frozen=True)
class Approved(Document):
    """A release that analysts may read from now on."""

    release: str
    approved_at: datetime | None
    approved_by: str | None
    max_exposure: float | None
    """The limit of its dataset; None: it has none."""
    exposure: float | None
    """What the best attacker learns of a person on average, as measured; None: never measured."""
    exposure_half: float | None
    """Share of persons of whom an attacker learns more than half."""
    not_covered: list[str]
    """What a guarantee for an object does not cover, beside other releases of the same objects."""

    def lines(self) -> list[str]:
        """In words."""
        return [*self._measured(), *not_protected_lines(self.not_covered)]

    def _measured(self) -> list[str]:
        said = f"Approved {self.release}: analysts may read it."
        if self.exposure is None:
            return [f"{said} What it exposes was never measured: freqdp evaluate {self.release}"]
        found = (
            f"Measured: an attacker learns {self.exposure:.1%} of a person's samples on average, and of "
            f"{self.exposure_half:.1%} of the persons more than half"
        )
        limit = (
            "" if self.max_exposure is None else f" (the limit is {in_percent(self.max_exposure)})"
        )
        return [said, f"{found}{limit}. A measurement, not a guarantee."]


def approve(connection: Connection, name: str, *, progress: Progress | None = None) -> Approved:
    """Grant a release that is held to analysts.

    If its dataset has a limit (`max_exposure`), the release is measured first, unless it was, and
    one that exposes more raises TooExposed and stays held.
    """
    # here: it takes a second to load
    from freqdp_db.evaluation.gate import approve_within_limit

    with reached(connection) as database:
        row = find_release(database, name)
        release, measured = approve_within_limit(database, row, working(progress))
        limit = get_dataset(database, release.dataset_id).max_exposure
        not_covered = not_covered_beside(database, release)
    return Approved(
        name,
        release.approved_at,
        release.approved_by,
        limit,
        None if measured is None else measured.learnt,
        None if measured is None else measured.half,
        not_covered,
    )
