"""Read a build back into memory."""

from __future__ import annotations

from freqdp_db.columns.build import Build
from freqdp_db.columns.trajectories import Clock
from freqdp_db.errors import BadInput
from freqdp_db.progress import Progress
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.records.builds import find_build, load_locations, load_trajectories
from freqdp_db.storage.records.datasets import get_dataset
from freqdp_db.storage.schema.upgrade import names_of
from freqdp_db.storage.source.reference import definition_of


def load_build(database: Database, build_id: int, progress: Progress) -> Build:
    """A build's samples and locations."""
    row = find_build(database, build_id)
    if row.dropped_at is not None:
        raise BadInput(
            f"the data of build {build_id} was removed on {row.dropped_at:%Y-%m-%d}",
            remedy="a withdrawn release can no longer be verified",
        )
    with progress.stage("read build", row.samples) as stage, database.begin(snapshot=True) as c:
        trajectories = load_trajectories(c, database, row)
        stage.advance(trajectories.samples)
        locations = load_locations(c, database, row)
        postgis = names_of(c, database).postgis
        plane, source = (
            definition_of(c, postgis, srid, "SRID") for srid in (row.srid, row.source_srid)
        )
    return Build(
        trajectories,
        locations,
        Clock(row.time_step_us, row.median_gap_us),
        row.srid,
        row.source_srid,
        get_dataset(database, row.dataset_id).mapping.timezone,
        (plane, source),
    )
