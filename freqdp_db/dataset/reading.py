"""Read a dataset's source relation: one snapshot, straight into arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freqdp_db.columns.arrays import Ints, Metres
from freqdp_db.dataset import cleaning
from freqdp_db.dataset.cleaning import Rows
from freqdp_db.dataset.projection import WGS84
from freqdp_db.dataset.snapping import Snap
from freqdp_db.errors import BadData
from freqdp_db.progress import Progress
from freqdp_db.storage.connection.engine import Connection, Database
from freqdp_db.storage.records.datasets import DatasetRow
from freqdp_db.storage.source.lineage import SourceRelation, lineage
from freqdp_db.storage.source.relations import Relation, check_mapping, find_relation, geometry_srid
from freqdp_db.storage.source.rows import RowCounts, SourcePart, SourceReader, read_anchors


@dataclass(frozen=True)
class Source:
    """What was read, inside one snapshot."""

    rows: Rows
    counted: int
    excluded: dict[str, int]
    keys: list[str]
    """The objects: rows number them by their place here."""
    snapshot_at: datetime
    time_unit: str
    """As a build records it."""
    anchors: tuple[Metres, Metres, int] | None
    epoch_unit: str | None
    """What epoch numbers were taken to count; None: the times are times."""
    relations: list[SourceRelation]
    """What the rows came from and through."""


def read_source(database: Database, dataset: DatasetRow, progress: Progress) -> Source:
    snap = Snap.parse(dataset.snap)
    with database.begin(snapshot=True) as connection:
        reader = open_source(connection, dataset)
        snapshot_at = reader.taken_at()
        with progress.stage("count rows") as stage:
            counts = reader.count()
            stage.advance(counts.rows)
            require_any(dataset, counts)
        relations = trace(database, dataset)
        with progress.stage("read rows", counts.rows) as stage:
            keys = reader.objects()
            columns = read_columns(reader, stage.advance)
        anchors = None
        if snap.relation is not None:
            points = find_relation(connection, *snap.relation, option="[[snap]] anchors:")
            anchors = read_anchors(connection, points)
    rows, order, epoch_unit = numbered_rows(columns, keys, reader)
    return Source(
        rows=rows,
        counted=counts.rows,
        excluded=counts.excluded(),
        keys=order,
        snapshot_at=snapshot_at,
        time_unit=recorded_unit(reader),
        anchors=anchors,
        epoch_unit=epoch_unit,
        relations=relations,
    )


def trace(database: Database, dataset: DatasetRow) -> list[SourceRelation]:
    """What a source reads, while a transaction that has read from it is open: nobody can redefine it.

    In a session of its own: the snapshot of that transaction may be older than the definition.
    """
    with database.begin() as connection:
        return lineage(connection, database, dataset.source_schema, dataset.source_relation)


def open_source(
    connection: Connection, dataset: DatasetRow, part: SourcePart | None = None
) -> SourceReader:
    """A dataset's relation as it is now, if it still has the columns; part: only these rows."""
    relation = find_relation(connection, dataset.source_schema, dataset.source_relation)
    check_mapping(relation, dataset.mapping, projected=dataset.source_srid != WGS84)
    _require_same_srid(relation, dataset)
    return SourceReader(connection, relation, dataset.mapping, dataset.source_srid, part)


def _require_same_srid(relation: Relation, dataset: DatasetRow) -> None:
    """Refuse a column whose type declares another SRID than it did; odd rows are left out instead."""
    if dataset.mapping.geom is None:
        return
    declared = geometry_srid(relation.columns[dataset.mapping.geom])
    if declared not in (None, 0, dataset.source_srid):
        raise BadData(
            f"[[geom]] {dataset.mapping.geom!r} of {dataset.source} has SRID {declared} now, and had "
            f"{dataset.source_srid} when it was added",
            remedy="add it again under another name, or ST_Transform it in a view",
        )


def read_columns(reader: SourceReader, on_rows: Callable[[int], None]) -> dict[str, NDArray[Any]]:
    """All rows without a NULL, a column each."""
    chunks = list(reader.rows(on_rows))
    return {
        name: np.concatenate([c[name] for c in chunks] or [np.zeros(0)])
        for name in ("object", "at", "x", "y")
    }


def numbered_rows(
    columns: dict[str, NDArray[Any]], keys: dict[int, str], reader: SourceReader
) -> tuple[Rows, list[str], str | None]:
    """Rows whose objects are numbered by their place in the order of keys; that order; the unit of
    times that are numbers."""
    order = sorted(keys) if reader.integer_keys else sorted(keys, key=lambda k: keys[k])
    at, epoch_unit = read_times(columns, reader)
    owner = number_of(columns["object"].astype(np.int64), np.asarray(order, np.int64))
    rows = Rows(owner, at, columns["x"], columns["y"])
    return rows, [keys[k] for k in order], epoch_unit


def read_times(columns: dict[str, NDArray[Any]], reader: SourceReader) -> tuple[Ints, str | None]:
    """Microseconds since 2000; what epoch numbers were taken to count, None: times are times."""
    if not reader.epoch:
        return columns["at"].astype(np.int64), None
    unit = reader.time_unit or cleaning.guess_unit(columns["at"])
    return cleaning.epoch_to_us(columns["at"], unit), unit


def recorded_unit(reader: SourceReader) -> str:
    """How times are read, as a build records it."""
    return reader.time_unit or "guessed" if reader.epoch else "timestamp"


def number_of(objects: Ints, order: Ints) -> Ints:
    """The place of each row's object in `order`."""
    by_value = np.argsort(order)
    return by_value[np.searchsorted(order[by_value], objects)] if len(order) else objects


def require_any(dataset: DatasetRow, counts: RowCounts) -> None:
    if counts.rows == 0:
        where = f"{dataset.source_schema}.{dataset.source_relation}"
        raise BadData(f"{where} gives no rows", remedy="check [[source]] and [[where]]")
