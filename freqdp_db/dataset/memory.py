"""Read a build back into memory."""

from __future__ import annotations

from freqdp_db.db.builds import (
    BuildRow,
    find_build,
    load_locations,
    load_offsets,
    load_tf,
    load_trajectories,
)
from freqdp_db.db.connection import Database, DatabaseRef
from freqdp_db.db.datasets import get_dataset
from freqdp_db.db.source import definition_of
from freqdp_db.engines.partitions import LOCAL, Engine, PerPartition
from freqdp_db.engines.ranges import cut
from freqdp_db.errors import BadInput, EngineLost, FreqdpError
from freqdp_db.methods.frequency.partition import Partition, trajectories_in
from freqdp_db.model.trajectories import Build, Clock, Locations, Trajectories
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
        locations, tf = load_locations(c, database, row), load_tf(c, database, row)
        plane, source = (definition_of(c, srid, "SRID") for srid in (row.srid, row.source_srid))
        ranges = cut(load_offsets(c, database, row), engine.partitions(row.samples))
        read = engine.load(
            ranges, _read_range, DatabaseRef.of(database), row.build_id, row.fingerprint
        )
        firsts = PerPartition([first for first, _ in ranges])
        partitions = read.map(_as_partition, firsts, locations)
        for samples in partitions.map(_samples_of):
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
    )


def _read_range(
    first: int, last: int, reach: DatabaseRef, build_id: int, fingerprint: str
) -> Trajectories:
    """A range of a build's trajectories."""
    row = same_build(reach, build_id, fingerprint)
    part = None if (first, last) == (0, row.trajectories) else (first, last)
    with reach.database().begin(snapshot=True) as connection:
        return load_trajectories(connection, reach.database(), row, part)


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


def _samples_of(partition: Partition) -> int:
    return partition.trajectories.samples
