"""`freqdp.toml`: datasets, their limits and schedules, as a team keeps them in version control."""

from __future__ import annotations

import inspect
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from freqdp_db.dataset.facts import check_region, parse_period
from freqdp_db.dataset.limits import parse_limit
from freqdp_db.dataset.registration import (
    MAX_BUDGET,
    check_name,
    epsilon_number,
    parse_time_unit,
)
from freqdp_db.errors import BadInput, FreqdpError
from freqdp_db.interface.datasets import add_dataset
from freqdp_db.jobs.cron import Cron, find_zone
from freqdp_db.jobs.document import JobRequest, check_keep
from freqdp_db.methods.registry import DEFAULT_METHOD
from freqdp_db.release.request import Request

DEFAULT_FILE = "freqdp.toml"
_TOP, _SCHEDULE, _FROM = "datasets", "schedule", "from"
_KEYS = [_FROM if name == "source" else name
         for name in list(inspect.signature(add_dataset).parameters)[2:]]  # fmt: skip
"""Of a dataset: what `freqdp dataset add` takes."""


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
    schedule: WantedSchedule | None


def read_configuration(path: Path) -> list[WantedDataset]:
    """All datasets of a file, checked as far as that goes without a database."""
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise BadInput(
            f"--file {path} cannot be read: {error.strerror}",
            remedy=f"name the file with --file, or write one: {DEFAULT_FILE}",
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"--file {path} is not TOML: {error}", remedy="correct that line") from None
    _require_known(path, "", document, [_TOP])
    found = document.get(_TOP, {})
    if not isinstance(found, dict) or not all(isinstance(d, dict) for d in found.values()):
        raise BadInput(
            f"--file {path}: datasets are tables", remedy=f"write [{_TOP}.NAME] above each"
        )
    return [_dataset(path, name, given) for name, given in found.items()]


def _dataset(path: Path, name: str, given: dict[str, Any]) -> WantedDataset:
    where = f"[{_TOP}.{name}]"
    _require_known(path, where, given, [*_KEYS, _SCHEDULE])
    check_name("the dataset's name", name)
    for key in (_FROM, "object", "time"):
        if key not in given:
            raise BadInput(
                f"--file {path}: {where} has no {key!r}",
                remedy="it is needed: see `freqdp dataset add`",
            )
    texts = {
        "source" if k == _FROM else k: v if k == "srid" else str(v)
        for k, v in given.items()
        if k != _SCHEDULE
    }
    try:
        _check_values(texts)
        schedule = given.get(_SCHEDULE)
        planned = None if schedule is None else _schedule(path, where, schedule, texts)
    except FreqdpError as error:
        message, remedy = error.as_options()["message"], error.as_options()["remedy"]
        if f"--file {path}" in str(message):
            raise
        raise BadInput(f"--file {path}: {where}: {message}", remedy=remedy) from None
    return WantedDataset(name, texts, planned)


def _check_values(given: dict[str, Any]) -> None:
    """Refuse here what would be refused when half of the file has come about."""
    zone = given.get("timezone", "UTC")
    find_zone(zone)
    if "budget" in given:
        epsilon_number("--budget", given["budget"], MAX_BUDGET)
    if "region" in given:
        check_region(given["region"])
    if "period" in given:
        parse_period(given["period"], zone)
    if "time_unit" in given:
        parse_time_unit(given["time_unit"])
    if "max_exposure" in given:
        parse_limit(given["max_exposure"])
    if "persons" in given:
        check_name("--persons", given["persons"])
    if "srid" in given and not isinstance(given["srid"], int):
        raise BadInput(f"--srid {given['srid']!r} is not a whole number", remedy="such as 32631")


def _schedule(path: Path, where: str, given: Any, dataset: dict[str, Any]) -> WantedSchedule:
    if not isinstance(given, dict) or "at" not in given:
        raise BadInput(
            f"--file {path}: {where} has a schedule without 'at'",
            remedy=f'write [{_TOP}.NAME.{_SCHEDULE}] and at = "0 3 * * *"',
        )
    rest = dict(given)
    at, zone = str(rest.pop("at")), str(rest.pop("timezone", dataset.get("timezone", "UTC")))
    keep = check_keep(rest.pop("keep", None))
    hold, new_draw = (bool(rest.pop(name, False)) for name in ("hold", "new_draw"))
    method = str(rest.pop("method", DEFAULT_METHOD))
    request = Request.parse(method, **rest)
    find_zone(zone)
    asked = JobRequest(request, None, new_draw=new_draw, rebuild=True, keep=keep, hold=hold)
    values = {
        "at": at, "method": method, "timezone": zone, "keep": keep, "hold": hold,
        "new_draw": new_draw, **rest,
    }  # fmt: skip
    return WantedSchedule(asked, values, Cron.parse(at).text, zone)


def _require_known(path: Path, where: str, given: dict[str, Any], known: list[str]) -> None:
    for key in given:
        if key not in known:
            raise BadInput(
                f"--file {path}: {where} {key!r} is not known".replace(":  ", ": "),
                remedy="known are " + ", ".join(known),
            )
