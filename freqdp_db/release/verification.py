"""Verify a release: replay its edit log on the build and compare with the table, row by row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from freqdp_db.columns.arrays import Ids, Ints
from freqdp_db.columns.edits import EditRuns, Edits
from freqdp_db.columns.trajectories import Clock, Trajectories
from freqdp_db.edits.applying import apply_edits, coarsen_times
from freqdp_db.errors import BadInput, VerificationFailed
from freqdp_db.progress import Progress
from freqdp_db.release.steps import World, count, digest, drawn_from, require_targets
from freqdp_db.release.table import ReleasedTable
from freqdp_db.storage.connection.engine import Connection, Database
from freqdp_db.storage.published import staging
from freqdp_db.storage.records.builds import BuildRow, find_build, load_locations, load_trajectories
from freqdp_db.storage.records.releases import (
    ReleaseRow,
    StepRow,
    list_steps,
    load_edits,
    load_key,
    load_targets,
)

_REPLAY, _COMPARE = VERIFY_STAGES = ("replay edits", "compare rows")
"""What a progress calls the two halves of the check."""


@dataclass(frozen=True)
class Verified:
    """What was checked and found right."""

    rows: int
    trajectories: int
    targets: int
    edits: int


@dataclass(frozen=True)
class Loaded:
    """A build in memory, with its locations as the release shows them."""

    build: BuildRow
    trajectories: Trajectories
    world: World
    geometry: NDArray[np.void]


def load_build(database: Database, build_id: int, progress: Progress) -> Loaded:
    """Read a build's samples and locations."""
    build = find_build(database, build_id)
    if build.dropped_at is not None:
        raise BadInput(
            f"the data of build {build_id} was removed on {build.dropped_at:%Y-%m-%d}",
            remedy="a withdrawn release can no longer be verified",
        )
    with progress.stage("read build", build.samples) as stage, database.begin(snapshot=True) as c:
        trajectories = load_trajectories(c, database, build)
        stage.advance(trajectories.samples)
        locations, geometry = load_locations(c, database, build)
    clock = Clock(build.time_step_us, build.median_gap_us)
    return Loaded(build, trajectories, World(locations, clock), geometry)


def verify(
    database: Database,
    release: ReleaseRow,
    relations: tuple[tuple[str, str], tuple[str, str]],
    loaded: Loaded,
    progress: Progress,
) -> Verified:
    """Replay: after each mechanism its targets hold, and the last state is the table.

    `relations`: the table of samples and the table of lines, each as (schema, name).
    """
    state, targets_checked, edits_replayed = loaded.trajectories, 0, 0
    with progress.stage(_REPLAY) as stage, database.begin(snapshot=True) as connection:
        key = load_key(connection, database, release.release_id)
        _require_key(key, len(state))
        frequencies = count(state, loaded.world)
        for step in list_steps(database, release.release_id):
            targets = load_targets(
                connection, database, release.release_id, step.step, step.mechanism
            )
            if not drawn_from(frequencies, targets):
                raise VerificationFailed(
                    f"step {step.step}: its targets were drawn from other data"
                )
            edits = load_edits(connection, database, release.release_id, step.step)
            _require_possible(state, edits, len(loaded.world.locations), step.step)
            state = apply_edits(state, edits, loaded.world.locations, loaded.world.clock)
            frequencies = count(state, loaded.world)
            require_targets(frequencies, targets, step.step)
            _require_ordered(state, step.step)
            _require_recorded(step, edits, state)
            targets_checked += len(targets)
            edits_replayed += edits.deletions.edits + edits.insertions.edits
            stage.advance(edits.deletions.edits + edits.insertions.edits)
    time_step = release.options.get("time_step_us")
    if time_step is not None:
        state = coarsen_times(state, time_step)
    table = ReleasedTable.of(state, key, loaded.geometry, loaded.build.source_srid)
    points, lines = relations
    with progress.stage(_COMPARE, table.rows) as stage, database.begin(snapshot=True) as c:
        for advanced in _compare(
            c,
            points,
            staging.POINTS.names,
            ["trajectory_id", "seq"],
            (chunk.view(np.uint8) for chunk in table.points()),
        ):
            stage.advance(advanced // staging.POINTS.dtype.itemsize)
        for _ in _compare(c, lines, ["trajectory_id", "geom"], ["trajectory_id"],
                          (np.frombuffer(chunk, np.uint8) for chunk in table.lines())):  # fmt: skip
            pass
    return Verified(table.rows, len(table.order), targets_checked, edits_replayed)


def _require_key(key: Ints, trajectories: int) -> None:
    if len(key) != trajectories or len(np.unique(key)) != len(key):
        raise VerificationFailed("the key does not give every trajectory an id of its own")


def _require_possible(state: Trajectories, edits: Edits, places: int, step: int) -> None:
    """Every deletion names a sample that is at its place; every insertion goes between samples.

    The kernels that apply the edits take this for granted.
    """
    for runs in (edits.deletions, edits.insertions):
        known = (runs.trajectory >= 0) & (runs.trajectory < len(state))
        known &= (runs.location >= 0) & (runs.location < places)
        if not known.all():
            raise VerificationFailed(
                f"step {step}: the log names trajectories or places of no build"
            )
    owner, place, position = _one_by_one(edits.deletions)
    if not ((position >= 0) & (position < state.lengths[owner])).all():
        raise VerificationFailed(f"step {step}: the log deletes samples that do not exist")
    at = state.offsets[owner] + position
    keep = np.ones(state.samples + 1, np.bool_)
    keep[at] = False
    gone = len(keep) - np.count_nonzero(keep)
    if not (state.location[at] == place).all() or gone != len(at):
        raise VerificationFailed(f"step {step}: the log deletes samples of other places, or twice")
    left = state.lengths - np.bincount(owner, minlength=len(state))
    # the last sample that is left ends no segment, unless it is the only one
    last = np.flatnonzero(keep)[np.cumsum(left) - 1] - state.offsets[:-1]
    owner, place, position = _one_by_one(edits.insertions)
    inside = (position >= 0) & (position < state.lengths[owner])
    survives = keep[np.where(inside, state.offsets[owner] + position, state.samples)]
    follows = inside & survives & ((position != last[owner]) | (left[owner] == 1))
    if not np.where(left[owner] == 0, position == -1, follows).all():
        raise VerificationFailed(f"step {step}: the log inserts after samples that are not there")


def _one_by_one(runs: EditRuns) -> tuple[Ids, Ids, Ids]:
    """Trajectory, location and position of each edit."""
    counts = np.diff(runs.offsets)
    return np.repeat(runs.trajectory, counts), np.repeat(runs.location, counts), runs.position


def _require_recorded(step: StepRow, edits: Edits, state: Trajectories) -> None:
    """The log and what it leads to are what the run recorded."""
    replayed = (
        edits.deletions.edits,
        edits.insertions.edits,
        edits.deletions.loss_m,
        edits.insertions.loss_m,
        digest(state),
    )
    recorded = (
        step.deletions,
        step.insertions,
        step.deletion_loss_m,
        step.insertion_loss_m,
        step.digest,
    )
    if replayed != recorded:
        raise VerificationFailed(f"step {step.step}: the log is not the one that was recorded")


def _require_ordered(state: Trajectories, step: int) -> None:
    begins = np.zeros(state.samples + 1, np.bool_)
    begins[state.offsets] = True
    falling = int(((np.diff(state.at) < 0) & ~begins[1 : state.samples]).sum())
    if falling:
        raise VerificationFailed(f"step {step}: {falling:,} times go backwards")


def _compare(
    connection: Connection,
    relation: tuple[str, str],
    columns: list[str],
    order: list[str],
    expected: Iterator[NDArray[np.uint8]],
) -> Iterator[int]:
    """Compare a table with the bytes that COPY would send for the expected rows."""
    found = staging.table_bytes(connection, relation, columns, order)
    left = right = np.zeros(0, np.uint8)
    while True:
        left = left if len(left) else next(found, left)
        right = right if len(right) else next(expected, right)
        size = min(len(left), len(right))
        if size == 0 and len(left) == len(right):
            return
        if size == 0 or not np.array_equal(left[:size], right[:size]):
            found.close()
            raise VerificationFailed(
                f"{relation[0]}.{relation[1]} does not hold the rows that its edit log gives",
                remedy="withdraw it; if nobody changed the table, report this as a fault of freqdp",
            )
        left, right = left[size:], right[size:]
        yield size


def released_relations(database: Database, name: str) -> tuple[tuple[str, str], tuple[str, str]]:
    schema = database.settings.release_schema
    return (schema, name), (schema, f"{name}_line")
