"""Two published datasets, read from the folders that their publishers ship: T-Drive and GeoLife.

Nothing is cleaned here: zeros, repeats and jumps stay, they are the build's to count.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from freqdp_db.errors import BadInput
from freqdp_db.loading.files import SourceSamples, batches, folder, read_bytes, total_bytes

_BATCH_BYTES = 1 << 25
_BEIJING_S = 8 * 3_600
"""Beijing's clocks were eight hours ahead of UTC, all year, in the years of these data."""
_GEOLIFE_HEADER = 6
_NO_ALTITUDE = -777.0

_TDRIVE = {"id": pa.int32(), "at": pa.timestamp("s"), "lon": pa.float64(), "lat": pa.float64()}
_GEOLIFE = {
    "lat": pa.float64(),
    "lon": pa.float64(),
    "zero": pa.string(),
    "altitude": pa.float64(),
    "days": pa.string(),
    "date": pa.date32(),
    "time": pa.time32("s"),
}


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
        if min_samples <= 1 or read_bytes(file).count(b"\n") >= min_samples:
            chosen.append(file)
    return chosen


def read_tdrive(
    files: list[Path], on_bytes: Callable[[int], None] = lambda _: None
) -> Iterator[SourceSamples]:
    """Rows `id,YYYY-mm-dd HH:MM:SS,lon,lat` in Beijing time, many files at a time."""
    for paths, parts in batches(files, _BATCH_BYTES):
        table = _parse(paths, parts, _TDRIVE, 1)
        at = _numpy(table, "at").astype("datetime64[s]").astype(np.int64)
        yield SourceSamples(
            _numpy(table, "id"),
            (at - _BEIJING_S) * 1_000_000,
            _numpy(table, "lon"),
            _numpy(table, "lat"),
        )
        on_bytes(total_bytes(paths))


def geolife_files(path: str) -> list[Path]:
    """All Trajectory/*.plt files under `Data` or `data` (or a folder that holds users directly)."""
    top = folder(path)
    below = sorted(p for p in top.iterdir() if p.name.lower() == "data" and p.is_dir())
    base = below[0] if below else top
    files = sorted(base.glob("*/Trajectory/*.plt"))
    if not files:
        raise BadInput(
            f"{path} has no files Data/NNN/Trajectory/*.plt",
            remedy="give the folder of GeoLife that contains Data",
        )
    return files


def read_geolife(
    files: list[Path], on_bytes: Callable[[int], None] = lambda _: None
) -> Iterator[SourceSamples]:
    """Six header lines, then `lat,lon,0,altitude,days,date,time` in GMT; altitude in feet."""
    for paths, parts in batches(files, _BATCH_BYTES, skip_lines=_GEOLIFE_HEADER):
        table = _parse(paths, parts, _GEOLIFE, _GEOLIFE_HEADER + 1)
        lines = [part.count(b"\n") for part in parts]
        if sum(lines) != table.num_rows:
            # Blank lines, which the parser passes over: count each file's rows by parsing it.
            lines = [
                _parse([p], [d], _GEOLIFE, _GEOLIFE_HEADER + 1).num_rows
                for p, d in zip(paths, parts, strict=True)
            ]
        users = np.array([p.parent.parent.name for p in paths], dtype="S")
        day = _numpy(table, "date").astype("datetime64[D]").astype(np.int64)
        second = table["time"].cast(pa.int32()).to_numpy().astype(np.int64)
        altitude = _numpy(table, "altitude")
        yield SourceSamples(
            np.repeat(users, lines),
            (day * 86_400 + second) * 1_000_000,
            _numpy(table, "lon"),
            _numpy(table, "lat"),
            {"altitude": np.where(altitude == _NO_ALTITUDE, np.nan, altitude)},
        )
        on_bytes(total_bytes(paths))


def _parse(
    paths: list[Path], parts: list[bytes], columns: dict[str, pa.DataType], first_line: int
) -> pa.Table:
    try:
        table = _parse_bytes(b"".join(parts), columns)
    except pa.ArrowInvalid:
        table = None
    # A missing value would be read as NULL, which these formats do not have.
    if table is not None and not any(table[name].null_count for name in columns):
        return table
    for path, part in zip(paths, parts, strict=True):
        wrong = _wrong_lines(part, columns)
        if wrong:
            raise BadInput(
                f"{path}: {len(wrong):,} line(s) are not in the published format, "
                f"the first is line {wrong[0] + first_line}",
                remedy="take a fresh copy, or use `freqdp load csv --skip-bad`",
            ) from None
    raise BadInput(f"{paths[0]} and the files after it are not in the published format")


def _parse_bytes(data: bytes, columns: dict[str, pa.DataType]) -> pa.Table:
    return pa.csv.read_csv(
        io.BytesIO(data),
        read_options=pa.csv.ReadOptions(column_names=list(columns), block_size=1 << 22),
        convert_options=pa.csv.ConvertOptions(column_types=columns),
    )


def _wrong_lines(part: bytes, columns: dict[str, pa.DataType]) -> list[int]:
    """Indices of the lines that do not parse; halves the text, so a good file costs one parse."""
    pending = [(0, part.splitlines(keepends=True))]
    wrong: list[int] = []
    while pending:
        start, lines = pending.pop()
        text = b"".join(lines)
        try:
            if not text.strip():
                continue
            table = _parse_bytes(text, columns)
            if not any(table[name].null_count for name in columns):
                continue
        except pa.ArrowInvalid:
            pass
        if len(lines) == 1:
            wrong.append(start)
        else:
            half = len(lines) // 2
            pending += [(start, lines[:half]), (start + half, lines[half:])]
    return sorted(wrong)


def _numpy(table: pa.Table, name: str) -> NDArray[Any]:
    values: NDArray[Any] = table[name].to_numpy()
    return values
