"""`freqdp load`: files, or a generated city, into plain tables for people who have none yet."""

from __future__ import annotations

from typing import Annotated

import typer

import freqdp_db
from freqdp_db.cli.console import Session, command
from freqdp_db.cli.numbers import whole_number

app = typer.Typer(name="load", help="Load files into plain tables.", no_args_is_help=True)

Into = Annotated[str, typer.Option("--into", help="Table to make: schema.table.")]
Replace = Annotated[bool, typer.Option("--replace", help="Drop a table of that name first.")]
Append = Annotated[bool, typer.Option("--append", help="Add to a table made by this command.")]


@command(app, "demo")
def demo(
    session: Session,
    into: Into = "demo.city",
    roads_into: Annotated[
        str, typer.Option("--roads-into", help="Table of the city's roads.")
    ] = "demo.roads",
    poi_into: Annotated[
        str, typer.Option("--poi-into", help="Table of its points of interest, for klt.")
    ] = "demo.poi",
    objects: Annotated[
        int, whole_number("--objects", "People and taxis, one in ten a taxi.")
    ] = 200,
    days: Annotated[int, whole_number("--days", "Days to record, from a Monday on.")] = 7,
    seed: Annotated[int, whole_number("--seed", "The same seed gives the same city.")] = 1,
    replace: Replace = False,
) -> None:
    """Make up a city: roads, points of interest, and people and taxis that move."""
    session.show(
        freqdp_db.load_city(
            session.target, into, roads_into, poi_into,
            objects=objects, days=days, seed=seed, replace=replace, progress=session.progress(),
        )
    )  # fmt: skip


@command(app, "csv")
def csv_(
    session: Session,
    files: Annotated[list[str], typer.Argument(help="Files, globs or folders; .gz is fine.")],
    into: Into,
    time: Annotated[str, typer.Option("--time", help="Column of the time.")],
    lon: Annotated[str, typer.Option("--lon", help="Column of the longitude (or x).")],
    lat: Annotated[str, typer.Option("--lat", help="Column of the latitude (or y).")],
    object_: Annotated[
        str | None, typer.Option("--object", help="Column of the object's id.")
    ] = None,
    object_from_file: Annotated[
        bool,
        typer.Option(
            "--object-from-file", help="Each file's name, without its ending, is the object."
        ),
    ] = False,
    delimiter: Annotated[str, typer.Option(help="One character, or tab.")] = ",",
    header: Annotated[
        bool, typer.Option("--header/--no-header", help="Without: columns are numbers from 1.")
    ] = True,
    time_format: Annotated[
        str, typer.Option(help="iso, epoch, epoch-ms, or a format such as '%d/%m/%Y %H:%M'.")
    ] = "iso",
    timezone: Annotated[str, typer.Option(help="Zone of times that do not name theirs.")] = "UTC",
    srid: Annotated[int, whole_number("--srid", "Reference system of the coordinates.")] = 4326,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave unreadable rows out, and count them.")
    ] = False,
    replace: Replace = False,
    append: Append = False,
) -> None:
    """Load CSV files: say which column is what."""
    session.show(
        freqdp_db.load_csv(
            session.target,
            files,
            into,
            object=object_,
            object_from_file=object_from_file,
            time=time,
            lon=lon,
            lat=lat,
            delimiter=delimiter,
            header=header,
            time_format=time_format,
            timezone=timezone,
            srid=srid,
            skip_bad=skip_bad,
            replace=replace,
            append=append,
            progress=session.progress(),
        )
    )


@command(app, "tdrive")
def tdrive(
    session: Session,
    folder: Annotated[str, typer.Argument(help="Folder with 1.txt, 2.txt, ...")],
    into: Into,
    limit: Annotated[int | None, whole_number("--limit", "Only the first so many taxis.")] = None,
    min_samples: Annotated[
        int, whole_number("--min-samples", "Leave out taxis with fewer rows.")
    ] = 0,
    replace: Replace = False,
    append: Append = False,
) -> None:
    """Load the T-Drive taxi data as its publisher ships it. Nothing is cleaned here."""
    session.show(
        freqdp_db.load_tdrive(
            session.target, folder, into, limit=limit, min_samples=min_samples,
            replace=replace, append=append, progress=session.progress(),
        )
    )  # fmt: skip


@command(app, "geolife")
def geolife(
    session: Session,
    folder: Annotated[
        str, typer.Argument(help="Folder that contains Data/000/Trajectory; or Data itself.")
    ],
    into: Into,
    replace: Replace = False,
    append: Append = False,
) -> None:
    """Load the GeoLife data as its publisher ships it. Nothing is cleaned here."""
    session.show(
        freqdp_db.load_geolife(
            session.target, folder, into,
            replace=replace, append=append, progress=session.progress(),
        )
    )  # fmt: skip


@command(app, "roads")
def roads(
    session: Session,
    into: Into,
    files: Annotated[
        list[str] | None, typer.Argument(help="NODES.csv EDGES.csv, unless --from is given.")
    ] = None,
    from_: Annotated[
        str | None, typer.Option("--from", help="Edge table that is there: schema.table.")
    ] = None,
    map_: Annotated[
        list[str] | None,
        typer.Option("--map", help="With --from: ours=theirs, such as geom=the_geom."),
    ] = None,
    vertices_into: Annotated[
        str | None, typer.Option("--vertices-into", help="Also make a table of junctions.")
    ] = None,
    every: Annotated[
        float | None, typer.Option(help="Add points to it, every so many metres of road.")
    ] = None,
    replace: Replace = False,
) -> None:
    """Load a road network from two CSV files, or from an edge table that is there."""
    session.show(
        freqdp_db.load_roads(
            session.target, into, files, source=from_, map=map_, vertices_into=vertices_into,
            every=every, replace=replace, progress=session.progress(),
        )
    )  # fmt: skip
