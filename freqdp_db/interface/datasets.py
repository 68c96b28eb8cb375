"""Datasets: tables or views of yours, registered and built."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from freqdp_db.dataset import dropping
from freqdp_db.dataset.building import build_and_look
from freqdp_db.dataset.coverage import Coverage, declared_coverage
from freqdp_db.dataset.facts import change_facts
from freqdp_db.dataset.findings import Findings
from freqdp_db.dataset.limits import in_percent, parse_limit
from freqdp_db.dataset.registration import (
    DEFAULT_SNAP,
    Registration,
    check_name,
    declare_time_unit,
    register,
)
from freqdp_db.dataset.summary import describe_build
from freqdp_db.documents import Document
from freqdp_db.engines.choice import choose_engine
from freqdp_db.errors import BadInput
from freqdp_db.interface.connecting import Connection, mode_of, reached, working
from freqdp_db.interface.engines import at_work
from freqdp_db.progress import Progress
from freqdp_db.release import finding
from freqdp_db.release.finding import Whereabouts
from freqdp_db.release.persons import open_for_persons
from freqdp_db.roads.tables import MatchReport, RoadTable, match_dataset
from freqdp_db.storage.connection.names import parse_relation
from freqdp_db.storage.records.accounts import name_population
from freqdp_db.storage.records.builds import BuildRow, find_build, sparse_objects
from freqdp_db.storage.records.datasets import (
    DatasetRow,
    change_dataset,
    choosing_warnings,
    find_dataset,
    list_datasets,
    untraced_sources,
)
from freqdp_db.storage.records.ledger import Budget, budgets, find_budget
from freqdp_db.storage.records.releases import list_releases


@dataclass(frozen=True, kw_only=True)
class Dataset(DatasetRow, Document):
    """A dataset with its budgets and its current build."""

    budget: Budget
    """For one occurrence."""
    other_units: list[Budget]
    build: BuildRow | None

    @property
    def limit_in_words(self) -> str:
        """With which measured exposure its releases are granted."""
        if self.max_exposure is None:
            return "releases are granted to analysts however much they expose"
        return (
            "releases are held, and granted when they are measured to expose at most "
            f"{in_percent(self.max_exposure)} of a person"
        )

    def build_lines(self) -> list[str]:
        """The build in words."""
        if self.build is None:
            return [f"Not built yet. Next: freqdp dataset build {shlex.quote(self.name)}"]
        return describe_build(self.build)


@dataclass(frozen=True, kw_only=True)
class AddedDataset(DatasetRow, Document):
    """A dataset that was registered just now."""

    budget: Budget
    budget_is_new: bool
    """False: its source, or what that reads, had one already."""
    untraced: list[str]
    """What the budget cannot know of, in words: foreign tables, functions, likely copies."""
    budget_notes: list[str]
    """Budgets that were merged, and populations that are read from the same tables, in words."""
    warnings: list[str]
    """Where the source may choose rows by what other objects' rows are."""


@dataclass(frozen=True, kw_only=True)
class BuiltDataset(BuildRow, Document):
    """A build that was made just now."""

    seconds: dict[str, float]
    objects_with_fewer_than_20_places: int
    findings: Findings
    dataset: str
    coverage: Coverage | None
    """How many samples the declared region and period hold; None: they are not declared."""

    def lines(self) -> list[str]:
        """In words."""
        covered = [] if self.coverage is None else self.coverage.lines(self.dataset)
        return [*describe_build(self), *self.findings.lines(), *covered]


@dataclass(frozen=True)
class DroppedDataset(Document):
    dropped: str
    builds_removed: list[int]
    releases_published: int
    """How many of its releases stay where they are."""


@dataclass(frozen=True, kw_only=True)
class MatchedDataset(MatchReport, Document):
    """Samples on roads, in a table of yours."""

    seconds: dict[str, float]


def datasets(connection: Connection = None) -> list[DatasetRow]:
    """All datasets."""
    with reached(connection) as database:
        return list_datasets(database)


def dataset(connection: Connection, name: str) -> Dataset:
    """One dataset: its mapping, its current build and its budget."""
    with reached(connection) as database:
        row = find_dataset(database, name)
        built = find_build(database, row.current_build) if row.current_build else None
        own = find_budget(database, row.account_id)
        others = [b for b in budgets(database, row.account_id) if b != own]
        return Dataset(**vars(row), budget=own, other_units=others, build=built)


def add_dataset(
    connection: Connection,
    name: str,
    source: str,
    *,
    object: str,
    time: str,
    geom: str | None = None,
    lon: str | None = None,
    lat: str | None = None,
    x: str | None = None,
    y: str | None = None,
    snap: str = DEFAULT_SNAP,
    srid: int | None = None,
    timezone: str = "UTC",
    where: str | None = None,
    budget: Decimal | int | str | None = None,
    region: str | None = None,
    period: str | None = None,
    max_exposure: str | float | None = None,
    persons: str | None = None,
    time_unit: str | None = None,
) -> AddedDataset:
    """Register a table or view of yours. Reads nothing yet, and never writes to it.

    source: `schema.relation`. object, time and geom, or lon and lat, or x and y, are its columns;
        names are taken as they are if there are such, else as PostgreSQL reads them.
    srid: a projected system in metres to work in; with x and y, the system that these are in.
    snap: `grid:METRES`, `anchors:SCHEMA.TABLE` or `exact`.
    budget: epsilon that the source may spend in all; None: 10, or what it has already. Whatever is
        read from the same tables shares one budget: views, partitions, other columns of objects.
    region: `WEST,SOUTH,EAST,NORTH`, a file of GeoJSON or WKT, or a table of polygons;
    period: `FROM/TO`: public facts, for methods with a guarantee for one object with all its data.
        With them, a budget for that is opened.
    max_exposure: with which measured exposure a release is granted at most, such as `5%`.
    persons: a name for those whose data it is: one budget for each name, across tables and columns.
    time_unit: what epoch numbers count: `s`, `ms`, `us` or `ns`; None: guessed from all rows, which
        methods with a guarantee for a person refuse.
    """
    wanted = Registration(
        name, source, object, time, geom, lon, lat, x, y, snap, srid, timezone, where,
        None if budget is None else str(budget), region, period,
        None if max_exposure is None else str(max_exposure), persons, time_unit,
    )  # fmt: skip
    with reached(connection) as database:
        row, claimed = register(database, wanted)
        open_for_persons(database, row)
        account = find_budget(database, row.account_id)
        beyond, chosen = untraced_sources(database, row), choosing_warnings(database, row)
    return AddedDataset(
        **vars(row),
        budget=account,
        budget_is_new=claimed.is_new,
        untraced=beyond,
        budget_notes=claimed.notes,
        warnings=chosen,
    )


def set_dataset(
    connection: Connection,
    name: str,
    *,
    region: str | None = None,
    period: str | None = None,
    max_exposure: str | float | None = None,
    persons: str | None = None,
    time_unit: str | None = None,
) -> Dataset:
    """Say what is public of a dataset, what its releases may expose, and whose data it is. None: as it was.

    region, period: where and when its data may lie.
    max_exposure: with which measured exposure a release is granted to analysts at most, such as `5%`;
        `none`: with any. Releases are held until they are measured and approved.
    persons: a name for those whose data it is. If there is one of that name already, the two budgets
        become one: what both have spent counts, and what was granted is that of the name's.
    time_unit: what epoch numbers count: `s`, `ms`, `us` or `ns`. Holds for the next build.
    """
    if all(given is None for given in (region, period, max_exposure, persons, time_unit)):
        raise BadInput(
            "--region, --period, --max-exposure, --persons and --time-unit are all missing",
            remedy="give one of them",
        )
    if persons is not None:
        check_name("--persons", persons)
    limit = None if max_exposure is None else parse_limit(str(max_exposure))
    with reached(connection) as database:
        row = find_dataset(database, name)
        if time_unit is not None:
            declare_time_unit(database, row, time_unit)
        if region is not None or period is not None:
            change_facts(database, row, region, period)
            open_for_persons(database, find_dataset(database, name))
        if max_exposure is not None:
            change_dataset(database, row.dataset_id, max_exposure=limit)
        if persons is not None:
            name_population(database, row.dataset_id, persons)
        return dataset(database, name)


def build_dataset(
    connection: Connection,
    name: str,
    *,
    engine: str | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> BuiltDataset:
    """Make a consistent copy of the source: cleaned, projected, snapped, with segments and grid.

    engine, workers: as for `anonymize`.
    """
    chosen = choose_engine(engine, workers)
    with reached(connection) as database:
        wanted = find_dataset(database, name)
        shown = working(progress, kernels=True)
        with at_work(chosen, database, shown):
            row, findings = build_and_look(database, wanted, shown)
        choices = choosing_warnings(database, wanted)
        covered = declared_coverage(database, wanted, row)
        sparse = sparse_objects(database, row.build_id, 10)
    return BuiltDataset(
        **vars(row),
        seconds=shown.seconds,
        objects_with_fewer_than_20_places=sparse,
        dataset=name,
        coverage=covered,
        findings=replace(findings, warnings=[*findings.warnings, *(f"{c}." for c in choices)]),
    )


def drop_dataset(connection: Connection, name: str) -> DroppedDataset:
    """Forget a dataset. Its source, its budget and its published releases stay.

    Refused while workers ask for releases of it by themselves: `drop_schedule` ends that.
    """
    with reached(connection) as database:
        row = find_dataset(database, name)
        removed = dropping.drop_dataset(database, row)
        staying = [r for r in list_releases(database) if r.dataset_id == row.dataset_id]
    published = sum(release.state == "published" for release in staying)
    return DroppedDataset(name, removed, published)


def find_object(connection: Connection, object: str) -> list[Whereabouts]:
    """Which builds and releases hold an object, for erasure requests."""
    with reached(connection) as database:
        return finding.find_object(database, object)


def match(
    connection: Connection,
    dataset: str,
    roads: str,
    into: str,
    *,
    map: Sequence[str] | None = None,
    replace: bool = False,
    progress: Progress | None = None,
) -> MatchedDataset:
    """Put a dataset's samples on roads (Newson and Krumm), in a table of yours.

    roads: an edge table; map: which of its columns is which, such as `geom=the_geom`.
    into: the table to make; replace: drop one of that name first.
    """
    table = RoadTable.named(roads, map)
    target = parse_relation(into, "--into")
    shown = working(progress)
    with reached(connection) as database:
        row = find_dataset(database, dataset)
        found = match_dataset(
            database,
            row,
            row.require_build(),
            table.found(database),
            target,
            mode_of(replace),
            shown,
        )
    return MatchedDataset(**vars(found), seconds=shown.seconds)
