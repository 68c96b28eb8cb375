"""Every release is what a brute force in SQL finds, and the brute force finds what is wrong."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import brute_edits
import brute_force
import brute_targets
import drawn_times
import psycopg
import pytest
import replayed_states
from brute_edits import make_ways, nearest_trajectories
from brute_force import check_release
from library import Point, build_city, build_points, load_city, make_points, opened, release
from replayed_states import Findings, Replay
from servers import clone_of, filled_once

from freqdp_db.db.connection import Database

METHODS = [
    ("lg", "500"), ("lg", "paper"), ("gl", "500"), ("gl", "paper"),
    ("pure-l", "500"), ("pure-l", "paper"), ("pure-g", "500"),
]  # fmt: skip


def _build(url: str) -> None:
    """A small city, built twice: fine, and so coarse that most comparisons are ties."""
    load_city(url, objects=30, days=1)
    with opened(url) as database:
        build_city(database, "fine", "grid:100")
        build_city(database, "coarse", "grid:1000")
        release(database, "fine", "victim", epsilon="1", seed=3)


fine_and_coarse_db = filled_once("fine_and_coarse", _build)
fine_and_coarse = clone_of("fine_and_coarse_db", scope="module")


@pytest.fixture
def city(fine_and_coarse: str) -> Iterator[Database]:
    with opened(fine_and_coarse) as database:
        yield database


def _check(database: Database, name: str, **options: Any) -> Findings:
    with psycopg.connect(database.conninfo) as connection:
        findings = check_release(connection, name, **options)
        connection.rollback()
    return findings


def _checked(findings: Findings, what: str) -> int:
    return sum(count for name, count in findings.checked.items() if what in name)


@pytest.mark.parametrize("dataset", ["fine", "coarse"])
@pytest.mark.parametrize(("method", "spread"), METHODS)
def test_city(city: Database, dataset: str, method: str, spread: str) -> None:
    name = f"{dataset}_{method}_{spread}".replace("-", "_")
    # a small epsilon: many edits, K beyond the number of segments, emptied trajectories
    signature, epsilon = (10, "1") if dataset == "fine" else (4, "0.1")
    options = {} if method == "pure-g" else {"spread": spread}
    release(
        city, dataset, name, method=method, seed=7, signature=signature, epsilon=epsilon,
        **options,
    )  # fmt: skip
    findings = _check(city, name)
    assert findings.wrong == 0, "\n".join(findings.lines())
    if method != "pure-l":
        assert _checked(findings, "tf targets met") > 30
        assert _checked(findings, "global deletions") > 20
        assert _checked(findings, "global insertion queries") > 20
    if method != "pure-g":
        assert _checked(findings, "pf targets met") > 150
        assert _checked(findings, "local deletions") > 150
        assert _checked(findings, "local insertion queries") > 50


def test_private_noise_and_coarse_times(city: Database) -> None:
    release(city, "fine", "minutes", epsilon="2", time_step="5min")
    findings = _check(city, "minutes")
    assert findings.wrong == 0, "\n".join(findings.lines())


# --- worlds that are all corner -----------------------------------------------------------------


def _walk(name: str, steps: int, gap_s: float = 60, y: float = 0) -> list[Point]:
    return [(name, i * gap_s, 100 * i, y) for i in range(steps)]


CORNERS: dict[str, list[Point]] = {
    "one object": _walk("a", 30),
    "one sample": [("a", 0, 0, 0)],
    "one sample each": [(f"o{i}", i, 100 * (i % 5), 0) for i in range(12)],
    "one place": [(f"o{i}", 7 * j + i, 0, 0) for i in range(6) for j in range(8)],
    # all equally far from all: every choice is by released id
    "mirrored": [
        point for i in range(8) for point in _walk(f"o{i}", 8, y=(-1) ** i * 100 * (i // 2))
    ],
    # a sample every second at a step of one second: no segment has a free time step
    "no free step": [point for i in range(6) for point in _walk(f"o{i}", 12, 1, y=50 * i)],
    "some free steps": [
        (f"o{i}", j + (100 if j > 6 else 0) + (7 if j > 9 else 0), 100 * j, 30 * i)
        for i in range(6)
        for j in range(14)
    ],
    "fewer places than 2m": [
        point for i in range(10) for point in _walk(f"o{i}", 1 + i % 4, y=250 * (i % 3))
    ],
    # microseconds: gaps of one leave no time between their ends
    "microseconds": [
        (f"o{i}", j * 1e-6 + (j // 5) * 0.37, 40 * j, 11 * i) for i in range(5) for j in range(15)
    ],
    "before 2000": [
        (f"o{i}", -900_000_000 + 17 * j, 100 * ((i * j) % 7), 100 * (j % 3))
        for i in range(7)
        for j in range(15)
    ],
}


@pytest.mark.parametrize("what", CORNERS)
def test_corners(database_url: str, what: str) -> None:
    relation = make_points(database_url, "corner", CORNERS[what])
    with opened(database_url) as database:
        build_points(database, what, relation)
        for seed, (method, spread) in enumerate(product(("lg", "gl"), ("150", "paper"))):
            name = f"corner_{seed}"
            release(
                database, what, name, method=method, spread=spread, seed=seed,
                signature=2, epsilon="0.2",
            )  # fmt: skip
            findings = _check(database, name)
            assert findings.wrong == 0, f"{method} {spread}:\n" + "\n".join(findings.lines())


# --- the checker itself -------------------------------------------------------------------------

TAMPERED: dict[str, tuple[str, str]] = {
    "a tf target": ("UPDATE freqdp.tf_target SET target = target + 1 WHERE {one}", "tf targets"),
    "a pf target": ("UPDATE freqdp.pf_target SET target = target + 1 WHERE {one}", "pf targets"),
    "a dropped candidate": ("DELETE FROM freqdp.tf_target WHERE {one}", "candidates"),
    "a stage": ("UPDATE freqdp.pf_target SET stage = 3 - stage WHERE {one}", "point lists"),
    "a loss of a deletion": (
        "UPDATE freqdp.edit_run SET loss_m[1] = loss_m[1] + 0.002 WHERE {one} AND operation = 'd'",
        "deletions",
    ),
    "a loss of an insertion": (
        "UPDATE freqdp.edit_run SET loss_m[1] = loss_m[1] + 0.002 WHERE {one} AND operation = 'i'",
        "insertion queries",
    ),
    "a place of an insertion": (
        "UPDATE freqdp.edit_run SET seq[1] = seq[1] + 1 WHERE {one} AND operation = 'i'",
        "insertion queries",
    ),
    "a time": (
        "UPDATE freqdp_release.victim SET sampled_at = sampled_at + interval '1 microsecond' WHERE seq = 2",
        "released rows",
    ),
    "a place": (
        "UPDATE freqdp_release.victim SET geom = ST_Translate(geom, 0.00001, 0) WHERE seq = 2",
        "released rows",
    ),
    "a row too few": ("DELETE FROM freqdp_release.victim WHERE seq = 3", "released rows"),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_tampering_is_found(city: Database, what: str) -> None:
    statement, found_by = TAMPERED[what]
    with psycopg.connect(city.conninfo) as connection:
        ((release_id,),) = connection.execute(
            "SELECT release_id FROM freqdp.release WHERE name = %s", ["victim"]
        )
        one = f"release_id = {release_id}"
        changed = connection.execute(statement.format(one=one).encode()).rowcount
        assert changed > 0
        findings = check_release(connection, "victim")
        connection.rollback()
    wrong = [name for name, rows in findings.mismatches.items() if rows]
    assert any(found_by in name for name in wrong), findings.lines()


@pytest.mark.parametrize("operation", ["d", "i"])
def test_another_trajectory_is_found(city: Database, operation: str) -> None:
    """Give the edits of one place to a trajectory that was not chosen: all counts still hold."""
    with psycopg.connect(city.conninfo) as connection:
        ((place, chosen),) = connection.execute(
            "SELECT e.location_id, e.trajectory_id FROM freqdp.edit_run e "
            "JOIN freqdp.release r USING (release_id) WHERE r.name = 'victim' "
            "AND e.step = 2 AND e.operation = %s ORDER BY 1, 2 LIMIT 1",
            [operation],
        )
        # for a deletion one that has the place, for an insertion one that lacks it
        ((other,),) = connection.execute(
            "SELECT k.trajectory_id FROM freqdp.release_key k JOIN freqdp.release r "
            "USING (release_id) WHERE r.name = 'victim' AND (%(operation)s = 'd') = EXISTS ("
            "  SELECT FROM freqdp.sample s WHERE s.build_id = r.build_id"
            "  AND s.location_id = %(place)s AND s.trajectory_id = k.trajectory_id) "
            "AND NOT EXISTS (SELECT FROM freqdp.edit_run e WHERE e.release_id = r.release_id "
            "  AND e.step = 2 AND e.location_id = %(place)s AND e.operation = %(operation)s"
            "  AND e.trajectory_id = k.trajectory_id) ORDER BY k.released_id DESC LIMIT 1",
            {"place": place, "operation": operation},
        )
        connection.execute(
            "UPDATE freqdp.edit_run e SET trajectory_id = %s FROM freqdp.release r "
            "WHERE r.release_id = e.release_id AND r.name = 'victim' AND e.step = 2 "
            "AND e.location_id = %s AND e.operation = %s AND e.trajectory_id = %s",
            [other, place, operation, chosen],
        )
        findings = check_release(connection, "victim")
        connection.rollback()
    what = "global deletions" if operation == "d" else "global insertion queries"
    assert any(rows for name, rows in findings.mismatches.items() if what in name)


def test_circle_gives_the_answer_of_the_full_scan(city: Database) -> None:
    with psycopg.connect(city.conninfo) as connection:
        replay = Replay(connection, "freqdp", "freqdp_release", "victim")
        with replay.step(1):
            pass
        with replay.step(2):
            make_ways(replay)
            places = replay.run("SELECT location_id FROM place ORDER BY location_id LIMIT 12")
            for (place,) in places:
                for k in (1, 9, 30):
                    everything = nearest_trajectories(replay, place, k, radius=1e9)
                    assert nearest_trajectories(replay, place, k, radius=1.0) == everything
        connection.rollback()


def test_script(city: Database) -> None:
    done = subprocess.run(
        [sys.executable, brute_force.__file__, "--dsn", city.conninfo, "--release", "victim",
         "--sample", "5"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 mismatches" in done.stdout
    assert "global insertion queries                      5 checked       0 wrong" in done.stdout


@pytest.mark.parametrize(
    "module", [brute_force, brute_edits, brute_targets, drawn_times, replayed_states]
)
def test_brute_force_imports_nothing_of_the_product(module: Any) -> None:
    tree = ast.parse(Path(module.__file__).read_text())
    imported = {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
        )
    }
    assert not any(name.startswith("freqdp_db") for name in imported), imported
