"""Read a build back into memory: here, in partitions, or by each worker that needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from operator import attrgetter
from typing import Any, Generic, TypeVar

from freqdp_db.db.builds import (
    BuildRow,
    find_build,
    load_locations,
    load_offsets,
    load_trajectories,
)
from freqdp_db.db.connection import Database, DatabaseRef
from freqdp_db.db.datasets import get_dataset
from freqdp_db.db.source import definition_of
from freqdp_db.engines.partitions import LOCAL, Engine, PerPartition
from freqdp_db.engines.ranges import cut
from freqdp_db.errors import BadInput, EngineLost, FreqdpError
from freqdp_db.methods.frequency.partition import Partition, trajectories_in
from freqdp_db.model.trajectories import Build, Clock, KeptColumns, Locations, Trajectories
from freqdp_db.progress import Progress


def load_build(
    database: Database, build_id: int, progress: Progress, engine: Engine = LOCAL
) -> Build:
    """A build's samples, kept by the engine, and its locations."""
    row = find_build(database, build_id)
    if row.dropped_at is not None:
        raise BadInput(
            f"the data of build {build_id} was removed on {row.dropped_at:%Y-%m-%d}",
            remedy="a withdrawn release can no longer be verified",
        )
    with progress.stage("read build", row.samples) as stage, database.begin(snapshot=True) as c:
        locations, tf = load_locations(c, row)
        plane, source = (definition_of(c, srid, "SRID") for srid in (row.srid, row.source_srid))
        ranges = cut(load_offsets(c, row), engine.partitions(row.samples))
        read = engine.load(
            ranges, _read_range, DatabaseRef.of(database), row.build_id, row.fingerprint
        )
        firsts = PerPartition([first for first, _ in ranges])
        partitions = read.map(_as_partition, firsts, locations)
        for samples in partitions.map(attrgetter("trajectories.samples")):
            stage.advance(samples)
    return Build(
        trajectories_in(partitions),
        locations,
        Clock(row.time_step_us, row.median_gap_us),
        row.srid,
        row.source_srid,
        get_dataset(database, row.dataset_id).mapping.timezone,
        (plane, source),
        tf,
        KeptColumns.of(row.kept),
    )


def _read_range(
    first: int, last: int, reach: DatabaseRef, build_id: int, fingerprint: str
) -> Trajectories:
    """A range of a build's trajectories."""
    row = same_build(reach, build_id, fingerprint)
    part = None if (first, last) == (0, row.trajectories) else (first, last)
    with reach.database().begin(snapshot=True) as connection:
        return load_trajectories(connection, row, part)


def _as_partition(trajectories: Trajectories, first: int, places: Locations) -> Partition:
    return Partition(first, trajectories, places)


def same_build(reach: DatabaseRef, build_id: int, fingerprint: str) -> BuildRow:
    """Refuse a worker that was pointed at another database than the command."""
    try:
        row = find_build(reach.database(), build_id)
    except FreqdpError as error:
        raise EngineLost(
            f"a Dask worker cannot read build {build_id}: {error.message}",
            remedy="point DATABASE_URL of the workers at the database of this command",
            can_pass=error.can_pass,
        ) from None
    if row.fingerprint != fingerprint:
        raise BadInput(
            "the Dask workers read another database than this command",
            remedy="point DATABASE_URL of the workers at the same one",
        )
    return row


# Pieces of a measurement: one after the other here, or dealt out to workers. Each worker reads for
# itself what the pieces need. What passes this process is which piece it is, and what came out of it.


Asked = TypeVar("Asked")
Answer = TypeVar("Answer")
Piece = TypeVar("Piece")
Found = TypeVar("Found")
Making = Callable[[Database, Asked, Progress], Answer]
Working = Callable[[Answer, Piece, Progress], Found]


def deal_out(
    engine: Engine,
    database: Database,
    build: BuildRow,
    make: Making[Asked, Answer],
    asked: Asked,
    work: Working[Answer, Piece, Found],
    pieces: Sequence[Piece],
    progress: Progress,
) -> Iterator[Found]:
    """work(make(database, asked), piece) of every piece, in their order.

    `make` reads the build, and is called once by every process that works.
    """
    shown = Progress() if engine.remote else progress
    made = _Made(DatabaseRef.of(database), build.build_id, build.fingerprint, make, asked, shown)
    return engine.map(_work, pieces, engine.share(made), work, shown)


@dataclass(eq=False)
class _Made(Generic[Asked, Answer]):
    """What `make` gives, made by the process that first needs it there, and never sent."""

    reach: DatabaseRef
    build_id: int
    fingerprint: str
    make: Making[Asked, Answer]
    asked: Asked
    progress: Progress

    def __reduce__(self) -> tuple[Any, ...]:
        return _Made, tuple(getattr(self, field.name) for field in fields(self))

    @cached_property
    def value(self) -> Answer:
        same_build(self.reach, self.build_id, self.fingerprint)
        return self.make(self.reach.database(), self.asked, self.progress)


def _work(
    piece: Any, made: _Made[Any, Any], work: Working[Any, Any, Any], progress: Progress
) -> Any:
    return work(made.value, piece, progress)
