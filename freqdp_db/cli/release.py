"""`freqdp release`: look at, verify, resume, export, find and withdraw releases."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from freqdp_db.cli.console import Session, command
from freqdp_db.cli.evaluate import MapOption, RoadsOption, road_table
from freqdp_db.cli.request import Memory

app = typer.Typer(name="release", help="Look after releases.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of the release.", show_default=False)]


@command(app, "list")
def list_(session: Session) -> None:
    """All releases that were ever asked for; for analysts, those that are published."""
    if not session.reads_private:
        _list_published(session)
        return
    from freqdp_db.release.request import Request
    from freqdp_db.release.summary import release_document
    from freqdp_db.storage.records.releases import list_releases

    database = session.database()
    rows = list_releases(database)
    session.answer(
        [release_document(database, r) for r in rows],
        lambda: (
            session.table(
                ["name", "state", "method", "kind", "spent", "rows", "granted", "published"],
                [
                    (
                        r.name,
                        r.state,
                        r.method,
                        r.kind,
                        Request.of(r).price,
                        r.rows,
                        r.grantable,
                        f"{r.published_at:%Y-%m-%d %H:%M}" if r.published_at else None,
                    )
                    for r in rows
                ],
            )
            if rows
            else session.print("No releases yet. Next: freqdp anonymize DATASET --epsilon 1")
        ),
    )


def _list_published(session: Session) -> None:
    from freqdp_db.release.catalogue import published

    rows = published(session.database())
    session.answer(
        rows,
        lambda: session.table(
            ["name", "version", "method", "kind", "rows", "published"],
            [
                (r["name"], r["version"], r["method"], r["kind"], r["rows"],
                 f"{r['published_at']:%Y-%m-%d %H:%M}")
                for r in rows
            ],
        ),
    )  # fmt: skip


@command(app, "show")
def show(session: Session, name: Name) -> None:
    """One release: parameters, edits, guarantee, and what a whole user costs."""
    if not session.reads_private:
        from freqdp_db.release.catalogue import describe_published, find_published

        catalogued = find_published(session.database(), name)
        session.answer(
            catalogued,
            lambda: session.print_all(describe_published(session.database(), catalogued)),
        )
        return
    from freqdp_db.release.summary import describe_release, release_document
    from freqdp_db.storage.records.releases import find_release

    database = session.database()
    row = find_release(database, name)
    session.answer(
        release_document(database, row),
        lambda: session.print_all(describe_release(database, row)),
    )


@command(app, "verify")
def verify(session: Session, name: Name) -> None:
    """Replay the edit log and compare with the published table, row by row. Exit 3 if it differs."""
    from freqdp_db.dataset.memory import load_build
    from freqdp_db.release.inputs import make_world
    from freqdp_db.release.request import Request
    from freqdp_db.release.verification import released_relations, require_published
    from freqdp_db.release.verification import verify as check
    from freqdp_db.storage.records.releases import find_release

    database = session.database()
    row = find_release(database, name)
    require_published(row, "verified")
    progress = session.progress(kernels=True)
    request = Request.of(row)
    build = load_build(database, row.build_id, progress)
    world = make_world(database, build, request.method, request.values)
    found = check(database, row, released_relations(database, name), world, progress)
    session.answer(
        {"release": name, "verified": True, **asdict(found), "seconds": progress.seconds},
        lambda: session.print(
            f"{name}: {', '.join(found.words(request))}, {found.rows:,} rows of "
            f"{found.trajectories:,} trajectories are what the log gives."
        ),
    )


@command(app, "resume")
def resume(session: Session, name: Name, memory: Memory = "4GB") -> None:
    """Go on with an interrupted release from its stored targets. Spends nothing."""
    from freqdp_db.errors import BadInput
    from freqdp_db.release.paging import parse_memory
    from freqdp_db.release.pipeline import Outcome, run
    from freqdp_db.release.summary import describe_outcome, outcome_document
    from freqdp_db.storage.records.releases import find_release, get_release

    limit = parse_memory(memory)
    database = session.database()
    row = find_release(database, name)
    if row.state != "running":
        raise BadInput(
            f"release {name!r} is {row.state}: there is nothing to resume",
            remedy="`freqdp release list` shows which are running",
        )
    progress = session.progress(kernels=True)
    verified = run(database, row, progress, limit)
    outcome = Outcome(get_release(database, row.release_id), False, True, verified)
    session.answer(
        {**outcome_document(database, outcome), "seconds": progress.seconds},
        lambda: session.print_all(describe_outcome(database, outcome)),
    )


@command(app, "withdraw")
def withdraw(session: Session, name: Name) -> None:
    """Revoke, empty and drop a release, or give up an unfinished one. The spend stays spent."""
    from freqdp_db.release.withdrawing import withdraw as take_back
    from freqdp_db.storage.records.releases import find_release

    database = session.database()
    row = find_release(database, name)
    take_back(database, row)
    session.answer(
        {"withdrawn": name, "was": row.state},
        lambda: session.print(f"Withdrew {name}. Its record and its spend stay in the ledger."),
    )


@command(app, "export")
def export(
    session: Session,
    name: Name,
    format_: Annotated[str, typer.Option("--format", help="csv, geoparquet or gpkg.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="File to write. Default: NAME.csv, .parquet, .gpkg")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
) -> None:
    """Write a release to a file, with its guarantee and terms of use beside it."""
    from freqdp_db.release.export.exporting import export_release

    written = export_release(
        session.database(), name, format_, out, session.progress(), overwrite=force
    )
    session.answer(
        {"release": name, "files": [str(f) for f in written.files], "rows": written.rows},
        lambda: session.print(
            f"Wrote {written.rows:,} rows: " + ", ".join(str(f) for f in written.files)
        ),
    )


@command(app, "report")
def report(
    session: Session,
    name: Name,
    public: Annotated[
        bool, typer.Option("--public", help="Leave out whatever reads original data.")
    ] = False,
    roads: RoadsOption = None,
    map_: MapOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="File to write. Default: NAME.report.html or NAME.public.html"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write one HTML file: what the release is, guarantees and loses, with pictures."""
    from freqdp_db.evaluation.report.report import write_report
    from freqdp_db.storage.records.releases import find_release

    table = road_table(roads, map_)
    database = session.database()
    written = write_report(
        database,
        find_release(database, name),
        session.progress(),
        public=public,
        out=out,
        overwrite=force,
        roads=table,
    )
    path = str(written.path.resolve())
    session.answer(
        {"release": name, "file": path, "public": public, "bytes": written.bytes},
        lambda: session.print(f"Report: {path}"),
    )


@command(app, "find")
def find(
    session: Session,
    object_: Annotated[str, typer.Option("--object", help="Key of the object, as in the source.")],
) -> None:
    """Which builds and releases hold an object, for erasure requests."""
    from freqdp_db.storage.records.erasure import find_object

    found = find_object(session.database(), object_)

    def show_() -> None:
        if not found:
            session.print("No build holds this object.")
            return
        session.table(
            ["dataset", "build", "release", "state", "released id"],
            [(f.dataset, f.build_id, f.release, f.state, _id(f.released_id)) for f in found],
        )

    session.answer([asdict(f) for f in found], show_)


def _id(value: int | None) -> str | None:
    return None if value is None else str(value)
