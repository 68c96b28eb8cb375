"""Ragged columns: groups of different lengths, one after the other, told apart by offsets.

Group g has the rows offsets[g] to offsets[g + 1] - 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from freqdp_db.columns.arrays import Ids, Ints


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


def rows_of(offsets: Ints, groups: NDArray[Any]) -> tuple[Ints, Ints]:
    """The rows of some groups, in the order given, and the offsets that they have then."""
    taken = offsets_from(np.diff(offsets)[groups])
    return within(taken) + np.repeat(offsets[:-1][groups], np.diff(taken)), taken
