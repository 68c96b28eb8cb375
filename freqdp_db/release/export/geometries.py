"""Geometries of a release as files have them: WKB, one column of Arrow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from freqdp_db.columns.arrays import Metres
from freqdp_db.storage.published.reading import ReadAreas

_WKB_POINT = np.dtype([("order", "u1"), ("type", "<u4"), ("x", "<f8"), ("y", "<f8")])
_WKB_BOX = np.dtype(
    [("order", "u1"), ("type", "<u4"), ("rings", "<u4"), ("points", "<u4"),
     ("corners", "<f8", (5, 2))]
)  # fmt: skip


def points(x: Metres, y: Metres) -> Any:
    found = np.empty(len(x), _WKB_POINT)
    found["order"], found["type"], found["x"], found["y"] = 1, 1, x, y
    return _binary(found)


def boxes(areas: ReadAreas) -> Any:
    """Polygons, their corners from the south-west, around by the east."""
    found = np.empty(len(areas.x_min), _WKB_BOX)
    found["order"], found["type"], found["rings"], found["points"] = 1, 3, 1, 5
    corners = found["corners"]
    corners[:, :, 0] = np.column_stack(
        [areas.x_min, areas.x_max, areas.x_max, areas.x_min, areas.x_min]
    )
    corners[:, :, 1] = np.column_stack(
        [areas.y_min, areas.y_min, areas.y_max, areas.y_max, areas.y_min]
    )
    return _binary(found)


def _binary(records: NDArray[Any]) -> Any:
    """Records of one width as a binary column."""
    ends = np.arange(len(records) + 1, dtype=np.int32) * records.itemsize
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(records.tobytes())]
    return pa.Array.from_buffers(pa.binary(), len(records), buffers)
