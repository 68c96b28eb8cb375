"""What a build comes to, whoever makes it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freqdp_db.columns.arrays import Ints
from freqdp_db.columns.build import Build
from freqdp_db.dataset.cleaning import REASONS, TIME_UNITS
from freqdp_db.dataset.findings import Findings, SeenTimes, look_at
from freqdp_db.dataset.projection import WGS84, ReferenceSystem, transform
from freqdp_db.errors import BadData
from freqdp_db.search.grid import Frame
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.records.datasets import DatasetRow
from freqdp_db.storage.source.lineage import SourceRelation
from freqdp_db.storage.source.reference import definition_of


@dataclass(frozen=True)
class Made:
    """A build whose tables are filled, and what is recorded of it."""

    built: Build
    snapshot_at: datetime
    time_unit: str
    """How times were read, as a build records it."""
    counted: int
    """Rows of the source."""
    excluded: dict[str, int]
    segments: int
    frame: Frame
    fingerprint: str
    findings: Findings
    relations: list[SourceRelation]
    """What the rows came from and through."""


def require_rows(rows: int, excluded: dict[str, int]) -> None:
    if rows == 0:
        reasons = ", ".join(f"{n:,} {REASONS[r]}" for r, n in excluded.items() if n)
        raise BadData(
            f"no row can be used: {reasons}",
            remedy="check the column mapping (are [[lon]] and [[lat]] swapped? Numbers in metres are "
            "named with [[x]], [[y]] and [[srid]]; lines are taken apart with ST_DumpPoints in a view)",
        )


def reference(database: Database, srid: int) -> ReferenceSystem:
    with database.begin() as connection:
        return ReferenceSystem.parse(srid, definition_of(connection, srid, "SRID"))


def look(
    database: Database,
    dataset: DatasetRow,
    built: Build,
    samples: Ints,
    times: SeenTimes,
    time_unit: str | None,
) -> Findings:
    """Where and when a build lies, and what looks wrong. samples: how many each place has.

    time_unit: what epoch numbers were taken to count; None: times are times.
    """
    raw = reference(database, dataset.source_srid)
    lon, lat = transform(raw, reference(database, WGS84), *built.locations.in_source())
    mapping = dataset.mapping
    return look_at(
        lon,
        lat,
        samples,
        times,
        built.trajectories.lengths,
        timezone=mapping.timezone,
        epoch_unit=None if time_unit is None else TIME_UNITS[time_unit],
        columns=(mapping.lon, mapping.lat)
        if raw.geographic and mapping.lon and mapping.lat
        else None,
        region=dataset.region,
        utm_srid=built.srid if dataset.srid is None and not raw.metric else None,
    )


def fingerprint(
    dataset: DatasetRow, built: Build, keys: list[str], samples: Iterable[NDArray[Any]]
) -> str:
    """A hash of everything in a build. samples: the column of places, then that of times."""
    digest = hashlib.sha256(f"{dataset.snap} {dataset.source_srid} {built.srid}".encode())
    for key in keys:
        digest.update(f"{len(key)} {key}".encode())
    for column in (built.locations.x, built.locations.y, built.trajectories.offsets):
        digest.update(np.ascontiguousarray(column).view(np.uint8).data)
    for column in samples:
        digest.update(np.ascontiguousarray(column).view(np.uint8).data)
    return digest.hexdigest()
