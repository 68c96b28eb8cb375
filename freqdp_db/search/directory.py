"""The cells of a build's grid, as paging holds them: what is where, in which page, in which order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from freqdp_db.columns.arrays import Ids, Ints, Metres
from freqdp_db.search.grid import Frame, interleave

_PAGE_ROWS = 1 << 15


@dataclass(frozen=True)
class Directory:
    """The cells of a build's grid, in order of cell id."""

    frame: Frame
    cell: Ints
    count: Ints
    """Segments filed in the cell itself."""
    child_offsets: Ints
    box: Metres
    tree_box: Metres

    @classmethod
    def of(cls, frame: Frame, cell: Ints, count: Ids, box: Metres, tree_box: Metres) -> Directory:
        """From the columns of the grid's table."""
        children = np.searchsorted(cell, np.stack([cell << 2, (cell << 2) + 4], axis=1))
        return cls(frame, cell, count.astype(np.int64), children.astype(np.int64), box, tree_box)


@dataclass(frozen=True)
class CellRows:
    """Segments of some cells, in order of their cells."""

    cell: Ints
    trajectory: Ids
    tail: Ids
    head: Ids


Fetch = Callable[[Ints], CellRows]
"""fetch(cells): the segments that the build has filed in these cells."""


def first_cells(directory: Directory) -> Ints:
    """First cell of each page, and the end: runs of cells of one level with enough rows."""
    level = np.frexp(directory.cell.astype(np.float64))[1] // 2
    cuts = [0]
    rows = 0
    for i, count in enumerate(directory.count.tolist()):
        if i > cuts[-1] and (level[i] != level[i - 1] or rows + count > _PAGE_ROWS):
            cuts.append(i)
            rows = 0
        rows += count
    return np.array([*cuts, len(directory.cell)], np.int64)


def along_curve(frame: Frame, x: Metres, y: Metres) -> Ints:
    """Where on the Z-order curve of the finest cells each point lies."""
    steps = 1 << min(frame.levels, 20)
    u = np.clip((x - frame.x) / frame.side * steps, 0, steps - 1).astype(np.int64)
    v = np.clip((y - frame.y) / frame.side * steps, 0, steps - 1).astype(np.int64)
    return np.array([interleave(a, b) for a, b in zip(u, v, strict=True)], np.int64)
