"""Asking in SQL: refused at the call what Python would refuse, for those who may ask, and nobody else."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from library import build_points, make_points, opened, release
from psycopg import sql
from world import as_role

from freqdp_db.db import schema
from freqdp_db.db.connection import Database
from freqdp_db.db.jobs import as_json, claim, request_release
from freqdp_db.errors import FreqdpError
from freqdp_db.release.request import parse_job

POINTS = [
    (f"o{n % 6}", 60.0 * n, 37.0 * (n * 7 % 40), 53.0 * (n * 3 % 30)) for n in range(240)
]  # fmt: skip

# One option at a time, as JSON text: what is acceptable and what is not. Both sides judge all of them.
VALUES = {
    "epsilon_global": ["0.5", "1", "1e-9", "1e-10", "0", "-1", "1000", "1000.1", "1e3", '"1"',
                       "true", "[1]", "null", "0.1234567890", "100e-10", "1e400"],
    "epsilon_local": ["0.25", "2", "0.000000001", "0.0000000001", '"x"'],
    "signature": ["1", "10", "10000", "10001", "0", "-3", "10.0", "2.5", '"10"', "true", "1e1"],
    "spread": ["500", "0.5", "500.0", '"paper"', '"Paper"', '"500m"', '"500"', "0", "-1", "1e7",
               "10000001", "1e-9", "1e-10", "false"],
    "time_step": ['"60s"', '"5min"', '"5m"', '"1h"', '"2d"', '"1ms"', '"3us"', '"0.5us"', '"1.5s"',
                  '" 60 s "', '"60"', '"0s"', '"-1s"', '"366d"', '"367d"', '"1.2.3s"', '"."',
                  '"s"', '""', '"1."', '".5s"', "60", '"1 week"', '"\\t60s"', '"60S"',
                  '"0.0000000000000000001s"', '"000000000000000000000060s"'],
    "seed": ["0", "1", "9223372036854775807", "9223372036854775808", "-1", "1.5", '"1"', "true"],
    "as": ['"x"', '"a b"', '""', '"  "', '"\\t\\n"', '"\\u00a0\\u2003"', '"\\u00a0x"', '"catalog"',
           '"Catalog"', '"x_line"', '"x_current"', '"x_trip"', '"x_lines"', "5", '"' + "x" * 55 + '"',
           '"' + "x" * 56 + '"', '"' + "é" * 27 + '"', '"' + "é" * 28 + '"', '"xline"', '"_line"',
           '"../evil"', '"a/b"', '"a\\\\b"', '".hidden"', '"a.b"', '"a\\nb"', '"a\\u007fb"', '"a\\u001fb"',
           '"a\\u0085b"', '"-x"'],
    "new_draw": ["true", "false", '"true"', "1", "null"],
    "rebuild": ["true", "false", "0"],
    "hold": ["true", "false", '"true"', "1", "null"],
    "keep": ["1", "7", "10000", "10001", "0", "1.0", '"7"', "null"],
    "colour": ["1", "null"],
    "epsilon": ["1", "0"],
    "radius": ["500", "0", '"500m"'],
}  # fmt: skip
METHODS = ["lg", "gl", "pure-g", "pure-l", "sc", "rsc", "lg+gl", "LG", "", "lg+", None]
EPSILONS = ["1", "0.000000001", "1.0000000000", "0", "-1", "1000", "1001", "NaN", "Infinity", None]


def _cases() -> Iterator[tuple[str | None, str | None, str]]:
    for method, epsilon in itertools.product(METHODS, EPSILONS):
        yield method, epsilon, "{}"
    for key, values in VALUES.items():
        for value, method in itertools.product(values, ("lg", "pure-g")):
            yield method, None, f'{{"{key}": {value}}}'
    for text in ("[]", "1", '"x"', "null", '{"epsilon_global": 1, "epsilon_local": 2}'):
        yield "lg", None, text
    yield "lg", "1", '{"epsilon_global": 1, "epsilon_local": 2}'
    draw = random.Random(6)
    for _ in range(300):
        keys = draw.sample(sorted(VALUES), draw.randint(2, 6))
        pairs = (f'"{key}": {draw.choice(VALUES[key])}' for key in keys)
        yield draw.choice(METHODS[:6]), draw.choice(EPSILONS), "{" + ", ".join(pairs) + "}"


def _in_python(method: str | None, epsilon: str | None, options: str) -> Any:
    """What the worker makes of it; None if it refuses."""
    given = json.loads(options, parse_float=Decimal)
    if not isinstance(given, dict) or (epsilon is not None and given.get("epsilon") is not None):
        return None
    try:
        exact = {} if epsilon is None else {"epsilon": Decimal(epsilon)}
        if exact and not exact["epsilon"].is_finite():
            return None
        return parse_job({**given, **exact, "method": method})
    except FreqdpError:
        return None


def test_sql_and_python_judge_alike(db: Database) -> None:
    accepted = refused = 0
    with db.open_connection(autocommit=True) as connection:
        for method, epsilon, options in _cases():
            # jsonb writes numbers in its own way: 1e1 is 10 to whoever reads it
            ((options,),) = connection.execute("SELECT %s::jsonb::text", [options]).fetchall()
            expected = _in_python(method, epsilon, options)
            try:
                row = connection.execute(
                    "SELECT freqdp.request_document(%s, %s::numeric, %s::jsonb)::text",
                    [method, epsilon, options],
                ).fetchone()
                assert row is not None
                found: Any = parse_job(json.loads(row[0], parse_float=Decimal))
                accepted += 1
            except psycopg.Error as error:
                assert error.sqlstate == "QF001", (method, epsilon, options, str(error))
                assert error.diag.message_hint, (method, epsilon, options)
                found = None
                refused += 1
            assert found == expected, (method, epsilon, options)
    assert accepted > 100 and refused > 100


def test_what_is_asked_comes_back(db: Database) -> None:
    """From a checked request to the document that SQL takes, and back."""
    asked = [
        parse_job(
            {"method": "lg", "epsilon": Decimal("0.000000001"), "time_step": "5min", "keep": 3}
        ),
        parse_job(
            {"method": "gl", "epsilon_global": Decimal("0.3"), "epsilon_local": 2, "seed": 7}
        ),
        parse_job(
            {"method": "pure-l", "spread": Decimal("0.125"), "as": 'a "b"', "new_draw": True}
        ),
        parse_job({"method": "pure-g", "signature": 7, "epsilon": 100, "rebuild": True}),
    ]
    with db.open_connection(autocommit=True) as connection:
        for one in asked:
            document = one.document()
            options = {k: v for k, v in document.items() if k not in ("method", "epsilon")}
            row = connection.execute(
                "SELECT freqdp.request_document(%s, %s::numeric, %s::jsonb)::text",
                [document["method"], document.get("epsilon"), as_json(options)],
            ).fetchone()
            assert row is not None
            assert parse_job(json.loads(row[0], parse_float=Decimal)) == one


@pytest.fixture
def points(database_url: str) -> str:
    """A small dataset `d`, built, with a budget of 1000."""
    with opened(database_url) as database:
        build_points(database, "d", make_points(database_url, "points", POINTS))
    return database_url


def test_what_was_answered_costs_nothing(points: str) -> None:
    """An equal request is accepted although the budget is spent: it draws nothing."""
    options = {"signature": 3, "spread": "12.50", "time_step": "5min"}
    with opened(points) as database:
        release(database, "d", "r", epsilon="1000", **options)
    with psycopg.connect(points, autocommit=True) as connection:
        connection.execute(
            "SELECT freqdp.request_release('d', 'lg', 1000, "
            '\'{"signature": 3, "spread": 12.5, "time_step": "300s"}\')'
        )
        for other in ('"signature": 4', '"signature": 3, "new_draw": true'):
            text = f'{{"spread": 12.5, "time_step": "300s", {other}}}'
            with pytest.raises(psycopg.Error, match="budget"):
                connection.execute(
                    "SELECT freqdp.request_release('d', 'lg', 1000, %s::jsonb)", [text]
                )


def test_a_runner_asks_and_forges_nothing(points: str) -> None:
    with psycopg.connect(as_role(points, "runner"), autocommit=True) as runner:
        row = runner.execute("SELECT freqdp.request_release('d', 'lg', 1.5)").fetchone()
        assert row == (1,)
        assert runner.execute(
            "SELECT state, asked_by = session_user, epsilon, attempts FROM freqdp.job"
        ).fetchall() == [("waiting", True, Decimal("1.5"), 0)]
        assert runner.execute("SELECT * FROM freqdp.progress").fetchall() == []
        for statement in (
            "UPDATE freqdp.job_queue SET asked_by = 'somebody'",
            "UPDATE freqdp.job_queue SET request = '{}'",
            "DELETE FROM freqdp.job_queue",
            "INSERT INTO freqdp.job_queue (dataset_id, request, asked_by) VALUES (1, '{}', 'x')",
            "UPDATE freqdp.schedule SET created_by = 'somebody'",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                runner.execute(statement.encode())


def test_cancel(points: str) -> None:
    with psycopg.connect(points, autocommit=True) as connection, opened(points) as database:

        def cancel(job: int | None) -> Any:
            row = connection.execute("SELECT freqdp.cancel_job(%s)", [job]).fetchone()
            assert row is not None
            return row[0]

        with database.begin() as asking:
            first = request_release(asking, "d", {"method": "lg"})
            second = request_release(asking, "d", {"method": "gl"})
        assert cancel(first) == "cancelled"
        with pytest.raises(psycopg.Error, match="job 1 is cancelled already"):
            cancel(first)
        claimed = claim(database, 7, 60.0)
        assert claimed is not None and claimed.job_id == second and not claimed.cancelled
        assert cancel(second) == "cancelling"
        states = connection.execute("SELECT job_id, state FROM freqdp.job ORDER BY 1").fetchall()
        assert states == [(first, "cancelled"), (second, "cancelling")]


def test_notices_carry_the_name_of_the_schema(empty_database_url: str) -> None:
    """Also one that needs quoting: two installations in a database do not wake each other."""
    own = {"schema": 'The "own"; -- Jobs', "release_schema": "Jobs out"}
    url = empty_database_url
    with opened(url, **own) as database:
        schema.upgrade(database, create_roles=False)
        build_points(database, "d", make_points(url, "points", POINTS))
        with psycopg.connect(url, autocommit=True) as listening:
            listening.execute(sql.SQL("LISTEN {}").format(sql.Identifier(own["schema"] + "_job")))
            with database.begin() as connection:
                request_release(connection, "d", {"method": "lg"})
            assert [n.channel for n in listening.notifies(timeout=300, stop_after=1)] == [
                own["schema"] + "_job"
            ]
