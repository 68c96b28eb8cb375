"""The edit log's bytes: what is encoded for COPY is what is decoded, and replays the same."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_worlds import (
    SmallWorld,
    as_lists,
    quick,
    thorough,
    world_with_pf_targets,
    world_with_tf_targets,
)

from freqdp_db.db.copy import RUN_HEADS, decode_runs, encode_runs
from freqdp_db.errors import BadData
from freqdp_db.methods.frequency.applying import apply_edits
from freqdp_db.methods.frequency.deletion import delete_globally, delete_locally
from freqdp_db.methods.frequency.insertion import PAPER_SPREAD_MM, insert_globally, insert_locally
from freqdp_db.model.trajectories import EditRuns, Edits, Operation, PfTargets, TfTargets

_FIELDS = 7
_RELEASE, _STEP = 2_000_000_000, 2


def _rows(data: bytes) -> list[list[bytes]]:
    """The fields of each row, as the server reads a binary COPY."""
    rows, at = [], 0
    while at < len(data):
        (count,) = struct.unpack_from(">h", data, at)
        assert count == _FIELDS
        at += 2
        fields = []
        for _ in range(count):
            (size,) = struct.unpack_from(">i", data, at)
            fields.append(data[at + 4 : at + 4 + size])
            assert len(fields[-1]) == size
            at += 4 + size
        rows.append(fields)
    return rows


def _array(field: bytes, kind: str, code: str) -> list[float]:
    """The items of an array, as the server reads it."""
    dimensions, nulls, oid, length, lower = struct.unpack_from(">5i", field)
    assert (dimensions, nulls, lower) == (1, 0, 1)
    assert oid == {"int4": 23, "float8": 701}[kind]
    item = struct.Struct(f">i{code}")
    sizes_and_values = list(item.iter_unpack(field[20:]))
    assert len(sizes_and_values) == length
    assert all(size == item.size - 4 for size, _ in sizes_and_values)
    return [value for _, value in sizes_and_values]


def _stored(runs: EditRuns) -> EditRuns:
    """Through the bytes that go in, row by row, to the columns that come out."""
    sent = b"".join(rows.tobytes() for rows in encode_runs(runs, _RELEASE, _STEP))
    heads, arrays = [], b""
    for release, step, operation, trajectory, location, seq, loss in _rows(sent):
        assert release == struct.pack(">i", _RELEASE)
        assert step == struct.pack(">h", _STEP)
        assert operation == runs.operation.encode()
        ids = struct.unpack(">i", trajectory) + struct.unpack(">i", location)
        seqs, losses = _array(seq, "int4", "i"), _array(loss, "float8", "d")
        assert len(seqs) == len(losses)
        heads.append((*ids, len(seqs)))
        arrays += _row(seq, loss)
    return _decoded(heads, arrays, runs.operation)


def _row(*fields: bytes) -> bytes:
    """A row of binary COPY."""
    framed = b"".join(struct.pack(">i", len(field)) + field for field in fields)
    return struct.pack(">h", len(fields)) + framed


def _decoded(heads: list[tuple[int, ...]], arrays: bytes, operation: Operation) -> EditRuns:
    names = RUN_HEADS.names
    found = np.array(heads, [(name, np.int32) for name in names])
    columns = {name: found[name] for name in names}
    return decode_runs(columns, np.frombuffer(arrays, np.uint8), operation)


def _assert_same(left: EditRuns, right: EditRuns) -> None:
    assert left.operation == right.operation
    for name in ("trajectory", "location", "offsets", "position", "loss_mm"):
        a, b = getattr(left, name), getattr(right, name)
        assert a.dtype == b.dtype and a.tolist() == b.tolist(), name


def _assert_replays(world: SmallWorld, edits: Edits) -> None:
    again = Edits(_stored(edits.deletions), _stored(edits.insertions))
    _assert_same(again.deletions, edits.deletions)
    _assert_same(again.insertions, edits.insertions)
    (whole,) = world.partitions
    left, right = (apply_edits(whole, log, world.clock, np.uint64(1)) for log in (edits, again))
    assert as_lists(left.trajectories) == as_lists(right.trajectories)


@quick
@given(world_with_tf_targets())
def test_global_log(given_: tuple[SmallWorld, TfTargets]) -> None:
    world, targets = given_
    deleted = delete_globally(world.partitions, targets, world.rank)
    (edited,) = insert_globally(deleted, targets, world.rank, world.clock, np.uint64(1))
    _assert_replays(world, edited.edits)


@quick
@given(world_with_pf_targets(), st.sampled_from([PAPER_SPREAD_MM, 0, 500_000]))
def test_local_log(given_: tuple[SmallWorld, PfTargets], spread_mm: int) -> None:
    world, targets = given_
    deleted = delete_locally(world.partitions, targets)
    (edited,) = insert_locally(deleted, targets, spread_mm, world.clock, np.uint64(1))
    _assert_replays(world, edited.edits)


@thorough
@given(st.lists(st.tuples(st.integers(-1, 2**31 - 2), st.integers(0, 2**44)), min_size=1))
def test_any_numbers(edits: list[tuple[int, int]]) -> None:
    """Losses up to any distance on Earth survive the way to metres and back."""
    runs = EditRuns(
        "i",
        np.array([2**31 - 1], np.int32),
        np.array([0], np.int32),
        np.array([0, len(edits)], np.int64),
        np.array([position for position, _ in edits], np.int32),
        np.array([loss for _, loss in edits], np.int64),
    )
    _assert_same(_stored(runs), runs)


def _items(code: str, oid: int, *values: float | None) -> bytes:
    """An array as the server sends it; None is NULL."""
    sent = struct.pack(">5i", 1, int(None in values), oid, len(values), 1)
    size = struct.calcsize(f">{code}")
    for value in values:
        sent += struct.pack(">i", -1) if value is None else struct.pack(f">i{code}", size, value)
    return sent


@pytest.mark.parametrize(
    ("seq", "loss"),
    [
        ((1, None), (0.5, 0.5)),
        ((1, 2), (0.5, None)),
        ((1, 2), (0.5,)),
        ((1, 2), (0.5, 0.5, 0.5)),
        ((1, 2, 3, None, None), (0.5, 0.5, None)),  # as many bytes as there should be
    ],
)
def test_arrays_that_do_not_match(
    seq: tuple[int | None, ...], loss: tuple[float | None, ...]
) -> None:
    row = _row(_items("i", 23, *seq), _items("d", 701, *loss))
    with pytest.raises(BadData):
        _decoded([(1, 1, len(seq))], row, "d")
