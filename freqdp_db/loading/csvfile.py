"""Samples from CSV files of any column order, block by block."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from freqdp_db.errors import BadInput
from freqdp_db.loading.files import NO_TIME, BadRows, SourceSamples

# What was said about CSV files, and what to say when nothing in them fits it.


LONGEST_ID = 200
ENDINGS = (".csv", ".csv.gz", ".txt", ".txt.gz", ".tsv", ".tsv.gz")
NO_OBJECT = "no object"
LONG_OBJECT = f"object of more than {LONGEST_ID} bytes"
NO_SUCH_TIME = "no such time"
NO_SUCH_COORDINATE = "no such coordinate"
UNEVEN = "another number of columns"
OPENING = 5_000
"""So many rows that all fail for one reason are enough to blame the options."""


@dataclass(frozen=True)
class CsvFormat:
    """Where the columns are (names, or numbers from 1 without a header) and how to read them."""

    object: str | None
    """None: the file's name is the object."""
    time: str
    lon: str
    lat: str
    delimiter: str = ","
    header: bool = True
    time_format: str = "iso"
    timezone: str = "UTC"

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        named = () if self.object is None else (("[[object]]", self.object),)
        return (*named, ("[[time]]", self.time), ("[[lon]]", self.lon), ("[[lat]]", self.lat))


def object_of(path: Path) -> str:
    """The file's name without its ending."""
    ending = max((e for e in ENDINGS if path.name.lower().endswith(e)), key=len, default="")
    name = path.name.removesuffix(path.name[len(path.name) - len(ending) :]) or path.name
    if len(name.encode()) > LONGEST_ID:
        raise BadInput(
            f"the object of {path} would have more than {LONGEST_ID} bytes",
            remedy="give the file a shorter name, or say which column it is with [[object]]",
        )
    return name


def refuse_misfit(layout: CsvFormat, bad: BadRows) -> None:
    """Blame an option if not one row could be read and all failed for one reason."""
    if bad.good or len(bad.counts) != 1:
        return
    ((reason, count),) = bad.counts.items()
    rows = f"not one of the first {count:,} rows"
    said, remedy = {
        NO_OBJECT: (f"[[object]] {layout.object}: {rows} has one", "check which column it is"),
        LONG_OBJECT: (
            f"[[object]] {layout.object}: {rows} has one of up to {LONGEST_ID} bytes",
            "check which column it is",
        ),
        NO_SUCH_TIME: (
            f"[[time_format]] {layout.time_format} does not fit [[time]] {layout.time}: {rows} has "
            "such a time",
            "say how times are written: iso, epoch, epoch-ms, or a format such as "
            "[[time_format]] '%d/%m/%Y %H:%M:%S'",
        ),
        NO_SUCH_COORDINATE: (
            f"[[lon]] {layout.lon} and [[lat]] {layout.lat}: {rows} has two numbers there",
            "check which columns they are; a decimal comma has to become a point first",
        ),
        UNEVEN: (
            f"[[delimiter]] {layout.delimiter}: {rows} has as many columns as the first line",
            "check [[delimiter]], and say [[no_header]] if there is none",
        ),
    }[reason]
    raise BadInput(said, remedy=remedy)


# Times in files: their formats, and local times made absolute.


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# Years 1 to 9999: what Python, NumPy and PostgreSQL can all hold.
_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999
# No zone ever changed its clocks within a quarter of an hour that began on one.
_QUARTER_US = 900_000_000


def time_zone(name: str) -> tzinfo:
    """A zone of the IANA list, by name."""
    if name.upper() == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise BadInput(
            f"[[timezone]] {name!r} is not a known time zone",
            remedy="give a name such as UTC, Europe/Brussels or Asia/Shanghai",
        ) from None


def to_utc(local_us: NDArray[np.int64], zone: tzinfo) -> NDArray[np.int64]:
    """Microseconds of a wall clock, as microseconds since 1970 UTC; `NO_TIME` stays.

    A time that the clock shows twice in autumn is taken as the first of the two.
    """
    if zone is UTC or not len(local_us):
        return local_us
    usable = local_us != NO_TIME
    quarter, position = np.unique(local_us[usable] // _QUARTER_US, return_inverse=True)
    naive = _EPOCH.replace(tzinfo=None)
    offsets = np.array(
        [
            (zone.utcoffset(naive + timedelta(microseconds=int(q) * _QUARTER_US)) or timedelta())
            // _MICROSECOND
            for q in quarter
        ],
        np.int64,
    )
    result = local_us.copy()
    result[usable] -= offsets[position]
    return result


def parser(text: str, zone: tzinfo) -> Callable[[pa.Array], NDArray[np.int64]]:
    """Strings to UTC microseconds, `NO_TIME` where a string is no time in this format."""
    if text == "iso":
        return lambda column: _iso(column, zone)
    if text in ("epoch", "epoch-ms"):
        return lambda column: _epoch(column, 1e6 if text == "epoch" else 1e3)
    if "%" not in text:
        raise BadInput(
            f"[[time_format]] {text!r} is not a format",
            remedy="give iso, epoch, epoch-ms or a strptime format such as '%d/%m/%Y %H:%M:%S'",
        )
    return lambda column: _each(column, zone, lambda value: datetime.strptime(value, text))


def numbers(column: pa.Array) -> NDArray[np.float64]:
    """Strings to numbers, NaN where a string is none."""
    trimmed = pc.utf8_trim_whitespace(column)
    try:
        parsed = pc.cast(trimmed, pa.float64())
    except pa.ArrowInvalid:
        looks = pc.match_substring_regex(trimmed, r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$")
        bare = pc.replace_substring_regex(trimmed, r"^\+", "")
        parsed = pc.cast(pc.if_else(looks, bare, None), pa.float64())
    values: NDArray[np.float64] = parsed.to_numpy(zero_copy_only=False).astype(np.float64)
    return np.where(np.isfinite(values), values, np.nan)


def _iso(column: pa.Array, zone: tzinfo) -> NDArray[np.int64]:
    for kind, of_zone in ((pa.timestamp("us"), zone), (pa.timestamp("us", "UTC"), UTC)):
        try:
            parsed = pc.cast(column, kind)
        except pa.ArrowInvalid:
            continue
        return _bounded(to_utc(pc.cast(parsed, pa.int64()).to_numpy(), of_zone))
    # Mixed, or with bad rows: one by one, which is slower and knows which.
    return _each(column, zone, datetime.fromisoformat)


def _epoch(column: pa.Array, factor: float) -> NDArray[np.int64]:
    seconds = numbers(column)
    usable = np.abs(np.nan_to_num(seconds, nan=np.inf)) * factor < _LAST_US
    scaled = np.round(np.where(usable, seconds, 0.0) * factor).astype(np.int64)
    return _bounded(np.where(usable, scaled, NO_TIME))


def _each(column: pa.Array, zone: tzinfo, parse: Callable[[str], datetime]) -> NDArray[np.int64]:
    local = np.full(len(column), NO_TIME, np.int64)
    absolute = np.zeros(len(column), bool)
    naive_epoch = _EPOCH.replace(tzinfo=None)
    for i, value in enumerate(column.to_pylist()):
        try:
            moment = parse(value.strip())
        except ValueError:
            continue
        absolute[i] = moment.tzinfo is not None
        since = moment - (_EPOCH if moment.tzinfo is not None else naive_epoch)
        local[i] = since // _MICROSECOND
    return _bounded(np.where(absolute, local, to_utc(np.where(absolute, NO_TIME, local), zone)))


def _bounded(at_us: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.where((at_us >= _FIRST_US) & (at_us <= _LAST_US), at_us, NO_TIME)


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
