"""Finding input files, and saying what is wrong with them without quoting a row."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freqdp_db.errors import BadInput

_NAMED_LINES = 5


def expand(patterns: Sequence[str], endings: Sequence[str]) -> list[Path]:
    """Files, globs and folders as a list of files; a folder gives its files of those endings."""
    found: list[Path] = []
    for pattern in patterns:
        path = Path(pattern)
        if path.is_dir():
            files = sorted(p for p in path.iterdir() if p.name.lower().endswith(tuple(endings)))
        elif path.exists():
            files = [path]
        else:
            files = sorted(Path(p) for p in glob.glob(pattern, recursive=True))  # noqa: PTH207
            files = [p for p in files if p.is_file()]
        if not files:
            kind = (
                "has no file ending in " + " or ".join(endings) if path.is_dir() else "is missing"
            )
            raise BadInput(f"{pattern} {kind}", remedy="check the path; quote a glob for the shell")
        found += files
    # The same file twice would be loaded twice.
    return list(dict.fromkeys(found))


def folder(text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        problem = "is not a folder" if path.exists() else "is missing"
        raise BadInput(f"{text} {problem}", remedy="give the folder as its publisher ships it")
    return path


def read_bytes(path: Path) -> bytes:
    """A file's bytes, ending in a line break so that files can be put together."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None
    return data if not data or data.endswith(b"\n") else data + b"\n"


def batches(
    files: Iterable[Path], batch_bytes: int, skip_lines: int = 0
) -> Iterator[tuple[list[Path], list[bytes]]]:
    """Files with something in them, several at a time, without their first lines."""
    paths: list[Path] = []
    parts: list[bytes] = []
    size = 0
    for path in files:
        data = read_bytes(path)
        for _ in range(skip_lines):
            data = data[data.find(b"\n") + 1 :] if b"\n" in data else b""
        if not data.strip():
            continue
        paths.append(path)
        parts.append(data)
        size += len(data)
        if size >= batch_bytes:
            yield paths, parts
            paths, parts, size = [], [], 0
    if paths:
        yield paths, parts


class BadRows:
    """Rows that could not be read, by file and reason: how many, and the first line numbers."""

    def __init__(self) -> None:
        self.good = 0
        """Rows that could be read."""
        self.counts: dict[str, int] = {}
        self._where: dict[tuple[str, str], tuple[int, list[int]]] = {}

    def add(self, path: Path, reason: str, lines: Sequence[int]) -> None:
        if not len(lines):
            return
        self.counts[reason] = self.counts.get(reason, 0) + len(lines)
        count, first = self._where.get((str(path), reason), (0, []))
        first = (first + [int(n) for n in lines[:_NAMED_LINES]])[:_NAMED_LINES]
        self._where[str(path), reason] = (count + len(lines), first)

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def refuse(self, remedy: str) -> None:
        """Raise if there is a bad row. Names places and reasons, never what the rows say."""
        if not self._where:
            return
        texts = []
        for (path, reason), (count, first) in list(self._where.items())[:3]:
            lines = ", ".join(map(str, first)) + (", ..." if count > len(first) else "")
            texts.append(f"{path}: {count:,} x {reason} (line {lines})")
        more = len(self._where) - len(texts)
        raise BadInput(
            f"{self.total:,} row(s) cannot be read: "
            + "; ".join(texts)
            + (f"; and {more} more" if more > 0 else ""),
            remedy=remedy,
        )


def total_bytes(files: Iterable[Path]) -> int:
    """How much there is to read."""
    return sum(file.stat().st_size for file in files)


def counted(counts: Mapping[str, int]) -> str:
    """`3 bad time, 1 bad coordinate`, for a sentence."""
    return ", ".join(f"{n:,} {reason}" for reason, n in sorted(counts.items()) if n)


# What every reader yields: rows of a plain table, column by column.


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
