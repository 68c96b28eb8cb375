"""`release report --evidence`: the page for a data protection officer."""

from __future__ import annotations

from pathlib import Path

from servers import clone_of, filled_once
from world import anonymize, freqdp, report


def _release(url: str) -> None:
    period = ("--region", "4.26,50.79,4.44,50.91", "--period", "2024-03-04/2024-03-06")
    freqdp(url, "dataset", "set", "city", *period).succeeded()
    asked = ("--zones", "grid:1km", "--bins", "hour-of-day")
    anonymize(url, "city", "counts", *asked, "--as", "counted")


counted_db = filled_once("counted", _release, "city_r_db")
released = clone_of("counted_db")


def _page(url: str, name: str, folder: Path) -> str:
    return " ".join(report(url, name, folder, "--evidence").split())


def test_a_release_without_a_guarantee_for_persons(released: str, tmp_path: Path) -> None:
    unmeasured = _page(released, "r", tmp_path)
    assert "Nothing is proved for one object with its data." in unmeasured
    assert "This release has not been measured." in unmeasured
    assert "counted: counts (counts), readable by analysts" in unmeasured
    freqdp(released, "evaluate", "r").succeeded()
    measured = _page(released, "r", tmp_path)
    assert "has not been measured" not in measured
    assert "Each trajectory is the record of one object." in measured
    assert "Measured, not proved: linked to the right trajectory" in measured
    assert "By measurement on the original data, the strongest of" in measured


def test_a_release_with_one(released: str, tmp_path: Path) -> None:
    page = _page(released, "counted", tmp_path)
    assert page.count("No, within the bound") == 3, "all three questions"
    assert "Nothing is proved for one object" not in page
    assert "r: lg (edited), readable by analysts" in page
