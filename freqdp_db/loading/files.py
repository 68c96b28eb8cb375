"""Input files: finding them, what their readers give, and what is wrong, without quoting a row; roads."""

from __future__ import annotations

import csv
import glob
import gzip
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import numpy as np
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


# Roads, as the columns of a roads table, from a generated city or from two CSV files.


RoadColumns = dict[str, Any]
"""id, source, target, name, kind, length_m, speed_kmh, oneway and geom, longitudes and latitudes of a line.

A two-way road is one row; `oneway` runs from source to target."""
_ROAD = ("id", "source", "target", "name", "kind", "length_m", "speed_kmh", "oneway", "geom")
_LINESTRING = re.compile(r"\s*(?:SRID=4326;)?LINESTRING\s*\(([-+0-9.eE,\s]+)\)\s*", re.IGNORECASE)


def city_roads(network: StreetNetwork) -> RoadColumns:
    """The city's roads, numbered from 1 like its junctions."""
    places = np.round(np.column_stack(to_degrees(network.x, network.y)), 7)
    return {
        "id": np.arange(1, len(network.source) + 1),
        "source": network.source + 1,
        "target": network.target + 1,
        "name": [name.encode() for name in network.names()],
        "kind": [KINDS[kind].encode() for kind in network.kind],
        "length_m": np.array([round(length, 2) for length in network.length_m.tolist()]),
        "speed_kmh": network.speed_kmh,
        "oneway": network.oneway,
        "geom": np.stack([places[network.source], places[network.target]], axis=1),
    }


def read_roads(nodes_path: Path, edges_path: Path) -> RoadColumns:
    """Roads from `node_id,lon,lat` and `edge_id,u,v,length_m[,wkt]`.

    Each row is one direction, as in the usual exports, unless a column `oneway` says otherwise.
    Without a `wkt` column roads are straight. `name`, `kind` and `speed_kmh` are taken if there.
    """
    nodes, bad = _read_nodes(nodes_path), BadRows()
    roads: dict[int, tuple[Any, ...]] = {}
    for line, row in _rows(edges_path, ("edge_id", "u", "v", "length_m")):
        try:
            road = _road(row, nodes)
        except KeyError:
            bad.add(edges_path, "junction that the nodes file does not have", [line])
            continue
        except (ValueError, TypeError):
            bad.add(edges_path, "no such number or line", [line])
            continue
        if road[0] in roads:
            bad.add(edges_path, "edge_id given before", [line])
        roads.setdefault(road[0], road)
    bad.refuse("correct the file; roads are loaded all or not at all")
    columns = list(zip(*roads.values(), strict=True)) or [()] * len(_ROAD)
    return dict(zip(_ROAD, columns, strict=True))


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


def _road(row: dict[str, str], nodes: dict[int, tuple[float, float]]) -> tuple[Any, ...]:
    """The fields of a road in the order of its columns."""
    source, target = int(row["u"]), int(row["v"])
    if not all(-(2**63) <= number < 2**63 for number in (int(row["edge_id"]), source, target)):
        raise ValueError
    ends = np.array((nodes[source], nodes[target]))
    length, speed = float(row["length_m"]), row.get("speed_kmh")
    if not 0 <= length < np.inf:
        raise ValueError
    return (
        int(row["edge_id"]),
        source,
        target,
        (row.get("name") or "").encode() or None,
        (row.get("kind") or "").encode() or None,
        length,
        float(speed) if speed else np.nan,
        row.get("oneway", "true").strip().lower() in ("true", "t", "yes", "1"),
        ends if row.get("wkt") is None else _line(row["wkt"]),
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
