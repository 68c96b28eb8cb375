"""Samples from CSV files of any column order, block by block."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from freqdp_db.errors import BadInput
from freqdp_db.loading.clock import numbers, parser, time_zone
from freqdp_db.loading.csvformat import (
    LONG_OBJECT,
    LONGEST_ID,
    NO_OBJECT,
    NO_SUCH_COORDINATE,
    NO_SUCH_TIME,
    OPENING,
    UNEVEN,
    CsvFormat,
    object_of,
    refuse_misfit,
)
from freqdp_db.loading.files import BadRows
from freqdp_db.loading.rows import NO_TIME, SourceSamples

_BLOCK_BYTES = 1 << 19  # small: the reader runs some 30 blocks ahead of what is done
_COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_NAME = re.compile(r"[^\W\d][\w .()\[\]/-]*")


def read_csv(
    paths: Sequence[Path],
    layout: CsvFormat,
    bad: BadRows,
    on_bytes: Callable[[int], None] = lambda _: None,
) -> Iterator[SourceSamples]:
    """Yield the readable rows; `bad` learns about the others, by line and reason.

    The header is line 1; blank lines and line breaks within quotes do not count. Where not one of
    the first rows can be read, all for one reason, the option that does not fit is refused.
    """
    times = parser(layout.time_format, time_zone(layout.timezone))
    delimiter = {"\\t": "\t", "tab": "\t"}.get(layout.delimiter, layout.delimiter)
    if len(delimiter) != 1 or delimiter in '"\r\n' or not delimiter.isascii():
        raise BadInput(
            f"[[delimiter]] {layout.delimiter!r} is not one character", remedy="give , or ; or tab"
        )
    for path in paths:
        yield from _read_file(path, layout, delimiter, times, bad, on_bytes)
    refuse_misfit(layout, bad)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[pa.NativeFile, Callable[[], int]]]:
    """The text of a file, and a function that says how many of the file's bytes were taken."""
    with pa.OSFile(str(path)) as raw:
        codec = _COMPRESSED.get(path.suffix)
        if codec is None:
            yield raw, raw.tell
        else:
            with pa.CompressedInputStream(raw, codec) as text:
                yield text, raw.tell


def _read_file(
    path: Path,
    layout: CsvFormat,
    delimiter: str,
    times: Callable[[pa.Array], NDArray[np.int64]],
    bad: BadRows,
    on_bytes: Callable[[int], None],
) -> Iterator[SourceSamples]:
    names = _names(path, layout, delimiter)
    ours = None if layout.object is not None else object_of(path).encode()
    header = 1 if layout.header else 0
    skipped: list[int] = []

    def uneven(row: Any) -> str:
        skipped.append(row.number)
        hopeless = not bad.good and len(skipped) == row.number - header
        return "error" if hopeless and bad.total + len(skipped) >= OPENING else "skip"

    options: dict[str, Any] = {
        "read_options": pa.csv.ReadOptions(
            use_threads=False,
            block_size=_BLOCK_BYTES,
            autogenerate_column_names=not layout.header,
        ),
        "parse_options": pa.csv.ParseOptions(
            delimiter=delimiter, newlines_in_values=True, invalid_row_handler=uneven
        ),
        "convert_options": pa.csv.ConvertOptions(
            include_columns=names, column_types=dict.fromkeys(names, pa.string())
        ),
    }
    last_line, reported, taken = header, 0, 0
    try:
        with _opened(path) as (text, position), pa.csv.open_csv(text, **options) as reader:
            for block in reader:
                # Rows with another number of columns are gone: the others' lines jump over them.
                lines = _line_numbers(last_line, block.num_rows, skipped[reported:])
                last_line = max([last_line, *lines[-1:], *skipped[reported:]])
                for part in _parts(block.num_rows, bad):
                    some = block.slice(part.start, part.stop - part.start)
                    yield _convert(path, some, lines[part], names, ours, times, bad)
                    if bad.total >= OPENING:
                        refuse_misfit(layout, bad)
                bad.add(path, UNEVEN, skipped[reported:])
                reported = len(skipped)
                now = position()
                on_bytes(now - taken)
                taken = now
    except pa.ArrowInvalid:
        bad.add(path, UNEVEN, skipped[reported:])
        refuse_misfit(layout, bad)
        # Arrow's own message quotes the row.
        raise BadInput(
            f"{path} cannot be read as CSV: it is not UTF-8 text, or a quote is left open",
            remedy="check [[delimiter]]; convert other encodings first, with iconv for example",
        ) from None
    except OSError:
        raise _unreadable(path) from None
    bad.add(path, UNEVEN, skipped[reported:])
    if bad.total >= OPENING:
        refuse_misfit(layout, bad)
    on_bytes(path.stat().st_size - taken)


def _parts(rows: int, bad: BadRows) -> Iterator[slice]:
    """The rows of a block; the first ones by themselves, as long as none could be read."""
    first = min(rows, OPENING) if not bad.good else 0
    if first:
        yield slice(0, first)
    if rows > first:
        yield slice(first, rows)


def _names(path: Path, layout: CsvFormat, delimiter: str) -> list[str]:
    """The columns as Arrow will call them; refuses those that the file does not have."""
    try:
        with pa.input_stream(str(path)) as stream:
            head = stream.read(1 << 16)
    except (OSError, pa.ArrowInvalid):
        raise _unreadable(path) from None
    if not head.strip():
        raise BadInput(f"{path} is empty", remedy="leave it out")
    found = _first_row(path, head, delimiter)
    names = []
    for option, column in layout.columns:
        if layout.header:
            if found.count(column) != 1:
                problem = "twice" if column in found else "not"
                raise BadInput(
                    f"{option} {column}: the header of {path} has it {problem}",
                    remedy=_columns_of(found),
                )
            names.append(column)
        else:
            if not column.isdecimal() or not 1 <= int(column) <= len(found):
                raise BadInput(
                    f"{option} {column}: with [[no_header]] a column is its number",
                    remedy=f"give a number from 1 to {len(found)}",
                )
            names.append(f"f{int(column) - 1}")
    return names


def _columns_of(found: Sequence[str]) -> str:
    # Without a header the first row is somebody's data: show it only if it looks like names.
    if all(_NAME.fullmatch(name) for name in found):
        return "its columns are " + ", ".join(found[:30])
    return "check [[delimiter]]; for files without a header say [[no_header]]"


def _first_row(path: Path, head: bytes, delimiter: str) -> list[str]:
    try:
        text = head.decode("utf-8-sig", errors="ignore")
        return next(row for row in csv.reader(text.splitlines(), delimiter=delimiter) if row)
    except (StopIteration, csv.Error):
        raise BadInput(f"{path} does not begin with a row of CSV") from None


def _unreadable(path: Path) -> BadInput:
    return BadInput(
        f"{path} cannot be read",
        remedy="check that you may read it, and that a file named .gz really is one",
    )


def _line_numbers(last: int, rows: int, skipped: Sequence[int]) -> NDArray[np.int64]:
    lines = np.arange(last + 1, last + 1 + rows + len(skipped))
    return lines[~np.isin(lines, skipped)][:rows]


def _convert(
    path: Path,
    block: pa.RecordBatch,
    lines: NDArray[np.int64],
    names: Sequence[str],
    ours: bytes | None,
    times: Callable[[pa.Array], NDArray[np.int64]],
    bad: BadRows,
) -> SourceSamples:
    *who, when, lon, lat = (block.column(name) for name in names)
    if ours is None:
        ids, lengths = text_bytes(who[0])
    else:
        ids, lengths = np.full(len(when), ours), np.full(len(when), len(ours))
    at = times(when)
    x, y = numbers(lon), numbers(lat)
    fine = np.ones(len(at), bool)
    for reason, wrong in (
        (NO_OBJECT, lengths == 0),
        (LONG_OBJECT, lengths > LONGEST_ID),
        (NO_SUCH_TIME, at == NO_TIME),
        (NO_SUCH_COORDINATE, np.isnan(x) | np.isnan(y)),
    ):
        bad.add(path, reason, lines[wrong & fine].tolist())
        fine &= ~wrong
    bad.good += int(fine.sum())
    samples = SourceSamples(ids, at, x, y)
    return samples if fine.all() else samples.take(fine)


def text_bytes(column: pa.Array) -> tuple[NDArray[np.bytes_], NDArray[np.int64]]:
    """A string column as fixed-width bytes (cut at the longest we accept), and real lengths."""
    count = len(column)
    _, offset_buffer, data = column.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[column.offset : column.offset + count + 1]
    lengths = np.diff(offsets).astype(np.int64)
    width = max(1, int(min(lengths.max(initial=0), LONGEST_ID)))
    kept = np.minimum(lengths, width)
    padded = np.zeros((count, width), np.uint8)
    if data is not None and kept.any():
        flat = np.frombuffer(data, np.uint8)
        inside = np.arange(width) < kept[:, None]
        padded[inside] = flat[(offsets[:-1, None] + np.arange(width))[inside]]
    return padded.view(f"S{width}").reshape(count), lengths
