"""`freqdp.toml`: datasets, their limits and schedules, as a team keeps them in version control.

The keys of a dataset are the parameters of `Freqdp.add_dataset`, those of a schedule are the parameters
of `Freqdp.schedule`, both as the command line spells them.
"""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

from freqdp_db.api import Freqdp
from freqdp_db.commands import Declared, Option, parameters_of
from freqdp_db.dataset.facts import check_region, parse_period, parse_region
from freqdp_db.dataset.projection import WGS84
from freqdp_db.dataset.registration import meant_keep_columns, parse_time_unit, parse_unit
from freqdp_db.dataset.text_values import (
    MAX_BUDGET,
    Snap,
    check_name,
    epsilon_number,
    in_percent,
    parse_limit,
)
from freqdp_db.db.connection import Database
from freqdp_db.db.datasets import DatasetRow, list_datasets
from freqdp_db.db.ledger import find_budget
from freqdp_db.db.names import format_relation
from freqdp_db.db.schedules import ScheduleRow, list_schedules
from freqdp_db.db.source import columns_of, find_relation, read_columns, read_name
from freqdp_db.errors import BadInput, FreqdpError, named
from freqdp_db.jobs.schedule import (
    Cron,
    Neighbour,
    active_neighbours,
    note_of,
    read_scheduled,
    refuse_conflicting_schedules,
    require_accepted,
    require_servable,
)
from freqdp_db.model.days import find_zone
from freqdp_db.model.documents import Document, not_in_json
from freqdp_db.release.request import JobRequest, Request, parse_job

_TOP, _SCHEDULE, _SCHEDULES = "datasets", "schedule", "schedules"
_COLUMNS = ("object", "time", "geom", "lon", "lat", "x", "y")


@dataclass(frozen=True)
class Change(Document):
    """One thing that the file says and the database has not."""

    dataset: str
    what: str
    note: str | None = None
    """What to know before it is done."""
    do: Callable[[], object] = not_in_json()


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
        lines = []
        for change in self.changes:
            word = "Done" if self.applied else "Pending"
            lines.append(f"{word}: {change.dataset}: {change.what}")
            lines += [] if change.note is None else [f"  Note: {change.note}."]
        if not self.changes:
            lines.append(f"Nothing to do: the database matches {self.file}.")
        if self.not_in_file:
            lines.append(f"Not in the file, left as they are: {', '.join(self.not_in_file)}")
        if self.changes and not self.applied:
            lines.append("Nothing was changed. To make these changes: freqdp apply")
        return lines


def apply(freqdp: Freqdp, database: Database, path: Path, *, plan: bool) -> Applied:
    """Do with `freqdp` what a file says and the database lacks; `plan`: only show it."""
    wanted = read_configuration(path)
    known = {row.name: row for row in list_datasets(database)}
    active = [s for s in list_schedules(database) if s.ended_at is None]
    changes = [
        change
        for dataset in wanted
        for change in _changes(freqdp, database, dataset, known.get(dataset.name), active, path)
    ]
    if not plan:
        for change in changes:
            change.do()
    others = sorted(known.keys() - {dataset.name for dataset in wanted})
    return Applied(path, not plan, changes, others)


def _changes(
    freqdp: Freqdp,
    database: Database,
    wanted: WantedDataset,
    row: DatasetRow | None,
    active: list[ScheduleRow],
    path: Path,
) -> Iterator[Change]:
    name, given = wanted.name, wanted.given
    facts: list[Change] = []
    if row is None:
        add = partial(freqdp.add_dataset, name, **given)
        yield Change(name, f"add from {given['source']}", do=add)
    else:
        _require_same(database, row, given, path)
        facts = list(_facts(freqdp, database, row, given))
        yield from facts
        yield from _budget(freqdp, database, row, given, path)
    there = {s.name: s for s in active if s.dataset == name}
    yield from _schedules(freqdp, database, wanted, row, there, settled=not facts)


def _require_same(database: Database, row: DatasetRow, given: dict[str, Any], path: Path) -> None:
    """Refuse to read another table under the same name: releases and budget belong to this one."""
    there, said = _as_registered(row), _as_meant(database, row, given)
    for key, value in said.items():
        if value != there[key]:
            found = "not set" if there[key] is None else repr(there[key])
            raise BadInput(
                f"[[file]] {path}: [datasets.{row.name}]: {key} is {value!r}, and {found} in the "
                "database: a dataset keeps the table and columns that it was registered with",
                remedy="give it another name, or drop it first: "
                f"freqdp dataset drop {shlex.quote(row.name)}",
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
        meant = {"from": format_relation(*read_name(connection, given["source"], "[[source]]"))}
        # a table that is gone: the columns are those that the dataset has
        kept = {c for c in _as_registered(row).values() if isinstance(c, str)}
        columns = columns_of(connection, source) or kept
        meant |= {k: read_columns(columns, given[k]) for k in _COLUMNS if k in given}
        if "time" not in given and "geom" in meant:
            meant["time"] = meant["geom"]  # lines have it in them
        if "snap" in given and Snap.parse(given["snap"]) != Snap.parse(row.snap):
            meant["snap"] = Snap.named(connection, given["snap"]).text
    return meant | {k: given[k] for k in ("srid", "timezone", "where") if k in given}


_FACTS: dict[str, Callable[[str, str], Any]] = {
    "region": lambda text, zone: check_region(text),
    "period": parse_period,
    "unit": lambda text, zone: parse_unit(text),
    "time_unit": lambda text, zone: parse_time_unit(text),
    "max_exposure": lambda text, zone: parse_limit(text),
    "persons": lambda text, zone: check_name("[[persons]]", text),
    "keep_columns": lambda text, zone: text,
}
"""What `dataset set` changes, and what reads it in a time zone, without a database."""


def _facts(
    freqdp: Freqdp, database: Database, row: DatasetRow, given: dict[str, Any]
) -> Iterator[Change]:
    registered = {
        # first: a region must not be made from other tables of theirs
        "persons": find_budget(database, row.account_id).population,
        "region": row.region,
        "period": row.period,
        "unit": row.unit,
        "time_unit": row.mapping.time_unit,
        "max_exposure": row.max_exposure,
        "keep_columns": ", ".join(row.mapping.keep_columns) or None,
    }
    for key, there in registered.items():
        if key not in given:
            continue
        value = _FACTS[key](given[key], row.mapping.timezone)
        if key == "region":
            source = row.source_schema, row.source_relation
            value = parse_region(database, given[key], source, given.get("persons"))
        if key == "keep_columns":
            with database.begin() as connection:
                value = ", ".join(meant_keep_columns(connection, row, given[key])) or None
        if there != value:
            said, was = given[key], "not set" if there is None else there
            if key == "max_exposure":
                said, was = (
                    in_percent(value),
                    was if there is None else in_percent(row.max_exposure),
                )
            yield Change(
                row.name,
                f"set {key} to {said} (was {was})",
                do=partial(freqdp.set_dataset, row.name, **{key: given[key]}),
            )


def _budget(
    freqdp: Freqdp, database: Database, row: DatasetRow, given: dict[str, Any], path: Path
) -> Iterator[Change]:
    if "budget" not in given:
        return
    granted = find_budget(database, row.account_id).granted
    more = Decimal(given["budget"]) - granted
    if more < 0:
        raise BadInput(
            f"[[file]] {path}: [datasets.{row.name}]: budget {given['budget']} is less than the "
            f"{granted:f} that its source was granted: the ledger takes nothing back",
            remedy=f"write budget = {granted:f}",
        )
    if more > 0:
        yield Change(
            row.name,
            f"raise the budget by {more:f} to {given['budget']}",
            do=partial(freqdp.raise_budget, row.name, more, f"as {path.name} says"),
        )


def _schedules(
    freqdp: Freqdp,
    database: Database,
    wanted: WantedDataset,
    row: DatasetRow | None,
    there: dict[str, ScheduleRow],
    *,
    settled: bool,
) -> Iterator[Change]:
    """there: the active ones of the dataset, by name. settled: no fact of it is about to change."""
    dataset, planned = wanted.name, wanted.schedules
    kept = {n for n, s in there.items() if n in planned and _same(planned[n], s)}
    for name, old in there.items():
        if name in kept:
            continue
        named = "" if name == dataset else f" {name}"
        yield Change(
            dataset, f"end schedule {old.schedule_id}{named} ({old.cron}, {old.timezone})",
            do=partial(freqdp.drop_schedule, name),
        )  # fmt: skip
    others = [] if row is None else active_neighbours(database, row.account_id)
    beside = [other for other in others if other.name not in there]
    for name, schedule in planned.items():
        new = Neighbour(name, dataset, schedule.asked)
        refuse_conflicting_schedules(new, beside)
        beside.append(new)
        if name in kept:
            continue
        if row is not None:
            require_servable(database, row, schedule.asked)
        if row is not None and settled:
            require_accepted(database, row, schedule.asked)
        else:
            _require_acceptable(database, wanted, row, schedule.asked)
        named = "" if name == dataset else f"{name}: "
        yield Change(
            dataset,
            f"schedule {named}{schedule.given['method']} at {schedule.cron} ({schedule.timezone})",
            note_of(schedule.asked),
            do=partial(freqdp.schedule, dataset, name=name, **schedule.given),
        )


def _require_acceptable(
    database: Database, wanted: WantedDataset, row: DatasetRow | None, asked: JobRequest
) -> None:
    """Refuse what `request_release` would refuse every night once the dataset is as the file says."""
    method, values = asked.request.method, asked.request.values
    with database.begin() as connection:
        for need in method.needs:
            if isinstance(text := values.get(need.parameter), str):
                option = named(need.parameter)
                find_relation(connection, *read_name(connection, text, option), option=option)
    if method.unit != "person":
        return
    region, period, unit = (
        wanted.given.get(key, None if row is None else getattr(row, key))
        for key in ("region", "period", "unit")
    )
    stretch = (unit or "person").partition("-")[2]
    if stretch and asked.window not in ("day", stretch):
        raise BadInput(
            f"the schedule of {wanted.name!r} releases "
            f"{'all data' if asked.window is None else f'each {asked.window}'}, and guarantees for "
            f"persons are for a {stretch} (unit = {unit!r})",
            remedy=f"write window = {stretch!r}",
        )
    if "region" in {p.name for p in method.parameters} and not (
        region and (period or asked.window)
    ):
        raise BadInput(
            f"the schedule of {wanted.name!r} makes releases by {method.name}, for which the region and "
            "the period must be public",
            remedy=f"write region and period under [{_TOP}.{wanted.name}]",
        )


def _same(planned: WantedSchedule, there: ScheduleRow) -> bool:
    # through the same parser: what an older version recorded has fewer keys
    asked = parse_job(there.request).document()
    same = (planned.cron, planned.timezone) == (there.cron, there.timezone)
    return same and planned.asked.document() == asked


@dataclass(frozen=True)
class WantedSchedule:
    """When and for what workers ask by themselves."""

    asked: JobRequest
    given: dict[str, Any]
    """As `schedule` takes it."""
    cron: str
    timezone: str


@dataclass(frozen=True)
class WantedDataset:
    """A dataset as the file has it: only what it says."""

    name: str
    given: dict[str, Any]
    """As `add_dataset` takes it."""
    schedules: dict[str, WantedSchedule]
    """By name."""


def read_configuration(path: Path) -> list[WantedDataset]:
    """All datasets of a file, checked as far as that goes without a database."""
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise BadInput(
            f"[[file]] {path} cannot be read: {error.strerror}",
            remedy="name the file with [[file]], or write one: freqdp.toml",
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(
            f"[[file]] {path} is not TOML: {error}", remedy="correct that line"
        ) from None
    _require_known(path, "", document, [_TOP])
    found = document.get(_TOP, {})
    if not isinstance(found, dict) or not all(isinstance(d, dict) for d in found.values()):
        raise BadInput(
            f"[[file]] {path}: datasets are tables", remedy=f"write [{_TOP}.NAME] above each"
        )
    return [_dataset(path, name, given) for name, given in found.items()]


def _dataset(path: Path, name: str, given: dict[str, Any]) -> WantedDataset:
    where = f"[{_TOP}.{name}]"
    keys, own = keys_of(Freqdp.add_dataset), (_SCHEDULE, _SCHEDULES)
    _require_known(path, where, given, [*keys, *own])
    check_name("the dataset's name", name)
    for key, parameter in keys.items():
        if parameter.required and key not in given:
            raise BadInput(
                f"[[file]] {path}: {where} has no {key!r}",
                remedy="it is needed: see `freqdp dataset add`",
            )
    texts = {
        keys[k].name: v if k == "srid" else ",".join(map(str, v)) if isinstance(v, list) else str(v)
        for k, v in given.items()
        if k not in own
    }
    try:
        _check_values(texts)
        planned = {
            key: _schedule(path, where, name, key, schedule, texts)
            for key, schedule in _schedules_of(path, where, name, given).items()
        }
    except FreqdpError as error:
        if error.parameter == "file":
            raise
        raise BadInput(
            f"[[file]] {path}: {where}: {error.text}", remedy=error.remedy_text
        ) from None
    return WantedDataset(name, texts, planned)


def _schedules_of(path: Path, where: str, name: str, given: dict[str, Any]) -> dict[str, Any]:
    """The schedules of a dataset by name: the one that is called as it is, and those with other names."""
    named = given.get(_SCHEDULES, {})
    if not isinstance(named, dict):
        raise BadInput(
            f"[[file]] {path}: {where}: schedules are tables",
            remedy=f"write [{_TOP}.{name}.{_SCHEDULES}.NAME] above each",
        )
    if name in named and _SCHEDULE in given:
        raise BadInput(
            f"[[file]] {path}: {where} has two schedules of the name {name!r}",
            remedy=f"{_SCHEDULE} is the one that is called as the dataset: give the other another name",
        )
    return ({name: given[_SCHEDULE]} if _SCHEDULE in given else {}) | named


def keys_of(verb: Callable[..., object]) -> dict[str, Declared]:
    """What a verb takes besides names, by the keys of the file: as options, with underscores."""
    options = [p for p in parameters_of(verb)[0] if isinstance(p.says, Option) and p.name != "name"]
    return {p.option.removeprefix("--").replace("-", "_"): p for p in options}


def _check_values(given: dict[str, Any]) -> None:
    """Refuse here what would be refused when half of the file has been applied."""
    zone = given.get("timezone", "UTC")
    find_zone(zone)
    if "budget" in given:
        epsilon_number("[[budget]]", given["budget"], MAX_BUDGET)
    for key in _FACTS.keys() & given.keys():
        _FACTS[key](given[key], zone)
    if "srid" in given and not isinstance(given["srid"], int):
        raise BadInput(f"[[srid]] {given['srid']!r} is not a whole number", remedy="such as 32631")


def _schedule(
    path: Path, where: str, dataset: str, name: str, given: Any, texts: dict[str, Any]
) -> WantedSchedule:
    """texts: what the file says of the dataset."""
    if not isinstance(given, dict) or "at" not in given:
        raise BadInput(
            f"[[file]] {path}: {where} has a schedule without 'at'",
            remedy=f'write [{_TOP}.NAME.{_SCHEDULE}] and at = "0 3 * * *"',
        )
    own = {key: given[key] for key in keys_of(Freqdp.schedule) if key in given}
    rest = {key: value for key, value in given.items() if key not in own}
    own["timezone"] = str(own.get("timezone", texts.get("timezone", "UTC")))
    own["at"] = str(own["at"])
    find_zone(own["timezone"])
    others: dict[str, Any] = {k: own[k] for k in ("keep", "hold", "new_draw") if k in own}
    others |= {k: str(own[k]) for k in ("window", "series", "since") if k in own}
    asked = read_scheduled(dataset, name, Request.parse(own.get("method"), **rest), **others)
    return WantedSchedule(asked, {**own, **rest}, Cron.parse(own["at"]).text, own["timezone"])


def _require_known(path: Path, where: str, given: dict[str, Any], known: list[str]) -> None:
    for key in given:
        if key not in known:
            raise BadInput(
                f"[[file]] {path}: {where} {key!r} is not known".replace(":  ", ": "),
                remedy="known are " + ", ".join(known),
            )
