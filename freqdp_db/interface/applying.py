"""Bring about what `freqdp.toml` says, or show what that would take."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from freqdp_db.dataset.facts import parse_period, parse_region
from freqdp_db.dataset.limits import in_percent, parse_limit
from freqdp_db.dataset.projection import WGS84
from freqdp_db.dataset.registration import check_name
from freqdp_db.dataset.snapping import Snap
from freqdp_db.documents import Document, aside
from freqdp_db.errors import BadInput
from freqdp_db.interface.budgets import raise_budget
from freqdp_db.interface.configuration import (
    DEFAULT_FILE,
    WantedDataset,
    WantedSchedule,
    read_configuration,
)
from freqdp_db.interface.connecting import Connection, reached
from freqdp_db.interface.datasets import add_dataset, set_dataset
from freqdp_db.interface.jobs import drop_schedule, schedule
from freqdp_db.jobs.document import parse
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.connection.names import format_relation
from freqdp_db.storage.published.relations import columns_of
from freqdp_db.storage.records.datasets import DatasetRow, list_datasets
from freqdp_db.storage.records.ledger import find_budget
from freqdp_db.storage.records.schedules import ScheduleRow, list_schedules
from freqdp_db.storage.source.relations import read_column, read_name

_COLUMNS = ("object", "time", "geom", "lon", "lat", "x", "y")


@dataclass(frozen=True)
class Change(Document):
    """One thing that the file says and the database has not."""

    dataset: str
    what: str
    do: Callable[[Database], object] = aside()


@dataclass(frozen=True)
class Applied(Document):
    """What was or would be changed."""

    file: Path
    applied: bool
    """False: only shown."""
    changes: list[Change]
    not_in_file: list[str]
    """Datasets that the file does not name: they are left as they are."""

    def lines(self) -> list[str]:
        """In words."""
        if not self.changes:
            lines = [f"Nothing to do: the database is as {self.file} says."]
        else:
            word = "Done" if self.applied else "Would"
            lines = [f"{word}: {change.dataset}: {change.what}" for change in self.changes]
        if self.not_in_file:
            lines.append(f"Not in the file, left as they are: {', '.join(self.not_in_file)}")
        if self.changes and not self.applied:
            lines.append("Nothing was changed. To do it: freqdp apply")
        return lines


def apply(
    connection: Connection = None, file: Path | str = DEFAULT_FILE, *, plan: bool = False
) -> Applied:
    """Bring about what a file says: datasets, public facts, limits, budgets, schedules.

    What is there and as the file says stays; what the file does not name is left alone. Budgets are
    only raised. Where a dataset reads another table or other columns than the file says, nothing is
    done at all. plan: only show it.
    """
    path = Path(file)
    wanted = read_configuration(path)
    with reached(connection) as database:
        known = {row.name: row for row in list_datasets(database)}
        active = {s.dataset: s for s in list_schedules(database) if s.ended_at is None}
        changes = [
            change
            for dataset in wanted
            for change in _changes(database, dataset, known.get(dataset.name), active, path)
        ]
        if not plan:
            for change in changes:
                change.do(database)
    others = sorted(known.keys() - {dataset.name for dataset in wanted})
    return Applied(path, not plan, changes, others)


def _changes(
    database: Database,
    wanted: WantedDataset,
    row: DatasetRow | None,
    active: dict[str, ScheduleRow],
    path: Path,
) -> Iterator[Change]:
    name, given = wanted.name, wanted.given
    if row is None:
        yield Change(
            name, f"add from {given['source']}", do=lambda db: add_dataset(db, name, **given)
        )
    else:
        _require_same(database, row, given, path)
        yield from _facts(database, row, given)
        yield from _budget(database, row, given, path)
    yield from _schedules(wanted, active.get(name))


def _require_same(database: Database, row: DatasetRow, given: dict[str, Any], path: Path) -> None:
    """Refuse to read another table under the same name: releases and budget belong to this one."""
    there, said = _as_registered(row), _as_meant(database, row, given)
    for key, value in said.items():
        if value != there[key]:
            found = "not said" if there[key] is None else repr(there[key])
            raise BadInput(
                f"--file {path}: [datasets.{row.name}]: {key} is {value!r}, and {found} in the "
                "database: a dataset keeps the table and the columns that it was made from",
                remedy=f"call it otherwise, or drop it first: freqdp dataset drop {shlex.quote(row.name)}",
            )


def _as_registered(row: DatasetRow) -> dict[str, Any]:
    """What a dataset was made from, by the keys of the file."""
    mapping, degrees = row.mapping, row.source_srid == WGS84
    lon, lat = mapping.lon, mapping.lat
    return {
        "from": row.source,
        "object": mapping.object,
        "time": mapping.time,
        "geom": mapping.geom,
        "lon": lon if degrees else None,
        "lat": lat if degrees else None,
        "x": None if degrees else lon,
        "y": None if degrees else lat,
        # of x and y it is what they are in; of a dataset with a region, that of the region
        "srid": row.source_srid if lon is not None and not degrees else row.srid,
        "snap": row.snap,
        "timezone": mapping.timezone,
        "where": mapping.filter,
    }


def _as_meant(database: Database, row: DatasetRow, given: dict[str, Any]) -> dict[str, Any]:
    """The same of the file, read as `dataset add` would read it."""
    source = row.source_schema, row.source_relation
    with database.begin() as connection:
        meant = {"from": format_relation(*read_name(connection, given["source"], "--from"))}
        # a table that is gone: the columns are those that the dataset has
        kept = {c for c in _as_registered(row).values() if isinstance(c, str)}
        columns = columns_of(connection, source) or kept
        meant |= {k: read_column(columns, given[k]) for k in _COLUMNS if k in given}
        if "snap" in given and Snap.parse(given["snap"]) != Snap.parse(row.snap):
            meant["snap"] = Snap.named(connection, given["snap"]).text
    return meant | {k: given[k] for k in ("srid", "timezone", "where") if k in given}


def _facts(database: Database, row: DatasetRow, given: dict[str, Any]) -> Iterator[Change]:
    wished: dict[str, tuple[Any, Any]] = {}
    if "region" in given:
        source = row.source_schema, row.source_relation
        wished["region"] = (row.region, parse_region(database, given["region"], source))
    if "period" in given:
        wished["period"] = (row.period, parse_period(given["period"], row.mapping.timezone))
    if "time_unit" in given:
        wished["time_unit"] = (row.mapping.time_unit, given["time_unit"])
    if "max_exposure" in given:
        wished["max_exposure"] = (row.max_exposure, parse_limit(given["max_exposure"]))
    if "persons" in given:
        named = find_budget(database, row.account_id).population
        wished["persons"] = (named, check_name("--persons", given["persons"]))
    for key, (there, value) in wished.items():
        if there != value:
            said, was = given[key], "not said" if there is None else there
            if key == "max_exposure":
                said, was = in_percent(value), was if there is None else in_percent(there)
            yield Change(
                row.name,
                f"set {key} to {said} (was {was})",
                do=lambda db, key=key: set_dataset(db, row.name, **{key: given[key]}),  # type: ignore[misc]
            )


def _budget(
    database: Database, row: DatasetRow, given: dict[str, Any], path: Path
) -> Iterator[Change]:
    if "budget" not in given:
        return
    granted = find_budget(database, row.account_id).granted
    more = Decimal(given["budget"]) - granted
    if more < 0:
        raise BadInput(
            f"--file {path}: [datasets.{row.name}]: budget {given['budget']} is less than the {granted:f} "
            "that its source was granted: the ledger takes nothing back",
            remedy=f"write budget = {granted:f}",
        )
    if more > 0:
        yield Change(
            row.name,
            f"raise the budget by {more:f} to {given['budget']}",
            do=lambda db: raise_budget(db, row.name, more, f"as {path.name} says"),
        )


def _schedules(wanted: WantedDataset, there: ScheduleRow | None) -> Iterator[Change]:
    name, planned = wanted.name, wanted.schedule
    if there is not None and (planned is None or not _same(planned, there)):
        yield Change(
            name, f"end schedule {there.schedule_id} ({there.cron}, {there.timezone})",
            do=lambda db: drop_schedule(db, name),
        )  # fmt: skip
        there = None
    if planned is not None and there is None:
        given = planned.given
        yield Change(
            name,
            f"schedule {given['method']} at {planned.cron} ({planned.timezone})",
            do=lambda db: schedule(db, name, **given),
        )


def _same(planned: WantedSchedule, there: ScheduleRow) -> bool:
    # through the same parser: what an older version recorded has fewer keys
    asked = parse(there.request).document()
    same = (planned.cron, planned.timezone) == (there.cron, there.timezone)
    return same and planned.asked.document() == asked
