"""`freqdp dataset`: register, build, look at and drop datasets."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from freqdp_db.cli.console import Session, command
from freqdp_db.cli.numbers import whole_number

app = typer.Typer(name="dataset", help="Register and build datasets.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of the dataset.", show_default=False)]


@command(app, "add")
def add(
    session: Session,
    name: Name,
    source: Annotated[str, typer.Option("--from", help="Table or view: schema.relation.")],
    object_: Annotated[str, typer.Option("--object", help="Column that names the moving object.")],
    time: Annotated[
        str,
        typer.Option("--time", help="Column with the time: timestamp, date or epoch numbers."),
    ],
    geom: Annotated[str | None, typer.Option("--geom", help="Column with a point.")] = None,
    lon: Annotated[str | None, typer.Option("--lon", help="Column with the longitude.")] = None,
    lat: Annotated[str | None, typer.Option("--lat", help="Column with the latitude.")] = None,
    snap: Annotated[
        str, typer.Option("--snap", help="grid:METRES, anchors:SCHEMA.TABLE or exact.")
    ] = "grid:100",
    srid: Annotated[
        int | None,
        whole_number("--srid", "Projected SRID in metres. Default: the data's UTM zone."),
    ] = None,
    timezone: Annotated[
        str, typer.Option("--timezone", help="Zone of times that have none, and of days and hours.")
    ] = "UTC",
    where: Annotated[
        str | None, typer.Option("--where", help="Condition on the rows, in SQL.")
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option("--budget", help="Epsilon that this source may spend in all. Default: 10."),
    ] = None,
) -> None:
    """Register a table or view of yours. Reads nothing yet, and never writes to it."""
    from freqdp_db.dataset.registration import Registration, register
    from freqdp_db.storage.records.ledger import find_budget

    row, new_budget = register(
        session.database(),
        Registration(
            name=name,
            source=source,
            object=object_,
            time=time,
            geom=geom,
            lon=lon,
            lat=lat,
            snap=snap,
            srid=srid,
            timezone=timezone,
            filter=where,
            budget=budget,
        ),
    )
    account = find_budget(session.database(), row.account_id)

    def show() -> None:
        session.print(
            f"Dataset {name}: {row.source_schema}.{row.source_relation}, snap {row.snap}."
        )
        if new_budget:
            session.print(f"Its source may spend epsilon {account.granted} in all.")
        else:
            session.print(
                f"Its source has a budget already: {account.remaining} of {account.granted} left"
                + (" (--budget was not used)." if budget is not None else ".")
            )
        session.print(f"Next: freqdp dataset build {name}")

    session.answer({**asdict(row), "budget": asdict(account), "budget_is_new": new_budget}, show)


@command(app, "build")
def build(session: Session, name: Name) -> None:
    """Make a consistent copy of the source: cleaned, projected, snapped, with segments and grid."""
    from freqdp_db.dataset.building import build as build_dataset
    from freqdp_db.dataset.summary import describe_build
    from freqdp_db.storage.records.builds import sparse_objects
    from freqdp_db.storage.records.datasets import find_dataset

    database = session.database()
    progress = session.progress(kernels=True)
    row = build_dataset(database, find_dataset(database, name), progress)
    sparse = sparse_objects(database, row.build_id, 10)
    document = {
        **asdict(row),
        "seconds": progress.seconds,
        "objects_with_fewer_than_20_places": sparse,
    }

    def show() -> None:
        for line in describe_build(row):
            session.print(line)
        if sparse:
            session.print(
                f"{sparse:,} objects have fewer than 20 places: with --signature 10 the method "
                "leaves little of them."
            )
        session.print(f"Next: freqdp plan {name}, or freqdp anonymize {name} --epsilon 1")

    session.answer(document, show)


@command(app, "list")
def list_(session: Session) -> None:
    """All datasets."""
    from freqdp_db.storage.records.datasets import list_datasets

    rows = list_datasets(session.database())
    session.answer(
        [asdict(r) for r in rows],
        lambda: (
            session.table(
                ["name", "source", "snap", "build"],
                [
                    (r.name, f"{r.source_schema}.{r.source_relation}", r.snap, r.current_build)
                    for r in rows
                ],
            )
            if rows
            else session.print("No datasets yet. Next: freqdp dataset add, or freqdp load demo")
        ),
    )


@command(app, "show")
def show(session: Session, name: Name) -> None:
    """One dataset: its mapping, its current build and its budget."""
    from freqdp_db.dataset.summary import describe_build
    from freqdp_db.storage.records.builds import find_build
    from freqdp_db.storage.records.datasets import find_dataset
    from freqdp_db.storage.records.ledger import find_budget

    database = session.database()
    row = find_dataset(database, name)
    budget = find_budget(database, row.account_id)
    built = find_build(database, row.current_build) if row.current_build else None
    document: dict[str, Any] = {
        **asdict(row),
        "budget": asdict(budget),
        "build": asdict(built) if built else None,
    }

    def show_() -> None:
        mapping = row.mapping
        session.pairs(
            [
                ("dataset", row.name),
                ("source", f"{row.source_schema}.{row.source_relation}"),
                ("object", mapping.object),
                ("time", f"{mapping.time} (zone {mapping.timezone})"),
                ("position", mapping.geom or f"{mapping.lon}, {mapping.lat}"),
                ("where", mapping.filter),
                ("snap", row.snap),
                ("budget", f"{budget.spent} of {budget.granted} spent, {budget.remaining} left"),
            ]
        )
        if built is None:
            session.print(f"Not built yet. Next: freqdp dataset build {name}")
        else:
            for line in describe_build(built):
                session.print(line)

    session.answer(document, show_)


@command(app, "drop")
def drop(session: Session, name: Name) -> None:
    """Forget a dataset. Its source, its budget and its published releases stay."""
    from freqdp_db.dataset.dropping import drop_dataset
    from freqdp_db.storage.records.datasets import find_dataset

    database = session.database()
    row = find_dataset(database, name)
    dropped = drop_dataset(database, row)
    session.answer(
        {"dropped": name, "builds_removed": dropped},
        lambda: session.print(
            f"Dropped dataset {name}. Its source, its budget and its releases are as they were."
        ),
    )
