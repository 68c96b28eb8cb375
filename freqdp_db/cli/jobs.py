"""`freqdp worker` and `freqdp jobs`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from freqdp_db.cli.console import Session, command
from freqdp_db.cli.numbers import whole_number


def _seconds(option: str, text: str) -> float:
    from freqdp_db.errors import BadInput

    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 1 <= value <= 86_400:
        raise BadInput(
            f"{option} {text} is not between 1 and 86,400 seconds",
            remedy=f"for example {option} 60",
        )
    return value


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
    ) -> None:
        """Serve the jobs that were asked for in SQL, and the schedules. Logs JSON lines to stderr."""
        from freqdp_db.jobs.health import require_worker_here
        from freqdp_db.jobs.log import json_lines
        from freqdp_db.jobs.metrics import exposed
        from freqdp_db.jobs.worker import Worker

        lease_s, grace_s = _seconds("--lease", lease), _seconds("--grace", grace)
        database = session.database()
        if health:
            found = require_worker_here(database)
            session.answer(
                asdict(found),
                lambda: session.print(
                    f"Worker {found.worker_id} lives: process {found.pid} on {found.host}, last heard "
                    f"of {found.quiet_s:.0f} s ago, "
                    + ("idle." if found.job_id is None else f"at job {found.job_id}.")
                ),
            )
            return
        serving = Worker(database, lease_s=lease_s, grace_s=grace_s)
        with json_lines(), exposed(database, serving.served, metrics, metrics_address):
            served = serving.serve(once=once)
        session.answer(
            asdict(served),
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
    ) -> None:
        """Releases that were asked for in SQL or by a schedule: how they stand, what came of them."""
        from freqdp_db.errors import BadInput, NotFound
        from freqdp_db.jobs.health import living_workers
        from freqdp_db.storage.records.jobs import cancel_job, list_jobs

        if limit < 1:
            raise BadInput(f"--limit {limit} is not above 0", remedy="for example --limit 20")
        database = session.database()
        if cancel is not None:
            state = cancel_job(database, cancel)
            session.answer({"job_id": cancel, "state": state},
                           lambda: session.print(f"Job {cancel}: {state}."))  # fmt: skip
            return
        found = list_jobs(database, limit, job)
        if job is not None and not found:
            raise NotFound(f"there is no job {job}", remedy="`freqdp jobs` shows what there is")
        workers = living_workers(database)

        def show() -> None:
            session.table(
                ["job", "dataset", "state", "asked by", "at", "tries", "release", "what"],
                [
                    (j.job_id, j.dataset, j.state, j.asked_by, f"{j.asked_at:%Y-%m-%d %H:%M}",
                     j.attempts, j.release, _what(j))
                    for j in found
                ],
            )  # fmt: skip
            session.print(
                f"{len(workers)} workers live." if len(workers) != 1 else "1 worker lives."
            )

        session.answer(
            {"jobs": [asdict(j) for j in found], "workers": [asdict(w) for w in workers]}, show
        )


def _what(job: object) -> str | None:
    from freqdp_db.storage.records.jobs import JobView

    assert isinstance(job, JobView)
    if job.phase is not None:
        return job.phase if not job.total else f"{job.phase}: {job.done:,} of {job.total:,}"
    return job.error or job.note
