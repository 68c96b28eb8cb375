"""Plain progress: nobody waits for long without a line."""

from __future__ import annotations

import io
import time

from rich.console import Console

from freqdp_db.cli.progress import PlainProgress

_PATIENCE = 0.15


def test_a_stage_that_says_nothing_is_spoken_for() -> None:
    out = io.StringIO()
    progress = PlainProgress(Console(file=out, width=200), _PATIENCE)
    with progress.stage("outer", 3, "parts"), progress.stage("inner"):
        time.sleep(5 * _PATIENCE)
    lines = out.getvalue().splitlines()
    running = [line for line in lines if "so far" in line]
    assert 2 <= len(running) <= 6
    assert all(line.startswith("inner") for line in running), "the innermost stage is meant"
    assert [line.split()[0] for line in lines if "so far" not in line] == ["inner", "outer"]
    # once nothing runs, nothing is said
    said = out.getvalue()
    time.sleep(3 * _PATIENCE)
    assert out.getvalue() == said


def test_a_stage_that_speaks_is_left_alone() -> None:
    out = io.StringIO()
    progress = PlainProgress(Console(file=out, width=200), 30.0)
    with progress.stage("quick") as stage:
        stage.advance(1)
    assert len(out.getvalue().splitlines()) == 1
