"""Read a dataset's source relation: one snapshot, straight into arrays, here or by workers."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from datetime import datetime
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freqdp_db.dataset import cleaning
from freqdp_db.dataset.cleaning import Rows
from freqdp_db.dataset.projection import WGS84
from freqdp_db.dataset.text_values import Snap
from freqdp_db.db.builds import BuildRow, Window
from freqdp_db.db.connection import Connection, Database, DatabaseRef
from freqdp_db.db.datasets import DatasetRow
from freqdp_db.db.source import (
    SourceRelation,
    check_keep_columns,
    check_mapping,
    declared_srid,
    find_relation,
    lineage,
)
from freqdp_db.db.source_rows import RowCounts, SourcePart, SourceReader, as_samples, read_anchors
from freqdp_db.engines.partitions import Engine, LocalPartitions, Partitions, PerPartition, Range
from freqdp_db.engines.ranges import cut
from freqdp_db.errors import BadData, BadInput
from freqdp_db.model.arrays import Ints, Metres, offsets_from
from freqdp_db.model.trajectories import KeptValue
from freqdp_db.progress import Progress, Stage


@dataclass(frozen=True)
class RawRows:
    """Rows of some objects as they were read, and how many were left out so far, by reason."""

    keys: list[str]
    """The objects: rows number them by their place here."""
    rows: Rows
    excluded: dict[str, int]

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class SourceColumns:
    """Columns that rows carry along."""

    columns: tuple[tuple[str, str], ...]
    """The name of each, and its type in a release."""
    values: tuple[tuple[str, ...], ...]
    """The values of each as text, in order: a row has one number for its values of all columns."""

    @property
    def numbers(self) -> int:
        """How many numbers rows may have."""
        return prod(len(values) + 1 for values in self.values)

    def values_of(self, number: int) -> tuple[KeptValue, ...]:
        """The values that a number stands for."""
        found: list[KeptValue] = []
        for (_, kind), values in zip(self.columns, self.values, strict=True):
            number, which = divmod(number, len(values) + 1)
            text = None if which == 0 else values[which - 1]
            if text is None or kind == "text":
                found.append(text)
            else:
                found.append(text == "true" if kind == "bool" else int(text))
        return tuple(found)


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
    kept: SourceColumns | None
    """What rows carry along; None: nothing."""


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
    if window is not None and reader.epoch and reader.time_unit is None:
        # which rows a window has must not depend on others
        raise BadInput(
            f"[[window]]: the times of {dataset.name} are epoch numbers, and what they count is not "
            "declared",
            remedy=f"freqdp dataset set {shlex.quote(dataset.name)} --time-unit s|ms|us|ns",
        )
    snapshot_at = reader.taken_at()
    with progress.stage("count rows") as stage:
        counts = reader.count()
        stage.advance(counts.rows)
        if window is None and counts.rows == 0:
            raise BadData(
                f"{dataset.source_schema}.{dataset.source_relation} gives no rows",
                remedy="check [[source]] and [[where]]",
            )
    # nobody can redefine the source while a transaction that has read from it is open; in a session of
    # its own: the snapshot of that transaction may be older than the definition
    relations = lineage(database, dataset.source_schema, dataset.source_relation)
    if reader.carries:
        with progress.stage("find values", counts.rows):
            part = replace(part, kept=reader.kept)
    with progress.stage("read rows", counts.rows) as stage:
        if engine.remote:
            spec = ReadSpec(DatabaseRef.of(database), dataset, reader.export())
            partitions, epoch_unit = _read_by_workers(engine, reader, counts, spec, part, stage)
        else:
            read, epoch_unit = _read_rows(reader, stage.advance)
            partitions = LocalPartitions([(0, len(read.keys))], [read])
    anchors, snap = None, Snap.parse(dataset.snap)
    if snap.relation is not None:
        points = find_relation(connection, *snap.relation, option="[[snap]]")
        anchors = read_anchors(connection, points)
    unit = reader.time_unit or "guessed" if reader.epoch else "timestamp"
    carried = SourceColumns(reader.kept_columns, reader.kept) if reader.carries else None
    source = Source(counts, snapshot_at, unit, epoch_unit, anchors, relations, carried)
    return source, partitions


def _read_rows(reader: SourceReader, on_rows: Callable[[int], None]) -> tuple[RawRows, str | None]:
    """All rows of a reader; also the unit of epochs."""
    objects = reader.objects()
    rows, keys, epoch_unit = numbered_rows(read_columns(reader, on_rows), objects, reader)
    return RawRows(keys, rows, {}), epoch_unit


# By workers: each reads the objects of its range, in the snapshot that this process keeps open. A worker
# that takes over the range of a lost one reads what that one has read.


@dataclass(frozen=True)
class ReadSpec:
    """A source, as it was at one moment."""

    reach: DatabaseRef
    dataset: DatasetRow
    snapshot: str


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
    known = reader.objects()
    ranges = cut(offsets_from(np.array([n for *_, n in known])), engine.partitions(counts.rows))
    keys = [[key for key, *_ in known[first:last]] for first, last in ranges]
    # of a window, an index gives the rows of some objects
    blocks = reader.blocks() if part.times is None else None
    # none here: a view, or a table whose rows are on other servers
    if not blocks or len(ranges) == 1:
        limits = [replace(part, objects=(own[0], own[-1]) if own else None) for own in keys]
        sizes = [sum(n for *_, n in known[first:last]) for first, last in ranges]
        objects = engine.load(ranges, _as_range)
        partitions = objects.map(_read_objects, spec, PerPartition(limits), PerPartition(sizes))
        for rows in partitions.map(len):
            stage.advance(rows)
    else:
        # each block is read once; an index on objects would read each of them many times
        edges = [blocks * n // len(ranges) for n in range(len(ranges))]
        # what may have come after the last block belongs to the last stretch
        stretches = [
            SourcePart(blocks=limits, hash_seed=reader.hash_seed, kept=part.kept)
            for limits in zip(edges, [*edges[1:], None], strict=True)
        ]
        order = np.array([number for _, number, _ in known], np.int64)
        lying = engine.load([(n, n + 1) for n in range(len(stretches))], _as_range)
        read = lying.map(_read_blocks, spec, PerPartition(stretches), order)
        for rows in read.map(len):
            stage.advance(rows)
        wanted = [[objects] * len(stretches) for objects in ranges]
        joined = read.shuffle(_rows_between, wanted, _join_rows, ranges)
        partitions = joined.map(_with_keys, PerPartition(keys))
        # what was read is let go once everything was handed on
        del read, joined
        sum(partitions.map(len))
    return partitions, reader.time_unit if reader.epoch else None


def late_rows(database: Database, dataset: DatasetRow, build: BuildRow) -> int:
    """How many rows the window of a build has now beyond those that were read; 0 if it has fewer."""
    assert build.window_begin is not None and build.window_end is not None
    part = SourcePart(times=(build.window_begin, build.window_end))
    with database.begin(snapshot=True) as connection:
        now = open_source(connection, dataset, part).count().rows
    return max(now - build.rows, 0)


def _as_range(first: int, last: int) -> Range:
    return first, last


def _read_objects(objects: Range, spec: ReadSpec, part: SourcePart, expected: int) -> RawRows:
    """Read the rows of a range of objects. expected: how many rows they have."""
    first, last = objects
    with spec.reach.database().begin(snapshot=spec.snapshot) as connection:
        reader = open_source(connection, spec.dataset, part)
        found = reader.objects()
        if (len(found), sum(n for *_, n in found)) != (last - first, expected):
            raise _keys_apart()
        rows, keys, _ = numbered_rows(read_columns(reader, _nobody), found, reader)
    return RawRows(keys, rows, {})


def _read_blocks(blocks: Range, spec: ReadSpec, part: SourcePart, order: Ints) -> Rows:
    """Read what lies in some blocks; `order`: numbers on the wire of all objects, in their order."""
    with spec.reach.database().begin(snapshot=spec.snapshot) as connection:
        reader = open_source(connection, spec.dataset, part)
        columns = read_columns(reader, _nobody)
    owner = _number_of(columns["object"], order)
    at = _read_times(columns, reader)[0]
    return Rows(owner, at, columns["x"], columns["y"], columns.get("kept"))


def _nobody(rows: int) -> None:
    return None


def _rows_between(rows: Rows, objects: Range) -> Rows:
    """Those of a range of objects, numbered from its first."""
    first, last = objects
    own = rows.take((rows.object >= first) & (rows.object < last))
    return replace(own, object=own.object - first)


def _join_rows(pieces: list[Rows]) -> Rows:
    carried = pieces[0].kept is not None
    names = [f.name for f in fields(Rows) if carried or f.name != "kept"]
    return Rows(**{name: np.concatenate([getattr(p, name) for p in pieces]) for name in names})


def _with_keys(rows: Rows, keys: list[str]) -> RawRows:
    return RawRows(keys, rows, {})


def open_source(
    connection: Connection, dataset: DatasetRow, part: SourcePart | None = None
) -> SourceReader:
    """A dataset's relation as it is now, if it still has the columns; part: only these rows."""
    relation = find_relation(connection, dataset.source_schema, dataset.source_relation)
    samples = as_samples(connection, relation, dataset.mapping)
    check_mapping(*samples, projected=dataset.source_srid != WGS84)
    check_keep_columns(relation, dataset.mapping.keep_columns)
    geom = dataset.mapping.geom
    declared = None if geom is None else declared_srid(relation, geom)
    if declared not in (None, 0, dataset.source_srid):
        # odd rows are left out instead
        raise BadData(
            f"[[geom]] {geom!r} of {dataset.source} has SRID {declared} now, and had "
            f"{dataset.source_srid} when it was added",
            remedy="add it again under another name, or ST_Transform it in a view",
        )
    return SourceReader(connection, relation, dataset.mapping, dataset.source_srid, part)


def read_columns(reader: SourceReader, on_rows: Callable[[int], None]) -> dict[str, NDArray[Any]]:
    """All rows without a NULL, a column each."""
    chunks = list(reader.rows(on_rows))
    empty = {name: np.zeros(0) for name in ("object", "at", "x", "y")}
    if reader.carries:
        empty["kept"] = np.zeros(0, np.int16)
    return {
        name: np.concatenate([c[name] for c in chunks] or [none]) for name, none in empty.items()
    }


def numbered_rows(
    columns: dict[str, NDArray[Any]], objects: list[tuple[str, int, int]], reader: SourceReader
) -> tuple[Rows, list[str], str | None]:
    """Rows whose objects are numbered in the order of their keys; the keys; the unit of epochs."""
    at, epoch_unit = _read_times(columns, reader)
    owner = _number_of(columns["object"], np.array([number for _, number, _ in objects], np.int64))
    rows = Rows(owner, at, columns["x"], columns["y"], columns.get("kept"))
    return rows, [key for key, *_ in objects], epoch_unit


def _read_times(columns: dict[str, NDArray[Any]], reader: SourceReader) -> tuple[Ints, str | None]:
    """Microseconds since 2000; what epoch numbers were taken to count, None: times are times."""
    if not reader.epoch:
        return columns["at"].astype(np.int64), None
    unit = reader.time_unit or cleaning.guess_unit(columns["at"])
    return cleaning.epoch_to_us(columns["at"], unit), unit


def _number_of(objects: NDArray[Any], order: Ints) -> Ints:
    """The place of each row's object in `order`."""
    if not len(order):
        return np.zeros(0, np.int64)
    by_value = np.argsort(order)
    found: Ints = by_value[np.searchsorted(order[by_value], objects).clip(0, len(order) - 1)]
    if (order[found] != objects).any():
        raise _keys_apart()
    return found


def _keys_apart() -> BadData:
    """Keys of a collation that takes different texts for equal: one object would be several to workers."""
    return BadData(
        "some objects have rows in more than one range: their keys are different texts that are equal",
        remedy="use [[engine]] threads",
    )
