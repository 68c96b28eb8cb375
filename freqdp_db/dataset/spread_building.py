"""A build that workers make: each reads, cleans, snaps, files and writes a range of the objects.

All read the same snapshot, which this process exports and keeps open until everything is written: a worker
that takes over the range of a lost one reads what that one has read. What has to be the same everywhere
(the system of metres, the numbers of the places, the frame of the grid, the clock) is decided here, from
what the workers count.
"""

from __future__ import annotations

import operator
import shlex
from collections.abc import Iterator
from datetime import datetime
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freqdp_db.columns.build import Build
from freqdp_db.columns.ragged import offsets_from
from freqdp_db.columns.trajectories import Clock, Locations
from freqdp_db.dataset import cleaning
from freqdp_db.dataset.making import Made, fingerprint, look, reference, require_rows
from freqdp_db.dataset.object_ranges import (
    Read,
    WhatToRead,
    as_read,
    at_of,
    cells_of,
    degrees_of,
    excluded_of,
    file_part,
    filed_of,
    gaps_of,
    grid_of,
    join_rows,
    keys_of,
    location_of,
    merge_counted,
    number,
    on_step_of,
    place,
    places_of,
    read_blocks,
    read_range,
    rows_between,
    times_of,
    used_of,
    write_filed,
)
from freqdp_db.dataset.projection import WGS84, ReferenceSystem, transform, utm_srid
from freqdp_db.dataset.reading import open_source, recorded_unit, require_any, trace
from freqdp_db.dataset.snapping import Snap, merge_cells
from freqdp_db.dataset.writing import write_small
from freqdp_db.engines.held import Held, PerRange, Workers
from freqdp_db.engines.ranges import add, cut
from freqdp_db.engines.spread import Spread
from freqdp_db.errors import BadInput
from freqdp_db.frequency.parts import lengths_of, tf_of
from freqdp_db.progress import Progress
from freqdp_db.search.grid import choose_frame, merge_grids
from freqdp_db.storage.connection.engine import Connection, Database
from freqdp_db.storage.connection.reach import Reach
from freqdp_db.storage.records import build_parts
from freqdp_db.storage.records.datasets import DatasetRow
from freqdp_db.storage.source.rows import RowCounts, SourcePart


def make_spread(
    workers: Workers, database: Database, dataset: DatasetRow, number_: int, progress: Progress
) -> Made:
    """Have the workers make a build."""
    snap = Snap.parse(dataset.snap)
    if snap.kind != "grid":
        raise BadInput(
            f"[[engine]] dask cannot build with [[snap]] {dataset.snap}: only cells of a grid can be "
            "numbered without all positions in one process",
            remedy="use [[engine]] threads, or add the dataset with [[snap]] grid:METRES",
        )
    with database.begin(snapshot=True) as connection:
        counts, taken_at, unit, parts = _read(connection, workers, database, dataset, progress)
        relations = trace(database, dataset)
        excluded = counts.excluded()
        with progress.stage("clean and snap", counts.rows):
            built, keys, parts = _discretise(database, dataset, parts, snap, excluded)
        spread = built.trajectories
        assert isinstance(spread, Spread)
        with progress.stage("file segments", spread.samples):
            used = add(list(parts.each(used_of)))
            frame = choose_frame(built.locations, used)
            filed = parts.then(file_part, spread.places, frame)
            segments = sum(filed.each(filed_of))
            grid = filed.then(grid_of).fold(merge_grids)
            tf = add(list(parts.each(tf_of)))
            places = np.concatenate(list(parts.each(places_of)))
        with progress.stage("write samples", spread.samples) as stage:
            run = build_parts.create_large(database, number_)
            numbers = PerRange(range(len(parts.ranges)))
            reach = Reach.of(database)
            for rows in filed.each(write_filed, reach, number_, run, numbers, built.srid):
                stage.advance(rows)
            with database.side_by_side(1) as start:
                start(write_small, database, number_, built, keys, tf, places, grid)
                build_parts.finish_large(database, number_)
        hashed = fingerprint(dataset, built, keys, _columns(parts))
        times = reduce(operator.add, filter(None, parts.each(times_of, taken_at)))
        findings = look(
            database, dataset, built, used, times, None if unit == "timestamp" else unit
        )
    return Made(
        built, taken_at, unit, counts.rows, excluded, segments, frame, hashed, findings, relations
    )


def _read(
    connection: Connection,
    workers: Workers,
    database: Database,
    dataset: DatasetRow,
    progress: Progress,
) -> tuple[RowCounts, datetime, str, Held]:
    """Count the source, cut its objects into ranges by their rows, and have these read."""
    reader = open_source(connection, dataset)
    if reader.epoch and reader.time_unit is None:
        raise BadInput(
            "[[engine]] dask cannot guess what epoch numbers count: all of them would have to be in one "
            "process",
            remedy=f"declare it: freqdp dataset set {shlex.quote(dataset.name)} --time-unit "
            "s|ms|us|ns; or use [[engine]] threads",
        )
    with progress.stage("count rows") as stage:
        counts = reader.count()
        sizes = reader.sizes()
        stage.advance(counts.rows)
        require_any(dataset, counts)
    ranges = cut(offsets_from(np.array([rows for *_, rows in sizes])), workers.parts(counts.rows))
    wanted = WhatToRead(Reach.of(database), dataset, reader.export())
    keys = PerRange([[key for key, *_ in sizes[first:last]] for first, last in ranges])
    with progress.stage("read rows", counts.rows) as stage:
        blocks = reader.blocks()
        # none here: a view, or a table whose rows are on other servers
        if not blocks or len(ranges) == 1:
            limits = [SourcePart((own[0], own[-1]) if own else None) for own in keys.values]
            parts = workers.hold(ranges, as_range).then(read_range, wanted, PerRange(limits))
            for rows in parts.each(_rows_of):
                stage.advance(rows)
        else:
            # each block is read once; an index on objects would read each of them many times
            stretches = _between(blocks, len(ranges), reader.hash_seed)
            lying = workers.hold([(n, n + 1) for n in range(len(stretches))], as_range)
            order = lying.share(np.array([number for _, number, _ in sizes], np.int64))
            read = lying.then(read_blocks, wanted, PerRange(stretches), order)
            for rows in read.each(len):
                stage.advance(rows)
            owned = [[objects] * len(stretches) for objects in ranges]
            joined = read.exchange(rows_between, owned, join_rows, ranges)
            parts = joined.then(as_read, wanted, keys)
            # what was read is let go once everything was handed on
            del read, joined
            sum(parts.each(_rows_of))
    return counts, reader.taken_at(), recorded_unit(reader), parts


def _between(blocks: int, count: int, hash_seed: int) -> list[SourcePart]:
    """All blocks, and what may come after them, in so many parts."""
    edges = [blocks * n // count for n in range(count)]
    return [
        SourcePart(blocks=(first, last), hash_seed=hash_seed)
        for first, last in zip(edges, [*edges[1:], None], strict=True)
    ]


def as_range(first: int, last: int) -> tuple[int, int]:
    return first, last


def _rows_of(read: Read) -> int:
    return len(read.rows)


def _discretise(
    database: Database, dataset: DatasetRow, parts: Held, snap: Snap, excluded: dict[str, int]
) -> tuple[Build, list[str], Held]:
    raw = reference(database, dataset.source_srid)
    _add_up(excluded, parts)
    require_rows(sum(parts.each(_rows_of)), excluded)
    srid = dataset.srid or _choose_srid(database, raw, parts)
    plane = reference(database, srid)
    placed = parts.then(place, raw, plane)
    _add_up(excluded, placed)
    rows = sum(placed.each(_rows_of))
    require_rows(rows, excluded)
    cells = placed.then(cells_of, snap.metres).fold(merge_cells).numbered()
    centres = cells.locations(snap.metres)
    locations = Locations(centres.x, centres.y, *transform(plane, raw, centres.x, centres.y))
    keys = list(placed.each(keys_of))
    first = np.cumsum([0, *(len(own) for own in keys)]).tolist()
    step = cleaning.time_step(lambda us: sum(placed.each(on_step_of, us)), rows)
    gap, times = reduce(merge_counted, placed.each(gaps_of))
    median = cleaning.median_of_counted(gap, times) if len(gap) else None
    numbered = placed.then(number, placed.share(cells), snap.metres, PerRange(first[:-1]))
    lengths = np.concatenate(list(numbered.each(lengths_of)))
    built = Build(
        trajectories=Spread(offsets_from(lengths), numbered, placed.share(locations)),
        locations=locations,
        clock=Clock(step, cleaning.median_gap(median, step)),
        srid=srid,
        source_srid=dataset.source_srid,
        timezone=dataset.mapping.timezone,
    )
    return built, [key for own in keys for key in own], numbered


def _add_up(excluded: dict[str, int], parts: Held) -> None:
    for own in parts.each(excluded_of):
        for reason, rows in own.items():
            excluded[reason] = excluded.get(reason, 0) + rows


def _choose_srid(database: Database, raw: ReferenceSystem, parts: Held) -> int:
    """The source's own system if it is in metres, else the UTM zone of the data."""
    if raw.metric:
        return raw.srid
    seen = parts.each(degrees_of, raw, reference(database, WGS84))
    return utm_srid(add(list(seen)))


def _columns(parts: Held) -> Iterator[NDArray[Any]]:
    """The places of all samples, then their times, one range after the other."""
    yield from parts.each(location_of)
    yield from parts.each(at_of)
