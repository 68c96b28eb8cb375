"""What every reader yields: rows of a plain table, column by column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

NO_TIME = np.iinfo(np.int64).min
"""A missing time: the same bits as NumPy's NaT."""


@dataclass(frozen=True)
class SourceSamples:
    """Rows in file order. NaN stands for a missing coordinate or number."""

    object_id: NDArray[Any]
    """Integers, or UTF-8 bytes (dtype S) for a text column."""
    at_us: NDArray[np.int64]
    """Microseconds since 1970-01-01 UTC; `NO_TIME` where there is none."""
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    extra: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.at_us)

    def take(self, rows: NDArray[Any]) -> SourceSamples:
        """Some of the rows, by index or mask."""
        return SourceSamples(
            self.object_id[rows],
            self.at_us[rows],
            self.x[rows],
            self.y[rows],
            {name: values[rows] for name, values in self.extra.items()},
        )
