"""`freqdp dataset`: register, build, look at and drop datasets."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

import freqdp_db
from freqdp_db.cli.console import Session, command
from freqdp_db.cli.numbers import whole_number
from freqdp_db.cli.request import Dataset, Engine, Workers

app = typer.Typer(name="dataset", help="Register and build datasets.", no_args_is_help=True)

NewName = Annotated[str, typer.Argument(help="Name of the dataset.", show_default=False)]
Region = Annotated[
    str | None,
    typer.Option(
        "--region",
        help="Public: where the data may lie: WEST,SOUTH,EAST,NORTH, a file of GeoJSON or WKT, or "
        "a table of polygons.",
    ),
]
Period = Annotated[
    str | None, typer.Option("--period", help="Public: when the data may lie: FROM/TO, two dates.")
]
MaxExposure = Annotated[
    str | None,
    typer.Option(
        "--max-exposure",
        help="Measured exposure with which a release is granted to analysts at most: 5%, or none. "
        "Releases are held until they are measured and approved.",
    ),
]

TimeUnit = Annotated[
    str | None,
    typer.Option(
        "--time-unit",
        help="What epoch numbers count: s, ms, us or ns. Default: guessed from all rows, which "
        "methods with a guarantee for a person refuse.",
    ),
]


Persons = Annotated[
    str | None,
    typer.Option(
        "--persons",
        help="A name for those whose data it is, such as fleet-drivers: one budget for each name, "
        "across tables and columns.",
    ),
]


@command(app, "add")
def add(
    session: Session,
    name: NewName,
    source: Annotated[str, typer.Option("--from", help="Table or view: schema.relation.")],
    object_: Annotated[str, typer.Option("--object", help="Column that names the moving object.")],
    time: Annotated[
        str,
        typer.Option("--time", help="Column with the time: timestamp, date or epoch numbers."),
    ],
    geom: Annotated[str | None, typer.Option("--geom", help="Column with a point.")] = None,
    lon: Annotated[str | None, typer.Option("--lon", help="Column with the longitude.")] = None,
    lat: Annotated[str | None, typer.Option("--lat", help="Column with the latitude.")] = None,
    x: Annotated[
        str | None, typer.Option("--x", help="Column with the projected x, in --srid.")
    ] = None,
    y: Annotated[
        str | None, typer.Option("--y", help="Column with the projected y, in --srid.")
    ] = None,
    snap: Annotated[
        str, typer.Option("--snap", help="grid:METRES, anchors:SCHEMA.TABLE or exact.")
    ] = "grid:100",
    srid: Annotated[
        int | None,
        whole_number(
            "--srid",
            "Projected SRID in metres. Default: the data's UTM zone. With --x and --y: their SRID.",
        ),
    ] = None,
    timezone: Annotated[
        str, typer.Option("--timezone", help="Zone of times that have none, and of days and hours.")
    ] = "UTC",
    where: Annotated[
        str | None, typer.Option("--where", help="Condition on the rows, in SQL.")
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option("--budget", help="Epsilon per occurrence that it may spend. Default: 10."),
    ] = None,
    region: Region = None,
    period: Period = None,
    max_exposure: MaxExposure = None,
    persons: Persons = None,
    time_unit: TimeUnit = None,
) -> None:
    """Register a table or view of yours. Reads nothing yet, and never writes to it."""
    added = freqdp_db.add_dataset(
        session.target,
        name,
        source,
        object=object_,
        time=time,
        geom=geom,
        lon=lon,
        lat=lat,
        x=x,
        y=y,
        snap=snap,
        srid=srid,
        timezone=timezone,
        where=where,
        budget=budget,
        region=region,
        period=period,
        max_exposure=max_exposure,
        persons=persons,
        time_unit=time_unit,
    )

    def show() -> None:
        session.print(f"Dataset {name}: {added.source}, snap {added.snap}.")
        account = added.budget
        if added.budget_is_new:
            session.print(
                f"Its source may spend epsilon {account.granted} per {account.unit} in all."
            )
        else:
            own = account.source == added.source
            which = (
                f"It shares the budget of {account.population}"
                if account.population is not None
                else "Its source has a budget already"
                if own
                else f"It shares {account.source}'s budget"
            )
            unused = " (--budget was not used)." if budget is not None else "."
            session.print(
                f"{which}: {account.currency} {account.remaining} of {account.granted} per "
                f"{account.unit} left{unused}"
            )
        for what in (*added.budget_notes, *added.untraced):
            session.print(f"Note: {what}.")
        for what in added.warnings:
            session.print(f"Warning: {what}.")
        session.print(f"Next: freqdp dataset build {shlex.quote(name)}")

    session.answer(added, show)


@command(app, "set")
def set_(
    session: Session,
    name: Dataset,
    region: Region = None,
    period: Period = None,
    max_exposure: MaxExposure = None,
    persons: Persons = None,
    time_unit: TimeUnit = None,
) -> None:
    """Say where and when a dataset's data may lie, what releases may expose, or whose data it is."""
    row = freqdp_db.set_dataset(
        session.target,
        name,
        region=region,
        period=period,
        max_exposure=max_exposure,
        persons=persons,
        time_unit=time_unit,
    )

    def show() -> None:
        if persons is not None:
            session.print(f"Dataset {name} is of {persons}.")
            for budget in (row.budget, *row.other_units):
                session.print(f"Budget {budget.in_words}.")
        if time_unit is not None:
            session.print(
                f"Dataset {name}: epoch numbers are read as {time_unit} from the next build on. Next: "
                f"freqdp dataset build {shlex.quote(name)}"
            )
        if max_exposure is not None:
            session.print(f"Dataset {name}: {row.limit_in_words}.")
        if region is not None or period is not None:
            quoted = shlex.quote(name)
            following = (
                f"anonymize {quoted} --method strict" if row.build else f"dataset build {quoted}"
            )
            session.print(
                f"Dataset {name}: region {row.region or '-'}, period {row.period or '-'}, both "
                f"public. Next: freqdp {following}"
            )

    session.answer(row, show)


@command(app, "build")
def build(session: Session, name: Dataset, engine: Engine = None, workers: Workers = None) -> None:
    """Make a consistent copy of the source: cleaned, projected, snapped, with segments and grid."""
    built = freqdp_db.build_dataset(
        session.target, name, engine=engine, workers=workers, progress=session.progress()
    )

    def show() -> None:
        session.print_all(built.lines())
        if built.objects_with_fewer_than_20_places:
            session.print(
                f"{built.objects_with_fewer_than_20_places:,} objects have fewer than 20 places: with "
                "--signature 10 the method leaves little of them."
            )
        quoted = shlex.quote(name)
        session.print(f"Next: freqdp plan {quoted}, or freqdp anonymize {quoted} --epsilon 1")

    session.answer(built, show)


@command(app, "list")
def list_(session: Session) -> None:
    """All datasets."""
    rows = freqdp_db.datasets(session.target)
    session.answer(
        rows,
        lambda: (
            session.table(
                ["name", "source", "snap", "build"],
                [(r.name, r.source, r.snap, r.current_build) for r in rows],
            )
            if rows
            else session.print("No datasets yet. Next: freqdp dataset add, or freqdp load demo")
        ),
    )


@command(app, "show")
def show(session: Session, name: Dataset) -> None:
    """One dataset: its mapping, its current build and its budget."""
    row = freqdp_db.dataset(session.target, name)

    def show_() -> None:
        mapping = row.mapping
        session.pairs(
            [
                ("dataset", row.name),
                ("source", row.source),
                ("object", mapping.object),
                (
                    "time",
                    f"{mapping.time} (zone {mapping.timezone}"
                    + (f", epoch numbers in {mapping.time_unit})" if mapping.time_unit else ")"),
                ),
                (
                    "position",
                    f"{mapping.geom or f'{mapping.lon}, {mapping.lat}'} (SRID {row.source_srid})",
                ),
                ("where", mapping.filter),
                ("snap", row.snap),
                ("region", row.region),
                ("period", row.period),
                ("limit", row.limit_in_words),
                ("persons", row.budget.population),
                *(("budget", budget.in_words) for budget in (row.budget, *row.other_units)),
            ]
        )
        session.print_all(row.build_lines())

    session.answer(row, show_)


@command(app, "drop")
def drop(session: Session, name: Dataset) -> None:
    """Forget a dataset. Its source, its budget and its published releases stay."""
    dropped = freqdp_db.drop_dataset(session.target, name)

    def show_() -> None:
        session.print(f"Dropped dataset {name}. Its source and its budget are as they were.")
        if dropped.releases_published:
            session.print(
                f"{dropped.releases_published} of its releases stay published. To take one back: "
                "freqdp release withdraw NAME"
            )

    session.answer(dropped, show_)
