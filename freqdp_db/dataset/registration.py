"""Register a relation of the user's as a dataset, with its limits, or drop it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace

from freqdp_db.dataset.cleaning import TIME_UNITS
from freqdp_db.dataset.facts import parse_period, parse_region, srid_of
from freqdp_db.dataset.projection import WGS84, ReferenceSystem
from freqdp_db.dataset.text_values import MAX_BUDGET, Snap, check_name, epsilon_number, parse_limit
from freqdp_db.db.builds import sweep_builds
from freqdp_db.db.connection import Connection, Database, hold
from freqdp_db.db.datasets import DatasetRow, change_dataset, insert_dataset, mark_dropped
from freqdp_db.db.ledger import Claimed
from freqdp_db.db.schedules import is_taken, list_schedules
from freqdp_db.db.source import (
    NUMBERS,
    Mapping,
    Relation,
    check_mapping,
    declared_srid,
    definition_of,
    find_relation,
    read_columns,
    read_keep_columns,
    read_name,
    require_timezone,
)
from freqdp_db.db.source_rows import SourceReader, as_samples, line_with_times
from freqdp_db.errors import AlreadyExists, BadData, BadInput

DEFAULT_BUDGET = "10"
DEFAULT_SNAP = "grid:100"


@dataclass(frozen=True)
class Registration:
    """What the user said about a relation."""

    name: str
    source: str
    object: str
    time: str | None
    """None: the M of lines."""
    geom: str | None = None
    lon: str | None = None
    lat: str | None = None
    x: str | None = None
    y: str | None = None
    """Projected, in the system of `srid`."""
    snap: str = DEFAULT_SNAP
    srid: int | None = None
    timezone: str = "UTC"
    filter: str | None = None
    budget: str | None = None
    region: str | None = None
    period: str | None = None
    max_exposure: str | None = None
    persons: str | None = None
    time_unit: str | None = None
    """What epoch numbers count."""
    unit: str | None = None
    """What guarantees for its persons are for; None: as its population has it."""
    keep_columns: str | None = None
    """Columns that samples carry along, with commas between them."""


UNITS = ("person", "person-day", "person-week", "person-month")


def parse_time_unit(text: str) -> str:
    """What epoch numbers count: s, ms, us or ns."""
    return _one_of("[[time_unit]]", text, TIME_UNITS, "for example [[time_unit]] ms")


def parse_unit(text: str) -> str:
    """What guarantees for persons are for."""
    return _one_of("[[unit]]", text, UNITS, "for example [[unit]] person-day")


def _one_of(option: str, text: str, known: Iterable[str], remedy: str) -> str:
    if text not in known:
        raise BadInput(f"{option} {text} is none of {', '.join(known)}", remedy=remedy)
    return text


def check_time_unit(relation: Relation, mapping: Mapping) -> None:
    """Refuse a unit where times of samples are not numbers."""
    column = relation.column("[[time]]", mapping.time)
    if mapping.time_unit is not None and column.type not in NUMBERS:
        raise BadInput(
            f"[[time_unit]] {mapping.time_unit} is for epoch numbers, and [[time]] {mapping.time!r} is of "
            f"type {column.shown}",
            remedy="leave [[time_unit]] out",
        )


def declare_time_unit(database: Database, dataset: DatasetRow, text: str) -> None:
    """Say what a dataset's epoch numbers count; builds that were made otherwise have to be made anew."""
    unit = parse_time_unit(text)
    with database.begin() as connection:
        relation = find_relation(connection, dataset.source_schema, dataset.source_relation)
        mapping = replace(dataset.mapping, time_unit=unit)
        check_time_unit(*as_samples(connection, relation, mapping))
    change_dataset(database, dataset.dataset_id, time_unit=unit)


def register(database: Database, wanted: Registration) -> tuple[DatasetRow, Claimed]:
    """Check everything that can be checked without reading the data, then register."""
    check_name("the dataset's name", wanted.name)
    budget = epsilon_number(
        "[[budget]]", DEFAULT_BUDGET if wanted.budget is None else wanted.budget, MAX_BUDGET
    )
    Snap.parse(wanted.snap)
    limit = None if wanted.max_exposure is None else parse_limit(wanted.max_exposure)
    if wanted.persons is not None:
        check_name("[[persons]]", wanted.persons)
    if wanted.time_unit is not None:
        parse_time_unit(wanted.time_unit)
    if wanted.unit is not None:
        parse_unit(wanted.unit)
    require_position(wanted)
    # read only: what a view or a filter of the user's calls writes nothing either
    with database.begin(snapshot=True) as connection:
        if is_taken(connection, wanted.name):
            raise AlreadyExists(
                f"a series or a schedule of another dataset is called {wanted.name!r}, and "
                f"{wanted.name}_current shows its releases",
                remedy="choose another name for the dataset",
            )
        require_timezone(connection, wanted.timezone)
        relation = find_relation(connection, *read_name(connection, wanted.source, "[[source]]"))
        mapping = read_mapping(relation, wanted)
        if wanted.keep_columns is not None:
            kept = read_keep_columns(relation, mapping, wanted.keep_columns)
            mapping = replace(mapping, keep_columns=kept)
        samples = as_samples(connection, relation, mapping)
        check_mapping(*samples, projected=wanted.x is not None)
        check_time_unit(*samples)
        if wanted.srid is not None:
            system = ReferenceSystem.parse(
                wanted.srid, definition_of(connection, wanted.srid, "[[srid]]")
            )
            if wanted.x is not None and system.geographic:
                raise BadInput(
                    f"[[srid]] {wanted.srid} is in degrees, and [[x]] and [[y]] are for projected numbers",
                    remedy="give the system that they are in, or name degrees with [[lon]] and [[lat]]",
                )
            if wanted.x is None and not system.metric:
                raise BadInput(
                    f"[[srid]] {wanted.srid} is not a projected system in metres",
                    remedy="give one, for example the UTM zone of the data (32601 to 32660, 32701 "
                    "to 32760), or leave [[srid]] out",
                )
        source = relation.schema, relation.name
        region = None
        if wanted.region is not None:
            region = parse_region(database, wanted.region, source, wanted.persons)
        period = None if wanted.period is None else parse_period(wanted.period, wanted.timezone)
        snap = Snap.named(connection, wanted.snap)
        if snap.relation is not None:
            find_relation(connection, *snap.relation, option="[[snap]]")
        source_srid = find_srid(connection, relation, mapping, wanted)
        definition_of(connection, source_srid, "the SRID of the source")
    # the system of x and y is the source's: metres are counted in it only if it is in metres
    srid = wanted.srid if wanted.x is None else None
    return insert_dataset(
        database,
        name=wanted.name,
        source=source,
        mapping=mapping,
        source_srid=source_srid,
        srid=srid_of(region) if srid is None and region is not None else srid,
        snap=snap.text,
        budget=budget,
        region=region,
        period=period,
        max_exposure=limit,
        persons=wanted.persons,
        unit=wanted.unit,
    )


def require_position(wanted: Registration) -> None:
    """One of the three ways to say where, and it whole."""
    ways = [[wanted.geom], [wanted.lon, wanted.lat], [wanted.x, wanted.y]]
    given = [way for way in ways if any(part is not None for part in way)]
    if len(given) != 1 or None in given[0]:
        raise BadInput(
            "a position is needed: one of [[geom]], [[lon]] with [[lat]], or [[x]] with [[y]] and [[srid]]",
            remedy="name the geometry column with [[geom]], or two number columns",
        )
    if wanted.x is not None and wanted.srid is None:
        raise BadInput(
            f"[[x]] {wanted.x} and [[y]] {wanted.y} need [[srid]]",
            remedy="say which system they are in, for example [[srid]] 32631",
        )


def read_mapping(relation: Relation, wanted: Registration) -> Mapping:
    """Which columns are meant."""

    def column(text: str | None) -> str | None:
        return None if text is None else read_columns(relation.columns, text)

    geom = column(wanted.geom)
    if wanted.time is None and not line_with_times(relation, geom):
        raise BadInput(
            "[[time]] is missing",
            remedy="name the column with the time of a sample; for lines with M in a column of any "
            "geometries, name that column again",
        )
    times_in_lines = wanted.time is None or wanted.time == wanted.geom
    return Mapping(
        object=column(wanted.object) or "",
        time=column(wanted.time or wanted.geom) or "",
        geom=geom,
        lon=column(wanted.lon if wanted.x is None else wanted.x),
        lat=column(wanted.lat if wanted.y is None else wanted.y),
        timezone=wanted.timezone,
        filter=wanted.filter,
        time_unit=wanted.time_unit or ("s" if times_in_lines else None),
    )


def declare_keep_columns(database: Database, dataset: DatasetRow, text: str) -> None:
    """Say what samples carry along, from the next build on."""
    with database.begin() as connection:
        names = meant_keep_columns(connection, dataset, text)
    change_dataset(database, dataset.dataset_id, keep_columns=list(names) or None)


def meant_keep_columns(connection: Connection, dataset: DatasetRow, text: str) -> tuple[str, ...]:
    """The columns of a dataset's relation that are named so."""
    relation = find_relation(connection, dataset.source_schema, dataset.source_relation)
    return read_keep_columns(relation, dataset.mapping, text)


def find_srid(
    connection: Connection, relation: Relation, mapping: Mapping, wanted: Registration
) -> int:
    """The SRID that was said or that the column declares, else the one that all its rows have.

    Not the one that most have: with a few rows of another one, an object could decide whose rows are read.
    """
    reader = SourceReader(connection, relation, mapping)
    reader.check_filter()
    if wanted.x is not None and wanted.srid is not None:
        return wanted.srid
    if mapping.geom is None:
        return WGS84
    declared = declared_srid(relation, mapping.geom)
    if declared:
        return declared
    counts = reader.count()
    if counts.rows == 0:
        raise BadData(
            f"{relation.schema}.{relation.name} gives no rows",
            remedy="check the name of the table, and [[where]]",
        )
    if not counts.only_srid:
        raise BadData(
            f"[[geom]] {mapping.geom!r} declares no SRID, and its rows have none, or different ones",
            remedy="declare it: ALTER TABLE ... ALTER COLUMN ... TYPE geometry(Point, SRID), or ST_SetSRID "
            "in a view; or read the rows of one SRID with [[where]] 'ST_SRID(...) = 4326'",
        )
    return counts.only_srid


# Forget a dataset: the record stays, its builds go unless a release needs them.


def drop_dataset(database: Database, dataset: DatasetRow) -> list[int]:
    """Mark it dropped and sweep; returns the builds that were removed."""
    with hold(database, "dataset", dataset.dataset_id, f"dataset {dataset.name!r}"):
        for row in list_schedules(database):
            if row.dataset_id == dataset.dataset_id and row.ended_at is None:
                raise BadInput(
                    f"dataset {dataset.name!r} has a schedule ({row.cron}, {row.timezone}), which "
                    "would find nothing to release",
                    remedy=f"end it first: freqdp schedule drop {shlex.quote(row.name)}",
                )
        mark_dropped(database, dataset.dataset_id)
    return sweep_builds(database)
