"""`freqdp worker` and `freqdp jobs`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import freqdp_db
from freqdp_db.cli.console import Session, command
from freqdp_db.cli.numbers import whole_number
from freqdp_db.cli.request import Engine, Workers


def register(app: typer.Typer) -> None:
    @command(app, "worker")
    def worker(
        session: Session,
        once: Annotated[
            bool,
            typer.Option(
                "--once",
                help="Do what is due, then end. Exit 4 if a job was refused, 5 if one failed, 6 if one "
                "was put off. For timers and CronJobs.",
            ),
        ] = False,
        health: Annotated[
            bool,
            typer.Option(
                "--health", help="Say whether a worker on this machine lives; exit 1 if not."
            ),
        ] = False,
        lease: Annotated[
            str,
            typer.Option(
                "--lease", help="Seconds without a sign of life after which others take a job over."
            ),
        ] = "60",
        grace: Annotated[
            str,
            typer.Option(
                "--grace",
                help="Seconds to finish the job in hand after SIGTERM; then it is given back.",
            ),
        ] = "20",
        metrics: Annotated[
            int | None,
            whole_number("--metrics", "Serve numbers for Prometheus on this port."),
        ] = None,
        metrics_address: Annotated[
            str,
            typer.Option(
                "--metrics-address",
                help="Where --metrics listens. 0.0.0.0 is for containers: others can reach it.",
            ),
        ] = "127.0.0.1",
        engine: Engine = None,
        workers: Workers = None,
    ) -> None:
        """Serve the jobs that were asked for in SQL, and the schedules. Logs JSON lines to stderr."""
        if health:
            found = freqdp_db.living_worker(session.target)
            session.answer(
                found,
                lambda: session.print(
                    f"Worker {found.worker_id} lives: process {found.pid} on {found.host}, last heard "
                    f"of {found.quiet_s:.0f} s ago, "
                    + ("idle." if found.job_id is None else f"at job {found.job_id}.")
                ),
            )
            return
        served = freqdp_db.work(
            session.target,
            once=once,
            lease=lease,
            grace=grace,
            metrics=metrics,
            metrics_address=metrics_address,
            engine=engine,
            workers=workers,
            log=True,
        )
        session.answer(
            served,
            lambda: session.print(
                f"Jobs: {served.done} done, {served.refused} refused, {served.failed} failed, "
                f"{served.cancelled} cancelled, {served.put_off} put off."
            ),
        )
        if once and served.exit_code:
            raise typer.Exit(served.exit_code)

    @command(app, "jobs")
    def jobs(
        session: Session,
        job: Annotated[int | None, whole_number("--job", "This one only.")] = None,
        cancel: Annotated[int | None, whole_number("--cancel", "Cancel this one.")] = None,
        limit: Annotated[
            int, whole_number("--limit", "Show so many: open ones, then the newest.")
        ] = 20,
        workers: Annotated[
            bool, typer.Option("--workers", help="Show the workers that live instead.")
        ] = False,
    ) -> None:
        """Releases that were asked for in SQL or by a schedule: how they stand, what came of them."""
        if cancel is not None:
            ended = freqdp_db.cancel_job(session.target, cancel)
            session.answer(ended, lambda: session.print(f"Job {cancel}: {ended.state}."))
            return
        if workers:
            _show_workers(session)
            return
        found = freqdp_db.jobs(session.target, job=job, limit=limit)

        def show() -> None:
            session.table(
                ["job", "dataset", "state", "asked by", "at", "tries", "release", "what"],
                [
                    (j.job_id, j.dataset, j.state, j.asked_by, f"{j.asked_at:%Y-%m-%d %H:%M}",
                     j.attempts, j.release, _what(j))
                    for j in found
                ],
            )  # fmt: skip
            living = len(freqdp_db.workers(session.target))
            session.print(f"{living} workers live." if living != 1 else "1 worker lives.")

        session.answer(found, show)


def _show_workers(session: Session) -> None:
    found = freqdp_db.workers(session.target)
    session.answer(
        found,
        lambda: session.table(
            ["worker", "host", "process", "job", "heard of, s ago"],
            [(w.worker_id, w.host, str(w.pid), w.job_id, round(w.quiet_s)) for w in found],
        ),
    )


def _what(job: Any) -> str | None:
    if job.phase is not None:
        return str(job.phase) if not job.total else f"{job.phase}: {job.done:,} of {job.total:,}"
    what: str | None = job.error or job.note
    return what
