"""pg_dump of both schemas and pg_restore elsewhere: releases verify, the chain holds, work goes on."""

from __future__ import annotations

from pathlib import Path

from library import POINTS, build_points, make_points, opened
from servers import run_program
from test_worker import ask, serve, spends
from world import anonymize, freqdp, query, verify, withdraw


def test_dump_and_restore(database_url: str, empty_database_url: str, tmp_path: Path) -> None:
    old, new = database_url, empty_database_url
    with opened(old) as database:
        build_points(database, "d", make_points(old, "points", POINTS))
    ask(old)
    assert serve(old)[0].done == 1
    freqdp(old, "schedule", "add", "d", "--method", "lg", "--at", "@daily").succeeded()
    waiting = ask(old, '{"signature": 4}')
    file = str(tmp_path / "freqdp.dump")
    run_program("pg_dump", "--format=custom", "--schema=freqdp", "--schema=freqdp_release",
         "--schema=world", f"--file={file}", old)  # fmt: skip

    freqdp(new, "init", "--roles").succeeded()
    run_program(
        "pg_restore", "--clean", "--if-exists", "--single-transaction", f"--dbname={new}", file
    )

    assert freqdp(new, "init").succeeded()["changed"] is False
    verify(new, "d_1")
    head = query(new, "SELECT ledger_head FROM freqdp_release.catalog")[0][0]
    freqdp(new, "ledger", "verify", "--head", head).succeeded()
    assert query(new, "SELECT count(*) FROM freqdp_release.d_current") == query(
        old, "SELECT count(*) FROM freqdp_release.d_current"
    )
    query(new, "UPDATE freqdp.schedule SET next_at = now()")
    assert serve(new)[0].done == 2, "the waiting job and the schedule's"
    assert query(new, "SELECT job_id, state, release FROM freqdp.job ORDER BY 1") == [
        (1, "done", "d_1"), (waiting, "done", "d_2"), (waiting + 1, "done", "d_1"),
    ]  # fmt: skip
    assert spends(new) == 2
    privileges = (
        "SELECT relname, coalesce(relacl, acldefault('r', relowner))::text FROM pg_class "
        "WHERE relkind IN ('r', 'p', 'v') "
        "AND relnamespace = 'freqdp'::regnamespace AND relname !~ '_[0-9]+$' ORDER BY 1"
    )
    assert query(new, privileges) == query(old, privileges)


def test_restored_without_the_points_of_interest(
    database_url: str, empty_database_url: str, tmp_path: Path
) -> None:
    """They are no part of freqdp's schemas: whoever wants to replay the release is told."""
    old, new = database_url, empty_database_url
    with opened(old) as database:
        build_points(database, "d", make_points(old, "points", POINTS))
    query(old, "CREATE TABLE world.poi AS SELECT geom, 'c' || ctid::text AS kind FROM world.points")
    points = ("--poi", "world.poi", "--category", "kind", "--k", "2", "--l", "1", "--t", "1")
    anonymize(old, "d", "klt", *points)
    file = str(tmp_path / "freqdp.dump")
    schemas = ("--schema=freqdp", "--schema=freqdp_release")
    run_program("pg_dump", "--format=custom", *schemas, f"--file={file}", old)
    freqdp(new, "init", "--roles").succeeded()
    run_program(
        "pg_restore", "--clean", "--if-exists", "--single-transaction", f"--dbname={new}", file
    )
    for command in (("release", "verify", "d_1"), ("evaluate", "d_1")):
        refusal = freqdp(new, *command).refused("'d_1'", "cannot be read any more", "'world'")
        assert "bring the table or view back" in refusal["remedy"]
    withdraw(new, "d_1")
