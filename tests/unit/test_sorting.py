"""The kernels' sorts against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from freqdp_db.columns.sorting import sort_ids, sortable, stable_order


@pytest.mark.parametrize("size", [0, 1, 2, 15, 16, 17, 64, 65, 1000, 4097])
@pytest.mark.parametrize("spread", [1, 3, 1000, 2**31 - 1])
def test_sorts_equal_numpys(size: int, spread: int) -> None:
    generator = np.random.default_rng([size, spread])
    keys = generator.integers(-spread, spread, size, dtype=np.int64, endpoint=True)
    assert (stable_order(keys) == np.argsort(keys, kind="stable")).all()
    ids = np.abs(keys).astype(np.int32)
    expected = np.sort(ids)
    sort_ids(ids)
    assert (ids == expected).all()


def test_floats_keep_their_order() -> None:
    values = np.array([0.0, -0.0, 1.5, -1.5, 1e300, -1e300, 5e-324, -5e-324, np.inf, -np.inf])
    order = np.argsort(values, kind="stable")
    assert (stable_order(sortable(values)) == order).all()
