"""The R-tree of a GeoPackage, written whole: SQLite finds it sound, and it finds what a scan finds."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import numpy as np
import pytest

from freqdp_db.release.export import rtree
from freqdp_db.release.export.rtree import RTree, create_rtree, insert_into, insert_rows, set_root


@pytest.mark.parametrize("count", [0, 1, 51, 52, 102, 2601, 2602, 7000])
@pytest.mark.parametrize("block", [700, 1 << 20])
@pytest.mark.parametrize("page", [512, 4096])
def test_finds_what_a_scan_finds(
    count: int, block: int, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rtree, "_BLOCK", block)
    draw = np.random.default_rng(count)
    x, y = draw.standard_normal((2, count)) * 1e5 + 4e6
    width, height = draw.exponential(3000, (2, count))
    with closing(sqlite3.connect(":memory:")) as file:
        file.execute(f"PRAGMA page_size = {page}")
        tree = RTree(create_rtree(file, "t"), insert_into(file, "t"))
        for part in np.array_split(np.arange(count), 9):
            tree.add((x[part], (x + width)[part]), (y[part], (y + height)[part]))
        set_root(file, "t", tree.finish())
        assert file.execute("SELECT rtreecheck('t')").fetchone() == ("ok",)
        assert file.execute("SELECT count(*) FROM t").fetchone() == (count,)
        for _ in range(20):
            west, south = draw.standard_normal(2) * 1e5 + 4e6
            east, north = west + draw.exponential(5e4), south + draw.exponential(5e4)
            found = file.execute(
                "SELECT id FROM t WHERE maxx >= ? AND minx <= ? AND maxy >= ? AND miny <= ?",
                (west, east, south, north),
            ).fetchall()
            wanted = np.flatnonzero(
                (x + width >= west) & (x <= east) & (y + height >= south) & (y <= north)
            )
            # boxes are rounded outwards: none is missed, a touching one may come along
            assert set(wanted + 1) <= {i for (i,) in found}
            assert len(found) <= len(wanted) + 2
        # whoever edits the file later finds a tree that takes it
        file.execute("DELETE FROM t WHERE id % 3 = 0")
        file.executemany(
            "INSERT INTO t VALUES (?, 0, 1, 0, 1)", [(n,) for n in range(10**6, 10**6 + 500)]
        )
        assert file.execute("SELECT rtreecheck('t')").fetchone() == ("ok",)


def test_no_box_gets_smaller() -> None:
    draw = np.random.default_rng(1)
    values = np.concatenate(
        [draw.standard_normal(10_000) * 10.0 ** draw.integers(-9, 9, 10_000), [0.0]]
    )
    low, high = rtree.outward(values, values)
    assert (low.astype(np.float64) <= values).all() and (high.astype(np.float64) >= values).all()
    assert (np.nextafter(low, np.float32(np.inf)).astype(np.float64) > values).all()


@pytest.mark.parametrize("count", [0, 1, 99, 100, 101, 250])
def test_rows_as_given(count: int) -> None:
    """Also blobs that end in zeros, which NumPy would cut off."""
    rows = [(n, bytes([n % 256, 0, 0]), f"row {n}") for n in range(count)]
    with closing(sqlite3.connect(":memory:")) as file:
        file.execute("CREATE TABLE t (n INTEGER, b BLOB, s TEXT)")
        columns = [np.arange(count), [b for _, b, _ in rows], [s for _, _, s in rows]]
        insert_rows(file, "t", columns)
        assert file.execute("SELECT * FROM t ORDER BY n").fetchall() == rows
