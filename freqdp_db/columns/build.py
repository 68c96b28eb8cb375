"""A build in memory."""

from __future__ import annotations

from dataclasses import dataclass

from freqdp_db.columns.trajectories import Clock, Locations, Trajectories


@dataclass(frozen=True)
class Build:
    """One consistent copy of a dataset, as arrays: what was written, or what was read back."""

    trajectories: Trajectories
    locations: Locations
    clock: Clock
    srid: int
    """Of the metres in which the locations lie."""
    source_srid: int
    """Of the coordinates that a release shows."""
    timezone: str = "UTC"
    systems: tuple[str, str] | None = None
    """Definitions of both reference systems, for methods that make places of their own."""
