"""The element types of our columns."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Ids: TypeAlias = NDArray[np.int32]
Metres: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]
