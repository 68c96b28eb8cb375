"""Columns in the binary format of COPY."""

from __future__ import annotations

import numpy as np
import pytest

from freqdp_db.db.copy import ArrayDumper, ArrayOf, array_from, encode_columns
from freqdp_db.errors import BadData


def test_encoding_of_columns() -> None:
    """All sorts of columns, and none: the bytes are whole rows."""
    kinds = [("a", "int4"), ("b", "text"), ("c", "float8"), ("d", "geometry(MultiPolygon)")]
    rows = {"a": [1, 2], "b": ["", "Zürich"], "c": [0.5, -1.0], "d": [b"\x01", b""]}
    expected = b"".join([
        b"\x00\x04", b"\x00\x00\x00\x04\x00\x00\x00\x01", b"\x00\x00\x00\x00",
        b"\x00\x00\x00\x08" + np.array(0.5, ">f8").tobytes(), b"\x00\x00\x00\x01\x01",
        b"\x00\x04", b"\x00\x00\x00\x04\x00\x00\x00\x02", b"\x00\x00\x00\x07" + "Zürich".encode(),
        b"\x00\x00\x00\x08" + np.array(-1.0, ">f8").tobytes(), b"\x00\x00\x00\x00",
    ])  # fmt: skip
    assert encode_columns(kinds, rows).tobytes() == expected
    assert len(encode_columns(kinds, {name: [] for name, _ in kinds})) == 0
    numbers = encode_columns(kinds[::2], {"a": np.arange(2), "c": np.arange(2.0)})
    assert len(numbers) == 2 * (2 + 8 + 12)


@pytest.mark.parametrize("values", [[], [0], [-(2**63), 7, 2**63 - 1]])
def test_arrays_as_parameters(values: list[int]) -> None:
    sent = bytes(ArrayDumper(ArrayOf).dump(ArrayOf("int8", np.array(values, np.int64))))
    assert array_from("int8", sent).tolist() == values
    assert len(sent) == 20 + 12 * len(values)


def test_arrays_that_are_not_as_declared() -> None:
    numbers = np.array([0.5, -1.0])
    sent = bytes(ArrayDumper(ArrayOf).dump(ArrayOf("float8", numbers)))
    assert array_from("float8", sent).tolist() == numbers.tolist()
    assert len(array_from("float8", bytes(12))) == 0, "what the server sends of an empty one"
    null = sent[:20] + b"\xff\xff\xff\xff" + sent[24:]
    with pytest.raises(BadData):
        array_from("float8", null)
