"""The areas and intervals of a generalised release, as files have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from freqdp_db.storage.published.reading import ReadAreas

_WKB_BOX = np.dtype(
    [("order", "u1"), ("type", "<u4"), ("rings", "<u4"), ("points", "<u4"),
     ("corners", "<f8", (5, 2))]
)  # fmt: skip
_GPKG_HEAD = np.dtype(
    [("magic", "S2"), ("version", "u1"), ("flags", "u1"), ("srs_id", "<i4"),
     ("envelope", "<f8", (4,))]
)  # fmt: skip
GPKG_BOX = np.dtype([("head", _GPKG_HEAD), ("box", _WKB_BOX)])
_XY_ENVELOPE = 0x03


def wkb_boxes(areas: ReadAreas) -> NDArray[Any]:
    """Polygons, their corners from the south-west, around by the east."""
    boxes = np.zeros(len(areas.x_min), _WKB_BOX)
    boxes["order"], boxes["type"], boxes["rings"], boxes["points"] = 1, 3, 1, 5
    corners = boxes["corners"]
    corners[:, :, 0] = np.column_stack(
        [areas.x_min, areas.x_max, areas.x_max, areas.x_min, areas.x_min]
    )
    corners[:, :, 1] = np.column_stack(
        [areas.y_min, areas.y_min, areas.y_max, areas.y_max, areas.y_min]
    )
    return boxes


def arrow_bytes(records: NDArray[Any]) -> Any:
    """Records of one width as a binary column."""
    ends = np.arange(len(records) + 1, dtype=np.int32) * records.itemsize
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(records.tobytes())]
    return pa.Array.from_buffers(pa.binary(), len(records), buffers)


def gpkg_boxes(areas: ReadAreas, srid: int) -> NDArray[Any]:
    """As geometries of a GeoPackage, with their envelopes."""
    found = np.zeros(len(areas.x_min), GPKG_BOX)
    head = found["head"]
    head["magic"], head["flags"], head["srs_id"] = b"GP", _XY_ENVELOPE, srid
    head["envelope"] = np.column_stack([areas.x_min, areas.x_max, areas.y_min, areas.y_max])
    found["box"] = wkb_boxes(areas)
    return found.view(f"V{GPKG_BOX.itemsize}")
