"""Samples from CSV files of any column order, block by block; among them T-Drive's and GeoLife's.

Nothing is cleaned here: zeros, repeats and jumps stay, they are the build's to count.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from freqdp_db.errors import BadInput
from freqdp_db.loading.files import NO_TIME, BadRows, SourceSamples, folder
from freqdp_db.model.days import find_zone

LONGEST_ID = 200
ENDINGS = (".csv", ".csv.gz", ".txt", ".txt.gz", ".tsv", ".tsv.gz")
OPENING = 5_000
"""So many rows that all fail for one reason are enough to blame the options."""

_NO_OBJECT = "no object"
_LONG_OBJECT = f"object of more than {LONGEST_ID} bytes"
_NO_SUCH_TIME = "no such time"
_NO_SUCH_COORDINATE = "no such coordinate"
_UNEVEN = "another number of columns"


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
    skip_lines: int = 0
    clock: str | None = None
    """Column of the time of day, where `time` is the date alone."""
    altitude: str | None = None
    numbered: bool = False
    """Whether objects are numbers."""
    published: bool = False
    """Whether it is a publisher's: files may be empty, and nobody gave options to blame."""

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """The options and the columns that they name."""
        options = {
            "[[object]]": self.object, "[[time]]": self.time, "[[lon]]": self.lon,
            "[[lat]]": self.lat, "clock": self.clock, "altitude": self.altitude,
        }  # fmt: skip
        return tuple((option, column) for option, column in options.items() if column is not None)

    def object_of(self, path: Path) -> str:
        """The object of a file whose rows do not name it: the file's name without its ending.

        GeoLife's are folders: Data/<user>/Trajectory/<trajectory>.plt.
        """
        if self.published:
            return path.parent.parent.name
        ending = max((e for e in ENDINGS if path.name.lower().endswith(e)), key=len, default="")
        name = path.name.removesuffix(path.name[len(path.name) - len(ending) :]) or path.name
        if len(name.encode()) > LONGEST_ID:
            raise BadInput(
                f"the object of {path} would have more than {LONGEST_ID} bytes",
                remedy="give the file a shorter name, or say which column it is with [[object]]",
            )
        return name

    def refuse_misfit(self, bad: BadRows) -> None:
        """Blame an option if not one row could be read and all failed for one reason."""
        if self.published or bad.good or len(bad.counts) != 1:
            return
        ((reason, count),) = bad.counts.items()
        rows = f"not one of the first {count:,} rows"
        said, remedy = {
            _NO_OBJECT: (f"[[object]] {self.object}: {rows} has one", "check which column it is"),
            _LONG_OBJECT: (
                f"[[object]] {self.object}: {rows} has one of up to {LONGEST_ID} bytes",
                "check which column it is",
            ),
            _NO_SUCH_TIME: (
                f"[[time_format]] {self.time_format} does not fit [[time]] {self.time}: {rows} has "
                "such a time",
                "say how times are written: iso, epoch, epoch-ms, or a format such as "
                "[[time_format]] '%d/%m/%Y %H:%M:%S'",
            ),
            _NO_SUCH_COORDINATE: (
                f"[[lon]] {self.lon} and [[lat]] {self.lat}: {rows} has two numbers there",
                "check which columns they are; a decimal comma has to become a point first",
            ),
            _UNEVEN: (
                f"[[delimiter]] {self.delimiter}: {rows} has as many columns as the first line",
                "check [[delimiter]], and say [[no_header]] if there is none",
            ),
        }[reason]
        raise BadInput(said, remedy=remedy)


# Two published datasets, read from the folders that their publishers ship.


TDRIVE = CsvFormat(
    "1", "2", "3", "4", header=False, timezone="Asia/Shanghai", numbered=True, published=True
)
"""Rows `id,YYYY-mm-dd HH:MM:SS,lon,lat` in Beijing time."""
GEOLIFE = CsvFormat(
    None, "6", "2", "1", header=False, skip_lines=6, clock="7", altitude="4", published=True
)
"""Six header lines, then `lat,lon,0,altitude,days,date,time` in GMT; altitude in feet."""
_NO_ALTITUDE = -777.0


def tdrive_files(path: str, limit: int | None = None, min_samples: int = 0) -> list[Path]:
    """The taxis' files N.txt by number; those with too few lines left out."""
    files = [p for p in folder(path).glob("*.txt") if p.stem.isdecimal()]
    if not files:
        raise BadInput(
            f"{path} has no files named 1.txt, 2.txt, ...",
            remedy="give the folder taxi_log_2008_by_id of the T-Drive sample",
        )
    chosen: list[Path] = []
    for file in sorted(files, key=lambda p: int(p.stem)):
        if limit is not None and len(chosen) >= limit:
            break
        if min_samples <= 1 or len(file.read_bytes().splitlines()) >= min_samples:
            chosen.append(file)
    return chosen


def geolife_files(path: str) -> list[Path]:
    """All Trajectory/*.plt files under `Data` or `data` (or a folder that holds users directly)."""
    top = folder(path)
    below = sorted(p for p in top.iterdir() if p.name.lower() == "data" and p.is_dir())
    files = sorted((below[0] if below else top).glob("*/Trajectory/*.plt"))
    if not files:
        raise BadInput(
            f"{path} has no files Data/NNN/Trajectory/*.plt",
            remedy="give the folder of GeoLife that contains Data",
        )
    return files


# Times in files: their formats, and local times made absolute.


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# Years 1 to 9999: what Python, NumPy and PostgreSQL can all hold.
_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999
# No zone ever changed its clocks within a quarter of an hour that began on one.
_QUARTER_US = 900_000_000


def time_zone(name: str) -> tzinfo:
    """A zone by name; times in UTC need no conversion."""
    return UTC if name.upper() == "UTC" else find_zone(name)


def _to_utc(local_us: NDArray[np.int64], zone: tzinfo) -> NDArray[np.int64]:
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


def time_parser(text: str, zone: tzinfo) -> Callable[[pa.Array], NDArray[np.int64]]:
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


def _iso(column: pa.Array, zone: tzinfo) -> NDArray[np.int64]:
    for kind, of_zone in ((pa.timestamp("us"), zone), (pa.timestamp("us", "UTC"), UTC)):
        try:
            parsed = pc.cast(column, kind)
        except pa.ArrowInvalid:
            continue
        return _bounded(_to_utc(pc.cast(parsed, pa.int64()).to_numpy(), of_zone))
    # mixed, or with bad rows: one by one, which is slower and knows which
    return _each(column, zone, datetime.fromisoformat)


def _epoch(column: pa.Array, factor: float) -> NDArray[np.int64]:
    seconds = _numbers(column)
    usable = np.abs(np.nan_to_num(seconds, nan=np.inf)) * factor < _LAST_US
    scaled = np.round(np.where(usable, seconds, 0.0) * factor).astype(np.int64)
    return _bounded(np.where(usable, scaled, NO_TIME))


def _each(column: pa.Array, zone: tzinfo, parse: Callable[[str], datetime]) -> NDArray[np.int64]:
    local = np.full(len(column), NO_TIME, np.int64)
    absolute = np.zeros(len(column), bool)
    for i, value in enumerate(column.to_pylist()):
        try:
            moment = parse(value.strip())
        except ValueError:
            continue
        absolute[i] = moment.tzinfo is not None
        local[i] = (moment - _EPOCH.replace(tzinfo=UTC if absolute[i] else None)) // _MICROSECOND
    return _bounded(np.where(absolute, local, _to_utc(np.where(absolute, NO_TIME, local), zone)))


def _bounded(at_us: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.where((at_us >= _FIRST_US) & (at_us <= _LAST_US), at_us, NO_TIME)


def _numbers(column: pa.Array) -> NDArray[np.float64]:
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


# Reading.


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
    times = time_parser(layout.time_format, time_zone(layout.timezone))
    delimiter = {"\\t": "\t", "tab": "\t"}.get(layout.delimiter, layout.delimiter)
    if len(delimiter) != 1 or delimiter in '"\r\n' or not delimiter.isascii():
        raise BadInput(
            f"[[delimiter]] {layout.delimiter!r} is not one character", remedy="give , or ; or tab"
        )
    for path in paths:
        yield from _read_file(path, layout, delimiter, times, bad, on_bytes)
    layout.refuse_misfit(bad)


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
    if not names:
        return
    first_lines = layout.skip_lines + layout.header
    skipped: list[int] = []

    def uneven(row: Any) -> str:
        skipped.append(row.number)
        hopeless = not bad.good and len(skipped) == row.number - first_lines
        return "error" if hopeless and bad.total + len(skipped) >= OPENING else "skip"

    options: dict[str, Any] = {
        "read_options": pa.csv.ReadOptions(
            use_threads=False,
            block_size=_BLOCK_BYTES,
            skip_rows=layout.skip_lines,
            autogenerate_column_names=not layout.header,
        ),
        "parse_options": pa.csv.ParseOptions(
            delimiter=delimiter, newlines_in_values=True, invalid_row_handler=uneven
        ),
        "convert_options": pa.csv.ConvertOptions(
            include_columns=names, column_types=dict.fromkeys(names, pa.string())
        ),
    }
    last_line, reported, taken = first_lines, 0, 0
    try:
        with _opened(path) as (text, position), pa.csv.open_csv(text, **options) as reader:
            for block in reader:
                # rows with another number of columns are gone: the others' lines jump over them
                gone = skipped[reported:]
                lines = np.arange(last_line + 1, last_line + 1 + block.num_rows + len(gone))
                lines = lines[~np.isin(lines, gone)][: block.num_rows]
                last_line = max([last_line, *lines[-1:], *gone])
                yield _convert(path, block, lines, names, layout, times, bad)
                bad.add(path, _UNEVEN, gone)
                reported += len(gone)
                if bad.total >= OPENING:
                    layout.refuse_misfit(bad)
                now = position()
                on_bytes(now - taken)
                taken = now
    except pa.ArrowInvalid:
        bad.add(path, _UNEVEN, skipped[reported:])
        layout.refuse_misfit(bad)
        # Arrow's own message quotes the row
        raise BadInput(
            f"{path} cannot be read as CSV: it is not UTF-8 text, or a quote is left open",
            remedy="check [[delimiter]]; convert other encodings first, with iconv for example",
        ) from None
    except OSError:
        raise _unreadable(path) from None
    bad.add(path, _UNEVEN, skipped[reported:])
    if bad.total >= OPENING:
        layout.refuse_misfit(bad)
    on_bytes(path.stat().st_size - taken)


def _names(path: Path, layout: CsvFormat, delimiter: str) -> list[str]:
    """The columns as Arrow will call them; refuses those that the file does not have."""
    try:
        with pa.input_stream(str(path)) as stream:
            head = stream.read(1 << 16)
    except (OSError, pa.ArrowInvalid):
        raise _unreadable(path) from None
    lines = head.decode("utf-8-sig", errors="ignore").splitlines()[layout.skip_lines :]
    if not any(line.strip() for line in lines):
        if layout.published:
            return []
        raise BadInput(f"{path} is empty", remedy="leave it out")
    try:
        found = next(row for row in csv.reader(lines, delimiter=delimiter) if row)
    except (StopIteration, csv.Error):
        raise BadInput(f"{path} does not begin with a row of CSV") from None
    if not layout.header:
        for option, column in layout.columns:
            if not column.isdecimal() or not 1 <= int(column) <= len(found):
                raise BadInput(
                    f"{option} {column}: with [[no_header]] a column is its number",
                    remedy=f"give a number from 1 to {len(found)}",
                )
        return [f"f{int(column) - 1}" for _, column in layout.columns]
    for option, column in layout.columns:
        if found.count(column) != 1:
            problem = "twice" if column in found else "not"
            raise BadInput(
                f"{option} {column}: the header of {path} has it {problem}",
                # without a header the first row is somebody's data: show it only if it looks like names
                remedy="its columns are " + ", ".join(found[:30])
                if all(_NAME.fullmatch(name) for name in found)
                else "check [[delimiter]]; for files without a header say [[no_header]]",
            )
    return [column for _, column in layout.columns]


def _unreadable(path: Path) -> BadInput:
    return BadInput(
        f"{path} cannot be read",
        remedy="check that you may read it, and that a file named .gz really is one",
    )


def _convert(
    path: Path,
    block: pa.RecordBatch,
    lines: NDArray[np.int64],
    names: Sequence[str],
    layout: CsvFormat,
    times: Callable[[pa.Array], NDArray[np.int64]],
    bad: BadRows,
) -> SourceSamples:
    columns = [block.column(name) for name in names]
    who = pa.repeat(layout.object_of(path), len(block)) if layout.object is None else columns.pop(0)
    when, lon, lat, *more = columns
    length, extra = pc.binary_length(who).to_numpy(), {}
    if layout.numbered:
        is_number = pc.match_substring_regex(who, r"^\d{1,9}$")
        length = np.where(is_number.to_numpy(zero_copy_only=False), length, 0)
    if layout.clock is not None:
        clock, altitude = more
        when = pc.binary_join_element_wise(when, clock, " ")
        feet = _numbers(altitude)
        extra["altitude"] = np.where(feet == _NO_ALTITUDE, np.nan, feet)
    at, x, y = times(when), _numbers(lon), _numbers(lat)
    fine = np.ones(len(at), bool)
    for reason, wrong in (
        (_NO_OBJECT, length == 0),
        (_LONG_OBJECT, length > LONGEST_ID),
        (_NO_SUCH_TIME, at == NO_TIME),
        (_NO_SUCH_COORDINATE, np.isnan(x) | np.isnan(y)),
    ):
        bad.add(path, reason, lines[wrong & fine].tolist())
        fine &= ~wrong
    bad.good += int(fine.sum())
    # one long text would make all of them wide
    kept = pc.if_else(pa.array(fine), who, "")
    samples = SourceSamples(np.array(pc.cast(kept, pa.binary()).to_pylist(), "S"), at, x, y, extra)
    return samples if fine.all() else samples.take(fine)
