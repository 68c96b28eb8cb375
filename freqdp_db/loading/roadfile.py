"""Roads, as the roads table has them, from a generated city or from two CSV files."""

from __future__ import annotations

import csv
import gzip
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from freqdp_db.errors import BadInput
from freqdp_db.loading.files import BadRows
from freqdp_db.loading.network import KINDS, StreetNetwork, to_degrees

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
