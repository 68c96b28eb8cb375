"""R-trees of a SQLite file, written whole instead of row by row.

An insertion into SQLite's R-tree looks for its place and moves its neighbours, which costs more than
all the rest of a file. Here boxes are sorted into strips (Leutenegger's STR), cut into full nodes, and
the nodes are written into the three tables behind the virtual one, as GDAL does. Their form is part of
SQLite's file format (https://www.sqlite.org/rtree.html, "Shadow Tables").
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Sequence
from string import Template
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Insert: TypeAlias = Callable[..., None]
Boxes = NDArray[np.float32]
"""Rows of x_min, x_max, y_min, y_max."""

_CREATE = Template("CREATE VIRTUAL TABLE $tree USING rtree(id, minx, maxx, miny, maxy)")
_NODE_SIZE = Template("SELECT length(data) FROM ${tree}_node")
_SET_ROOT = Template("UPDATE ${tree}_node SET data = ? WHERE nodeno = ?")
_INSERT = Template("INSERT INTO $table VALUES $rows")
_CELL = np.dtype([("id", ">i8"), ("box", ">f4", 4)])
_NODE_HEAD = 4  # the tree's depth (in the root only) and the number of cells
_ROOT = 1
_BLOCK = 1 << 20
"""Boxes that are sorted together: what bounds the memory."""
_ROWS_AT_ONCE = 100  # SQLite before 3.32 takes 999 values in a statement


def insert_rows(file: sqlite3.Connection, table: str, columns: Sequence[Any]) -> None:
    """Insert columns of equal length, many rows a statement: twice as fast as one by one."""
    rows = np.empty((len(columns[0]), len(columns)), object)
    for number, column in enumerate(columns):
        # of an array, plain values: SQLite takes no bytes of NumPy's
        rows[:, number] = column.tolist() if isinstance(column, np.ndarray) else column
    marks = "(" + ", ".join("?" * len(columns)) + ")"
    whole = len(rows) - len(rows) % _ROWS_AT_ONCE
    for part, at_once in ((rows[:whole], _ROWS_AT_ONCE), (rows[whole:], 1)):
        values = part.reshape(-1, at_once * len(columns)).tolist()
        statement = _INSERT.substitute(table=table, rows=", ".join([marks] * at_once))
        file.executemany(statement, values)


def set_root(file: sqlite3.Connection, name: str, root: bytes) -> None:
    file.execute(_SET_ROOT.substitute(tree=name), (root, _ROOT))


def outward(least: NDArray[np.float64], most: NDArray[np.float64]) -> tuple[Boxes, Boxes]:
    """The sides of boxes in 32 bits, rounded so that no box gets smaller."""
    low, high = least.astype(np.float32), most.astype(np.float32)
    low = np.where(low > least, np.nextafter(low, np.float32(-np.inf)), low)
    return low, np.where(high < most, np.nextafter(high, np.float32(np.inf)), high)


def create_rtree(file: sqlite3.Connection, name: str) -> int:
    """Make an empty one; the size of its nodes, in bytes."""
    file.execute(_CREATE.substitute(tree=name))
    (size,) = file.execute(_NODE_SIZE.substitute(tree=name)).fetchone()
    return int(size)


def insert_into(file: sqlite3.Connection, name: str) -> Insert:
    """Takes rows of the tables behind a tree, and inserts them."""
    return lambda table, *columns: insert_rows(file, f"{name}_{table}", columns)


class RTree:
    """The R-tree of a layer. The boxes are those of rows 1, 2, 3, ...

    insert: takes rows of the tables behind the tree (`node`, `rowid`, `parent`), in the order of their
    ids. The root, node 1, comes in the end: `finish` returns it, for `set_root`.
    """

    def __init__(self, size: int, insert: Insert) -> None:
        self._insert = insert
        self._cells = (size - _NODE_HEAD) // _CELL.itemsize
        self._node = np.dtype(
            {
                "names": ["depth", "count", "cells"],
                "formats": [">u2", ">u2", (_CELL, self._cells)],
                "offsets": [0, 2, _NODE_HEAD],
                "itemsize": size,
            }
        )
        self._waiting: list[Boxes] = []
        self._rows = 0
        self._nodes = _ROOT
        self._leaves: list[Boxes] = []

    def add(
        self,
        x: tuple[NDArray[np.float64], NDArray[np.float64]],
        y: tuple[NDArray[np.float64], NDArray[np.float64]],
    ) -> None:
        """Add boxes, given by the least and the greatest x and y."""
        self._waiting.append(np.column_stack([*outward(*x), *outward(*y)]))
        if sum(map(len, self._waiting)) >= _BLOCK:
            self._write_leaves()

    def finish(self) -> bytes:
        """Write what is left, and the levels above the leaves; returns the root."""
        if not self._leaves and sum(map(len, self._waiting)) <= self._cells:
            boxes = np.concatenate([np.empty((0, 4), np.float32), *self._waiting])
            ids = np.arange(1, len(boxes) + 1)
            self._insert("rowid", ids, np.full(len(ids), _ROOT))
            return self._root(ids, boxes, depth=0)
        self._write_leaves()
        boxes = np.concatenate(self._leaves)
        numbers = np.arange(_ROOT + 1, _ROOT + 1 + len(boxes))
        depth = 1
        while len(numbers) > self._cells:
            parents, boxes, of_child = self._write_nodes(numbers, boxes)
            self._insert("parent", numbers, of_child)
            numbers, depth = parents, depth + 1
        self._insert("parent", numbers, np.full(len(numbers), _ROOT))
        return self._root(numbers, boxes, depth)

    def _write_leaves(self) -> None:
        if not self._waiting:
            return
        boxes = np.concatenate(self._waiting)
        ids = np.arange(self._rows + 1, self._rows + 1 + len(boxes))
        _, of_leaves, of_row = self._write_nodes(ids, boxes)
        self._insert("rowid", ids, of_row)
        self._leaves.append(of_leaves)
        self._rows += len(boxes)
        self._waiting = []

    def _write_nodes(
        self, ids: NDArray[np.int64], boxes: Boxes
    ) -> tuple[NDArray[np.int64], Boxes, NDArray[np.int64]]:
        """Full nodes over these cells: their numbers and boxes, and the node of every cell."""
        order = _in_strips(boxes, self._cells)
        starts = np.arange(0, len(ids), self._cells)
        numbers = np.arange(self._nodes + 1, self._nodes + 1 + len(starts))
        self._nodes += len(starts)
        nodes = np.zeros(len(starts), self._node)
        nodes["count"] = np.diff(starts, append=len(ids))
        cells = np.zeros(len(starts) * self._cells, _CELL)
        cells["id"][: len(ids)], cells["box"][: len(ids)] = ids[order], boxes[order]
        nodes["cells"] = cells.reshape(len(starts), self._cells)
        self._insert("node", numbers, nodes.view(f"V{self._node.itemsize}"))
        of_cell = np.empty(len(ids), np.int64)
        of_cell[order] = np.repeat(numbers, nodes["count"])
        sides = [
            side.reduceat(boxes[order, number], starts)
            for number, side in enumerate((np.minimum, np.maximum, np.minimum, np.maximum))
        ]
        return numbers, np.column_stack(sides), of_cell

    def _root(self, ids: NDArray[np.int64], boxes: Boxes, depth: int) -> bytes:
        root = np.zeros(1, self._node)
        root["depth"], root["count"] = depth, len(ids)
        root["cells"]["id"][0, : len(ids)] = ids
        root["cells"]["box"][0, : len(ids)] = boxes
        return root.tobytes()


def _in_strips(boxes: Boxes, cells: int) -> NDArray[np.int64]:
    """An order in which neighbours stand together: strips by x, and by y within a strip."""
    leaves = math.ceil(len(boxes) / cells)
    a_strip = math.ceil(leaves / math.ceil(math.sqrt(leaves))) * cells
    strip = np.empty(len(boxes), np.int64)
    strip[np.argsort(boxes[:, 0] + boxes[:, 1], kind="stable")] = np.arange(len(boxes)) // a_strip
    return np.lexsort((boxes[:, 2] + boxes[:, 3], strip))
