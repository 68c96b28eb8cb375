"""Schedules: made by people, run by whichever worker is awake when they are due."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from freqdp_db.db import jobs, schedules
from freqdp_db.db.builds import EVERY, find_build, find_window
from freqdp_db.db.connection import Connection, Database
from freqdp_db.db.datasets import DatasetRow, get_dataset
from freqdp_db.db.ledger import accounts_of_same_rows, budget_of
from freqdp_db.db.releases import get_release
from freqdp_db.db.schedules import ScheduleRow
from freqdp_db.errors import AlreadyExists, BadInput, BudgetExceeded, FreqdpError, NotFound
from freqdp_db.methods.contract import WITHOUT_SAMPLES
from freqdp_db.methods.unlinking.steps import accepted_beside
from freqdp_db.model.days import find_zone
from freqdp_db.model.documents import Document, not_in_json
from freqdp_db.privacy.guarantee import ProtectedUnit
from freqdp_db.release.conflicts import refuse_conflicting_releases
from freqdp_db.release.request import JobRequest, Request, check_keep, check_series, parse_job

# When a schedule is due: five cron fields, read in a time zone, by the rules of Debian's cron.


_FIELDS = 5  # cronsim would take a sixth, for seconds
_NAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
}
_EXAMPLE = (
    "for example [[at]] '0 3 * * *' (every night at three), or @hourly, @daily, @weekly, @monthly"
)


@dataclass(frozen=True)
class Cron:
    """Minutes, hours, days of the month, months and days of the week (0 is Sunday) that match."""

    text: str

    @classmethod
    def parse(cls, text: str) -> Cron:
        words = _NAMES.get(text.strip(), text).split()
        if len(words) != _FIELDS:
            raise BadInput(f"[[at]] {text!r} does not have five fields", remedy=_EXAMPLE)
        cron = cls(" ".join(words))
        try:
            cron.next_after(datetime(2024, 1, 1, tzinfo=UTC), ZoneInfo("UTC"))
        except LookupError:
            raise BadInput(
                f"[[at]] {text!r} names a day that never comes", remedy=_EXAMPLE
            ) from None
        except (CronSimError, ValueError) as error:
            what = str(error).lower() if isinstance(error, CronSimError) else "bad number"
            raise BadInput(f"[[at]] {text!r}: {what}", remedy=_EXAMPLE) from None
        return cron

    def next_after(self, moment: datetime, zone: ZoneInfo) -> datetime:
        """The first due moment after this one, in UTC.

        A time of day that the clock skips in spring is due right after the gap; one that comes twice
        in autumn is due the first time. What is due every few minutes or every hour goes on as if the
        clock had not been changed.
        """
        for wall in CronSim(self.text, moment.astimezone(zone)):
            due = wall.astimezone(UTC)
            if due > moment:  # in the hour that comes twice, the first one has passed
                return due
        raise LookupError(self.text)


_REPEATED = (
    "Releases of one source can be joined through their untouched samples: each further one exposes "
    "more of the edits. The budget limits how often noise is drawn, not what the tables reveal."
)
_REPEATED_SYNTHETIC = (
    "Synthetic releases of the same objects add up: their ledger bounds what all of them together "
    "reveal about one object, and ends the schedule when it is spent. Releases with true samples are "
    "not in that sum."
)
_REPEATED_UNLINKED = (
    "Unlinked releases of the same times are joined through their true samples: whoever has two undoes "
    "much of the unlinking, also whoever kept a copy of one that was withdrawn. So a release is refused "
    "while an earlier one of overlapping data is out: --keep 1 withdraws that one each time, and "
    "--beside DATASET_current accepts it."
)
_REPEATED_WINDOWS = (
    "Each {every} is read and released once, when it is over, and never again; what comes later is left "
    "out. Releases of different {every}s share no samples. What they can still show together: who is at "
    "the same place at the same time of every {every}."
)
_TELLS_NO_CHANGE = (
    " A time without a new version says, exactly, that nothing has changed (--new-draw)."
)


_UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""What reading a record can raise that was not written by us."""


@dataclass(frozen=True, kw_only=True)
class Scheduled(Document):
    """A schedule that was made just now, and how far the budget carries it."""

    schedule_id: int
    cron: str
    timezone: str
    next_at: datetime
    releases_left: int | None
    """None: they cost nothing."""
    renews: bool
    """Whether the budget is there again for each window."""
    series: str | None
    """The table that grows by a window at a time; without windows, what releases are called after. None:
    after the dataset."""
    next_window: str | None
    """The first window that is released."""
    name: str
    dataset: str
    warning: str
    price: str = not_in_json()


@dataclass(frozen=True)
class Schedule(ScheduleRow, Document):
    """When workers ask for releases of a dataset by themselves, and for what."""

    protected: ProtectedUnit = not_in_json()

    @property
    def price(self) -> str:
        """What each release costs, in words."""
        return self.asked.request.price(self.protected)

    @property
    def asked(self) -> JobRequest:
        """What is asked for, read."""
        return parse_job(self.request)


def _warning_of(asked: JobRequest) -> str:
    """What whoever makes a schedule should know of releases that follow each other."""
    kind = asked.request.method.kind
    if asked.window is not None:
        return _REPEATED_WINDOWS.format(every=asked.window)
    if kind in WITHOUT_SAMPLES:
        return _REPEATED_SYNTHETIC + ("" if asked.new_draw else _TELLS_NO_CHANGE)
    return _REPEATED_UNLINKED if kind == "unlinked" else _REPEATED


@dataclass(frozen=True)
class Fired:
    """What came of a schedule that was due: a job, or why there is none."""

    schedule_id: int
    dataset: str
    job_id: int | None
    refused: str | None
    ended: bool
    """Refused for good, and the schedule with it; else the job before is not done yet."""
    next_at: datetime


def add_schedule(
    database: Database,
    dataset: DatasetRow,
    name: str,
    asked: JobRequest,
    at: str,
    timezone: str,
    since: str | None = None,
) -> Scheduled:
    """Ask for a new release whenever `at` says. since: the first window; None: the one that is on."""
    cron, zone = Cron.parse(at), find_zone(timezone)
    require_servable(database, dataset, asked)
    require_accepted(database, dataset, asked)
    refuse_conflicting_schedules(
        Neighbour(name, dataset.name, asked), active_neighbours(database, dataset.account_id)
    )
    next_at = cron.next_after(schedules.server_time(database), zone)
    first = _first_window(database, dataset, asked, since)
    number = schedules.insert_schedule(
        database, dataset.dataset_id, dataset.name, name, asked.document(), cron.text, timezone, next_at,
        first,
    )  # fmt: skip
    request, left = asked.request, None
    if request.spend:
        budget = budget_of(database, dataset.account_id, request.method.unit)
        free = budget.granted if renews(dataset, asked) else budget.remaining
        left = int(free // request.spend)
    return Scheduled(
        schedule_id=number,
        cron=cron.text,
        timezone=timezone,
        next_at=next_at,
        releases_left=left,
        renews=renews(dataset, asked),
        series=asked.series,
        next_window=first,
        name=name,
        dataset=dataset.name,
        warning=_warning_of(asked),
        price=request.price(dataset.protected),
    )


def require_accepted(database: Database, dataset: DatasetRow, asked: JobRequest) -> None:
    """Refuse now what `request_release` would refuse when the schedule is due, but for the budget."""
    document = asked.document()
    if asked.window is not None:
        document["window"] = _LAST[asked.window]
    jobs.require_accepted(database, dataset.name, document)


def require_servable(database: Database, dataset: DatasetRow, asked: JobRequest) -> None:
    """Refuse now what would be refused every night: a conflict with a release that stays published.

    A dataset without a build is not known well enough.
    """
    if dataset.current_build is None or asked.window is not None:
        return
    build = find_build(database, dataset.current_build)
    replaces = () if asked.hold else replaced_releases(database, dataset.dataset_id, asked)
    with database.begin() as connection:
        refuse_conflicting_releases(
            connection, dataset, asked.request, asked.hold, build=build, replaces=replaces
        )


def replaced_releases(database: Database, dataset_id: int, asked: JobRequest) -> list[str]:
    """Releases that analysts read now and that are withdrawn once there is one more.

    None in a series of windows: they are apart.
    """
    if asked.keep is None or (asked.series is not None and asked.window is not None):
        return []
    granted = jobs.kept_releases(database, dataset_id, asked.series, held=False)
    return [get_release(database, number).name for number in granted[asked.keep - 1 :]]


@dataclass(frozen=True)
class Neighbour:
    """A schedule, active or planned, by what its releases are to others."""

    name: str
    dataset: str
    asked: JobRequest

    def refuses(self, other: Neighbour) -> bool:
        """Whether its releases are refused while those of another one are out."""
        method, of = self.asked.request.method, other.asked.request.method
        joined = method.kind == "unlinked" and (of.kind == "unlinked" or of.links)
        return joined and f"{other.dataset}_current" not in accepted_beside(
            self.asked.request.values
        )


def active_neighbours(database: Database, account_id: int) -> list[Neighbour]:
    """The active schedules of datasets that read the same rows."""
    accounts = accounts_of_same_rows(database, account_id)
    return [
        Neighbour(row.name, row.dataset, parse_job(row.request))
        for row in schedules.list_schedules(database)
        if row.ended_at is None and get_dataset(database, row.dataset_id).account_id in accounts
    ]


def refuse_conflicting_schedules(new: Neighbour, others: Iterable[Neighbour]) -> None:
    """Refuse a schedule if its releases and those of another one keep each other from being published."""
    for other in others:
        if other.name == new.name:
            continue
        if other.dataset == new.dataset and new.asked.asks_as(other.asked):
            raise BadInput(
                f"schedule {other.name!r} asks for the same: equal requests have one release",
                remedy="let analysts read that one, or draw afresh with [[new_draw]]",
            )
        if new.asked.hold or other.asked.hold:
            continue
        if new.refuses(other) or other.refuses(new):
            unlinked = new if new.refuses(other) else other
            accept = f"{(other if unlinked is new else new).dataset}_current"
            raise BadInput(
                f"schedule {other.name!r} releases the same data, and true samples join its releases with "
                "those of this one: whoever has both undoes the unlinking, so one of them would be refused",
                remedy=f"end that one (freqdp schedule drop {shlex.quote(other.name)}), accept it with "
                f"[[beside]] {accept} in schedule {unlinked.name}, keep one for curators with [[hold]], or "
                "choose a method without true samples: strict, counts",
            )


def note_of(asked: JobRequest) -> str | None:
    """What will end in refusals from the second release on, unless the source holds other times then."""
    unlinked = asked.request.method.kind == "unlinked" and asked.window is None and not asked.hold
    if not unlinked or asked.keep == 1 or accepted_beside(asked.request.values):
        return None
    return (
        "a release of it is refused while an earlier one of overlapping data is out: keep = 1 withdraws "
        "that one each time"
    )


def renews(dataset: DatasetRow, asked: JobRequest) -> bool:
    """Whether what one window spends is there again for another."""
    of_all_data = asked.request.method.unit == "person" and dataset.protected.stretch is None
    return asked.window is not None and not of_all_data


def read_scheduled(
    dataset: str,
    name: str,
    request: Request,
    *,
    keep: int | None = None,
    hold: bool = False,
    new_draw: bool = False,
    window: str | None = None,
    series: str | None = None,
    since: str | None = None,
) -> JobRequest:
    """What a schedule asks for; raises BadInput. name: of the schedule."""
    check_keep(keep)
    every, of = _find_series(dataset, name, window, series, since)
    return JobRequest(request, None, new_draw, True, keep, hold, every, of)


def _find_series(
    dataset: str, name: str, window: str | None, series: str | None, since: str | None
) -> tuple[str | None, str | None]:
    """What a window of a schedule is, and the series that it makes; raises BadInput.

    name: of the schedule. If it is not the dataset's, so is the series called, unless it was given a name.
    """
    own = None if name == dataset else check_series(name, None, "the schedule's name")
    if window is None:
        if series is not None or since is not None:
            raise BadInput(
                "[[series]] and [[since]] are for schedules with [[window]]",
                remedy="for example [[window]] day",
            )
        return None, own
    if window not in EVERY:
        raise BadInput(
            f"[[window]] {window} of a schedule is none of {', '.join(EVERY)}",
            remedy="for example [[window]] day",
        )
    return window, check_series(series or own or f"{dataset}_{EVERY[window]}", None)


_LAST = {"day": "yesterday", "week": "last-week", "month": "last-month"}
"""The last window of a kind that has ended."""


def _first_window(
    database: Database, dataset: DatasetRow, asked: JobRequest, since: str | None
) -> str | None:
    if asked.window is None:
        return None
    zone = dataset.mapping.timezone
    word = since or _LAST[asked.window]
    window = find_window(database, word, zone)
    if window.every != asked.window:
        raise BadInput(
            f"[[since]] {since} is a {window.every}, and a window of this schedule is a {asked.window}",
            remedy="for example [[since]] 2024-05-06 (a day), 2024-W19 (a week), 2024-05 (a month)",
        )
    return window.time_window if since else window.following


def fire_due(database: Database) -> list[Fired]:
    """Ask for what is due. What came due several times while nobody was awake is asked for once."""
    fired: list[Fired] = []
    while True:
        with database.begin() as connection:
            schedule = schedules.due_schedule(connection)
            if schedule is None:
                return fired
            fired += _fire(connection, database, schedule)


def _fire(connection: Connection, database: Database, schedule: ScheduleRow) -> list[Fired]:
    """Ask for what a schedule wants. One that cannot be served ends, and says why."""
    number, refused = schedule.schedule_id, None
    next_at = now = schedules.server_time(connection)
    window = schedule.next_window
    asked: list[tuple[int | None, str | None]] = []
    try:
        cron, zone = Cron.parse(schedule.cron), find_zone(schedule.timezone)
        next_at = cron.next_after(now, zone)
        if window is not None:
            asked, window = _ask_windows(connection, database, schedule, window)
        elif schedules.has_open_job(connection, number):
            asked = [(None, "the job before is not done yet")]
        else:
            asked = [_ask(connection, schedule)]
    except (FreqdpError, *_UNREADABLE) as error:
        if isinstance(error, FreqdpError) and error.can_pass:
            raise
        told = (
            error
            if isinstance(error, FreqdpError)
            else BadInput(
                f"its record cannot be read ({type(error).__name__})",
                remedy="end it and make it again: freqdp schedule add",
            )
        )
        refused = told.with_remedy
        schedules.record_refusal(connection, schedule, told)
        schedules.end_schedule(connection, number, refused)
    schedules.advance(connection, number, next_at, window)
    if refused is not None:
        return [Fired(number, schedule.dataset, None, refused, True, next_at)]
    return [Fired(number, schedule.dataset, job, why, False, next_at) for job, why in asked]


def _ask(
    connection: Connection, schedule: ScheduleRow, window: str | None = None
) -> tuple[int | None, str | None]:
    """The job, or why there is none: a table that it names may be there again the next time."""
    try:
        return schedules.ask(connection, schedule, window), None
    except NotFound as error:
        schedules.record_refusal(connection, schedule, error, window)
        return None, error.with_remedy


def _ask_windows(
    connection: Connection, database: Database, schedule: ScheduleRow, window: str
) -> tuple[list[tuple[int | None, str | None]], str]:
    """Ask for all windows that have ended, oldest first; what came of each, and the window to go on with.

    That is the first one that names a table which is not there: it waits for it, and the others with it.
    Each window is asked for once: the row of the schedule is locked, and moves on with the jobs.
    """
    asked: list[tuple[int | None, str | None]] = []
    while True:
        found = find_window(connection, window, schedule.window_timezone)
        if not found.ended:
            return asked, window
        try:
            job, refused = _ask(connection, schedule, found.time_window)
            if job is None:
                return [*asked, (None, refused)], window
        except (BudgetExceeded, AlreadyExists) as error:
            # of this window alone: others have a name of their own, and mostly a budget
            dataset = get_dataset(database, schedule.dataset_id)
            if isinstance(error, BudgetExceeded) and not renews(
                dataset, parse_job(schedule.request)
            ):
                raise
            schedules.record_refusal(connection, schedule, error, found.time_window)
            job, refused = None, error.with_remedy
        asked.append((job, refused))
        window = found.following
