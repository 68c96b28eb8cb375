"""`freqdp schedule`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import freqdp_db
from freqdp_db.cli import completion
from freqdp_db.cli.console import Session, command
from freqdp_db.cli.numbers import whole_number
from freqdp_db.cli.request import SEED, Dataset

app = typer.Typer(
    name="schedule", help="Releases that workers ask for by themselves.", no_args_is_help=True
)


@command(app, "add", without=SEED)
def add(
    session: Session,
    dataset: Dataset,
    request: dict[str, Any],
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
    hold: Annotated[
        bool,
        typer.Option("--hold", help="Each release is for curators only, until it is approved."),
    ] = False,
    new_draw: Annotated[
        bool,
        typer.Option(
            "--new-draw",
            help="Publish and pay also when nothing has changed: otherwise a time without a new "
            "version says so, exactly.",
        ),
    ] = False,
) -> None:
    """Rebuild a dataset and publish a new release of it, again and again. A worker does it."""
    made = freqdp_db.schedule(
        session.target, dataset, at, **request, timezone=timezone, keep=keep, hold=hold,
        new_draw=new_draw,
    )  # fmt: skip

    def show() -> None:
        session.print(
            f"Schedule {made.schedule_id}: {dataset}, {made.cron} ({made.timezone}), next at "
            f"{made.next_at:%Y-%m-%d %H:%M} UTC. A worker has to run: freqdp worker"
        )
        if made.releases_left is not None:
            which = "release" if new_draw else "release of changed data"
            session.print(
                f"Each {which} costs {made.price}; the budget pays for "
                f"{made.releases_left:,} more. Then the schedule ends, and says so."
            )
        session.print(made.warning)

    session.answer(made, show)


@command(app, "list")
def list_(session: Session) -> None:
    """Schedules: when they ask, for what, and why those that ended have ended."""
    found = freqdp_db.schedules(session.target)

    def show() -> None:
        session.table(
            ["schedule", "dataset", "at", "zone", "method", "each costs", "keep", "next at (UTC)",
             "state"],
            [
                (s.schedule_id, s.dataset, s.cron, s.timezone, s.asked.request.method.name,
                 s.price, "all" if s.asked.keep is None else str(s.asked.keep),
                 None if s.ended_at else f"{s.next_at:%Y-%m-%d %H:%M}",
                 f"ended {s.ended_at:%Y-%m-%d %H:%M}: {s.ended_reason}" if s.ended_at else "active")
                for s in found
            ],
        )  # fmt: skip

    session.answer(found, show)


@command(app, "drop")
def drop(
    session: Session,
    dataset: Annotated[
        str,
        typer.Argument(
            help="Name of the dataset, or number of the schedule as `schedule list` has it.",
            show_default=False,
            autocompletion=completion.datasets,
        ),
    ],
) -> None:
    """End the schedule of a dataset. Its releases stay."""
    ended = freqdp_db.drop_schedule(session.target, dataset)
    session.answer(
        ended, lambda: session.print(f"Schedule {ended.schedule_id} of {ended.dataset} has ended.")
    )
