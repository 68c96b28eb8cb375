"""Input files: finding them, saying what is wrong without quoting a row; T-Drive, GeoLife and roads."""

from __future__ import annotations

import csv
import glob
import gzip
import io
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from freqdp_db.errors import BadInput
from freqdp_db.loading.network import KINDS, StreetNetwork, to_degrees

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


# Two published datasets, read from the folders that their publishers ship: T-Drive and GeoLife.
#
# Nothing is cleaned here: zeros, repeats and jumps stay, they are the build's to count.


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


# Roads, as the roads table has them, from a generated city or from two CSV files.


_LINESTRING = re.compile(r"\s*(?:SRID=4326;)?LINESTRING\s*\(([-+0-9.eE,\s]+)\)\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Road:
    """One row of a roads table. A two-way road is one row; `oneway` runs source to target."""

    id: int
    source: int
    target: int
    name: str | None
    kind: str | None
    length_m: float
    speed_kmh: float | None
    oneway: bool
    line: NDArray[np.float64]
    """Longitudes and latitudes, one row per vertex."""

    def row(self) -> tuple[Any, ...]:
        """The columns in the order of the fields; the line as hex EWKB."""
        points = np.ascontiguousarray(self.line, "<f8")
        ewkb = struct.pack("<BIII", 1, 0x20000002, 4326, len(points)) + points.tobytes()
        return (
            self.id,
            self.source,
            self.target,
            self.name,
            self.kind,
            self.length_m,
            self.speed_kmh,
            self.oneway,
            ewkb.hex(),
        )


def city_roads(network: StreetNetwork) -> Iterator[Road]:
    """The city's roads, numbered from 1 like its junctions."""
    lon, lat = to_degrees(network.x, network.y)
    names, lengths, speeds = network.names(), network.length_m, network.speed_kmh
    for i, (s, t) in enumerate(zip(network.source, network.target, strict=True)):
        yield Road(
            i + 1,
            int(s) + 1,
            int(t) + 1,
            names[i],
            KINDS[network.kind[i]],
            round(float(lengths[i]), 2),
            float(speeds[i]),
            bool(network.oneway[i]),
            np.round(np.array([[lon[s], lat[s]], [lon[t], lat[t]]]), 7),
        )


def read_roads(nodes_path: Path, edges_path: Path) -> Iterator[Road]:
    """Roads from `node_id,lon,lat` and `edge_id,u,v,length_m[,wkt]`.

    Each row is one direction, as in the usual exports, unless a column `oneway` says otherwise.
    Without a `wkt` column roads are straight. `name`, `kind` and `speed_kmh` are taken if there.
    """
    nodes = _read_nodes(nodes_path)
    bad = BadRows()
    seen: set[int] = set()
    for line, row in _rows(edges_path, ("edge_id", "u", "v", "length_m")):
        try:
            road = _road(row, nodes)
        except KeyError:
            bad.add(edges_path, "junction that the nodes file does not have", [line])
            continue
        except (ValueError, TypeError):
            bad.add(edges_path, "no such number or line", [line])
            continue
        if road.id in seen:
            bad.add(edges_path, "edge_id given before", [line])
            continue
        seen.add(road.id)
        yield road
    bad.refuse("correct the file; roads are loaded all or not at all")


def _read_nodes(path: Path) -> dict[int, tuple[float, float]]:
    bad = BadRows()
    nodes: dict[int, tuple[float, float]] = {}
    for line, row in _rows(path, ("node_id", "lon", "lat")):
        try:
            place = (float(row["lon"]), float(row["lat"]))
            if not (abs(place[0]) <= 180 and abs(place[1]) <= 90):
                raise ValueError
            nodes[int(row["node_id"])] = place
        except (ValueError, TypeError):
            bad.add(path, "no such number or coordinate", [line])
    bad.refuse("correct the file: node_id is a whole number, lon and lat are degrees")
    return nodes


def _road(row: dict[str, str], nodes: dict[int, tuple[float, float]]) -> Road:
    source, target = int(row["u"]), int(row["v"])
    ends = (nodes[source], nodes[target])
    wkt = row.get("wkt")
    line = np.array(ends) if wkt is None else _line(wkt)
    length, speed = float(row["length_m"]), row.get("speed_kmh")
    if not length >= 0 or not np.isfinite(length):
        raise ValueError
    return Road(
        int(row["edge_id"]),
        source,
        target,
        row.get("name") or None,
        row.get("kind") or None,
        length,
        float(speed) if speed else None,
        row.get("oneway", "true").strip().lower() in ("true", "t", "yes", "1"),
        line,
    )


def _line(wkt: str) -> NDArray[np.float64]:
    match = _LINESTRING.fullmatch(wkt)
    if match is None:
        raise ValueError
    points = np.array([[float(v) for v in p.split()] for p in match[1].split(",")])
    if points.ndim != 2 or points.shape[1] != 2 or len(points) < 2:
        raise ValueError
    return points


def _rows(path: Path, needed: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    """Line numbers and rows of a CSV file with a header; gzip by its name."""
    if not path.is_file():
        raise BadInput(f"{path} is missing", remedy="check the path")
    try:
        with _open(path) as file:
            reader = csv.DictReader(file)
            missing = [name for name in needed if name not in (reader.fieldnames or ())]
            if missing:
                raise BadInput(
                    f"{path} has no column {', '.join(missing)}",
                    remedy=f"its header must have {', '.join(needed)}",
                )
            for row in reader:
                yield reader.line_num, row
    except (OSError, EOFError, UnicodeDecodeError, csv.Error):
        raise BadInput(
            f"{path} cannot be read as CSV", remedy="it must be UTF-8 text, or gzip named .gz"
        ) from None


def _open(path: Path) -> TextIO:
    if path.name.endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")
