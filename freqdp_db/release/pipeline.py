"""The order of the stages: spend, then the steps of the method; write, verify, publish.

Every arrow is a commit, so that a kill at any moment leaves nothing or a complete release, and the
same command again goes on from the last commit. Committed draws are never drawn again; a draw lost
before its commit has left the process nowhere and is drawn anew under the same spend.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import freqdp_db
from freqdp_db.dataset.memory import load_build
from freqdp_db.db import releases, staging
from freqdp_db.db.builds import BuildRow, find_build, sweep_builds, window_name
from freqdp_db.db.connection import Connection, Database, DatabaseRef, hold
from freqdp_db.db.datasets import DatasetRow, get_dataset
from freqdp_db.db.ledger import require_booked
from freqdp_db.db.published import (
    missing_message,
    require_current_names_free,
    require_replaceable,
    require_same_columns,
)
from freqdp_db.db.releases import ReleaseRow, StepRow
from freqdp_db.db.schema import require_declared
from freqdp_db.db.source import relation_exists
from freqdp_db.engines.partitions import LOCAL, Engine
from freqdp_db.errors import (
    BadInput,
    Busy,
    NotFound,
    ResumeRefused,
    SchemaInUse,
    VerificationFailed,
)
from freqdp_db.methods.contract import CompletedStep, Counts, StepContext, WorkingSet
from freqdp_db.methods.loop import StepRun, run_steps
from freqdp_db.methods.registry import require_partitioned
from freqdp_db.methods.relations import Relation
from freqdp_db.model.arrays import Ints
from freqdp_db.privacy.noise import RandomSource, SecureSource, SeededSource
from freqdp_db.progress import Progress
from freqdp_db.release.approving import finish_pending
from freqdp_db.release.catalogue import catalogue_entry
from freqdp_db.release.conflicts import not_covered_by_guarantee, refuse_conflicting_releases
from freqdp_db.release.inputs import (
    DEFAULT_MEMORY,
    make_world,
    notes_for_persons,
    notes_on_columns,
    read_inputs,
    require_public_inputs,
    require_public_tables,
    search_within,
)
from freqdp_db.release.request import JobRequest, Request, check_release_name
from freqdp_db.release.table import Hashes, ReleaseRows, Stored, TablePart, tables_of
from freqdp_db.release.verification import Replayed, Verified, read_draw, replay_steps

StoredStep: TypeAlias = Callable[[Connection, ReleaseRow], None]
"""Called in the transaction that records a new release and books its spend."""


@dataclass(frozen=True)
class Outcome:
    """What `anonymize` did."""

    release: ReleaseRow
    existed: bool
    resumed: bool = False
    verified: Verified | None = None
    replayed: Replayed | None = None
    """What was verified, for who measures it right away."""


def anonymize(
    database: Database,
    dataset: DatasetRow,
    asked: JobRequest,
    progress: Progress,
    *,
    memory: int = DEFAULT_MEMORY,
    recorded: StoredStep | None = None,
    replaces: Collection[str] = (),
    engine: Engine = LOCAL,
    build_id: int | None = None,
) -> Outcome:
    """Publish a release, or return, join or go on with the one that answers the same request.

    It is held if that is asked for, and if its dataset has a limit. replaces: releases that the caller
    withdraws as soon as this one is published. build_id: what it is made from, of a window; None: the
    dataset's current build.
    """
    if asked.name is not None:
        check_release_name(asked.name)
    build = find_build(database, build_id or dataset.require_build())
    require_partitioned(asked.request.method, engine)
    require_declared(database)
    release, fresh = _find_or_record(database, dataset, build, asked, recorded, replaces, progress)
    if release.state == "published":
        return Outcome(release, existed=True)
    # also a fresh one: an equal request may have found the record and been quicker to start
    done = run(database, release, progress, memory, join=True, engine=engine)
    return replace(done, resumed=done.resumed and not fresh)


def _find_or_record(
    database: Database,
    dataset: DatasetRow,
    build: BuildRow,
    asked: JobRequest,
    recorded: StoredStep | None,
    replaces: Collection[str],
    progress: Progress,
) -> tuple[ReleaseRow, bool]:
    """Find the release of an equal request, or record a new one and its spend in one commit."""
    request, series = asked.request.with_facts(dataset, build), asked.series
    held = request.grantable and (asked.hold or dataset.max_exposure is not None)
    method, parameters = request.method.name, request.document()
    with database.begin() as connection:
        request_hash = releases.request_hash(connection, build.build_id, method, parameters)
        releases.lock_same_rows(connection, dataset.account_id)
        if not asked.new_draw:
            known = releases.same_request(connection, request_hash, series)
            if known is not None:
                _require_not_lost(connection, known)
                return known, False
        request.require_possible(build)
        require_public_inputs(connection, dataset, build, request)
        # what waits for a measurement alone is looked at now: later the budget would be spent
        refuse_conflicting_releases(
            connection, dataset, request, asked.hold, build=build, replaces=replaces
        )
        read_inputs(database, build, dataset.mapping.timezone, request.method, request.values)
        notes = notes_for_persons(database, dataset, build, request)
        for text in notes + notes_on_columns(request):
            progress.note(text)
        releases.lock_build(connection, build.build_id)
        name = asked.name or _default_name(connection, dataset, build, series)
        staging.require_free_name(connection, name, request.relations)
        if build.time_window is None:
            require_current_names_free(connection, dataset.name, series)
            if request.grantable and not held:
                require_replaceable(
                    connection, dataset.name, series, request.relations, build.source_srid
                )
        elif series is not None and request.method.keeps_columns:
            require_same_columns(connection, series, request.relations, request.kept)
        release = releases.record_release(
            connection,
            name=name,
            build_id=build.build_id,
            method=method,
            parameters=parameters,
            grantable=request.grantable,
            held=held,
            software=freqdp_db.__version__,
            guarantee=request.guarantee(
                dataset.protected,
                not_covered_by_guarantee(connection, dataset, build, request.method),
            ),
            series=series,
        )
        if recorded is not None:
            recorded(connection, release)
    return release, True


def _require_not_lost(connection: Connection, known: ReleaseRow) -> None:
    """Refuse to answer with a release whose table was dropped by hand."""
    schema = connection.release_schema
    for relation in tables_of(Request.of(known), known.software):
        name = known.name + relation.suffix
        if known.state == "published" and not relation_exists(connection, schema, name):
            raise NotFound(
                f"release {known.name!r} answers this request, but {missing_message(schema, name)}",
                remedy="rename it back, or withdraw the release and ask again: freqdp release withdraw "
                f"{shlex.quote(known.name)}",
            )


def _default_name(
    connection: Connection, dataset: DatasetRow, build: BuildRow, series: str | None
) -> str:
    """<series>_<window>; or after its series or dataset, with the next number that no release has had."""
    if series is not None and build.time_window is not None:
        return window_name(series, build.time_window)
    begin = series or dataset.name
    used = releases.used_names(connection, f"{begin}_")
    number = 1
    while f"{begin}_{number}" in used:
        number += 1
    try:
        return check_release_name(f"{begin}_{number}")
    except BadInput:
        raise BadInput(
            f"no release can be called {begin}_{number}, after its dataset",
            remedy="give the release a name with [[name]]",
        ) from None


@dataclass
class StoredJournal:
    """The journal of `anonymize`: committed draws are taken as they are, and never drawn again."""

    database: Database
    release: ReleaseRow
    seed: int | None
    progress: Progress
    meanwhile: Callable[..., object]
    """Starts what need not be waited for: writing the log of a step."""
    user_level: dict[str, Any] = field(default_factory=dict)
    _committed: dict[int, StepRow] = field(default_factory=dict)
    _key: Ints | None = None

    def __post_init__(self) -> None:
        with self.database.begin(snapshot=True) as connection:
            steps = releases.list_steps(connection, self.release.release_id)
            key = releases.load_key(connection, self.release.release_id)
        self._committed = {step.step: step for step in steps}
        self._key = key if len(key) else None
        for step in steps:
            if step.software != freqdp_db.__version__:
                raise self._refused(
                    f"its targets were drawn with freqdp {step.software}; this is "
                    f"{freqdp_db.__version__}, which may edit differently",
                    f"resume it with freqdp {step.software}, or ",
                )

    def key(self) -> Ints | None:
        return self._key

    def drawn(self, turn: StepRun, world: StepContext, state: WorkingSet) -> Any | None:
        known = self._committed.get(turn.number)
        if known is None:
            return None
        try:
            with self.database.begin() as connection:
                drawn = read_draw(connection, self.release.release_id, turn, world, state)
        except VerificationFailed as error:
            raise self._refused(error.message) from None
        if len(drawn) != known.drawn:
            raise self._refused(f"step {turn.number} has lost or gained targets")
        return drawn

    def source(self, number: int) -> RandomSource:
        require_booked(self.database, self.release.release_id)
        return SecureSource() if self.seed is None else SeededSource(self.seed, number)

    def commit(self, turn: StepRun, drawn: Any, key: Ints | None) -> None:
        releases.commit_draw(
            self.database, self.release.release_id, turn.number, turn.step.name, drawn,
            freqdp_db.__version__, key,
        )  # fmt: skip

    def carry_out(
        self, turn: StepRun, world: StepContext, state: WorkingSet, drawn: Any
    ) -> WorkingSet:
        step = turn.step
        costs = step.user_level(state, drawn, turn.options)
        if costs:
            self.user_level[step.name] = costs
        logged, after = step.carry_out(world, state, drawn, turn.options)
        counts = step.counts(CompletedStep(world, state, drawn, logged, turn.options, after))
        known = self._committed.get(turn.number)
        if known is None or known.digest is None:
            self.meanwhile(self._write_log, turn, logged, counts, after)
        elif known.counts != counts or known.digest != after.digest:
            raise self._refused(
                f"step {turn.number}: the edits recomputed from the stored targets are not the "
                "recorded ones"
            )
        return after

    def _write_log(self, turn: StepRun, logged: Any, counts: Counts, after: WorkingSet) -> None:
        with self.progress.stage(f"{turn.step.name} log"):
            releases.finish_step(
                self.database, self.release.release_id, turn.number, logged, counts, after.digest
            )

    def _refused(self, what: str, first: str = "") -> ResumeRefused:
        name = self.release.name
        return ResumeRefused(
            f"release {name!r}: {what}",
            remedy=f"{first}give it up (freqdp release withdraw {shlex.quote(name)}) and ask for a new "
            "draw",
        )


def run(
    database: Database,
    release: ReleaseRow,
    progress: Progress,
    memory: int = DEFAULT_MEMORY,
    *,
    join: bool = False,
    engine: Engine = LOCAL,
) -> Outcome:
    """Carry a recorded release to its end, from wherever it stands.

    memory: bytes that the search may hold of the segments. It changes nothing but the time taken.
    join: if another session is at work on it, wait; that one may have published it meanwhile.
    """
    request = Request.of(release)
    require_partitioned(request.method, engine)
    with hold(database, "release", release.release_id, f"release {release.name!r}", wait=join):
        # somebody else may have finished it while we waited for nothing but the lock
        release = releases.get_release(database, release.release_id)
        if join and release.state == "published":
            return Outcome(release, existed=True)
        if release.state != "running":
            raise Busy(
                f"release {release.name!r} was finished by another session",
                remedy=f"look at it: freqdp release show {shlex.quote(release.name)}",
            )
        done = _carry_out(database, release, request, progress, memory, engine)
    finish_pending(database)
    sweep_builds(database)
    published = releases.get_release(database, release.release_id)
    return Outcome(published, False, True, *done)


def _carry_out(
    database: Database,
    release: ReleaseRow,
    request: Request,
    progress: Progress,
    memory: int,
    engine: Engine,
) -> tuple[Verified, Replayed]:
    """For the holder of the release's lock."""
    # what the ledger has booked is compared with what SQL knows of the method
    require_declared(database)
    require_booked(database, release.release_id)
    staging.sweep_staging(database)
    staging.drop_staging(database, release.release_id)
    with database.begin() as connection:
        # a view may have been redefined since it was asked for
        require_public_tables(
            connection, get_dataset(database, release.dataset_id),
            find_build(database, release.build_id), request,
        )  # fmt: skip
    build = load_build(database, release.build_id, progress, engine)
    # workers hold the segments of their partitions: how many that are depends on how these are cut
    search = None if engine.remote else search_within(database, release.build_id, build, memory)
    world = make_world(
        database, build, request.method, request.values, search, release=release.name
    )
    # two sessions write while this one works: the logs of steps, the rows, the lines, the indexes
    with database.side_by_side(2) as start:
        logs: list[Future[None]] = []
        journal = StoredJournal(
            database, release, request.seed, progress, lambda *work: logs.append(start(*work))
        )
        state = run_steps(request.method, request.values, world, journal, progress)
        rows = ReleaseRows.of(request.method, state, world)
        tables = tables_of(request)
        staged = staging.Staging(
            DatabaseRef.of(database), release.release_id, request.method.name, build.source_srid
        )
        # workers write their part of all tables at once
        largest = tables[:1] if rows.in_order else tables
        written = [start(_write, staged, largest, rows, progress)]
        for relation in tables[len(largest) :]:
            written.append(start(_write_and_index, staged, relation, rows, progress))
        for log in logs:
            log.result()
        replayed = replay_steps(database, release, request, world, progress)
        replayed.require_written(state)
        _ = replayed.digest  # all samples are hashed while the rows are still being written
        compared = _index_and_compare(staged, tables, rows, written, progress, start)
    with progress.stage("publish"):
        verified = replayed.record(
            database, release, rows.shown, compared,
            user_level=journal.user_level, timings=progress.seconds,
        )  # fmt: skip
        comments, entry = catalogue_entry(database, release, request, verified.rows, build.timezone)
        try:
            staging.publish(database, release, request.relations, comments, entry)
        except SchemaInUse as error:
            raise SchemaInUse(
                f"release {release.name!r} is made, but not published: {error.text}",
                remedy=f"it is not lost: {error.remedy_text}; then go on with it, which spends nothing: "
                f"freqdp release resume {shlex.quote(release.name)}",
            ) from None
    return verified, replayed


def _write(
    staged: staging.Staging, tables: list[Relation], rows: ReleaseRows, progress: Progress
) -> Hashes:
    """The first table, or all that several writers fill; indexes follow when its rows are compared."""
    with progress.stage("write release", rows.rows) as stage:
        return rows.write(staged, tables, stage)


def _write_and_index(
    staged: staging.Staging, relation: Relation, rows: ReleaseRows, progress: Progress
) -> Hashes:
    """A table besides the first one."""
    with progress.stage("write other tables") as stage:
        hashes = rows.write(staged, [relation], stage)
        staged.index_whole(relation)
    return hashes


def _index_and_compare(
    staged: staging.Staging,
    tables: list[Relation],
    rows: ReleaseRows,
    written: list[Future[Hashes]],
    progress: Progress,
    start: Callable[..., Future[Any]],
) -> dict[str, list[TablePart]]:
    """Compare what was written with what was to be written, and index the first table meanwhile."""
    first, *others = tables
    hashes = written[0].result()
    indexes = [start(staged.index, first, column) for column in first.indexes[:1]]
    if not rows.in_order:
        with progress.stage("index the key"):
            keys = [start(staged.index, first, None)]
            for made in keys + [start(staged.index_whole, relation) for relation in others]:
                made.result()
    found = {}
    with progress.stage("compare rows", rows.rows) as stage:
        for relation in tables:
            stored = Stored(*staged.name_of(relation), in_order=rows.in_order)
            expected = hashes[relation.suffix]
            found[relation.suffix] = rows.compare(
                staged.database, relation, stored, expected, stage
            )
            if relation is first:
                # only now: the first index takes longest, and more would hold it up
                columns = (None, *first.indexes[1:]) if rows.in_order else first.indexes[1:]
                indexes += [start(staged.index, first, column) for column in columns]
                for more in written[1:]:
                    hashes |= more.result()
    with progress.stage("finish indexes"):
        for index in indexes:
            index.result()
        staged.finish_indexes(first)
    return found
