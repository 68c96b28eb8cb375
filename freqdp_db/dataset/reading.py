"""Read a dataset's source relation: one snapshot, straight into arrays, here or by workers."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freqdp_db.dataset import cleaning
from freqdp_db.dataset.cleaning import Rows
from freqdp_db.dataset.projection import WGS84
from freqdp_db.dataset.snapping import Snap
from freqdp_db.db.builds import BuildRow, Window
from freqdp_db.db.connection import Connection, Database, DatabaseRef
from freqdp_db.db.datasets import DatasetRow
from freqdp_db.db.names import postgis_schema
from freqdp_db.db.source import (
    Relation,
    SourceRelation,
    check_mapping,
    declared_srid,
    find_relation,
    lineage,
)
from freqdp_db.db.source_rows import RowCounts, SourcePart, SourceReader, read_anchors
from freqdp_db.db.source_trips import as_samples
from freqdp_db.engines.partitions import Engine, LocalPartitions, Partitions, PerPartition, Range
from freqdp_db.engines.ranges import cut
from freqdp_db.errors import BadData, BadInput
from freqdp_db.model.arrays import Ints, Metres, offsets_from
from freqdp_db.progress import Progress, Stage


@dataclass(frozen=True)
class RawRows:
    """Rows of some objects as they were read, and how many were left out so far, by reason."""

    keys: list[str]
    """The objects: rows number them by their place here."""
    rows: Rows
    excluded: dict[str, int]


@dataclass(frozen=True)
class Source:
    """What was read, inside one snapshot, but for the rows themselves."""

    counts: RowCounts
    snapshot_at: datetime
    time_unit: str
    """As a build records it."""
    epoch_unit: str | None
    """What epoch numbers were taken to count; None: the times are times."""
    anchors: tuple[Metres, Metres, int] | None
    relations: list[SourceRelation]
    """What the rows came from and through."""


def read_source(
    engine: Engine,
    connection: Connection,
    database: Database,
    dataset: DatasetRow,
    progress: Progress,
    window: Window | None = None,
) -> tuple[Source, Partitions[RawRows]]:
    """Read a dataset's relation. connection: its transaction keeps the snapshot that all read.

    window: the rows of this window and no others; it may have none.
    """
    part = SourcePart(times=None if window is None else window.times)
    reader = open_source(connection, dataset, part)
    if window is not None:
        _require_declared_epochs(reader, dataset)
    snapshot_at = reader.taken_at()
    with progress.stage("count rows") as stage:
        counts = reader.count()
        stage.advance(counts.rows)
        if window is None:
            require_any(dataset, counts)
    relations = trace(database, dataset)
    with progress.stage("read rows", counts.rows) as stage:
        if engine.remote:
            partitions, epoch_unit = _read_by_workers(
                engine, reader, counts, ReadSpec.of(database, dataset, reader), part, stage
            )
        else:
            partitions, epoch_unit = _read_here(reader, stage)
    anchors, snap = None, Snap.parse(dataset.snap)
    if snap.relation is not None:
        points = find_relation(connection, *snap.relation, option="[[snap]] anchors:")
        anchors = read_anchors(connection, points)
    unit = recorded_unit(reader)
    source = Source(counts, snapshot_at, unit, epoch_unit, anchors, relations)
    return source, partitions


def _read_here(reader: SourceReader, stage: Stage) -> tuple[Partitions[RawRows], str | None]:
    """All rows in one partition; also the unit of epochs."""
    keys = reader.objects()
    rows, order, epoch_unit = numbered_rows(read_columns(reader, stage.advance), keys, reader)
    return LocalPartitions([(0, len(order))], [RawRows(order, rows, {})]), epoch_unit


# By workers: each reads the objects of its range, in the snapshot that this process keeps open. A worker
# that takes over the range of a lost one reads what that one has read.


@dataclass(frozen=True)
class ReadSpec:
    """A source, as it was at one moment."""

    reach: DatabaseRef
    dataset: DatasetRow
    snapshot: str

    @classmethod
    def of(cls, database: Database, dataset: DatasetRow, reader: SourceReader) -> ReadSpec:
        return cls(DatabaseRef.of(database), dataset, reader.export())


def _read_by_workers(
    engine: Engine,
    reader: SourceReader,
    counts: RowCounts,
    spec: ReadSpec,
    part: SourcePart,
    stage: Stage,
) -> tuple[Partitions[RawRows], str | None]:
    """Cut the objects into ranges by their rows, and have these read; also the unit of epochs."""
    if reader.epoch and reader.time_unit is None:
        raise BadInput(
            "[[engine]] dask cannot guess what epoch numbers count: all of them would have to be in one "
            "process",
            remedy=f"declare it: freqdp dataset set {shlex.quote(spec.dataset.name)} --time-unit "
            "s|ms|us|ns; or use [[engine]] threads",
        )
    sizes = reader.sizes()
    ranges = cut(offsets_from(np.array([n for *_, n in sizes])), engine.partitions(counts.rows))
    keys = [[key for key, *_ in sizes[first:last]] for first, last in ranges]
    # of a window, an index gives the rows of some objects
    blocks = reader.blocks() if part.times is None else None
    # none here: a view, or a table whose rows are on other servers
    if not blocks or len(ranges) == 1:
        limits = [replace(part, objects=(own[0], own[-1]) if own else None) for own in keys]
        objects = engine.load(ranges, _as_range)
        partitions = objects.map(_read_objects, spec, PerPartition(limits))
        for rows in partitions.map(rows_of):
            stage.advance(rows)
    else:
        # each block is read once; an index on objects would read each of them many times
        stretches = _between(blocks, len(ranges), reader.hash_seed)
        order = np.array([number for _, number, _ in sizes], np.int64)
        lying = engine.load([(n, n + 1) for n in range(len(stretches))], _as_range)
        read = lying.map(_read_blocks, spec, PerPartition(stretches), order)
        for rows in read.map(len):
            stage.advance(rows)
        wanted = [[objects] * len(stretches) for objects in ranges]
        joined = read.shuffle(_rows_between, wanted, _join_rows, ranges)
        partitions = joined.map(_with_keys, PerPartition(keys))
        # what was read is let go once everything was handed on
        del read, joined
        sum(partitions.map(rows_of))
    return partitions, reader.time_unit if reader.epoch else None


def _between(blocks: int, count: int, hash_seed: int) -> list[SourcePart]:
    """All blocks, and what may come after them, in so many parts."""
    edges = [blocks * n // count for n in range(count)]
    return [
        SourcePart(blocks=(first, last), hash_seed=hash_seed)
        for first, last in zip(edges, [*edges[1:], None], strict=True)
    ]


def _require_declared_epochs(reader: SourceReader, dataset: DatasetRow) -> None:
    """Which rows a window has must not depend on others: what epoch numbers count is not guessed."""
    if reader.epoch and reader.time_unit is None:
        raise BadInput(
            f"[[window]]: the times of {dataset.name} are epoch numbers, and what they count is not "
            "declared",
            remedy=f"freqdp dataset set {shlex.quote(dataset.name)} --time-unit s|ms|us|ns",
        )


def late_rows(database: Database, dataset: DatasetRow, build: BuildRow) -> int:
    """How many rows the window of a build has now beyond those that were read; 0 if it has fewer."""
    assert build.window_begin is not None and build.window_end is not None
    part = SourcePart(times=(build.window_begin, build.window_end))
    with database.begin(snapshot=True) as connection:
        now = open_source(connection, dataset, part).count().rows
    return max(now - build.rows, 0)


def _as_range(first: int, last: int) -> Range:
    return first, last


def _read_objects(objects: Range, spec: ReadSpec, part: SourcePart) -> RawRows:
    """Read the rows of a range of objects."""
    with spec.reach.database().begin(snapshot=spec.snapshot) as connection:
        reader = open_source(connection, spec.dataset, part)
        keys = reader.objects()
        rows, order, _ = numbered_rows(read_columns(reader, _nobody), keys, reader)
    return RawRows(order, rows, {})


def _read_blocks(blocks: Range, spec: ReadSpec, part: SourcePart, order: Ints) -> Rows:
    """Read what lies in some blocks; `order`: numbers on the wire of all objects, in their order."""
    with spec.reach.database().begin(snapshot=spec.snapshot) as connection:
        reader = open_source(connection, spec.dataset, part)
        columns = read_columns(reader, _nobody)
    owner = number_of(columns["object"].astype(np.int64), order)
    return Rows(owner, read_times(columns, reader)[0], columns["x"], columns["y"])


def _nobody(rows: int) -> None:
    return None


def _rows_between(rows: Rows, objects: Range) -> Rows:
    """Those of a range of objects, numbered from its first."""
    first, last = objects
    own = rows.take((rows.object >= first) & (rows.object < last))
    return replace(own, object=own.object - first)


def _join_rows(pieces: list[Rows]) -> Rows:
    columns = (np.concatenate([getattr(p, f.name) for p in pieces]) for f in fields(Rows))
    return Rows(*columns)


def _with_keys(rows: Rows, keys: list[str]) -> RawRows:
    return RawRows(keys, rows, {})


def rows_of(read: RawRows) -> int:
    return len(read.rows)


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
    samples = as_samples(relation, dataset.mapping, postgis_schema(connection))
    check_mapping(*samples, projected=dataset.source_srid != WGS84)
    _require_same_srid(relation, dataset)
    return SourceReader(connection, relation, dataset.mapping, dataset.source_srid, part)


def _require_same_srid(relation: Relation, dataset: DatasetRow) -> None:
    """Refuse a column whose type declares another SRID than it did; odd rows are left out instead."""
    if dataset.mapping.geom is None:
        return
    declared = declared_srid(relation, dataset.mapping.geom)
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
