"""Element types of columns, and ragged columns: groups of different lengths, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Ids: TypeAlias = NDArray[np.int32]
Metres: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]


# Ragged columns: groups of different lengths, one after the other, told apart by offsets.
#
# Group g has the rows offsets[g] to offsets[g + 1] - 1.


def offsets_of(groups: NDArray[Any], count: int) -> Ints:
    """Where each of `count` groups begins in a sorted column of group numbers."""
    if count < len(groups):
        return np.searchsorted(groups, np.arange(count + 1)).astype(np.int64)
    # most groups are empty: counting is faster than looking for each of them
    first, last = np.searchsorted(groups, (0, count))
    offsets = offsets_from(np.bincount(groups[first:last], minlength=count))
    offsets += first
    return offsets


def offsets_from(lengths: NDArray[Any]) -> Ints:
    """Running sum that begins with 0."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def owners(offsets: Ints) -> Ids:
    """The group of each row."""
    return np.repeat(np.arange(len(offsets) - 1, dtype=np.int32), np.diff(offsets))


def within(offsets: Ints) -> Ints:
    """The position of each row in its group, from 0."""
    return np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets))


def new_rows(*columns: NDArray[Any]) -> Flags:
    """Whether each row differs from the one before in some column; the first does."""
    new = np.ones(len(columns[0]), np.bool_)
    new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return new


def rows_of(offsets: Ints, groups: NDArray[Any]) -> tuple[Ints, Ints]:
    """The rows of some groups, in the order given, and the offsets that they have then."""
    taken = offsets_from(np.diff(offsets)[groups])
    return within(taken) + np.repeat(offsets[:-1][groups], np.diff(taken)), taken


# Groups of samples that met: where identities may have been dealt anew.


@dataclass(frozen=True)
class Groups:
    """Groups of at least two stops, in flat arrays."""

    offsets: Ints
    """Group g has the members offsets[g] to offsets[g + 1] - 1."""
    stop: Ints
    """The sample of each member: the last of its trajectory in the window."""
    doubled: Ids
    """How often the cell of each group was doubled."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def moved(self, position: Ints) -> Groups:
        """The groups where samples stand elsewhere now; -1: gone. Who is left alone is in none."""
        stop = position[self.stop]
        there = stop >= 0
        number = self.of_members()[there]
        size = np.bincount(number, minlength=len(self))
        company = size[number] > 1
        return Groups(offsets_from(size[size > 1]), stop[there][company], self.doubled[size > 1])

    def of_members(self) -> Ints:
        """The group of each member."""
        return owners(self.offsets).astype(np.int64)
