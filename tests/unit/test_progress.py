"""What a person who waits is told."""

from __future__ import annotations

import io
import itertools
import re
import threading
from collections.abc import Iterator
from itertools import pairwise

import pytest
from rich.console import Console

from freqdp_db.cli import console as shown
from freqdp_db.cli.console import TimeLeft, in_words
from freqdp_db.progress import Within


def _said(shares: Iterator[tuple[float, float]]) -> list[tuple[float, float]]:
    """The guesses of the whole duration, with when they were said."""
    left = TimeLeft()
    found = ((elapsed, left.seconds(share, 1.0, elapsed)) for elapsed, share in shares)
    return [(elapsed, elapsed + rest) for elapsed, rest in found if rest is not None]


def test_even_work_is_guessed_well() -> None:
    said = _said((t, t / 100) for t in range(1, 100))
    assert len(said) > 90
    assert all(abs(guess - 100) < 1e-6 for _, guess in said)


@pytest.mark.parametrize(
    "share",
    [
        lambda t: (t / 100) ** 3,  # slow first
        lambda t: 1 - (1 - t / 100) ** 3,  # fast first
        lambda t: t // 10 / 10,  # in bursts
        lambda t: 0.9 * t / 10 if t < 10 else 0.9 + 0.1 * (t - 10) / 90,  # one long end
    ],
)
def test_uneven_work_gives_no_guess_that_jumps(share: object) -> None:
    assert callable(share)
    said = _said((t, share(t)) for t in range(1, 100))
    for (then, earlier), (now, later) in pairwise(said):
        # it falls silent before it changes its mind
        assert now > then + 1 or max(later / earlier, earlier / later) < 1.2


def test_of_a_few_large_pieces_nobody_knows_how_long_the_last_one_takes() -> None:
    left = TimeLeft()
    said = []
    for second in range(1, 200):
        done = min(second // 10, 12)  # 12 of 13 pieces in two minutes; the last one takes long
        said.append((second, left.seconds(done, 13, float(second))))
    assert any(rest is not None for second, rest in said if second <= 120)
    assert all(rest is None for second, rest in said if second > 135)


def test_there_is_never_less_than_nothing_left() -> None:
    left = TimeLeft()
    assert left.seconds(5, 10, 10.0) is None
    assert left.seconds(10, 10, 20.0) is None
    assert left.seconds(11, 10, 21.0) is None
    assert left.seconds(3, None, 21.0) is None
    assert in_words(0.2) == "a few seconds left"
    assert (in_words(44), in_words(130), in_words(9000)) == (
        "about 40 s left", "about 2 min left", "about 2.5 h left",
    )  # fmt: skip


def test_long_work_that_says_nothing_has_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(0, 10)
    monkeypatch.setattr(shown.time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(shown, "_SECONDS_BETWEEN_LINES", 1e6)
    out = io.StringIO()
    progress = shown.PlainProgress(Console(file=out, width=200))
    with progress.stage("metrics", 3, "metrics") as stage:
        stage.advance(1)
        with progress.stage("exposure"):
            progress.tell_innermost()
            progress.tell_innermost()
    progress.tell_innermost()
    lines = out.getvalue().splitlines()
    assert [line.split()[0] for line in lines] == ["exposure"] * 3 + ["metrics"], (
        "nothing is said of a stage that has ended"
    )
    for line in lines[:2]:
        assert re.fullmatch(r"exposure +working +\d+\.00 s", line)


def test_somebody_tells_until_the_last_stage_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown, "_SECONDS_BETWEEN_LINES", 0.001)
    progress, told = shown.PlainProgress(Console(file=io.StringIO())), threading.Event()
    monkeypatch.setattr(progress, "tell_innermost", told.set)
    with progress.stage("metrics"):
        assert told.wait(300)


def test_a_rate_of_nothing_a_second_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, *[10.0] * 20])
    monkeypatch.setattr(shown.time, "monotonic", lambda: next(clock))
    count = shown.Count("tried", None, "candidates")
    count.advance(2)
    assert count.rate() == ""
    count.advance(12_343)
    assert (count.rate(), count.amount()) == ("1,234/s", "12,345 candidates")


def test_a_quick_stage_has_one_line() -> None:
    out = io.StringIO()
    progress = shown.PlainProgress(Console(file=out, width=200))
    with progress.stage("quick") as stage:
        stage.advance(1)
    assert len(out.getvalue().splitlines()) == 1


def test_stages_within_a_stage_are_equal_parts_of_it() -> None:
    told: list[int] = []

    class Outer:
        def advance(self, amount: int) -> None:
            told.append(amount)

        def total(self, amount: int) -> None:
            raise AssertionError("its total is known")

    inner = Within(Outer(), total=100, parts=3)
    with inner.stage("one", 7) as stage:
        for _ in range(7):
            stage.advance(1)
    assert sum(told) == 33
    with inner.stage("two", 10) as stage:
        stage.advance(99)
    with inner.stage("three") as stage:
        stage.total(4)
        stage.advance(2)
    assert sum(told) == 33 + 33 + 16
