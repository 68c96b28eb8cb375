"""`freqdp schedule`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from freqdp_db.cli.console import Session, command
from freqdp_db.cli.numbers import whole_number
from freqdp_db.cli.request import SEED, Dataset

if TYPE_CHECKING:
    from freqdp_db.release.request import Request

app = typer.Typer(
    name="schedule", help="Releases that workers ask for by themselves.", no_args_is_help=True
)


@command(app, "add", without=SEED)
def add(
    session: Session,
    dataset: Dataset,
    request: Request,
    at: Annotated[
        str,
        typer.Option(
            "--at",
            help="Five cron fields, or @hourly, @daily, @weekly, @monthly.",
            show_default=False,
        ),
    ],
    timezone: Annotated[
        str, typer.Option("--timezone", help="The zone that --at is read in.")
    ] = "UTC",
    keep: Annotated[
        int | None,
        whole_number(
            "--keep", "Withdraw all but so many of the schedule's releases. Default: keep all."
        ),
    ] = None,
) -> None:
    """Rebuild a dataset and publish a new release of it, again and again. A worker does it."""
    from freqdp_db.errors import BadInput
    from freqdp_db.jobs.document import MAX_KEEP, JobRequest
    from freqdp_db.jobs.schedule import REPEATED, add_schedule
    from freqdp_db.storage.records.datasets import find_dataset

    if keep is not None and not 1 <= keep <= MAX_KEEP:
        raise BadInput(
            f"--keep {keep} is not between 1 and {MAX_KEEP:,}", remedy="for example --keep 7"
        )
    database = session.database()
    row = find_dataset(database, dataset)
    asked = JobRequest(request, name=None, new_draw=False, rebuild=True, keep=keep)
    made = add_schedule(database, row, asked, at, timezone)

    def show() -> None:
        session.print(
            f"Schedule {made.schedule_id}: {dataset}, {made.cron} ({made.timezone}), next at "
            f"{made.next_at:%Y-%m-%d %H:%M} UTC. A worker has to run: freqdp worker"
        )
        if made.releases_left is not None:
            session.print(
                f"Each release of changed data costs {request.price}; the budget pays for "
                f"{made.releases_left:,} more. Then the schedule ends, and says so."
            )
        session.print(REPEATED)

    session.answer({**asdict(made), "dataset": dataset, "warning": REPEATED}, show)


@command(app, "list")
def list_(session: Session) -> None:
    """Schedules: when they ask, for what, and why those that ended have ended."""
    from freqdp_db.storage.records.schedules import list_schedules

    found = list_schedules(session.database())

    def show() -> None:
        session.table(
            ["schedule", "dataset", "at", "zone", "next at (UTC)", "state"],
            [
                (s.schedule_id, s.dataset, s.cron, s.timezone,
                 None if s.ended_at else f"{s.next_at:%Y-%m-%d %H:%M}",
                 f"ended {s.ended_at:%Y-%m-%d %H:%M}: {s.ended_reason}" if s.ended_at else "active")
                for s in found
            ],
        )  # fmt: skip

    documents: list[dict[str, Any]] = [{**asdict(s), "request": s.document} for s in found]
    session.answer(documents, show)


@command(app, "drop")
def drop(session: Session, dataset: Dataset) -> None:
    """End the schedule of a dataset. Its releases stay."""
    from freqdp_db.storage.records.schedules import drop_schedule

    ended = drop_schedule(session.database(), dataset)
    session.answer(
        {"schedule_id": ended.schedule_id, "dataset": dataset, "ended": True},
        lambda: session.print(f"Schedule {ended.schedule_id} of {dataset} has ended."),
    )
