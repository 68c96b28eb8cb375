"""Points of interest."""

from __future__ import annotations

from dataclasses import dataclass

from freqdp_db.columns.arrays import Ids, Metres


@dataclass(frozen=True)
class Points:
    """Points with a category each, in metres."""

    x: Metres
    y: Metres
    category: Ids
    """Numbers that count through `names`."""
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.x)
