"""Trajectories and edits that workers keep in ranges: what is known of them here."""

from __future__ import annotations

from typing import Any, NoReturn

from freqdp_db.columns.arrays import Ints
from freqdp_db.columns.edits import MM_PER_M, EditRuns, Edits
from freqdp_db.columns.trajectories import Trajectories
from freqdp_db.engines.held import Held


class Spread(Trajectories):
    """Here are the offsets; the samples are in the parts, and what reads columns of them fails."""

    parts: Held
    places: Any
    """The places of the samples, as an argument for functions of the parts."""

    def __init__(self, offsets: Ints, parts: Held, places: Any) -> None:
        for name, value in (("offsets", offsets), ("parts", parts), ("places", places)):
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{name}: the samples are with the workers")

    def __repr__(self) -> str:
        return f"<{len(self):,} trajectories in {len(self.parts.ranges)} ranges>"


class SpreadRuns(EditRuns):
    """How many edits there are, and what they lose."""

    def __init__(self, edits: int, loss_mm: int) -> None:
        object.__setattr__(self, "_totals", (edits, loss_mm))

    @property
    def edits(self) -> int:
        return int(self._totals[0])

    @property
    def loss_m(self) -> float:
        return float(self._totals[1]) / MM_PER_M

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{name}: the edits are with the workers")


class SpreadEdits(Edits):
    """The totals of edits that are in the parts, numbered as they are among all."""

    parts: Held

    def __init__(self, deletions: SpreadRuns, insertions: SpreadRuns, parts: Held) -> None:
        super().__init__(deletions, insertions)
        object.__setattr__(self, "parts", parts)
