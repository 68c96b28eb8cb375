"""Tables of a SQLite file, written as whole pages instead of row by row.

Where all rows of a table have values of the same widths, its records have one length, and a page of them
is an array. Rows come in the order of their ids, 1, 2, 3, ...: leaves are written as they fill, and in the
end the pages above them. The form is SQLite's (https://www.sqlite.org/fileformat2.html, sections 1.6 and
2.1). SQLite itself makes the file and its empty tables before, and opens it again afterwards.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

PAGE = 4096
Bytes = NDArray[np.uint8]
_LEAF, _INTERIOR = 0x0D, 0x05
_LEAF_HEAD, _INTERIOR_HEAD = 8, 12
_LOCK_PAGE = 0x40000000 // PAGE + 1
"""The page at one gigabyte is for locks, and holds nothing."""
_CHILDREN = (PAGE - _INTERIOR_HEAD) // (2 + 4 + 9) + 1
"""Of a page above others: a cell has a pointer to it, the number of a page, and an id."""


class PageFile:
    """A file of SQLite that nobody has open: takes pages, and keeps its header true."""

    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] = path.open("r+b")
        self._pages = path.stat().st_size // PAGE

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.seek(24)
        changes = struct.unpack(">I", self._file.read(4))[0] + 1
        self._file.seek(24)
        # SQLite believes the number of pages if the number of changes stands in both places
        self._file.write(struct.pack(">II", changes, self._pages))
        self._file.seek(92)
        self._file.write(struct.pack(">I", changes))
        self._file.close()

    def append(self, pages: Bytes) -> list[int]:
        """Write pages at the end; their numbers."""
        numbers: list[int] = []
        while len(pages):
            if self._pages + 1 == _LOCK_PAGE:
                self._pages += 1
            room = len(pages)
            if self._pages < _LOCK_PAGE:
                room = min(room, _LOCK_PAGE - 1 - self._pages)
            self._file.seek(self._pages * PAGE)
            self._file.write(pages[:room].tobytes())
            numbers += range(self._pages + 1, self._pages + 1 + room)
            self._pages += room
            pages = pages[room:]
        return numbers

    def replace(self, number: int, page: Bytes) -> None:
        self._file.seek((number - 1) * PAGE)
        self._file.write(page.tobytes())


def varint(value: int) -> bytes:
    """A whole number as SQLite writes it: 7 bits a byte, the highest first."""
    parts = [value & 0x7F]
    while value := value >> 7:
        parts.append(value & 0x7F | 0x80)
    return bytes(reversed(parts))


def _serial(dtype: np.dtype[Any]) -> int:
    """What a record says of a value of this type: big-endian numbers, blobs (V), text (S)."""
    if dtype.kind == "i":
        return {4: 4, 8: 6}[dtype.itemsize]
    return 2 * dtype.itemsize + (12 if dtype.kind == "V" else 13)


class TableWriter:
    """Fills an empty table whose first column is its id; the others have these types."""

    def __init__(self, file: PageFile, root: int, columns: Sequence[str]) -> None:
        self._file, self._root = file, root
        types = [np.dtype(column) for column in columns]
        serials = b"\x00" + b"".join(varint(_serial(dtype)) for dtype in types)
        head = varint(len(serials) + 1) + serials
        self._record = np.dtype(
            [("head", f"V{len(head)}"), *((f"c{n}", dtype) for n, dtype in enumerate(types))]
        )
        self._head = np.void(head)
        self._waiting = np.empty((0, self._record.itemsize), np.uint8)
        self._first = 1
        """The id of the first row that waits."""
        self._children: list[tuple[int, int]] = []
        """Number of a leaf, and its last id."""

    def add(self, *columns: Any) -> None:
        """Add rows; columns of equal length, blobs and text as arrays of bytes."""
        rows = np.empty(len(columns[0]), self._record)
        rows["head"] = self._head
        for number, column in enumerate(columns):
            rows[f"c{number}"] = column
        as_bytes = rows.view(np.uint8).reshape(len(rows), self._record.itemsize)
        self._waiting = np.concatenate([self._waiting, as_bytes])
        for pages, lasts in self._leaves(whole=False):
            self._children += zip(self._file.append(pages), lasts, strict=True)

    def finish(self) -> None:
        """Write what waits and the pages above the leaves."""
        left = list(self._leaves(whole=True))
        if not self._children and sum(len(pages) for pages, _ in left) <= 1:
            for pages, _ in left:
                self._file.replace(self._root, pages[0])
            return
        for pages, lasts in left:
            self._children += zip(self._file.append(pages), lasts, strict=True)
        level = self._children
        while len(level) > _CHILDREN:
            groups = _groups(len(level))
            pages = np.stack([_interior(level[a:b]) for a, b in groups])
            lasts = [level[b - 1][1] for _, b in groups]
            level = list(zip(self._file.append(pages), lasts, strict=True))
        self._file.replace(self._root, _interior(level))

    def _leaves(self, *, whole: bool) -> Iterator[tuple[Bytes, list[int]]]:
        """Pages of what waits, and their last ids. `whole`: all of it; else a page of rows is kept back.

        A table of one page is its root: whether there is a second one shows in the end.
        """
        while len(self._waiting):
            width = len(varint(self._first))
            cell = len(varint(self._record.itemsize)) + width + self._record.itemsize
            a_page = (PAGE - _LEAF_HEAD) // (2 + cell)
            # ids up to here take as many bytes as the first
            alike = min(len(self._waiting), 128**width - self._first)
            ends = whole or alike < len(self._waiting)
            pages = -(-alike // a_page) if ends else (alike - 1) // a_page
            if not pages:
                return
            rows = min(alike, pages * a_page)
            yield self._make(rows, width, cell, a_page)
            self._waiting, self._first = self._waiting[rows:], self._first + rows

    def _make(self, rows: int, width: int, cell: int, a_page: int) -> tuple[Bytes, list[int]]:
        """Full pages of the first rows that wait, and one more for the rest of them."""
        cells = self._cells(rows, width, cell)
        full, rest = divmod(rows, a_page)
        pages = [_leaves(cells[: full * a_page].reshape(full, a_page * cell), a_page, cell)]
        if rest:
            pages.append(_leaves(cells[full * a_page :].reshape(1, -1), rest, cell))
        lasts = [*range(a_page, rows, a_page), rows]
        return np.concatenate(pages), [self._first - 1 + last for last in lasts]

    def _cells(self, rows: int, width: int, cell: int) -> Bytes:
        """The length of the record, the id, and the record."""
        ids = np.arange(self._first, self._first + rows)
        cells = np.empty((rows, cell), np.uint8)
        size = np.frombuffer(varint(self._record.itemsize), np.uint8)
        cells[:, : len(size)] = size
        for byte in range(width):
            more = 0x80 if byte < width - 1 else 0
            cells[:, len(size) + byte] = (ids >> 7 * (width - 1 - byte)) & 0x7F | more
        cells[:, len(size) + width :] = self._waiting[:rows]
        return cells


def _leaves(cells: Bytes, a_page: int, cell: int) -> Bytes:
    """A page for each row of cells: its head, where each cell begins, and at the end the cells."""
    pages = np.zeros((len(cells), PAGE), np.uint8)
    begin = PAGE - a_page * cell
    pointers = (begin + np.arange(a_page) * cell).astype(">u2").view(np.uint8)
    pages[:, _LEAF_HEAD : _LEAF_HEAD + len(pointers)] = pointers
    pages[:, begin:] = cells
    _put_head(pages, _LEAF, a_page, begin)
    return pages


def _put_head(pages: Bytes, kind: int, cells: int, content: int) -> None:
    head = struct.pack(">BHHHB", kind, 0, cells, content, 0)
    pages[..., :_LEAF_HEAD] = np.frombuffer(head, np.uint8)


def _groups(children: int) -> list[tuple[int, int]]:
    """Children of each page above them: never one alone, which would need no page above it."""
    ends = [*range(_CHILDREN, children, _CHILDREN), children]
    if len(ends) > 1 and ends[-1] - ends[-2] == 1:
        ends[-2] -= 1
    return list(zip([0, *ends[:-1]], ends, strict=True))


def _interior(children: Sequence[tuple[int, int]]) -> Bytes:
    """A page above others: of all but the last the number and the last id."""
    page = np.zeros(PAGE, np.uint8)
    pointers, at = b"", PAGE
    for number, last in children[:-1]:
        cell = struct.pack(">I", number) + varint(last)
        at -= len(cell)
        page[at : at + len(cell)] = np.frombuffer(cell, np.uint8)
        pointers += struct.pack(">H", at)
    _put_head(page, _INTERIOR, len(children) - 1, at)
    right = struct.pack(">I", children[-1][0])
    page[_LEAF_HEAD : _INTERIOR_HEAD + len(pointers)] = np.frombuffer(right + pointers, np.uint8)
    return page
