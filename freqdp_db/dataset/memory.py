"""Read a build back into memory."""

from __future__ import annotations

from freqdp_db.columns.arrays import Ints
from freqdp_db.columns.build import Build
from freqdp_db.columns.trajectories import Clock, Locations, Trajectories
from freqdp_db.engines.held import Workers, workers_in_use
from freqdp_db.engines.ranges import cut
from freqdp_db.engines.spread import Spread
from freqdp_db.errors import BadInput, EngineLost, FreqdpError
from freqdp_db.frequency.parts import Part
from freqdp_db.progress import Progress, Stage
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.connection.reach import Reach
from freqdp_db.storage.records.builds import (
    BuildRow,
    find_build,
    load_locations,
    load_offsets,
    load_trajectories,
)
from freqdp_db.storage.records.datasets import get_dataset
from freqdp_db.storage.source.reference import definition_of


def load_build(database: Database, build_id: int, progress: Progress) -> Build:
    """A build's samples and locations; the samples are kept by the workers, where there are some."""
    row = find_build(database, build_id)
    if row.dropped_at is not None:
        raise BadInput(
            f"the data of build {build_id} was removed on {row.dropped_at:%Y-%m-%d}",
            remedy="a withdrawn release can no longer be verified",
        )
    workers = workers_in_use()
    with progress.stage("read build", row.samples) as stage, database.begin(snapshot=True) as c:
        if workers is None:
            trajectories: Trajectories = load_trajectories(c, database, row)
            stage.advance(trajectories.samples)
        else:
            trajectories = _spread(workers, database, row, load_offsets(c, database, row), stage)
        locations = load_locations(c, database, row)
        plane, source = (definition_of(c, srid, "SRID") for srid in (row.srid, row.source_srid))
    return Build(
        trajectories,
        locations,
        Clock(row.time_step_us, row.median_gap_us),
        row.srid,
        row.source_srid,
        get_dataset(database, row.dataset_id).mapping.timezone,
        (plane, source),
    )


def _spread(
    workers: Workers, database: Database, row: BuildRow, offsets: Ints, stage: Stage
) -> Spread:
    reach = Reach.of(database)
    ranges = cut(offsets, workers.parts(row.samples))
    parts = workers.hold(ranges, _read_part, reach, row.build_id, row.fingerprint)
    for samples in parts.each(_samples_of):
        stage.advance(samples)
    return Spread(offsets, parts, workers.once(_read_places, reach, row.build_id, row.fingerprint))


def _read_part(first: int, last: int, reach: Reach, build_id: int, fingerprint: str) -> Part:
    """For a worker: its range of a build."""
    row = same_build(reach, build_id, fingerprint)
    with reach.database().begin(snapshot=True) as connection:
        own = load_trajectories(connection, reach.database(), row, (first, last))
    return Part(first, own, row.locations)


def _read_places(reach: Reach, build_id: int, fingerprint: str) -> Locations:
    """For a worker: the places of a build."""
    row = same_build(reach, build_id, fingerprint)
    with reach.database().begin(snapshot=True) as connection:
        return load_locations(connection, reach.database(), row)


def same_build(reach: Reach, build_id: int, fingerprint: str) -> BuildRow:
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


def _samples_of(part: Part) -> int:
    return part.trajectories.samples
