"""One job from beginning to end: build if asked to, release, retire old releases."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeAlias

from freqdp_db.dataset.building import build
from freqdp_db.engines.partitions import LOCAL, Engine
from freqdp_db.errors import Busy, FreqdpError, NotFound, TooExposed
from freqdp_db.jobs.document import JobRequest, parse
from freqdp_db.progress import Progress
from freqdp_db.release.inputs import require_readable
from freqdp_db.release.pipeline import Outcome, anonymize, run
from freqdp_db.release.verification import Replayed
from freqdp_db.release.withdrawing import withdraw
from freqdp_db.storage.connection.engine import Connection, Database
from freqdp_db.storage.records import jobs
from freqdp_db.storage.records.datasets import DatasetRow, living_dataset
from freqdp_db.storage.records.jobs import JobRow
from freqdp_db.storage.records.releases import ReleaseRow, get_release

_SECONDS_FOR_LOCKS = 10.0
Gate: TypeAlias = Callable[
    [Database, ReleaseRow, Progress, Collection[str], Engine, Replayed | None], object
]
"""Grants a release that is held because its dataset has a limit, or raises why not.

The collection: the releases that are withdrawn as soon as it is granted. Last: what was verified of it
just now.
"""


@dataclass(frozen=True)
class Done:
    """What a job came to."""

    release: ReleaseRow
    resumed: bool
    note: str | None


def perform(
    database: Database, job: JobRow, progress: Progress, gate: Gate, engine: Engine = LOCAL
) -> Done:
    """Do a job, from wherever an earlier attempt left it."""
    asked = parse(job.wanted)
    require_readable(database, asked.request.method, asked.request.values, job.askers)
    if job.release_id is not None:
        made = _go_on(database, get_release(database, job.release_id), progress, engine)
    else:
        made = _begin(database, job, asked, progress, engine)
    release = made.release
    try:
        if release.held and not asked.hold:
            replaced = _replaced(database, release.dataset_id, asked.keep)
            gate(database, release, progress, replaced, engine, made.replayed)
    except TooExposed:
        if asked.keep is not None:
            _retire(database, release.dataset_id, asked.keep)
        raise
    note = None if asked.keep is None else _retire(database, release.dataset_id, asked.keep)
    return Done(get_release(database, release.release_id), made.resumed, note)


def _go_on(database: Database, release: ReleaseRow, progress: Progress, engine: Engine) -> Outcome:
    done = None
    if release.state == "running":
        done = run(database, release, progress, engine=engine)
        release = get_release(database, release.release_id)
    if release.state != "published":
        raise NotFound(
            f"release {release.name!r} was taken back while the job was under way",
            remedy="ask for a new one",
        )
    return Outcome(release, False, True, *(done or (None, None)))


def _begin(
    database: Database, job: JobRow, asked: JobRequest, progress: Progress, engine: Engine
) -> Outcome:
    dataset = _dataset(database, job.dataset_id)
    if asked.rebuild and job.build_id is None:
        made = build(database, dataset, progress, engine)
        jobs.record_build(database, job, made.build_id)
        dataset = _dataset(database, job.dataset_id)

    def recorded(connection: Connection, release: ReleaseRow) -> None:
        jobs.record_release(connection, database, job, release.release_id)

    return anonymize(
        database,
        dataset,
        asked.request,
        progress,
        name=asked.name,
        new_draw=asked.new_draw,
        hold_back=asked.hold,
        recorded=recorded,
        replaces=() if asked.hold else _replaced(database, dataset.dataset_id, asked.keep),
        engine=engine,
    )


def _dataset(database: Database, dataset_id: int) -> DatasetRow:
    dataset = living_dataset(database, dataset_id)
    if dataset is None:
        raise NotFound(
            "the dataset was dropped after the release was asked for",
            remedy="register it again, and ask again",
        )
    return dataset


def _replaced(database: Database, dataset_id: int, keep: int | None) -> list[str]:
    """Releases that analysts read now and that `_retire` withdraws once there is one more."""
    if keep is None:
        return []
    granted = jobs.kept_releases(database, dataset_id, held=False)
    return [get_release(database, number).name for number in granted[keep - 1 :]]


def _retire(database: Database, dataset_id: int, keep: int) -> str | None:
    """Withdraw all but the newest; says which ones have to stay for now.

    Those that are held are counted apart: what nobody approved must not push out what analysts read.
    """
    left = []
    granted, held = (jobs.kept_releases(database, dataset_id, held=h)[keep:] for h in (False, True))
    for release_id in (*granted, *held):
        release = get_release(database, release_id)
        try:
            waits_for = withdraw(database, release)
        except FreqdpError as error:
            left.append(f"release {release.name} stays for now: {error.message}")
        else:
            if waits_for is not None:
                left.append(
                    f"release {release.name} is withdrawn, but not dropped yet: {waits_for}"
                )
    return "; ".join(left) or None


def give_up(database: Database, job: JobRow) -> ReleaseRow | None:
    """Abandon what a cancelled job has begun; returns its release if it was published before."""
    release_id = jobs.release_of(database, job.job_id)
    if release_id is None:
        return None
    until = time.monotonic() + _SECONDS_FOR_LOCKS
    while True:
        release = get_release(database, release_id)
        if release.state != "running":
            return release if release.state == "published" else None
        try:
            withdraw(database, release)
        except Busy:
            # the server may still be ending the sessions of the interrupted work
            if time.monotonic() > until:
                raise
            time.sleep(0.2)
