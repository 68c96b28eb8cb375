"""Schedules: made by people, run by whichever worker is awake when they are due."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from freqdp_db.errors import FreqdpError
from freqdp_db.jobs.cron import Cron, find_zone
from freqdp_db.jobs.document import JobRequest
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.records import schedules
from freqdp_db.storage.records.datasets import DatasetRow
from freqdp_db.storage.records.ledger import budget_of

REPEATED = (
    "Releases of one source can be joined through their untouched samples: each further one exposes "
    "more of the edits. The budget limits how often noise is drawn, not what the tables reveal."
)
REPEATED_SYNTHETIC = (
    "Releases of the same persons add up: the ledger for persons bounds what all of them together "
    "reveal, and ends the schedule when it is spent."
)
TELLS_NO_CHANGE = (
    " A time without a new version says, exactly, that nothing has changed (--new-draw)."
)


@dataclass(frozen=True)
class Planned:
    """A schedule that was made, and how far the budget carries it."""

    schedule_id: int
    cron: str
    timezone: str
    next_at: datetime
    releases_left: int | None
    """None: they cost nothing."""


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
    database: Database, dataset: DatasetRow, asked: JobRequest, at: str, timezone: str
) -> Planned:
    """Ask for a new release whenever `at` says."""
    cron, zone = Cron.parse(at), find_zone(timezone)
    next_at = cron.next_after(schedules.server_time(database), zone)
    number = schedules.insert_schedule(
        database, dataset.dataset_id, dataset.name, asked.document(), cron.text, timezone, next_at
    )
    request = asked.request
    left = None
    if request.spend:
        budget = budget_of(database, dataset.account_id, request.method.unit)
        left = int(budget.remaining // request.spend)
    return Planned(number, cron.text, timezone, next_at, left)


def fire_due(database: Database) -> list[Fired]:
    """Ask for what is due. What came due several times while nobody was awake is asked for once."""
    fired: list[Fired] = []
    while True:
        with database.begin() as connection:
            schedule = schedules.due_schedule(connection, database)
            if schedule is None:
                return fired
            cron, zone = Cron.parse(schedule.cron), find_zone(schedule.timezone)
            next_at = cron.next_after(schedules.transaction_time(connection), zone)
            job, refused, ended = None, None, False
            if schedules.has_open_job(connection, database, schedule.schedule_id):
                refused = "the job before is not done yet"
            else:
                try:
                    job = schedules.ask(connection, database, schedule)
                except FreqdpError as error:
                    if error.can_pass:
                        raise
                    refused = error.told
                    schedules.record_refusal(connection, database, schedule, error)
                    schedules.end_schedule(connection, database, schedule.schedule_id, refused)
                    ended = True
            schedules.advance(connection, database, schedule.schedule_id, next_at)
            fired.append(
                Fired(schedule.schedule_id, schedule.dataset, job, refused, ended, next_at)
            )
