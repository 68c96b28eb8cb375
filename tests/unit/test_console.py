"""Tables and sentences on terminals of any width."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from freqdp_db.cli.console import Session
from freqdp_db.settings import Settings

HEADERS = ["release", "rows", "said"]
ROWS = [["vans_1", 96_000, "held until it is approved"], ["vans_2", None, "granted"]]


def _session(width: int, *, terminal: bool = True) -> tuple[Session, io.StringIO]:
    written = io.StringIO()
    out = Console(file=written, force_terminal=terminal, width=width, color_system=None)
    return Session(Settings(), json=False, command="", out=out), written


@pytest.mark.parametrize(("width", "terminal"), [(80, True), (20, False)])
def test_a_table_has_aligned_columns(width: int, terminal: bool) -> None:
    session, written = _session(width, terminal=terminal)
    session.table(HEADERS, ROWS)
    assert written.getvalue().splitlines() == [
        "release    rows  said",
        "vans_1   96,000  held until it is approved",
        "vans_2        -  granted",
    ]


def test_a_narrow_terminal_gets_a_block_for_each_row() -> None:
    session, written = _session(32)
    session.table(HEADERS, ROWS)
    assert [line.rstrip() for line in written.getvalue().splitlines()] == [
        "release  vans_1",
        "rows     96,000",
        "said     held until it is",
        "         approved",
        "",
        "release  vans_2",
        "rows     -",
        "said     granted",
    ]


def test_a_narrow_terminal_folds_the_longest_text() -> None:
    session, written = _session(50)
    said = "not for analysts until a curator has approved it"
    session.table(HEADERS, [["vans_1", 96_000, said], ["vans_2", None, "granted"]])
    assert written.getvalue().splitlines() == [
        "release    rows  said",
        "vans_1   96,000  not for analysts until a curator",
        "                 has approved it",
        "vans_2        -  granted",
    ]


def test_an_empty_table_has_its_header() -> None:
    session, written = _session(80)
    session.table(HEADERS, [])
    assert written.getvalue() == "release  rows  said\n"


def test_sentences_break_between_words_and_commands_do_not() -> None:
    session, written = _session(20)
    session.print("Anonymized trajectories are published.")
    session.print("Next: freqdp release approve vans_1, then go on.")
    session.pairs([("a", "two words and some more of them"), ("long", "1  2")])
    assert [line.rstrip() for line in written.getvalue().splitlines()] == [
        "Anonymized",
        "trajectories are",
        "published.",
        "Next:",
        "freqdp release approve vans_1,",
        "then go on.",
        "a     two words and",
        "      some more of",
        "      them",
        "long  1  2",
    ]
