"""Tables of SQLite written as pages: SQLite finds the file sound, and the rows as they were given."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from freqdp_db.release.export import pages
from freqdp_db.release.export.pages import PAGE, PageFile, TableWriter, varint


def _file(path: Path, *tables: str) -> list[int]:
    """A file with empty tables; the number of the first page of each."""
    with closing(sqlite3.connect(path)) as file:
        file.execute(f"PRAGMA page_size = {PAGE}")
        for table in tables:
            file.execute(
                f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, b BLOB, n INTEGER, s TEXT)"
            )
        file.commit()
        return [file.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (t,)).fetchone()[0]
                for t in tables]  # fmt: skip


def _rows(first: int, count: int, width: int) -> tuple[list[bytes], np.ndarray, list[bytes]]:
    ids = np.arange(first, first + count)
    blobs = [int(i).to_bytes(8, "little").ljust(width, b"\0") for i in ids]
    return blobs, ids * -7_000_000_000, [f"{i:09d}".encode() for i in ids]


@pytest.mark.parametrize("count", [0, 1, 127, 129, 16_400])
@pytest.mark.parametrize(("width", "at_once"), [(29, 10_000), (29, 130), (1228, 5_000)])
def test_rows_as_given(tmp_path: Path, count: int, width: int, at_once: int) -> None:
    path = tmp_path / "f.sqlite"
    roots = _file(path, "one", "other")
    with PageFile(path) as file:
        writers = [TableWriter(file, root, [f"V{width}", ">i8", "S9"]) for root in roots]
        for first in range(1, count + 1, at_once):
            some = min(at_once, count + 1 - first)
            blobs, numbers, texts = _rows(first, some, width)
            for writer in writers:  # two at a time: their pages lie among each other
                writer.add(np.array(blobs, f"V{width}"), numbers, np.array(texts))
        for writer in writers:
            writer.finish()
    with closing(sqlite3.connect(path)) as file_:
        assert file_.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        blobs, numbers, texts = _rows(1, count, width)
        wanted = list(zip(range(1, count + 1), blobs, numbers.tolist(), map(bytes.decode, texts),
                          strict=True))  # fmt: skip
        for table in ("one", "other"):
            assert file_.execute(f"SELECT * FROM {table} ORDER BY id").fetchall() == wanted
        # it is a table like any other
        file_.execute("DELETE FROM one WHERE id % 3 = 0")
        file_.execute("INSERT INTO one (b, n, s) VALUES (x'00', 1, 'x')")
        file_.execute("CREATE INDEX i ON one (n)")
        assert file_.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        found = file_.execute("SELECT id FROM other WHERE id = ?", (count // 2,)).fetchall()
        assert len(found) == (count // 2 > 0)


def test_many_levels_and_the_page_of_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With few children a page there are many levels; the page of locks stays empty."""
    monkeypatch.setattr(pages, "_CHILDREN", 3)
    path = tmp_path / "f.sqlite"
    (root,) = _file(path, "one")
    with PageFile(path) as file:
        writer = TableWriter(file, root, ["V29", ">i8", "S9"])
        blobs, numbers, texts = _rows(1, 20_000, 29)
        writer.add(np.array(blobs, "V29"), numbers, np.array(texts))
        writer.finish()
    with closing(sqlite3.connect(path)) as file_:
        assert file_.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert file_.execute("SELECT count(*), sum(id) FROM one").fetchone() == (
            20_000,
            200_010_000,
        )
    monkeypatch.setattr(pages, "_LOCK_PAGE", 7)
    target = tmp_path / "locks"
    target.write_bytes(bytes(4 * PAGE))
    with PageFile(target) as file:
        assert file.append(np.ones((1, PAGE), np.uint8)) == [5]
        assert file.append(np.ones((3, PAGE), np.uint8)) == [6, 8, 9]
        assert file.append(np.ones((1, PAGE), np.uint8)) == [10]
    written = np.frombuffer(target.read_bytes(), np.uint8).reshape(-1, PAGE)
    assert not written[6].any() and written[7].all()


@pytest.mark.parametrize(
    ("value", "written"), [(0, "00"), (127, "7f"), (128, "8100"), (16_384, "818000")]
)
def test_varint(value: int, written: str) -> None:
    assert varint(value).hex() == written
