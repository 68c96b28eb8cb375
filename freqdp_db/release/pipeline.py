"""The order of the stages: spend, then for each mechanism draw, commit and edit; write, verify, publish.

Every arrow is a commit, so that a kill at any moment leaves nothing or a complete release, and the
same command again goes on from the last commit. Committed draws are never drawn again; a draw lost
before its commit has left the process nowhere and is drawn anew under the same spend.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np

import freqdp_db
from freqdp_db.columns.arrays import Ints
from freqdp_db.columns.edits import Edits, Targets
from freqdp_db.columns.trajectories import Trajectories
from freqdp_db.edits.applying import coarsen_times
from freqdp_db.errors import BadInput, Busy, ResumeRefused
from freqdp_db.mechanisms.noise import RandomSource, SecureSource, SeededSource, released_ids
from freqdp_db.methods.guarantee import guarantee
from freqdp_db.methods.registry import find_method
from freqdp_db.progress import Progress
from freqdp_db.release import steps
from freqdp_db.release.paging import within_memory
from freqdp_db.release.request import Request, check_release_name
from freqdp_db.release.table import ReleasedTable, comments
from freqdp_db.release.verification import Loaded, Verified, load_build, verify
from freqdp_db.storage.connection.engine import Connection, Database
from freqdp_db.storage.connection.locks import hold
from freqdp_db.storage.published import staging
from freqdp_db.storage.published.current import require_ours
from freqdp_db.storage.records import releases, requests
from freqdp_db.storage.records.builds import find_build, sweep_builds
from freqdp_db.storage.records.datasets import DatasetRow
from freqdp_db.storage.records.ledger import book_spend
from freqdp_db.storage.records.releases import ReleaseRow, StepRow

DEFAULT_MEMORY = 4 * 10**9
Recorded: TypeAlias = Callable[[Connection, ReleaseRow], None]
"""Called in the transaction that records a new release and books its spend."""


@dataclass(frozen=True)
class Outcome:
    """What `anonymize` did."""

    release: ReleaseRow
    existed: bool
    resumed: bool
    verified: Verified | None


def anonymize(
    database: Database,
    dataset: DatasetRow,
    request: Request,
    progress: Progress,
    *,
    name: str | None = None,
    new_draw: bool = False,
    memory: int = DEFAULT_MEMORY,
    recorded: Recorded | None = None,
) -> Outcome:
    """Publish a release, or return, join or go on with the one that answers the same request."""
    if name is not None:
        check_release_name(name)
    release, fresh = _ask(database, dataset, request, name, new_draw, recorded)
    if release.state == "published":
        return Outcome(release, existed=True, resumed=False, verified=None)
    # also a fresh one: an equal request may have found the record and been quicker to start
    verified = run(database, release, progress, memory, join=True)
    return Outcome(
        releases.get_release(database, release.release_id),
        existed=verified is None,
        resumed=verified is not None and not fresh,
        verified=verified,
    )


def _ask(
    database: Database,
    dataset: DatasetRow,
    request: Request,
    name: str | None,
    new_draw: bool,
    recorded: Recorded | None,
) -> tuple[ReleaseRow, bool]:
    """Find the release of an equal request, or record a new one and its spend in one commit."""
    build = find_build(database, dataset.require_build())
    request_hash = request.hash(build)
    with database.begin() as connection:
        # equal requests at the same moment queue up here: the second finds the first one's record
        requests.queue_up(connection, database, request_hash)
        if not new_draw:
            known = releases.same_request(connection, database, request_hash)
            if known is not None:
                return known, False
        request.require_possible(build)
        requests.keep_build(connection, database, build.build_id)
        release = _record(connection, database, dataset, request, name, request_hash)
        book_spend(
            connection,
            database,
            release.release_id,
            f"release {release.name}, method {request.method.name}",
        )
        if recorded is not None:
            recorded(connection, release)
    return release, True


def _record(
    connection: Connection,
    database: Database,
    dataset: DatasetRow,
    request: Request,
    name: str | None,
    request_hash: str,
) -> ReleaseRow:
    if name is None:
        name = _default_name(connection, database, dataset)
    staging.require_free_name(connection, database, name)
    require_ours(connection, database, dataset.name)
    return requests.insert_release(
        connection,
        database,
        name=name,
        dataset_id=dataset.dataset_id,
        build_id=dataset.current_build,
        method=request.method.name,
        epsilon_global=request.epsilon_global,
        epsilon_local=request.epsilon_local,
        signature_size=request.signature,
        options=request.options(),
        private=request.private,
        request_hash=request_hash,
        state="running",
        software=freqdp_db.__version__,
        guarantee=guarantee(
            request.method,
            request.epsilon_global,
            request.epsilon_local,
            private=request.private,
        ),
    )


def _default_name(connection: Connection, database: Database, dataset: DatasetRow) -> str:
    """<dataset>_<n>: the next number that no release of the dataset has had."""
    used = requests.used_names(connection, database, dataset.dataset_id, f"{dataset.name}_")
    number = 1
    while f"{dataset.name}_{number}" in used:
        number += 1
    try:
        return check_release_name(f"{dataset.name}_{number}")
    except BadInput:
        raise BadInput(
            f"the dataset's name is too long for a release to be called {dataset.name}_{number}",
            remedy="give the release a name with --as",
        ) from None


def run(
    database: Database,
    release: ReleaseRow,
    progress: Progress,
    memory: int = DEFAULT_MEMORY,
    *,
    join: bool = False,
) -> Verified | None:
    """Carry a recorded release to its end, from wherever it stands.

    memory: bytes that the search may hold of the segments. It changes nothing but the time taken.
    join: if another session is at work on it, wait. None: that one has published it meanwhile.
    """
    with hold(database, "release", release.release_id, f"release {release.name!r}", wait=join):
        # somebody else may have finished it while we waited for nothing but the lock
        state = releases.get_release(database, release.release_id).state
        if join and state == "published":
            return None
        if state != "running":
            raise Busy(
                f"release {release.name!r} was finished by another session",
                remedy=f"look at it: freqdp release show {release.name}",
            )
        verified = _carry_out(database, release, progress, memory)
    sweep_builds(database)
    return verified


def _carry_out(
    database: Database, release: ReleaseRow, progress: Progress, memory: int
) -> Verified:
    """For the holder of the release's lock."""
    staging.sweep_staging(database)
    staging.drop_staging(database, release.release_id)
    request = request_of(release)
    loaded = within_memory(database, load_build(database, release.build_id, progress), memory)
    # logs are written while the work goes on; the block ends when all of them are committed
    with database.side_by_side(1) as meanwhile:
        state, key, costs = _mechanisms(database, release, request, loaded, progress, meanwhile)
        if request.time_step_us is not None:
            state = coarsen_times(state, request.time_step_us)
        released = ReleasedTable.of(state, key, loaded.geometry, loaded.build.source_srid)
        with progress.stage("write release", released.rows) as stage:
            staging.fill_staging(
                database,
                release.release_id,
                released.srid,
                _counted(released.points(), stage),
                released.lines,
            )
    names = staging.staging_names(release.release_id)
    schema = database.settings.schema
    verified = verify(database, release, ((schema, names[0]), (schema, names[1])), loaded, progress)
    with progress.stage("publish"):
        releases.update_release(
            database, release.release_id, user_level=costs, timings=progress.seconds
        )
        _publish(database, release, request, released.rows)
    return verified


def _source(request: Request, step: int) -> RandomSource:
    return SecureSource() if request.seed is None else SeededSource(request.seed, step)


def _counted(chunks: Any, stage: Any) -> Any:
    for chunk in chunks:
        yield chunk
        stage.advance(len(chunk))


def request_of(release: ReleaseRow) -> Request:
    """The request that a release records."""
    return Request(
        method=find_method(release.method),
        epsilon_global=release.epsilon_global,
        epsilon_local=release.epsilon_local,
        signature=release.signature_size,
        spread=release.options["spread"],
        time_step_us=release.options["time_step_us"],
        seed=release.options["seed"],
        radius=release.options.get("radius"),
    )


def _mechanisms(
    database: Database,
    release: ReleaseRow,
    request: Request,
    loaded: Loaded,
    progress: Progress,
    meanwhile: Callable[..., None],
) -> tuple[Trajectories, Ints, dict[str, Any]]:
    """Run the method's mechanisms one after the other; committed draws are taken as they are.

    `meanwhile` starts what need not be waited for: writing the log of a step.
    """
    state, world = loaded.trajectories, loaded.world
    committed = {s.step: s for s in releases.list_steps(database, release.release_id)}
    _require_same_software(release, committed)
    with database.begin() as connection:
        key = releases.load_key(connection, database, release.release_id)
    if len(key) != (len(state) if committed else 0):
        raise _not_what_was_drawn(release, "the key of released ids is not whole")
    costs: dict[str, Any] = {}
    for number, mechanism in enumerate(request.method.steps, start=1):
        with progress.stage(f"{mechanism} frequencies", state.samples) as stage:
            frequencies = steps.count(state, world)
            stage.advance(state.samples)
        known = committed.get(number)
        with progress.stage(f"{mechanism} noise"):
            if known is None:
                # a stream of its own for each step: a resumed run draws what it would have drawn
                source = _source(request, number)
                first = len(key) == 0
                if first:
                    key = released_ids(source, len(state))
                targets = steps.draw(mechanism, frequencies, world.locations, request, source)
                releases.commit_targets(
                    database,
                    release.release_id,
                    number,
                    mechanism,
                    targets,
                    freqdp_db.__version__,
                    key if first else None,
                )
            else:
                with database.begin() as connection:
                    targets = releases.load_targets(
                        connection, database, release.release_id, number, mechanism
                    )
                if len(targets) != known.targets:
                    raise _not_what_was_drawn(release, f"step {number} has lost or gained targets")
                if not steps.drawn_from(frequencies, targets):
                    raise _not_what_was_drawn(
                        release, f"step {number}: its targets were drawn from other data"
                    )
        if request.method.draws_noise:
            costs[mechanism] = steps.user_level(frequencies, targets, request)
        with progress.stage(f"{mechanism} edits", len(targets), "targets") as stage:
            rank = np.argsort(np.argsort(key))
            edits, state = steps.edit(state, frequencies, targets, world, request, rank)
            stage.advance(len(targets))
        if known is None or known.digest is None:
            meanwhile(_write_log, database, release, number, mechanism, edits, state, progress)
        else:
            _require_recorded(release, known, edits, state, targets)
    return state, key, costs


def _require_same_software(release: ReleaseRow, committed: dict[int, StepRow]) -> None:
    for step in committed.values():
        if step.software != freqdp_db.__version__:
            raise ResumeRefused(
                f"release {release.name!r} drew its targets with freqdp {step.software}; this is "
                f"{freqdp_db.__version__}, which may edit differently",
                remedy=f"resume it with freqdp {step.software}, or give it up "
                f"(freqdp release withdraw {release.name}) and ask for a new draw",
            )


def _write_log(
    database: Database,
    release: ReleaseRow,
    number: int,
    mechanism: str,
    edits: Edits,
    state: Trajectories,
    progress: Progress,
) -> None:
    with progress.stage(f"{mechanism} log"):
        releases.finish_step(database, release.release_id, number, edits, steps.digest(state))


def _require_recorded(
    release: ReleaseRow, known: StepRow, edits: Edits, state: Trajectories, targets: Targets
) -> None:
    """What an earlier run recorded of a step is what its stored targets lead to now."""
    counts = (edits.deletions.edits, edits.insertions.edits, len(targets))
    recorded = (known.deletions, known.insertions, known.targets)
    if counts != recorded or steps.digest(state) != known.digest:
        raise _not_what_was_drawn(
            release,
            f"step {known.step}: the edits recomputed from the stored targets are not the "
            "recorded ones",
        )


def _not_what_was_drawn(release: ReleaseRow, what: str) -> ResumeRefused:
    return ResumeRefused(
        f"release {release.name!r}: {what}",
        remedy=f"give it up (freqdp release withdraw {release.name}) and ask for a new draw",
    )


def _publish(database: Database, release: ReleaseRow, request: Request, rows: int) -> None:
    origin = requests.provenance(database, release)
    granted = release.private and staging.role_exists(database, "analyst")
    staging.publish(
        database,
        release.release_id,
        release.name,
        release.dataset_id,
        comments(release.name, release.guarantee, release.method),
        {
            "dataset": origin.dataset,
            "method": release.method,
            "parameters": request.published_parameters(),
            "guarantee": release.guarantee,
            "private": release.private,
            "rows": rows,
            "ledger_head": origin.ledger_head,
        },
        granted=granted,
    )


def epsilon_of(release: ReleaseRow) -> Decimal:
    return release.epsilon_global + release.epsilon_local
