"""`freqdp release`: look at, verify, resume, approve, export, find and withdraw releases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import freqdp_db
from freqdp_db.cli.console import Session, command
from freqdp_db.cli.evaluate import MapOption, RoadsOption
from freqdp_db.cli.numbers import whole_number
from freqdp_db.cli.request import Engine, Memory, Workers, released

app = typer.Typer(name="release", help="Look after releases.", no_args_is_help=True)

Name = Annotated[str, released("published")]
_CURATOR = (
    "name",
    "state",
    "method",
    "kind",
    "price",
    "rows",
    "readers",
    "exposure",
    "published_at",
)
_ANALYST = ("name", "version", "method", "kind", "rows", "published_at", "granted")
_HEADERS = {"price": "spent", "readers": "read by", "exposure": "measured exposure",
            "published_at": "published", "granted": "for analysts"}  # fmt: skip


@command(app, "list")
def list_(session: Session) -> None:
    """All releases that were ever asked for; for analysts, those that are published."""
    rows = freqdp_db.releases(session.target)

    def show() -> None:
        if not rows:
            session.print("No releases yet. Next: freqdp anonymize DATASET --epsilon 1")
            return
        columns = _CURATOR if hasattr(rows[0], "state") else _ANALYST
        session.table(
            [_HEADERS.get(column, column) for column in columns],
            [[_cell(row, column) for column in columns] for row in rows],
        )

    session.answer(rows, show)


def _cell(row: object, column: str) -> object:
    value = getattr(row, column)
    if column == "granted":
        return "yes" if value else "no"
    if column == "exposure" and value is not None:
        return f"{value:.1%}"
    return f"{value:%Y-%m-%d %H:%M}" if column == "published_at" and value else value


@command(app, "show")
def show(
    session: Session, name: Annotated[str, released("published", "running", "withdrawn")]
) -> None:
    """One release: parameters, edits, guarantee, and what a whole user costs."""
    session.show(freqdp_db.release(session.target, name))


@command(app, "verify")
def verify(session: Session, name: Name, engine: Engine = None, workers: Workers = None) -> None:
    """Replay the edit log and compare with the published table, row by row. Exit 3 if it differs."""
    found = freqdp_db.verify(
        session.target, name, engine=engine, workers=workers, progress=session.progress()
    )
    session.answer(
        found,
        lambda: session.print(
            f"{name}: {', '.join(found.words)}, {found.rows:,} rows"
            + (f" of {found.trajectories:,} trajectories" if found.trajectories else "")
            + " are what the log gives."
        ),
    )


@command(app, "resume")
def resume(
    session: Session,
    name: Annotated[str, released("running")],
    memory: Memory = "4GB",
    engine: Engine = None,
    workers: Workers = None,
) -> None:
    """Go on with an interrupted release from its stored targets. Spends nothing."""
    session.show(
        freqdp_db.resume(
            session.target,
            name,
            memory=memory,
            engine=engine,
            workers=workers,
            progress=session.progress(),
        )
    )


@command(app, "approve")
def approve(session: Session, name: Annotated[str, released("held")]) -> None:
    """Grant a release that is held to analysts. With --max-exposure it is measured first, unless it was."""
    session.show(freqdp_db.approve(session.target, name, progress=session.progress()))


@command(app, "withdraw")
def withdraw(
    session: Session, name: Annotated[str, released("published", "running", "withdrawing")]
) -> None:
    """Revoke, empty and drop a release, or give up an unfinished one. The spend stays spent."""
    done = freqdp_db.withdraw(session.target, name)

    def show_() -> None:
        session.print(f"Withdrew {name}. Its record and its spend stay in the ledger.")
        if done.waits_for is not None:
            session.print(
                f"Nobody but curators can read it. Its tables are still there: {done.waits_for}. They "
                "are dropped by the same command again, the next release or a worker."
            )

    session.answer(done, show_)


@command(app, "publish")
def publish(
    session: Session,
    to: Annotated[
        str,
        typer.Option(
            "--to", envvar="FREQDP_PUBLISH_TO", help="The other database: URL or libpq string."
        ),
    ],
    name: Annotated[str | None, released("published")] = None,
    all_: Annotated[
        bool,
        typer.Option(
            "--all", help="All that analysts may read; removes there what was withdrawn here."
        ),
    ] = False,
) -> None:
    """Copy releases for analysts into a database that has nothing but them. Again, it changes nothing."""
    session.show(
        freqdp_db.publish(session.target, name, to=to, all=all_, progress=session.progress())
    )


@command(app, "export")
def export(
    session: Session,
    name: Name,
    format_: Annotated[str, typer.Option("--format", help="csv, geoparquet or gpkg.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="File to write. Default: NAME.csv, .parquet, .gpkg")
    ] = None,
    srid: Annotated[
        int | None,
        whole_number("--srid", "Of the file: 4326 is lon/lat. Default: that of the release."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
) -> None:
    """Write a release to a file, with its guarantee and terms of use beside it."""
    written = freqdp_db.export(
        session.target, name, format_, out, srid=srid, force=force, progress=session.progress()
    )
    session.answer(
        written,
        lambda: session.print(
            f"Wrote {written.rows:,} rows: " + ", ".join(str(f) for f in written.files)
        ),
    )


@command(app, "report")
def report(
    session: Session,
    name: Name,
    public: Annotated[
        bool, typer.Option("--public", help="From the released table alone. Analysts can, too.")
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
    written = freqdp_db.report(
        session.target,
        name,
        public=public,
        roads=roads,
        map=map_,
        out=out,
        force=force,
        progress=session.progress(),
    )
    session.answer(written, lambda: session.print(f"Report: {written.file}"))


@command(app, "find")
def find(
    session: Session,
    object_: Annotated[str, typer.Option("--object", help="Key of the object, as in the source.")],
) -> None:
    """Which builds and releases hold an object, for erasure requests."""
    found = freqdp_db.find_object(session.target, object_)

    def show_() -> None:
        if not found:
            session.print("No build holds this object.")
            return
        session.table(
            ["dataset", "build", "release", "state", "released id", "note"],
            [
                (f.dataset, f.build_id, f.release, f.state, _id(f.released_id), f.note)
                for f in found
            ],
        )

    session.answer(found, show_)


def _id(value: int | None) -> str | None:
    return None if value is None else str(value)
