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
from freqdp_db.storage.source.relations import check_mapping, find_relation
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
    anchors: tuple[Metres, Metres, int] | None
    epoch_unit: str | None
    """What numbers were read as; None: the times are times."""


def read_source(database: Database, dataset: DatasetRow, progress: Progress) -> Source:
    snap = Snap.parse(dataset.snap)
    with database.begin(snapshot=True) as connection:
        reader = open_source(connection, dataset)
        snapshot_at = reader.taken_at()
        with progress.stage("count rows") as stage:
            counts = reader.count()
            stage.advance(counts.rows)
            refuse_unreadable(dataset, counts)
        with progress.stage("read rows", counts.rows) as stage:
            keys = reader.objects()
            columns = read_columns(reader, stage.advance)
        anchors = None
        if snap.relation is not None:
            points = find_relation(connection, *snap.relation, option="--snap anchors:")
            anchors = read_anchors(connection, points)
    rows, order, epoch_unit = numbered_rows(columns, keys, reader)
    return Source(
        rows=rows,
        counted=counts.rows,
        excluded=counts.excluded(),
        keys=order,
        snapshot_at=snapshot_at,
        anchors=anchors,
        epoch_unit=epoch_unit,
    )


def open_source(
    connection: Connection, dataset: DatasetRow, part: SourcePart | None = None
) -> SourceReader:
    """A dataset's relation as it is now, if it still has the columns; part: only these rows."""
    relation = find_relation(connection, dataset.source_schema, dataset.source_relation)
    check_mapping(relation, dataset.mapping, projected=dataset.source_srid != WGS84)
    return SourceReader(connection, relation, dataset.mapping, part)


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
    at, epoch_unit = columns["at"].astype(np.int64), None
    if reader.epoch:
        at, epoch_unit = cleaning.epoch_to_us(columns["at"])
    owner = number_of(columns["object"].astype(np.int64), np.asarray(order, np.int64))
    rows = Rows(owner, at, columns["x"], columns["y"])
    return rows, [keys[k] for k in order], epoch_unit


def number_of(objects: Ints, order: Ints) -> Ints:
    """The place of each row's object in `order`."""
    by_value = np.argsort(order)
    return by_value[np.searchsorted(order[by_value], objects)] if len(order) else objects


def refuse_unreadable(dataset: DatasetRow, counts: RowCounts) -> None:
    where = f"{dataset.source_schema}.{dataset.source_relation}"
    if counts.rows == 0:
        raise BadData(f"{where} gives no rows", remedy="check --from and --where")
    if counts.not_points:
        raise BadData(
            f"{counts.not_points:,} rows of {where} hold a geometry that is not a point",
            remedy="leave them out with --where, or use ST_DumpPoints in a view",
        )
    if any(srid != dataset.source_srid for srid in counts.srids):
        raise BadData(
            f"rows of {where} have another SRID than the {dataset.source_srid} it was added with",
            remedy="leave them out with --where, or ST_Transform them in a view",
        )
