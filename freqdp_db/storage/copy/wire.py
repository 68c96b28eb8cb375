"""Rows of variable width for binary COPY: the edit log's arrays and the release's lines.

Our own, because psycopg and the Arrow drivers make such rows from one Python object a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freqdp_db.columns.arrays import Ids, Ints, Metres
from freqdp_db.columns.edits import MM_PER_M, EditRuns, Operation
from freqdp_db.columns.ragged import offsets_from, within
from freqdp_db.storage.copy.layout import WIRE, Layout

RUN_EDITS = Layout(
    [("trajectory_id", "int4"), ("location_id", "int4"), ("seq", "int4"), ("loss_m", "float8")]
)
"""Runs with a row for each edit, as they are read."""

_RUN = Layout(
    [
        ("release_id", "int4"),
        ("step", "int2"),
        ("operation", "char"),
        ("trajectory_id", "int4"),
        ("location_id", "int4"),
    ]
)
_RUNS = 1 << 16
"""Runs that are encoded at a time."""
_ARRAY = np.dtype(
    [("size", ">i4"), ("dimensions", ">i4"), ("nulls", ">i4"), ("type", ">i4"), ("length", ">i4"),
     ("lower", ">i4")]
)  # fmt: skip
_OIDS = {"int4": 23, "float8": 701}
_LINE = np.dtype(
    [("size", ">i4"), ("order", "u1"), ("type", "<u4"), ("srid", "<u4"), ("points", "<u4")]
)
_VERTEX = np.dtype([("x", "<f8"), ("y", "<f8"), ("m", "<f8")])

Piece = tuple[NDArray[Any], Ints]
"""Records of all rows, one row after the other, and how many of them each row has."""


def join_pieces(*pieces: Piece) -> NDArray[np.uint8]:
    """The bytes of rows that consist of these pieces: row 0 of each piece, then row 1, ..."""
    sizes = np.column_stack([counts * records.itemsize for records, counts in pieces])
    numbers = np.tile(np.arange(len(pieces), dtype=np.uint8), len(sizes))
    number = np.repeat(numbers, sizes.reshape(-1))
    joined = np.empty(len(number), np.uint8)
    for k, (records, _) in enumerate(pieces):
        joined[number == k] = records.view(np.uint8)
    return joined


def encode_runs(runs: EditRuns, release_id: int, step: int) -> Iterator[NDArray[np.uint8]]:
    """Rows of `edit_run`: positions become seq (from 1), millimetres become metres."""
    for begin in range(0, len(runs), _RUNS):
        part = slice(begin, begin + _RUNS)
        offsets = runs.offsets[begin : begin + _RUNS + 1]
        edits = slice(offsets[0], offsets[-1])
        heads = _RUN.pack(
            release_id=release_id,
            step=step,
            operation=runs.operation,
            trajectory_id=runs.trajectory[part],
            location_id=runs.location[part],
        )
        heads["_count"] += 2  # the arrays
        counts = np.diff(offsets)
        yield join_pieces(
            (heads, np.ones_like(counts)),
            *_arrays("int4", counts, runs.position[edits] + 1),
            *_arrays("float8", counts, runs.loss_mm[edits] / MM_PER_M),
        )


def _arrays(kind: str, counts: Ints, values: NDArray[Any]) -> tuple[Piece, Piece]:
    """A column of arrays without NULLs: what stands before each, and the items of all."""
    items = np.empty(len(values), [("size", ">i4"), ("value", WIRE[kind])])
    items["size"], items["value"] = items.dtype["value"].itemsize, values
    heads = np.empty(len(counts), _ARRAY)
    heads["size"] = _ARRAY.itemsize - 4 + counts * items.itemsize
    heads["dimensions"], heads["nulls"], heads["type"] = 1, 0, _OIDS[kind]
    heads["length"], heads["lower"] = counts, 1
    return (heads, np.ones_like(counts)), (items, counts)


def decode_runs(edits: dict[str, NDArray[Any]], operation: Operation) -> EditRuns:
    """Runs from rows of `RUN_EDITS`, in the order of their ids."""
    trajectory, location = edits["trajectory_id"], edits["location_id"]
    begins = np.ones(len(trajectory), np.bool_)
    begins[1:] = (np.diff(trajectory) != 0) | (np.diff(location) != 0)
    first = np.flatnonzero(begins)
    return EditRuns(
        operation,
        trajectory[first],
        location[first],
        np.append(first, len(trajectory)),
        edits["seq"] - 1,
        np.rint(edits["loss_m"] * MM_PER_M).astype(np.int64),
    )


def encode_lines(
    ids: Ints,
    days: Ints,
    first: Ints,
    count: Ints,
    location: Ids,
    x: Metres,
    y: Metres,
    seconds: NDArray[np.float64],
    srid: int,
) -> NDArray[np.uint8]:
    """Rows (trajectory_id, day, LineStringM): M is the time in epoch seconds."""
    rows = Layout([("id", "int8"), ("day", "int4")]).pack(id=ids, day=days)
    rows["_count"] += 1  # the line
    lines = np.empty(len(ids), _LINE)
    lines["size"] = _LINE.itemsize - 4 + count * _VERTEX.itemsize
    lines["order"], lines["type"], lines["srid"], lines["points"] = 1, 0x60000002, srid, count
    offsets = offsets_from(count)
    sample = within(offsets) + np.repeat(first, count)
    vertices = np.empty(len(sample), _VERTEX)
    place = location[sample]
    vertices["x"], vertices["y"], vertices["m"] = x[place], y[place], seconds[sample]
    one = np.ones_like(count)
    return join_pieces((rows, one), (lines, one), (vertices, count))
