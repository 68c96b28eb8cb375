"""The worker: jobs asked for in SQL are done once, whatever happens to whoever does them."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from library import POINTS, make_points, opened, release
from proxy import Proxy
from servers import clone_of
from world import anonymize, freqdp, query, value, verify, wait_for, withdraw

from freqdp_db.db import jobs, staging
from freqdp_db.db import published as current
from freqdp_db.db import published as waiting
from freqdp_db.db.connection import Listener, hold
from freqdp_db.db.jobs import HeartbeatReply
from freqdp_db.errors import ConnectionFailed
from freqdp_db.evaluation.evaluate import approve_within_limit
from freqdp_db.jobs import metrics
from freqdp_db.jobs.log import json_lines
from freqdp_db.jobs.metrics import exposed
from freqdp_db.jobs.worker import (
    Heartbeat,
    JobProgress,
    Reason,
    Worker,
    WorkerStats,
    WorkInterrupted,
)

ROOT = Path(__file__).parent.parent.parent


url = clone_of("built")


def ask(url: str, options: str = "{}", dataset: str = "d", epsilon: float = 1) -> int:
    job = value(url, "SELECT freqdp.request_release(%s, 'lg', %s::numeric, %s::jsonb)",
                dataset, epsilon, options)  # fmt: skip
    return int(job)


def serve(url: str, **options: float) -> tuple[WorkerStats, list[dict[str, Any]]]:
    """Do what is due, in this process; returns what was served and logged."""
    stream = io.StringIO()
    with opened(url) as database, json_lines(stream):
        served = Worker(database, approve_within_limit, **options).serve(once=True)
    return served, [json.loads(line) for line in stream.getvalue().splitlines()]


_PATIENT = (
    "from freqdp_db.cli.main import main; from freqdp_db.db import published; "
    "published._ATTEMPTS = 10**6; main()"
)


@contextmanager
def worker(url: str, *arguments: str, patient: bool = False) -> Iterator[subprocess.Popen[str]]:
    """A worker as people start it; `patient`: who reads the newest release holds it up for ever."""
    program = ["-c", _PATIENT] if patient else ["-m", "freqdp_db"]
    process = subprocess.Popen(
        [sys.executable, *program, "worker", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        env={**os.environ, "DATABASE_URL": url},
    )  # fmt: skip
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.communicate()


def state(url: str, job: int) -> str:
    return str(value(url, "SELECT state FROM freqdp.job WHERE job_id = %s", job))


def spends(url: str) -> int:
    return int(value(url, "SELECT count(*) FROM freqdp.spend WHERE kind = 'spend'"))


def left_over(url: str) -> list[Any]:
    """Tables that nothing points to."""
    return query(
        url,
        "SELECT relname FROM pg_class WHERE relnamespace = 'freqdp'::regnamespace AND relkind = 'r' "
        "AND (relname LIKE 'staging%' OR relname ~ '_[0-9]+$' AND NOT relispartition)",
    )


# --- from SQL alone ------------------------------------------------------------------------------


def test_request_watch_and_query_in_sql(url: str) -> None:
    """No Python on the client: ask, watch the job, query the release."""
    asked = "SELECT freqdp.request_release('d', 'lg', 1, '{\"rebuild\": true}')"
    with worker(url) as process:
        wait_for(lambda: query(url, "SELECT 1 FROM freqdp.worker"), "a worker")
        ((job,),) = said(url, "ROLE freqdp_runner", asked)
        wait_for(lambda: state(url, job) not in ("waiting", "running"), "the job")
        assert query(url, "SELECT state, attempts, error, release FROM freqdp.job") == [
            ("done", 1, None, "d_1")
        ]
        assert query(url, "SELECT 1 FROM freqdp.job_progress") == []
        names = (
            "SELECT DISTINCT application_name FROM pg_stat_activity "
            "WHERE datname = current_database()"
        )
        assert ("freqdp worker",) in query(url, names)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate()
    assert process.returncode == 0, err
    assert "Jobs: 1 done, 0 refused" in out
    events = [json.loads(line) for line in err.splitlines()]
    assert [e["action"] for e in events] == ["start", "begin", "done", "end", "stop"]
    assert events[0]["listening"] is True
    for relation in ("d_1", "d_current"):
        counted = f"SELECT count(*) > 0 FROM freqdp_release.{relation}"
        assert said(url, "ROLE freqdp_analyst", counted) == [(True,)]
    verify(url, "d_1")


# --- killed, cancelled, stopped ------------------------------------------------------------------


@contextmanager
def publishing(url: str) -> Iterator[int]:
    """A job whose worker waits to publish, until the block ends: for a view that somebody reads."""
    with psycopg.connect(url, autocommit=True) as reader:
        anonymize(url, "d", "lg", "--as", "r")
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM freqdp_release.d_current LIMIT 1")
        job = ask(url, '{"signature": 4}')
        shown = (
            "SELECT 1 FROM freqdp.progress WHERE phase = 'publish' AND done >= 0 AND rate >= 0 "
            "AND (total IS NULL OR total >= done)"
        )
        wait_for(lambda: said(url, "ROLE freqdp_runner", shown), "publishing")
        yield job
        reader.execute("ROLLBACK")


def test_cancelled_while_it_runs(url: str) -> None:
    with worker(url, patient=True), publishing(url) as job:
        assert value(url, "SELECT freqdp.cancel_job(%s)", job) == "cancelling"
        wait_for(lambda: state(url, job) == "cancelled", "the cancellation")
    assert query(url, "SELECT name, state FROM freqdp.release ORDER BY 1") == [
        ("d_1", "abandoned"), ("r", "published"),
    ]  # fmt: skip
    assert left_over(url) == []


def test_sigterm_gives_the_job_back(url: str) -> None:
    with worker(url, "--grace", "1", patient=True) as process, publishing(url) as job:
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate()
    assert process.returncode == 0, err
    assert query(url, "SELECT state, attempts FROM freqdp.job") == [("waiting", 0)]
    served, _ = serve(url)
    assert served.done == 1 and state(url, job) == "done" and spends(url) == 2


def test_a_reader_of_the_newest_keeps_nothing_from_being_published(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The views follow when nobody reads them: with the next release, or a worker that looks."""
    monkeypatch.setattr(waiting, "_ATTEMPTS", 1)
    monkeypatch.setattr(waiting, "_SECONDS_BETWEEN", 0)
    for module in (staging, current):
        monkeypatch.setattr(module, "LOCK_TIMEOUT", "100ms")
    anonymize(url, "d", "lg", "--as", "r")
    with psycopg.connect(url, autocommit=True) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM freqdp_release.d_current LIMIT 1")
        anonymize(url, "d", "lg", "--signature", "4", "--as", "s")
        assert _current(url) == "freqdp_release.r"
    freqdp(url, "worker", "--once").succeeded()
    assert _current(url) == "freqdp_release.s"


# --- what can pass, and what cannot --------------------------------------------------------------


def test_what_can_pass_is_tried_again(url: str) -> None:
    job = ask(url, '{"rebuild": true}')
    with opened(url) as other, hold(other, "dataset", 1, "dataset 'd'"):
        served, events = serve(url)
        assert served.put_off == 1
        (row,) = query(url, "SELECT state, attempts, error, due_at > now() FROM freqdp.job")
        assert row[:2] == ("waiting", 1) and "being worked on by process" in row[2] and row[3]
        assert [e["in_seconds"] for e in events if e["action"] == "put off"] == [1.0]
        # however often: the lock of somebody else is no fault of the job
        for _ in range(2):
            query(url, "UPDATE freqdp.job_queue SET due_at = now(), attempts = 19")
            assert serve(url)[0].put_off == 1
    query(url, "UPDATE freqdp.job_queue SET due_at = now(), attempts = 1")
    assert serve(url)[0].done == 1
    assert query(url, "SELECT state, attempts, error FROM freqdp.job") == [("done", 2, None)]
    assert state(url, job) == "done"


def test_what_cannot_pass_is_refused_at_once(url: str) -> None:
    job = ask(url)
    freqdp(url, "dataset", "drop", "d").succeeded()
    assert serve(url)[0].refused == 1
    (row,) = query(url, "SELECT state, attempts, error FROM freqdp.job")
    assert row[:2] == ("refused", 1) and "dropped" in row[2]
    assert state(url, job) == "refused"


def test_a_fault_is_named_without_its_text(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of an unexpected error may quote a row."""
    from freqdp_db.jobs import worker as work

    def fail(*arguments: Any) -> None:
        raise ValueError("taxi 17 was at 116.3, 39.9")

    monkeypatch.setattr(work, "perform", fail)
    ask(url)
    served, events = serve(url)
    assert served.failed == 1
    error = value(url, "SELECT error FROM freqdp.job")
    assert error.startswith("a fault in freqdp: ValueError") and "116.3" not in json.dumps(events)
    assert "taxi" not in error


# --- records that whoever may write jobs can write ------------------------------------------------


def said(url: str, who: str, statement: str, *values: Any) -> Any:
    """What a statement gives to somebody else."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"SET {who}".encode())
        cursor = connection.execute(statement.encode(), values or None)
        return cursor.fetchall() if cursor.description else None


_ODD = {
    "a number as method": '{"method": 5}',
    "a method of lists": '{"method": [["lg"]]}',
    "an unknown method": '{"method": "\\u001b[31mnone"}',
    "text as epsilon": '{"method": "lg", "epsilon": "abc"}',
    "a huge number": '{"method": "lg", "epsilon": 1' + "0" * 20_000 + "}",
    "a tiny number": '{"method": "lg", "epsilon": 1e-15000}',
    "odd flags": '{"method": "lg", "rebuild": "maybe", "keep": -1, "hold": {}}',
    "an odd name": '{"method": "lg", "as": "../../etc"}',
    "an odd region": '{"method": "strict", "region": "0,0,1e999,NaN", "period": "infinity/-infinity"}',
}
_UNREADABLE = [
    "INSERT INTO freqdp.job_queue (dataset_id, request) VALUES (1, '[]')",
    "INSERT INTO freqdp.job_queue (dataset_id, request) VALUES (1, '5')",
    "INSERT INTO freqdp.job_queue (dataset_id, request) "
    "VALUES (1, ('{\"a\":' || repeat('[', 3000) || repeat(']', 3000) || '}')::jsonb)",
    "INSERT INTO freqdp.job_queue (dataset_id, request) "
    "VALUES (1, jsonb_build_object('a', repeat('x', 1100000)))",
    *(
        f"UPDATE freqdp.job_queue SET {column} = '{value}'"
        for column in ("due_at", "started_at", "ended_at")
        for value in ("infinity", "-infinity", "200000-01-01")
    ),
    "UPDATE freqdp.job_queue SET attempts = 2147483647",
    "UPDATE freqdp.schedule SET next_at = 'infinity'",
    "UPDATE freqdp.schedule SET next_at = '4000-01-01 BC', last_at = '-infinity'",
    "INSERT INTO freqdp.worker (host, pid, software, listening, seen_at) "
    "VALUES ('h', 1, 's', true, 'infinity')",
]


def test_odd_documents_harm_nobody_else(url: str) -> None:
    """Each ends with a reason, and the next job is done."""
    for document in _ODD.values():
        said(
            url,
            "ROLE freqdp_runner",
            "INSERT INTO freqdp.job_queue (dataset_id, request) VALUES (1, %s::text::jsonb)",
            document,
        )
    good = ask(url)
    served, _ = serve(url)
    assert (served.done, served.refused + served.failed) == (1, len(_ODD))
    assert state(url, good) == "done"
    ended = query(url, "SELECT state, error FROM freqdp.job WHERE job_id <> %s", good)
    assert {row[0] for row in ended} <= {"refused", "failed"} and all(row[1] for row in ended)
    assert len(freqdp(url, "jobs").succeeded()) == len(_ODD) + 1
    shown = freqdp(url, "jobs", in_words=True)
    assert shown.code == 0 and "\x1b" not in shown.out and "\\x1b" in shown.out


def test_records_that_cannot_be_read_are_not_written(url: str) -> None:
    ask(url)
    freqdp(url, "schedule", "add", "d", "--method", "lg", "--at", "@daily").succeeded()
    for statement in _UNREADABLE:
        with pytest.raises((psycopg.errors.CheckViolation, psycopg.errors.StatementTooComplex)):
            said(url, "ROLE freqdp_runner", statement)
            pytest.fail(f"written: {statement}")
    assert serve(url)[0].done == 1


_ODD_SCHEDULES = [
    ("cron", "0 0 30 2 *"),
    ("cron", "* * * * * *"),
    ("cron", "99 * * * *"),
    ("cron", ""),
    ("timezone", "No/Where"),
    ("timezone", "../../etc/passwd"),
    ("request", "{}"),
    ("request", '{"method": 7}'),
    ("request", '{"method": "lg", "epsilon": {"a": 1}}'),
]


def test_odd_schedules_end_and_say_why(url: str) -> None:
    for column, odd in _ODD_SCHEDULES:
        freqdp(url, "schedule", "add", "d", "--method", "lg", "--at", "@daily").succeeded()
        query(
            url,
            f"UPDATE freqdp.schedule SET {column} = %s{'::jsonb' if column == 'request' else ''}, "
            "next_at = now() - interval '1 min' WHERE ended_at IS NULL",
            odd,
        )
        served, _ = serve(url)
        assert (served.done, served.refused) == (0, 1), odd
    ended = query(url, "SELECT ended_at IS NOT NULL, ended_reason <> '' FROM freqdp.schedule")
    assert ended == [(True, True)] * len(_ODD_SCHEDULES)
    assert len(freqdp(url, "schedule", "list").succeeded()) == len(_ODD_SCHEDULES)
    ask(url)
    assert serve(url)[0].done == 1


def test_too_much_is_refused_when_it_is_asked_for(url: str) -> None:
    for options in (
        json.dumps({"signature": "x" * 600_000}),
        '{"signature": ' + "[" * 3000 + "]" * 3000 + "}",
    ):
        with pytest.raises(psycopg.Error, match="options are too large, or nested") as caught:
            ask(url, options)
        assert caught.value.sqlstate == "QF001"


@pytest.fixture
def asker(url: str) -> Iterator[str]:
    """A runner of its own, and a table of points of interest that it may not read."""
    name = f"asker_{uuid4().hex[:8]}"
    query(url, "CREATE TABLE world.poi AS SELECT geom, 'c' || ctid::text AS kind FROM world.points")
    query(url, f"CREATE ROLE {name} LOGIN; GRANT freqdp_runner TO {name}; "
               f"GRANT USAGE ON SCHEMA world TO {name}")  # fmt: skip
    yield name
    query(url, f"DROP OWNED BY {name}; DROP ROLE {name}")


def test_tables_are_read_with_the_rights_of_who_asks(url: str, asker: str) -> None:
    """The worker may read more: what a job names is looked at for whoever asked, or made the schedule."""
    who = f"SESSION AUTHORIZATION {asker}"
    wanted = '{"k": 2, "l": 1, "t": 1, "poi": "world.poi", "category": "kind"}'
    asking = "SELECT freqdp.request_release('d', 'klt', NULL, %s::jsonb)"
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="may not read"):
        said(url, who, asking, wanted)
    # as if it had been written into the queue, or the right had been taken away since
    insert = (
        "INSERT INTO freqdp.job_queue (dataset_id, request) "
        "SELECT 1, freqdp.request_document('klt', NULL, %s)"
    )
    said(url, who, insert, wanted)
    assert serve(url)[0].refused == 1
    error = value(url, "SELECT error FROM freqdp.job")
    assert "may not read world.poi" in error and asker in error
    said(
        url,
        who,
        "INSERT INTO freqdp.schedule (dataset_id, name, request, cron, timezone, next_at) "
        "SELECT 1, 'd', freqdp.request_document('klt', NULL, %s), '0 3 * * *', 'UTC', now()",
        wanted,
    )
    assert serve(url)[0].refused == 1
    error = value(url, "SELECT error FROM freqdp.job WHERE schedule_id IS NOT NULL")
    assert "may not read world.poi" in error and asker in error
    query(url, f"GRANT SELECT ON world.poi TO {asker}")
    said(url, who, asking, wanted)
    assert serve(url)[0].done == 1
    assert query(url, "SELECT method FROM freqdp.release") == [("klt",)]


@pytest.mark.parametrize(
    "hidden",
    [
        "ALTER TABLE world.poi ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE world.poi RENAME TO all_poi; CREATE VIEW world.poi WITH (security_invoker = true) "
        "AS TABLE world.all_poi",
    ],
)
def test_rows_that_the_asker_would_not_see_are_not_read(url: str, asker: str, hidden: str) -> None:
    query(url, hidden)
    query(url, f"GRANT SELECT ON world.poi TO {asker}")
    who = f"SESSION AUTHORIZATION {asker}"
    wanted = '{"k": 2, "l": 1, "t": 1, "poi": "world.poi", "category": "kind"}'
    said(url, who, "SELECT freqdp.request_release('d', 'klt', NULL, %s::jsonb)", wanted)
    assert serve(url)[0].refused == 1
    assert "may not read world.poi" in value(url, "SELECT error FROM freqdp.job")


def test_a_worker_that_lost_its_lease_records_nothing(url: str) -> None:
    """Its release and its spend are one transaction with the job's record: all of it or nothing."""
    from freqdp_db.db.jobs import claim
    from freqdp_db.errors import Busy
    from freqdp_db.evaluation.evaluate import approve_within_limit
    from freqdp_db.jobs.worker import perform
    from freqdp_db.progress import Progress

    ask(url)
    with opened(url) as database:
        job = claim(database, 1, 60.0)
        assert job is not None
        query(url, "UPDATE freqdp.job_queue SET worker_id = 2")
        with pytest.raises(Busy, match="taken over"):
            perform(database, job, Progress(), approve_within_limit)
    assert spends(url) == 0 and query(url, "SELECT 1 FROM freqdp.release") == []


# --- once: for timers, which see the exit code -----------------------------------------------------


SPOILED = (
    'UPDATE freqdp.job_queue SET request = request || \'{"method": "none"}\' WHERE job_id = %s'
)


def _once(url: str) -> int:
    ended = freqdp(url, "worker", "--once")
    assert set(ended.document) == set(vars(WorkerStats())), "what was served is said in any case"
    return ended.code


def test_once_says_what_became_of_the_jobs(url: str) -> None:
    assert _once(url) == 0, "nothing is due"
    ask(url)
    assert _once(url) == 0
    ask(url, '{"rebuild": true}')
    with opened(url) as other, hold(other, "dataset", 1, "dataset 'd'"):
        assert _once(url) == 6, "put off"
    query(url, "UPDATE freqdp.job_queue SET due_at = now() WHERE state = 'waiting'")
    assert _once(url) == 0
    refused = ask(url, '{"new_draw": true}')
    query(url, SPOILED, refused)
    ask(url)
    assert _once(url) == 4 and state(url, refused) == "refused"
    query(url, SPOILED, ask(url, '{"signature": 3}'))
    vanished = (
        "UPDATE freqdp.job_queue SET attempts = 20, state = 'running', worker_id = 77, "
        "lease_until = now() - interval '1 s' WHERE job_id = %s"
    )
    query(url, vanished, ask(url, '{"signature": 4}'))
    assert _once(url) == 5, "a failure is said before a refusal"


def test_once_ends_when_the_database_is_gone(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not come back: an error, not a wait for ever."""

    def gone(*arguments: Any) -> None:
        raise ConnectionFailed("gone")

    monkeypatch.setattr(jobs, "claim", gone)
    with opened(url) as database, pytest.raises(ConnectionFailed):
        Worker(database, approve_within_limit, lease_s=1).serve(once=True)


def test_once_does_not_report_for_ever(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job is done, but nobody hears of it: one lease for both, and the error is told."""
    ask(url)

    def gone(*arguments: Any, **options: Any) -> None:
        monkeypatch.setattr(jobs, "claim", gone)
        raise ConnectionFailed("gone")

    monkeypatch.setattr(jobs, "finish", gone)
    with opened(url) as database, pytest.raises(ConnectionFailed):
        Worker(database, approve_within_limit, lease_s=1).serve(once=True)


def test_a_claim_that_was_not_heard_of_is_made_again(url: str) -> None:
    """The server has the claim, the answer got lost: the worker may not end as if nothing were due."""
    asked = ask(url)
    with opened(url) as database:
        first = jobs.claim(database, 1, 60.0)
        assert first is not None and first.job_id == asked
        assert jobs.claim(database, 2, 60.0) is None, "somebody else's"
        again = jobs.claim(database, 1, 60.0)
    assert again is not None and (again.job_id, again.attempts) == (asked, 2)


@pytest.mark.parametrize("why", ["told to stop", "lease over"])
def test_a_beat_that_hangs_does_not_keep_the_work(why: str) -> None:
    """A connection to a server that is gone without a word."""
    freed = threading.Event()

    class Hanging:
        def close(self) -> None: ...
        def beat(self, step: object) -> HeartbeatReply:
            freed.wait()
            return HeartbeatReply(held=True, cancelled=False)

    line: Any = Hanging()
    pulse = Heartbeat(line, JobProgress(), 2.0 if why == "lease over" else 600.0)
    try:
        with pytest.raises(WorkInterrupted), pulse:
            pulse.stop_at = time.monotonic() + 0.5 if why == "told to stop" else None
            time.sleep(600)
    finally:
        freed.set()
    assert pulse.reason is (Reason.STOPPED if why == "told to stop" else Reason.LOST)


# --- <dataset>_current and retention -------------------------------------------------------------


def _current(url: str) -> str | None:
    definition = value(url, "SELECT pg_get_viewdef(to_regclass('freqdp_release.d_current'))")
    return None if definition is None else str(definition).split("FROM ")[1].rstrip(";")


def test_current_is_the_newest_private_release(url: str) -> None:
    with opened(url) as database:
        release(database, "d", "a", signature=3)
        assert _current(url) == "freqdp_release.a"
        release(database, "d", "b", signature=4)
        assert _current(url) == "freqdp_release.b"
        release(database, "d", "seeded", signature=4, seed=1)
    assert _current(url) == "freqdp_release.b", "known noise subtracts out"
    query(url, "CREATE VIEW public.mine AS SELECT count(*) FROM freqdp_release.d_current")
    withdraw(url, "b")
    assert _current(url) == "freqdp_release.a"
    assert "public.mine" in withdraw(url, "a")["waits_for"]
    query(url, "DROP VIEW public.mine")
    assert withdraw(url, "a")["waits_for"] is None
    assert _current(url) is None
    versions = query(url, "SELECT name, version FROM freqdp.release ORDER BY 2")
    assert versions == [("a", 1), ("b", 2), ("seeded", 3)]


# --- schedules -----------------------------------------------------------------------------------


def _make_due(url: str) -> None:
    query(
        url,
        "UPDATE freqdp.schedule SET next_at = now() - interval '3 hours' WHERE ended_at IS NULL",
    )


def test_a_schedule_asks_until_the_budget_ends(database_url: str) -> None:
    url = database_url
    make_points(url, "points", POINTS)
    freqdp(url, "dataset", "add", "d", "--from", "world.points", "--object", "object", "--time", "at",
           "--geom", "geom", "--budget", "2").succeeded()  # fmt: skip
    made = freqdp(url, "schedule", "add", "d", "--method", "lg", "--at", "0 3 * * *",
                  "--timezone", "Europe/Brussels", "--keep", "1", "--epsilon", "1").succeeded()  # fmt: skip
    assert made["releases_left"] == 2 and "untouched samples" in made["warning"]
    due = datetime.fromisoformat(made["next_at"])
    assert due > datetime.now(UTC) and due.hour in (1, 2) and due.minute == 0
    freqdp(url, "schedule", "add", "d", "--method", "lg", "--at", "@daily").refused(
        "there is a schedule 'd' already"
    )
    for night in (1, 2, 3):
        query(url, "INSERT INTO world.points SELECT object, at + interval '5 days', geom FROM world.points "
                   "WHERE object = %s", f"o{night}")  # fmt: skip
        _make_due(url)
        served, events = serve(url)
        assert (served.done, served.refused) == ((1, 0) if night < 3 else (0, 1)), events
        assert value(url, "SELECT next_at > now() FROM freqdp.schedule")
    assert query(url, "SELECT name, state FROM freqdp.release ORDER BY 1") == [
        ("d_1", "withdrawn"), ("d_2", "published"),
    ]  # fmt: skip
    (row,) = query(url, "SELECT ended_at IS NOT NULL, ended_reason FROM freqdp.schedule")
    assert row[0] and "spent 2 of 2, remaining 0, short by 1; spent by d_2 (1), d_1 (1)" in row[1]
    assert "-> an administrator can raise it" in row[1] and "--raise 1 --reason TEXT`" in row[1]
    job = query(url, "SELECT state, error FROM freqdp.job ORDER BY job_id DESC LIMIT 1")
    assert job == [("refused", row[1])]
    assert [e["refused"] for e in events if e["action"] == "schedule"] == [row[1]]
    assert "budget" in freqdp(url, "schedule", "list").succeeded()[0]["ended_reason"]
    _make_due(url)
    assert serve(url)[0] == WorkerStats()


def test_unchanged_data_costs_nothing_unless_it_is_drawn_anew(url: str) -> None:
    """A night without a new version says that nothing has changed: --new-draw hides that."""
    for nights, new_draw in ((2, ()), (1, ("--new-draw",))):
        asked = ("schedule", "add", "d", "--method", "lg", "--at", "@hourly", *new_draw)
        freqdp(url, *asked).succeeded()
        for _ in range(nights):
            _make_due(url)
            assert serve(url)[0].done == 1
        freqdp(url, "schedule", "drop", "d").succeeded()
    assert spends(url) == 2
    made = query(url, "SELECT release FROM freqdp.job ORDER BY job_id")
    assert made == [("d_1",), ("d_1",), ("d_2",)]
    assert "ended by" in freqdp(url, "schedule", "list").succeeded()[0]["ended_reason"]
    freqdp(url, "schedule", "drop", "d").refused("no active schedule")


def test_jobs_of_a_schedule_do_not_pile_up(url: str) -> None:
    from freqdp_db.jobs.schedule import fire_due

    freqdp(url, "schedule", "add", "d", "--method", "lg", "--at", "@hourly").succeeded()
    with opened(url) as database:
        _make_due(url)
        assert [f.job_id for f in fire_due(database)] == [1]
        _make_due(url)
        (fired,) = fire_due(database)
    assert fired.job_id is None and "not done yet" in (fired.refused or "")
    assert value(url, "SELECT ended_at FROM freqdp.schedule") is None


# --- operating it --------------------------------------------------------------------------------


def test_behind_a_pooler_it_polls_and_says_so(url: str) -> None:
    with opened(url) as direct:
        listener = Listener(direct)
        assert listener.hears
        listener.close()
    proxy = Proxy(url, poses_as_pooler=True)
    try:
        with worker(proxy.url) as process:
            wait_for(
                lambda: query(url, "SELECT 1 FROM freqdp.worker WHERE NOT listening"), "a worker"
            )
            job = ask(url)
            wait_for(lambda: state(url, job) == "done", "the job, found by looking")
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate()
    finally:
        proxy.close()
    (said,) = (e for line in err.splitlines() if (e := json.loads(line))["action"] == "poll")
    assert said["every_seconds"] == 5.0 and "pooler" in said["reason"]


def test_cut_connections_are_made_anew(url: str) -> None:
    proxy = Proxy(url)
    try:
        with worker(proxy.url) as process:
            wait_for(lambda: query(url, "SELECT 1 FROM freqdp.worker WHERE listening"), "a worker")
            assert proxy.drop_all() > 0
            job = ask(url)
            wait_for(lambda: state(url, job) == "done", "the job")
            assert process.poll() is None
    finally:
        proxy.close()
    assert spends(url) == 1


def test_health_jobs_and_metrics(url: str) -> None:
    freqdp(url, "worker", "--health").refused("no worker on")
    freqdp(url, "jobs", "--job", "7").refused("there is no job 7")
    job = ask(url)
    with opened(url) as database, exposed(database, WorkerStats(done=3), 0) as port:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            text = answer.read().decode()
        assert 'freqdp_jobs{state="waiting"} 1' in text
        assert 'freqdp_worker_jobs_total{result="done"} 3' in text
        assert "freqdp_up 1" in text
        families = {
            line.split()[2]: line.split()[3] for line in text.splitlines() if " TYPE " in line
        }
        assert families == {
            "freqdp_up": "gauge",
            "freqdp_jobs": "gauge",
            "freqdp_oldest_due_job_seconds": "gauge",
            "freqdp_schedules": "gauge",
            "freqdp_schedules_out_of_budget": "gauge",
            "freqdp_worker_jobs_total": "counter",
            "freqdp_worker_busy_seconds_total": "counter",
        }
    serve(url)
    (shown,) = freqdp(url, "jobs").succeeded()
    assert (shown["job_id"], shown["state"], shown["release"]) == (job, "done", "d_1")
    freqdp(url, "jobs", "--cancel", str(job)).refused("is done already")
    query(url, "UPDATE freqdp.worker SET stopped_at = NULL")
    freqdp(url, "worker", "--health").succeeded()
    query(url, "UPDATE freqdp.worker SET seen_at = now() - interval '10 min'")
    freqdp(url, "worker", "--health").refused("no worker on")


def test_metrics_listen_where_they_are_told(url: str) -> None:
    with opened(url) as database:
        for address, reached in (("127.0.0.1", False), ("0.0.0.0", True)):
            with exposed(database, WorkerStats(), 0, address) as port:
                # another address of this machine, as another container would see it
                asked = f"http://127.0.0.2:{port}/metrics"
                with suppress(OSError) if not reached else nullcontext():
                    assert b"freqdp_up" in urllib.request.urlopen(asked).read()
                    assert reached, "the loopback interface's 127.0.0.1 was asked for"


def test_metrics_of_a_database_that_hangs(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks is answered, and one of them at most waits for the database."""
    ended, asked = threading.Event(), []

    def hang(database: Any) -> None:
        asked.append(database)
        ended.wait()

    monkeypatch.setattr(metrics, "count_jobs", hang)
    monkeypatch.setattr(metrics, "_MOST_WAIT_S", 0.1)
    with opened(url) as database, exposed(database, WorkerStats(), 0) as port:
        first = threading.Thread(target=lambda: urllib.request.urlopen(f"http://127.0.0.1:{port}/"))
        first.start()
        wait_for(lambda: asked, "the first question")
        for _ in range(3):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                assert b"freqdp_up 0" in answer.read()
        ended.set()
        first.join()
    assert len(asked) == 1
