"""What a worker does with its range of a source's objects: functions of one range."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

import numpy as np

from freqdp_db.columns.arrays import Ids, Ints, Metres
from freqdp_db.columns.ragged import offsets_of
from freqdp_db.columns.trajectories import Locations, Trajectories
from freqdp_db.dataset import cleaning
from freqdp_db.dataset.cleaning import Rows
from freqdp_db.dataset.findings import SeenTimes, seen_times
from freqdp_db.dataset.making import reference
from freqdp_db.dataset.projection import ReferenceSystem, seen_degrees, transform
from freqdp_db.dataset.reading import (
    number_of,
    numbered_rows,
    open_source,
    read_columns,
    read_times,
)
from freqdp_db.dataset.snapping import GridCells
from freqdp_db.dataset.writing import SAMPLE, SEGMENT, sample_chunks, segment_chunks
from freqdp_db.frequency.parts import Part
from freqdp_db.progress import Progress
from freqdp_db.search.filing import Filed, file_segments
from freqdp_db.search.grid import Frame, Grid
from freqdp_db.search.segments import distinct_segments
from freqdp_db.storage.connection.reach import Reach
from freqdp_db.storage.records.build_parts import write_range
from freqdp_db.storage.records.datasets import DatasetRow
from freqdp_db.storage.source.rows import SourcePart


@dataclass(frozen=True)
class WhatToRead:
    """A source, as it was at one moment."""

    reach: Reach
    dataset: DatasetRow
    snapshot: str


@dataclass(frozen=True)
class Read:
    """Rows of a range of objects, and how many were left out so far, by reason."""

    keys: list[str]
    """The objects: rows number them by their place here."""
    rows: Rows
    excluded: dict[str, int]


@dataclass(frozen=True)
class Placed(Read):
    """The same in order, cleaned, and in metres."""

    x: Metres
    y: Metres


def read_range(objects: tuple[int, int], wanted: WhatToRead, part: SourcePart) -> Read:
    """Read the rows of a range of objects, without those that cannot be."""
    database, dataset = wanted.reach.database(), wanted.dataset
    with database.begin(snapshot=wanted.snapshot) as connection:
        reader = open_source(connection, dataset, part)
        keys = reader.objects()
        rows, order, _ = numbered_rows(read_columns(reader, _nobody), keys, reader)
    return as_read(rows, wanted, order)


def read_blocks(blocks: tuple[int, int], wanted: WhatToRead, part: SourcePart, order: Ints) -> Rows:
    """Read what lies in some blocks; `order`: numbers on the wire of all objects, in their order."""
    with wanted.reach.database().begin(snapshot=wanted.snapshot) as connection:
        reader = open_source(connection, wanted.dataset, part)
        columns = read_columns(reader, _nobody)
    owner = number_of(columns["object"].astype(np.int64), order)
    return Rows(owner, read_times(columns, reader)[0], columns["x"], columns["y"])


def _nobody(rows: int) -> None:
    return None


def rows_between(rows: Rows, objects: tuple[int, int]) -> Rows:
    """Those of a range of objects, numbered from its first."""
    first, last = objects
    own = rows.take((rows.object >= first) & (rows.object < last))
    return replace(own, object=own.object - first)


def join_rows(pieces: list[Rows]) -> Rows:
    columns = (np.concatenate([getattr(p, f.name) for p in pieces]) for f in fields(Rows))
    return Rows(*columns)


def as_read(rows: Rows, wanted: WhatToRead, keys: list[str]) -> Read:
    """The same without those that cannot be."""
    excluded: dict[str, int] = {}
    raw = reference(wanted.reach.database(), wanted.dataset.source_srid)
    return Read(keys, cleaning.drop_unusable(rows, raw.limits, excluded), excluded)


def excluded_of(read: Read) -> dict[str, int]:
    return read.excluded


def keys_of(read: Read) -> list[str]:
    return read.keys


def degrees_of(read: Read, raw: ReferenceSystem, degrees: ReferenceSystem) -> Ints:
    """How many rows are in each degree of longitude."""
    return seen_degrees(*transform(raw, degrees, read.rows.x, read.rows.y))


def times_of(part: Part, read_at: datetime) -> SeenTimes | None:
    """When the samples are; None: there are none."""
    at = part.trajectories.at
    return seen_times(at, read_at) if len(at) else None


def place(read: Read, raw: ReferenceSystem, plane: ReferenceSystem) -> Placed:
    """Order the rows, drop repeats, project to metres; objects without a row are left out."""
    excluded: dict[str, int] = {}
    rows = cleaning.drop_repeats(cleaning.sort_rows(read.rows), excluded)
    x, y = transform(raw, plane, rows.x, rows.y)
    inside = cleaning.within(x, y, plane.limits)
    excluded["outside_projection"] = int((~inside).sum())
    if not inside.all():
        rows, x, y = rows.take(inside), x[inside], y[inside]
    present, owner = np.unique(rows.object, return_inverse=True)
    keys = [read.keys[k] for k in present]
    return Placed(keys, replace(rows, object=owner), excluded, x, y)


def cells_of(placed: Placed, metres: float) -> GridCells:
    """The distinct cells that hold a row."""
    return GridCells.of(placed.x, placed.y, metres)


def on_step_of(placed: Placed, step_us: int) -> int:
    """How many times are multiples of the step."""
    return cleaning.on_step(placed.rows.at, step_us)


def gaps_of(placed: Placed) -> tuple[Ints, Ints]:
    """Times between samples of one object, and how often each is seen."""
    return np.unique(cleaning.gaps(placed.rows.at, placed.rows.object), return_counts=True)


def merge_counted(one: tuple[Ints, Ints], other: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """Counts of either, added."""
    values, at = np.unique(np.concatenate([one[0], other[0]]), return_inverse=True)
    times = np.zeros(len(values), np.int64)
    np.add.at(times, at, np.concatenate([one[1], other[1]]))
    return values, times


def number(placed: Placed, cells: GridCells, metres: float, first: int) -> Part:
    """Trajectories of numbered places."""
    rows = placed.rows
    offsets = offsets_of(rows.object, len(placed.keys))
    location = cells.find(placed.x, placed.y, metres)
    own = Trajectories(offsets, location, rows.at, rows.at[offsets[:-1]])
    return Part(first, own, len(cells.column))


def used_of(part: Part) -> Ints:
    """How many samples are at each place."""
    return np.bincount(part.trajectories.location, minlength=part.places)


def places_of(part: Part) -> Ints:
    """How many places each trajectory visits."""
    return np.diff(part.frequencies.offsets)


def location_of(part: Part) -> Ids:
    return part.trajectories.location


def at_of(part: Part) -> Ints:
    return part.trajectories.at


@dataclass(frozen=True)
class FiledPart:
    """A part and its segments, filed in the frame of all."""

    part: Part
    filed: Filed


def file_part(part: Part, places: Locations, frame: Frame) -> FiledPart:
    segments = distinct_segments(part.trajectories)
    return FiledPart(part, file_segments(segments, places, frame, cut=False))


def filed_of(filed: FiledPart) -> int:
    """How many segments there are."""
    return len(filed.filed.segments)


def grid_of(filed: FiledPart) -> Grid:
    return filed.filed.grid


def write_filed(
    filed: FiledPart, reach: Reach, build_id: int, run: int, number: int, srid: int
) -> int:
    """Write the samples and the segments of a range; how many samples."""
    first, own = filed.part.first, filed.part.trajectories
    with Progress().stage("write samples") as stage:
        samples: Any = (SAMPLE, sample_chunks(build_id, own, stage, first))
        segments: Any = (SEGMENT, segment_chunks(build_id, srid, filed.filed, first))
        write_range(reach.database(), build_id, run, number, samples, segments)
    return own.samples
