"""One object's rows never change what becomes of the rows of others: cleaning, projecting, snapping."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache

import numpy as np
import pyproj
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freqdp_db.dataset import cleaning
from freqdp_db.dataset.building import project
from freqdp_db.dataset.cleaning import (
    GridCells,
    Rows,
    merge_cells,
    snap_anchors,
    snap_exact,
    snap_grid,
)
from freqdp_db.dataset.findings import SeenTimes, look_at
from freqdp_db.dataset.projection import ReferenceSystem
from freqdp_db.dataset.reading import RawRows
from freqdp_db.model.arrays import Ints, Metres

LARGEST = float(np.finfo(np.float64).max)
COORDINATES = [
    0.0, -0.0, 5e-324, -5e-324, 90.0, 180.0, np.nextafter(180.0, 181), 1e8, np.nextafter(1e8, 2e8),
    -1e8, 1e12, -2e12, 9.99e20, LARGEST, -LARGEST, np.inf, -np.inf, np.nan, 6.5e5, 6.86e6,
]  # fmt: skip
TIMES = [0, -1, 2**63 - 1, -(2**63), -(2**62), 86_400_000_000, 10**15, -(10**17)]
SYSTEMS = [(4326, 32631), (2154, 2154), (2154, 32631), (3857, 32631), (32631, 32631)]
HOME = {4326: (2.35, 48.85), 2154: (652e3, 6.862e6), 3857: (261e3, 6.25e6), 32631: (452e3, 5.41e6)}


@cache
def _system(srid: int) -> ReferenceSystem:
    return ReferenceSystem(srid, pyproj.CRS.from_epsg(srid))


def _ordinary(srid: int) -> Rows:
    """Three objects, 0, 1 and 3: number 2 is the one that comes."""
    random, size = np.random.default_rng(srid), 120
    scale = 0.02 if srid == 4326 else 2_000.0
    x, y = (home + random.normal(0, scale, size) for home in HOME[srid])
    owner = np.repeat([0, 1, 3], size // 3)
    return Rows(owner, np.tile(np.arange(size // 3) * 60_000_000, 3), x, y)


Placed = dict[str, tuple[bytes, ...]]


def _placed(rows: Rows, srid: int, metric: int, snap: str) -> Placed:
    """Of each object but the one that comes: its times, and the places of its samples, to the bit."""
    raw, plane = _system(srid), _system(metric)
    rows = cleaning.drop_unusable(rows, raw.limits, {})
    found = project(RawRows(["a", "b", "m", "z"], rows, {}), raw, plane)
    if snap == "exact":
        snapped = snap_exact(found.x, found.y)
    elif snap == "anchors":
        random = np.random.default_rng(0)
        snapped = snap_anchors(
            found.x, found.y, *(c.mean() + random.normal(0, 500, 40) for c in _home(srid, metric))
        )
    else:
        snapped = snap_grid(found.x, found.y, float(snap))
    x, y = snapped.locations.x[snapped.of_row], snapped.locations.y[snapped.of_row]
    return {
        key: tuple(c[found.rows.object == n].tobytes() for c in (found.rows.at, x, y))
        for n, key in enumerate(found.keys)
        if key != "m"
    }


def _home(srid: int, metric: int) -> tuple[Metres, Metres]:
    rows = _ordinary(srid)
    found = project(RawRows(["a", "b", "m", "z"], rows, {}), _system(srid), _system(metric))
    return found.x, found.y


hostile_rows = st.lists(
    st.tuples(
        st.sampled_from(COORDINATES) | st.floats(allow_nan=True, allow_infinity=True),
        st.sampled_from(COORDINATES) | st.floats(allow_nan=True, allow_infinity=True),
        st.sampled_from(TIMES) | st.integers(-(2**63), 2**63 - 1),
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.parametrize("snap", ["0.01", "100", "1000000", "exact", "anchors"])
@pytest.mark.parametrize(("srid", "metric"), SYSTEMS)
@settings(max_examples=25, deadline=None)
@given(hostile=hostile_rows)
def test_others_stay_where_they_are(
    srid: int, metric: int, snap: str, hostile: list[tuple[float, float, int]]
) -> None:
    ordinary = _ordinary(srid)
    x, y, at = (np.array(column) for column in zip(*hostile, strict=True))
    both = Rows(
        np.concatenate([ordinary.object, np.full(len(x), 2)]),
        np.concatenate([ordinary.at, at.astype(np.int64)]),
        np.concatenate([ordinary.x, x]),
        np.concatenate([ordinary.y, y]),
    )
    assert _placed(both, srid, metric, snap) == _placed(ordinary, srid, metric, snap)


cells = st.integers(-(2**62), 2**62) | st.integers(-3, 3)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(cells, cells), max_size=20), st.lists(st.tuples(cells, cells), max_size=20)
)
def test_cells_are_pairs(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    """Distinct cells in order of (column, row), however far apart they lie."""

    def columns(pairs: list[tuple[int, int]]) -> tuple[Ints, Ints]:
        both = np.array(pairs, np.int64).reshape(-1, 2)
        return both[:, 0], both[:, 1]

    found = merge_cells(GridCells.distinct(*columns(one)), GridCells.distinct(*columns(other)))
    assert list(zip(found.column.tolist(), found.row.tolist(), strict=True)) == sorted(
        {*one, *other}
    )


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.floats(-180, 180) | st.sampled_from([np.inf, -np.inf, np.nan, LARGEST]),
            st.floats(-90, 90) | st.sampled_from([np.inf, -np.inf, np.nan, -LARGEST]),
        ),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(["UTC", "Europe/Brussels", "Nowhere/Zone"]),
    st.sampled_from([None, "4.2,50.7,4.5,51.0"]),
)
def test_findings_never_stop_a_build(
    places: list[tuple[float, float]], timezone: str, region: str | None
) -> None:
    lon, lat = (np.array(column) for column in zip(*places, strict=True))
    one = np.ones(len(lon), np.int64)
    times = SeenTimes(-(3 * 10**15), 6 * 10**15, 1, 1)
    found = look_at(
        lon, lat, one, times, one, timezone=timezone, epoch_unit=None, columns=("lat", "lon"),
        region=region, utm_srid=32631,
    )  # fmt: skip
    assert found.lines()
    assert found.first_at < datetime(2000, 1, 1, tzinfo=UTC) < found.last_at
