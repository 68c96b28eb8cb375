"""The kernels' sort against NumPy's: numba's is its own code, and `mergesort` has to be stable there."""

from __future__ import annotations

import numpy as np
import pytest

from freqdp_db.model.kernels import find, stable_order


@pytest.mark.parametrize("size", [0, 1, 2, 15, 16, 17, 64, 65, 1000, 4097])
@pytest.mark.parametrize("spread", [1, 3, 1000, 2**31 - 1])
def test_order_equals_numpys(size: int, spread: int) -> None:
    generator = np.random.default_rng([size, spread])
    keys = generator.integers(-spread, spread, size, dtype=np.int64, endpoint=True)
    order = np.argsort(keys, kind="stable")
    assert (stable_order(keys) == order).all()
    assert (stable_order(keys / 7) == order).all()
    ascending = keys[order]
    for key in range(-3, 4):
        at = find(ascending, 0, size, key)
        assert ascending[at] == key if at >= 0 else key not in ascending


def test_zeros_are_equal() -> None:
    values = np.array([0.0, -0.0, 1.5, -1.5, 1e300, -1e300, 5e-324, -5e-324, np.inf, -np.inf])
    assert (stable_order(values) == np.argsort(values, kind="stable")).all()
