"""Releases: planned, made, looked after."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from freqdp_db.dataset.memory import load_build
from freqdp_db.documents import Document, aside
from freqdp_db.engines.choice import choose_engine
from freqdp_db.errors import BadInput
from freqdp_db.interface.connecting import Connection, Value, reached, working
from freqdp_db.interface.engines import at_work
from freqdp_db.methods.registry import DEFAULT_METHOD, require_spread
from freqdp_db.progress import Progress
from freqdp_db.release import pipeline, publishing, verification, withdrawing
from freqdp_db.release.catalogue import Published, find_published, published
from freqdp_db.release.inputs import make_world
from freqdp_db.release.paging import parse_memory
from freqdp_db.release.pipeline import Outcome
from freqdp_db.release.planning import Plan, make_plan
from freqdp_db.release.request import Request
from freqdp_db.release.summary import Anonymized as Anonymized
from freqdp_db.release.summary import Release
from freqdp_db.storage.connection import engine
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.records.datasets import find_dataset
from freqdp_db.storage.records.releases import find_release, get_release, list_releases
from freqdp_db.storage.schema.upgrade import reads_private

if TYPE_CHECKING:
    from freqdp_db.release.export.exporting import Exported

DEFAULT_MEMORY = "4GB"


@dataclass(frozen=True)
class Verification(Document):
    """A release that is what its log gives."""

    release: str
    verified: bool
    rows: int
    trajectories: int
    checked: dict[str, int]
    seconds: dict[str, float]
    words: list[str] = aside()


@dataclass(frozen=True)
class Withdrawn(Document):
    withdrawn: str
    was: str
    waits_for: str | None
    """What keeps its tables from being dropped. None: they are gone."""


@dataclass(frozen=True)
class PublishedElsewhere(publishing.Handed, Document):
    """What changed in the database for analysts."""

    def lines(self) -> list[str]:
        lines = [f"Copied {name}." for name in self.copied]
        lines += [f"Removed {name}: it was withdrawn." for name in self.removed]
        lines += [f"{len(self.unchanged)} were there already."] if self.unchanged else []
        lines += [f"Waits for the next run: {what}." for what in self.waiting]
        return lines or ["Nothing to copy: no release is for analysts."]


def plan(
    connection: Connection,
    dataset: str,
    method: str = DEFAULT_METHOD,
    *,
    engine: str | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
    **parameters: Value,
) -> Plan:
    """What `anonymize` would spend, edit and take. Spends nothing; for the curator's eyes.

    engine, workers: as for `anonymize`.
    """
    request, chosen = Request.parse(method, **parameters), choose_engine(engine, workers)
    with reached(connection) as database:
        row = find_dataset(database, dataset)
        shown = working(progress, kernels=True)
        with at_work(chosen, database, shown):
            return make_plan(database, row, request, shown)


def anonymize(
    connection: Connection,
    dataset: str,
    method: str = DEFAULT_METHOD,
    *,
    name: str | None = None,
    new_draw: bool = False,
    hold: bool = False,
    memory: int | str = DEFAULT_MEMORY,
    engine: str | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
    **parameters: Value,
) -> Anonymized:
    """Anonymize a dataset and publish the result as a new table.

    A request that was answered before gets the same release again, one that was interrupted is gone
    on with; `new_draw` asks for another one.

    name: of the release; None: <dataset>_<n>.
    hold: for curators only, until `approve`. So is every release of a dataset with `max_exposure`.
    memory: how much of the segments the search may hold: bytes, `256MB`, `4GB`. Less is slower; the
    result is the same.
    engine: threads, dask, dask://host:8786 or tls://host:8786; None: FREQDP_ENGINE, or threads. The
    result is the same. workers: how many processes `dask` starts; None: one for each core.
    parameters: those of the method, such as epsilon=1 or time_step="60s"; `methods()` lists them.
    """
    request, limit = Request.parse(method, **parameters), _bytes(memory)
    chosen = choose_engine(engine, workers)
    with reached(connection) as database:
        row = find_dataset(database, dataset)
        shown = working(progress, kernels=True)
        with at_work(chosen, database, shown):
            outcome = pipeline.anonymize(
                database,
                row,
                request,
                shown,
                name=name,
                new_draw=new_draw,
                hold_back=hold,
                memory=limit,
            )
        return Anonymized.by(database, outcome, shown, name)


def resume(
    connection: Connection,
    name: str,
    *,
    memory: int | str = DEFAULT_MEMORY,
    engine: str | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Anonymized:
    """Go on with an interrupted release from its stored targets. Spends nothing.

    memory, engine, workers: as for `anonymize`; not necessarily those that it was begun with.
    """
    limit, chosen = _bytes(memory), choose_engine(engine, workers)
    with reached(connection) as database:
        row = find_release(database, name)
        if row.state != "running":
            raise BadInput(
                f"release {name!r} is {row.state}: there is nothing to resume",
                remedy="`freqdp release list` shows which are running",
            )
        shown = working(progress, kernels=True)
        with at_work(chosen, database, shown):
            done = pipeline.run(database, row, shown, limit)
        verified = None if done is None else done[0]
        outcome = Outcome(get_release(database, row.release_id), False, True, verified)
        return Anonymized.by(database, outcome, shown)


def _bytes(memory: int | str) -> int:
    if isinstance(memory, int) and memory > 0:
        return memory
    return parse_memory(str(memory))


def releases(connection: Connection = None) -> list[Release] | list[Published]:
    """All releases that were ever asked for; for analysts, the catalogue of those published."""
    with reached(connection) as database:
        if not reads_private(database):
            return published(database)
        return [Release.of(database, row) for row in list_releases(database)]


def release(connection: Connection, name: str) -> Release | Published:
    """One release: parameters, edits, guarantee; for analysts, what the catalogue says."""
    with reached(connection) as database:
        if not reads_private(database):
            return find_published(database, name)
        return Release.of(database, find_release(database, name))


def verify(
    connection: Connection,
    name: str,
    *,
    engine: str | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Replay the edit log and compare with the published table, row by row.

    Raises VerificationFailed where they differ. engine, workers: as for `anonymize`.
    """
    chosen = choose_engine(engine, workers)
    with reached(connection) as database:
        row = find_release(database, name)
        verification.require_published(row, "verified")
        shown = working(progress, kernels=True)
        request = Request.of(row)
        with at_work(chosen, database, shown):
            require_spread(request.method)
            build = load_build(database, row.build_id, shown)
            world = make_world(database, build, request.method, request.values, release=name)
            found = verification.verify(database, row, world, shown)
    words = found.words(request)
    return Verification(name, True, **vars(found), seconds=shown.seconds, words=words)


def withdraw(connection: Connection, name: str) -> Withdrawn:
    """Revoke, empty and drop a release, or give up an unfinished one. The spend stays spent.

    Analysts can read it no longer, whatever they have open. What they have open, or a view of theirs, may
    put off that its tables are dropped (`waits_for`): the same again, or any later work, does that.
    """
    with reached(connection) as database:
        row = find_release(database, name)
        left = withdrawing.withdraw(database, row)
    return Withdrawn(name, row.state, left)


def publish(
    connection: Connection,
    name: str | None = None,
    *,
    to: str,
    all: bool = False,
    progress: Progress | None = None,
) -> PublishedElsewhere:
    """Copy releases that analysts may read into another database, which has nothing but them.

    Its logins can see nothing of the private tables, not even how many rows they have. Running it again
    changes nothing.

    name: of a release. all: all that analysts may read; what is there and not among them is removed.
    to: the other database: a URL or a libpq string. It needs PostGIS.
    """
    if (name is None) != all:
        raise BadInput("give the name of a release, or --all", remedy="one of both")
    with reached(connection) as database, closing(_elsewhere(database, to)) as target:
        done = publishing.publish_to(database, target, name, working(progress))
    return PublishedElsewhere(**vars(done))


def _elsewhere(database: Database, to: str) -> Database:
    try:
        return engine.connect(replace(database.settings, dsn=to), "release publish")
    except BadInput:
        # its words are those of --dsn; nothing of it is repeated, as it may hold a password
        raise BadInput(
            "--to is not a connection string",
            remedy="write postgresql://user@host:5432/database, or host=... dbname=... user=...",
        ) from None


def export(
    connection: Connection,
    name: str,
    format: str,
    out: Path | str | None = None,
    *,
    srid: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Exported:
    """Write a release to a file, with its guarantee and terms of use beside it.

    format: csv, geoparquet or gpkg. out: the file; None: NAME.csv, .parquet, .gpkg.
    srid: the reference system of the file, such as 4326 for lon/lat; None: that of the release.
    force: overwrite existing files.
    """
    # here: it takes a second to load
    from freqdp_db.release.export.exporting import export_release

    path = None if out is None else Path(out)
    with reached(connection) as database:
        return export_release(
            database, name, format, path, working(progress), srid=srid, overwrite=force
        )
