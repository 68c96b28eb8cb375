"""Areas and intervals, how they look in a release, and points of interest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from freqdp_db.model.arrays import Ids, Ints, Metres


@dataclass(frozen=True)
class Areas:
    """For generalised releases: where and when each sample may have been."""

    x_min: Metres
    y_min: Metres
    x_max: Metres
    y_max: Metres
    until: Ints
    """The interval of a sample is from its `at` to this, the end not in it."""


class Shown(Protocol):
    """The coordinates of a release."""

    def points(self, x: Metres, y: Metres) -> tuple[Metres, Metres]: ...

    def areas(self, areas: Areas) -> Areas: ...


# Points of interest.


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
