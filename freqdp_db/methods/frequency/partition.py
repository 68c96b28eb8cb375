"""Partitions of trajectories: the unit of work of the frequency methods."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter

import numpy as np

from freqdp_db.engines.partitions import LocalPartitions, Partitions
from freqdp_db.methods.frequency.counts import Frequencies, count_frequencies
from freqdp_db.model.arrays import Ids, Ints, offsets_from
from freqdp_db.model.trajectories import Codes, Locations, Trajectories


@dataclass(frozen=True)
class Partition:
    """A range of trajectories, from number `first` on. Within the partition they are numbered from 0."""

    first: int
    trajectories: Trajectories
    places: Locations

    @cached_property
    def frequencies(self) -> Frequencies:
        """PF; and TF among the trajectories of this partition."""
        return count_frequencies(self.trajectories, len(self.places))


class DistributedTrajectories(Trajectories):
    """Trajectories whose columns are kept by workers, and transferred when they are first used.

    Steps that only use `partitions` never transfer them.
    """

    partitions: Partitions[Partition]

    def __init__(self, offsets: Ints, partitions: Partitions[Partition]) -> None:
        object.__setattr__(self, "offsets", offsets)
        object.__setattr__(self, "partitions", partitions)

    @cached_property
    def location(self) -> Ids:
        return np.concatenate(list(self.partitions.map(attrgetter("trajectories.location"))))

    @cached_property
    def at(self) -> Ints:
        return np.concatenate(list(self.partitions.map(attrgetter("trajectories.at"))))

    @cached_property
    def start(self) -> Ints:
        return np.concatenate(list(self.partitions.map(attrgetter("trajectories.start"))))

    @cached_property
    def kept(self) -> Codes | None:
        parts = [
            codes
            for codes in self.partitions.map(attrgetter("trajectories.kept"))
            if codes is not None
        ]
        return np.concatenate(parts) if parts else None

    def __repr__(self) -> str:
        return f"<{len(self):,} trajectories in {len(self.partitions.ranges)} partitions>"


def partitions_of(trajectories: Trajectories, places: Locations) -> Partitions[Partition]:
    """The partitions of trajectories: those at the workers, or a single one in this process."""
    if isinstance(trajectories, DistributedTrajectories):
        return trajectories.partitions
    whole = Partition(0, trajectories, places)
    return LocalPartitions([(0, len(trajectories))], [whole])


def trajectories_in(partitions: Partitions[Partition]) -> Trajectories:
    """The trajectories of partitions. Their columns stay where they are."""
    if partitions.remote:
        lengths = np.concatenate(list(partitions.map(attrgetter("trajectories.lengths"))))
        return DistributedTrajectories(offsets_from(lengths), partitions)
    (whole,) = partitions
    return whole.trajectories
