"""Rows of variable width for binary COPY: the edit log's arrays and the release's lines.

Compiled loops write and read the bytes; there are millions of edits.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from freqdp_db.columns.arrays import Ids, Ints, Metres
from freqdp_db.columns.edits import EditRuns, Operation
from freqdp_db.columns.ragged import offsets_from
from freqdp_db.errors import VerificationFailed

_INT4_OID, _FLOAT8_OID = 23, 701
_ARRAY_HEAD = 20  # dimensions, flags, element type, length, lower bound
_RUN_HEAD = 2 + (4 + 4) + (4 + 2) + (4 + 1) + (4 + 4) + (4 + 4)
_LINE_HEAD = 2 + (4 + 8) + (4 + 4) + 4 + 13


@njit(nogil=True, cache=True)
def _put(buffer, at, value, width):  # type: ignore[no-untyped-def]
    """Write an integer, big-endian."""
    for k in range(width):
        buffer[at + k] = (value >> (8 * (width - 1 - k))) & 0xFF
    return at + width


@njit(nogil=True, cache=True)
def _take(buffer, at, width):  # type: ignore[no-untyped-def]
    """Read a signed integer, big-endian."""
    value = np.int64(0)
    for k in range(width):
        value = (value << 8) | np.int64(buffer[at + k])
    sign = np.int64(1) << (8 * width - 1)
    return value - ((value & sign) << 1) if width < 8 else value


@njit(nogil=True, cache=True)
def _array_head(buffer, at, count, width, oid):  # type: ignore[no-untyped-def]
    at = _put(buffer, at, _ARRAY_HEAD + count * (4 + width), 4)
    at = _put(buffer, at, 1, 4)
    at = _put(buffer, at, 0, 4)
    at = _put(buffer, at, oid, 4)
    at = _put(buffer, at, count, 4)
    return _put(buffer, at, 1, 4)


@njit(nogil=True, cache=True)
def _encode_runs(  # type: ignore[no-untyped-def]
    buffer, starts, release, step, letter, trajectory, location, offsets, position, loss_bits
):
    for r in range(len(trajectory)):
        at = _put(buffer, starts[r], 7, 2)
        at = _put(buffer, _put(buffer, at, 4, 4), release, 4)
        at = _put(buffer, _put(buffer, at, 2, 4), step, 2)
        at = _put(buffer, _put(buffer, at, 1, 4), letter, 1)
        at = _put(buffer, _put(buffer, at, 4, 4), trajectory[r], 4)
        at = _put(buffer, _put(buffer, at, 4, 4), location[r], 4)
        first, last = offsets[r], offsets[r + 1]
        at = _array_head(buffer, at, last - first, 4, _INT4_OID)
        for e in range(first, last):
            at = _put(buffer, _put(buffer, at, 4, 4), position[e] + 1, 4)
        at = _array_head(buffer, at, last - first, 8, _FLOAT8_OID)
        for e in range(first, last):
            at = _put(buffer, _put(buffer, at, 8, 4), loss_bits[e], 8)


def encode_runs(runs: EditRuns, release_id: int, step: int) -> memoryview:
    """Rows of `edit_run`: positions become seq (from 1), millimetres become metres."""
    counts = np.diff(runs.offsets)
    starts = offsets_from(_RUN_HEAD + 2 * (4 + _ARRAY_HEAD) + counts * (8 + 12))
    buffer = np.empty(starts[-1], np.uint8)
    _encode_runs(
        buffer,
        starts,
        release_id,
        step,
        ord(runs.operation),
        runs.trajectory,
        runs.location,
        runs.offsets,
        runs.position,
        (runs.loss_mm / 1000.0).view(np.int64),
    )
    return buffer.data


@njit(nogil=True, cache=True)
def _count_runs(buffer):  # type: ignore[no-untyped-def]
    """Runs and edits; -1 runs if arrays are empty, of unequal length, or hold a NULL."""
    at, runs, edits = 0, 0, 0
    while at < len(buffer):
        at += 2 + (4 + 4) + (4 + 4)
        count = _take(buffer, at + 4 + 12, 4)
        if count < 1 or _take(buffer, at, 4) != _ARRAY_HEAD + count * 8:
            return -1, 0
        at += 4 + _ARRAY_HEAD + count * 8
        if _take(buffer, at, 4) != _ARRAY_HEAD + count * 12:
            return -1, 0
        at += 4 + _ARRAY_HEAD + count * 12
        runs += 1
        edits += count
    return runs, edits


@njit(nogil=True, cache=True)
def _decode_runs(buffer, trajectory, location, offsets, position, loss_bits):  # type: ignore[no-untyped-def]
    at, e = 0, 0
    for r in range(len(trajectory)):
        trajectory[r] = _take(buffer, at + 6, 4)
        location[r] = _take(buffer, at + 14, 4)
        at += 18
        count = _take(buffer, at + 16, 4)
        at += 24
        for k in range(count):
            position[e + k] = _take(buffer, at + 4, 4) - 1
            at += 8
        at += 24
        for k in range(count):
            loss_bits[e + k] = _take(buffer, at + 4, 8)
            at += 12
        e += count
        offsets[r + 1] = e


def decode_runs(chunks: list[NDArray[np.uint8]], operation: Operation) -> EditRuns:
    """Runs from a COPY of (trajectory_id, location_id, seq, loss_m), in order of these ids."""
    buffer = np.concatenate(chunks) if chunks else np.zeros(0, np.uint8)
    runs, edits = _count_runs(buffer)
    if runs < 0:
        raise VerificationFailed("the edit log holds runs that no edit can have written")
    trajectory, location = np.empty(runs, np.int32), np.empty(runs, np.int32)
    offsets = np.zeros(runs + 1, np.int64)
    position, loss_bits = np.empty(edits, np.int32), np.empty(edits, np.int64)
    _decode_runs(buffer, trajectory, location, offsets, position, loss_bits)
    loss = np.rint(loss_bits.view(np.float64) * 1000.0).astype(np.int64)
    return EditRuns(operation, trajectory, location, offsets, position, loss)


@njit(nogil=True, cache=True)
def _put_little(buffer, at, bits, width):  # type: ignore[no-untyped-def]
    for k in range(width):
        buffer[at + k] = (bits >> (8 * k)) & 0xFF
    return at + width


@njit(nogil=True, cache=True)
def _encode_lines(buffer, starts, ids, days, srid, first, count, location, x_bits, y_bits, m_bits):  # type: ignore[no-untyped-def]
    for r in range(len(ids)):
        at = _put(buffer, starts[r], 3, 2)
        at = _put(buffer, _put(buffer, at, 8, 4), ids[r], 8)
        at = _put(buffer, _put(buffer, at, 4, 4), days[r], 4)
        at = _put(buffer, at, 13 + 24 * count[r], 4)
        at = _put_little(buffer, at, 1, 1)
        at = _put_little(buffer, at, 0x60000002, 4)
        at = _put_little(buffer, at, srid, 4)
        at = _put_little(buffer, at, count[r], 4)
        for i in range(first[r], first[r] + count[r]):
            at = _put_little(buffer, at, x_bits[location[i]], 8)
            at = _put_little(buffer, at, y_bits[location[i]], 8)
            at = _put_little(buffer, at, m_bits[i], 8)


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
) -> memoryview:
    """Rows (trajectory_id, day, LineStringM): M is the time in epoch seconds."""
    starts = offsets_from(_LINE_HEAD + 24 * count)
    buffer = np.empty(starts[-1], np.uint8)
    _encode_lines(
        buffer,
        starts,
        ids,
        days,
        srid,
        first,
        count,
        location,
        x.view(np.int64),
        y.view(np.int64),
        seconds.view(np.int64),
    )
    return buffer.data
