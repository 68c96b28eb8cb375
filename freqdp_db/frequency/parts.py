"""A range of whole trajectories, kept where the work on it is done, and counted there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from freqdp_db.columns.arrays import Ids, Ints
from freqdp_db.columns.trajectories import Trajectories
from freqdp_db.frequency.counts import Frequencies, count_frequencies


@dataclass(frozen=True)
class Part:
    """The trajectories `first`, `first` + 1, ... of all; here they are numbered from 0."""

    first: int
    trajectories: Trajectories
    places: int
    """How many places there are."""

    @cached_property
    def frequencies(self) -> Frequencies:
        """PF; and TF among the trajectories of this part."""
        return count_frequencies(self.trajectories, self.places)


def tf_of(part: Part) -> Ids:
    """How many of these trajectories visit each place."""
    return part.frequencies.tf


def lengths_of(part: Part) -> Ints:
    return part.trajectories.lengths
