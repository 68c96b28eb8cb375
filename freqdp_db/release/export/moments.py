"""Times as text, by columns."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_MICROSECONDS = {"s": 1_000_000, "ms": 1000, "us": 1}


def iso_times(at_us: NDArray[np.int64], unit: Literal["s", "ms", "us"]) -> Any:
    """ISO 8601 in UTC as an Arrow array, all of one length, rounded down to the unit."""
    at = pa.array(at_us // _MICROSECONDS[unit]).view(pa.timestamp(unit))
    text = pc.utf8_replace_slice(at.cast(pa.string()), 10, 11, "T")
    return pc.binary_join_element_wise(text, "Z", "")
