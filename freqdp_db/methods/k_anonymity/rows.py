"""What is grouped: whole trajectories, or pieces of trips of the same time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from freqdp_db.engines.ranges import map_ranges
from freqdp_db.methods.contract import WorkingSet
from freqdp_db.methods.k_anonymity.boxes import Boxes, first_boxes
from freqdp_db.methods.k_anonymity.glove import GloveOptions
from freqdp_db.methods.k_anonymity.greedy import Merges, Shaping, group_rows
from freqdp_db.methods.trips import samples_of
from freqdp_db.model.arrays import Ids, Ints, offsets_from, rows_of
from freqdp_db.model.trajectories import Trajectories
from freqdp_db.progress import ProgressCallback, as_shares

_ROOM = 3
"""Two groups of fewer than k merge, and fewer than k may join them: never more than so many k."""


@dataclass(frozen=True)
class SampleRuns:
    """Runs of samples that are made alike, none of them empty."""

    first: Ints
    last: Ints
    """Samples of the step's input; the last one is part of it."""
    object: Ids
    block: Ints
    """Only rows of one block are compared; they ascend."""
    boxes: Boxes


def whole_rows(state: WorkingSet) -> tuple[Ints, Ints]:
    """Every trajectory that is not empty."""
    offsets = state.trajectories.offsets
    there = state.trajectories.lengths > 0
    return offsets[:-1][there], offsets[1:][there] - 1


def cut_rows(state: WorkingSet, options: GloveOptions) -> tuple[Ints, Ints]:
    """Pieces of trips, ordered by the window of time in which their middle lies."""
    from freqdp_db.methods.unlinking.cut import find_pieces

    assert options.cutting is not None
    pieces = find_pieces(state, options.cutting)
    at = state.trajectories.at
    order = np.argsort(_window(at, pieces.first, pieces.last, options), kind="stable")
    return pieces.first[order], pieces.last[order]


def _window(at: Ints, first: Ints, last: Ints, options: GloveOptions) -> Ints:
    if options.pieces is None:
        return np.zeros(len(first), np.int64)
    middle: Ints = (at[first] + at[last]) // 2
    return middle // options.pieces


def make_rows(state: WorkingSet, first: Ints, last: Ints, options: GloveOptions) -> SampleRuns:
    side = state.trajectories
    offsets, samples = samples_of(first, last)
    runs = Trajectories(offsets, side.location[samples], side.at[samples], side.at[first])
    return SampleRuns(
        first,
        last,
        state.owners()[first],
        _window(side.at, first, last, options),
        first_boxes(runs, state.places, _ROOM * options.k),
    )


def group_all(
    rows: SampleRuns, options: GloveOptions, shaping: Shaping | None, told: ProgressCallback
) -> Merges:
    """The merges of all blocks, numbered through."""
    blocks = offsets_from(np.unique(rows.block, return_counts=True)[1])
    join = options.leftovers == "join"
    if len(blocks) <= 2:
        return group_rows(rows.boxes, rows.object, options.k, shaping, told, join=join)
    parts = map_ranges(
        group_blocks, blocks, blocks, rows, options.k, shaping, join,
        advance=as_shares(told, len(blocks) - 1),
    )  # fmt: skip
    merges = [m for part in parts for m in part]
    base = len(rows.first)
    first: list[Ints] = []
    second: list[Ints] = []
    for begin, end, found in zip(blocks[:-1], blocks[1:], merges, strict=True):
        for column, whole in ((found.first, first), (found.second, second)):
            made = column >= end - begin
            whole.append(np.where(made, column - (end - begin) + base, column + begin))
        base += len(found)
    return Merges(np.concatenate(first), np.concatenate(second))


def group_blocks(
    first: int,
    last: int,
    blocks: Ints,
    rows: SampleRuns,
    k: int,
    shaping: Shaping | None,
    join: bool,
) -> list[Merges]:
    """The merges of each block of a range."""
    found = []
    for block in range(first, last):
        begin, end = int(blocks[block]), int(blocks[block + 1])
        taken, offsets = rows_of(rows.boxes.offsets, np.arange(begin, end))
        boxes = Boxes(offsets, rows.boxes.bounds[:, taken], rows.boxes.origin)
        objects = rows.object[begin:end]
        found.append(group_rows(boxes, objects, k, shaping, join=join, alone=True))
    return found
