"""`freqdp load`: files, or a generated city, into plain tables for people who have none yet."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from freqdp_db.cli.console import Session, command
from freqdp_db.cli.numbers import whole_number
from freqdp_db.errors import BadInput
from freqdp_db.storage.connection.names import format_relation, parse_relation

if TYPE_CHECKING:
    from freqdp_db.loading.rows import SourceSamples
    from freqdp_db.storage.source.plain_tables import Chunk, Mode, PlainTable

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
    objects: Annotated[
        int, whole_number("--objects", "People and taxis, one in ten a taxi.")
    ] = 200,
    days: Annotated[int, whole_number("--days", "Days to record, from a Monday on.")] = 7,
    seed: Annotated[int, whole_number("--seed", "The same seed gives the same city.")] = 1,
    replace: Replace = False,
) -> None:
    """Make up a city: roads, and people and taxis that move along them."""
    import numpy as np

    from freqdp_db.cli.samples import city_rows, city_table
    from freqdp_db.loading import roadfile
    from freqdp_db.loading.city import City
    from freqdp_db.loading.files import counted
    from freqdp_db.storage.source import road_tables as loading_roads
    from freqdp_db.storage.source.plain_tables import check_target, load_table

    if seed < 0:
        raise BadInput(f"--seed {seed} is negative", remedy="give a whole number from 0 on")
    city = City(objects, days, np.random.default_rng(seed))
    table = city_table(parse_relation(into, "--into"), objects, days, seed)
    roads = loading_roads.roads_table(
        parse_relation(roads_into, "--roads-into"), f"Roads of a made-up city, seed {seed}."
    )
    if table.relation == roads.relation:
        raise BadInput("--into and --roads-into are the same", remedy="give two names")
    mode = mode_of(replace)
    dirt: dict[str, int] = {}
    progress = session.progress()

    with session.database(check_schema=False).begin() as connection:
        for wanted in (table, roads):
            check_target(connection, session.settings, wanted, mode)
        with progress.stage("load roads", len(city.network.source), "roads") as stage:
            road_rows = loading_roads.load_roads(
                connection,
                session.settings,
                roads,
                mode,
                (r.row() for r in roadfile.city_roads(city.network)),
                stage.advance,
            )
        with progress.stage("make and load", objects, "objects") as stage:
            rows = load_table(
                connection, session.settings, table, mode, city_rows(city, dirt, stage.advance)
            )
    answer(
        session,
        {
            "table": table.label,
            "rows": rows,
            "objects": objects,
            "roads_table": roads.label,
            "roads": road_rows,
            "unusable": dirt,
        },
        f"{table.label} has {rows:,} rows of {objects:,} objects, {roads.label} has "
        f"{road_rows:,} roads. {sum(dirt.values()):,} rows are unusable on purpose "
        f"({counted(dirt)}): the build will leave them out and say so.",
        _dataset_add(table, "object_id"),
    )


@command(app, "csv")
def csv_(
    session: Session,
    files: Annotated[list[str], typer.Argument(help="Files, globs or folders; .gz is fine.")],
    into: Into,
    object_: Annotated[str, typer.Option("--object", help="Column of the object's id.")],
    time: Annotated[str, typer.Option("--time", help="Column of the time.")],
    lon: Annotated[str, typer.Option("--lon", help="Column of the longitude (or x).")],
    lat: Annotated[str, typer.Option("--lat", help="Column of the latitude (or y).")],
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
    from freqdp_db.cli.samples import samples_table
    from freqdp_db.loading import csvfile
    from freqdp_db.loading.files import BadRows, counted, expand

    paths = expand(files, csvfile.ENDINGS)
    layout = csvfile.CsvFormat(object_, time, lon, lat, delimiter, header, time_format, timezone)
    table = samples_table(
        parse_relation(into, "--into"),
        "text",
        "Trajectories from CSV files (freqdp load csv).",
        srid=srid,
    )
    bad = BadRows()
    rows = _load_files(
        session,
        table,
        mode_of(replace, append),
        len(paths),
        lambda advance: csvfile.read_csv(paths, layout, bad, advance),
        "object_id",
        None if skip_bad else lambda: bad.refuse("correct them, or say --skip-bad"),
    )
    skipped = (
        f" Left out {bad.total:,} unreadable rows: {counted(bad.counts)}." if bad.total else ""
    )
    answer(
        session,
        {"table": table.label, "rows": rows, "files": len(paths), "skipped": bad.counts},
        f"{table.label}: {rows:,} rows from {len(paths):,} file(s).{skipped}",
        _dataset_add(table, "object_id"),
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
    from freqdp_db.cli.samples import samples_table
    from freqdp_db.loading import published

    if limit is not None and limit < 1:
        raise BadInput(f"--limit {limit} leaves no taxi", remedy="give a number from 1 on")
    paths = published.tdrive_files(folder, limit, min_samples)
    table = samples_table(
        parse_relation(into, "--into"),
        "int4",
        "T-Drive taxis as published (freqdp load tdrive).",
        key="taxi_id",
    )
    rows = _load_files(
        session,
        table,
        mode_of(replace, append),
        len(paths),
        lambda advance: published.read_tdrive(paths, advance),
        "taxi_id",
    )
    answer(
        session,
        {"table": table.label, "rows": rows, "files": len(paths)},
        f"{table.label}: {rows:,} rows from {len(paths):,} files.",
        _dataset_add(table, "taxi_id"),
    )


@command(app, "geolife")
def geolife(
    session: Session,
    folder: Annotated[str, typer.Argument(help="Folder that contains Data/000/Trajectory.")],
    into: Into,
    replace: Replace = False,
    append: Append = False,
) -> None:
    """Load the GeoLife data as its publisher ships it. Nothing is cleaned here."""
    from freqdp_db.cli.samples import samples_table
    from freqdp_db.loading import published
    from freqdp_db.storage.source.plain_tables import Column

    paths = published.geolife_files(folder)
    table = samples_table(
        parse_relation(into, "--into"),
        "text",
        "GeoLife trajectories as published (freqdp load geolife).",
        Column("altitude", "float8", "Altitude in feet; NULL where the publisher has -777."),
        key="user_id",
    )
    rows = _load_files(
        session,
        table,
        mode_of(replace, append),
        len(paths),
        lambda advance: published.read_geolife(paths, advance),
        "user_id",
    )
    answer(
        session,
        {"table": table.label, "rows": rows, "files": len(paths)},
        f"{table.label}: {rows:,} rows from {len(paths):,} files.",
        _dataset_add(table, "user_id"),
    )


def _load_files(
    session: Session,
    table: PlainTable,
    mode: Mode,
    files: int,
    read: Callable[[Callable[[int], None]], Iterable[SourceSamples]],
    key: str,
    check: Callable[[], None] | None = None,
) -> int:
    """Read and load in one transaction; `check` may still refuse once all files were read."""
    from freqdp_db.cli.samples import sample_columns
    from freqdp_db.storage.source.plain_tables import check_target, load_table

    def chunks(advance: Callable[[int], None]) -> Iterator[Chunk]:
        for samples in read(advance):
            yield sample_columns(samples, key)
        if check is not None:
            check()

    with (
        session.database(check_schema=False).begin() as connection,
        session.progress().stage("load files", files, "files") as stage,
    ):
        check_target(connection, session.settings, table, mode)
        rows = load_table(connection, session.settings, table, mode, chunks(stage.advance))
        if not rows:
            raise BadInput("there is not one readable row in it", remedy="check the files")
    return rows


def mode_of(replace: bool, append: bool = False) -> Mode:
    if replace and append:
        raise BadInput("--replace and --append exclude each other", remedy="give one of them")
    return "replace" if replace else "append" if append else "create"


def _dataset_add(table: PlainTable, key: str) -> str:
    name = re.sub(r"[^a-z0-9]+", "_", table.relation[1].lower()).strip("_") or "mine"
    relation = shlex.quote(format_relation(*table.relation))
    return f"freqdp dataset add {name} --from {relation} --object {key} --time at --geom geom"


def answer(session: Session, document: dict[str, Any], said: str, following: str) -> None:
    document = {**document, "next": following}
    session.answer(document, lambda: session.print(f"{said}\nNext: {following}"))
