"""`freqdp recommend` on a small city: what it answers and writes, and that it leaves no trace."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from servers import clone_of
from world import freqdp, query, try_only, value, written

from freqdp_db.cli import main

city = clone_of("city_db", scope="module")


def test_it_answers_with_a_command_that_works(
    city: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = ("lg", "cut", "lg+cut", "swap")
    try_only(monkeypatch, *tried, "strict, epsilon 2", "points, hour of day only")
    before = written(city)
    ask = ("recommend", "city", "--objects", "16", "--minutes", "30", "--risk", "20%",
           "--out", str(tmp_path / "r"))  # fmt: skip
    answer = freqdp(city, *ask)
    found = answer.succeeded()
    assert written(city) == before, "nothing is published, spent or stored"
    assert re.search(
        r"Trying \d+ candidates on 13 objects, of which 13 are attacked, with 3 others held out "
        r"\(of 40\): about",
        answer.err,
    )
    assert (found["objects"], found["held_out"], found["objects_in_all"]) == (13, 3, 40)
    by_label = {c["label"]: c for c in found["candidates"]}
    assert {*tried, "points, hour of day only"} == set(by_label)
    for candidate in by_label.values():
        assert 0 <= candidate["usefulness"] <= 1 and 0 <= candidate["risk"] <= 1
        assert candidate["risk"] <= candidate["risk_high"] and candidate["trials"] in (1, 2, 3)
        assert candidate["meets"] == (
            candidate["risk_high"] <= 0.2 and candidate["half_high"] <= 0.2
        )
        assert candidate["attacker"].startswith("one who ")
    assert by_label["lg"]["risk"] > by_label["lg+cut"]["risk"], "unlinking protects"
    # swapping moves nobody, and its clock leaves out a third of the samples of this little city
    assert by_label["swap"]["usefulness"] > 0.6
    # without public facts there is no guarantee, and how to get one is said
    (left,) = (left for left in found["left_out"] if "strict" in left["label"])
    assert "freqdp dataset set city --region" in left["reason"]
    assert left["reason"] in found["guarantee"]
    assert "no measurement replaces a guarantee" in found["guarantee"]
    assert found["command"].startswith("freqdp anonymize city --method ")
    page = Path(found["file"])
    assert page == (tmp_path / "r" / "recommendation.html").resolve()
    assert found["command"] in page.read_text()
    freqdp(city, *ask).refused("recommendation.html")
    freqdp(city, *found["command"].split()[1:]).succeeded()


def test_it_keeps_the_time_and_says_what_was_left_out(city: str, tmp_path: Path) -> None:
    found = freqdp(
        city, "recommend", "city", "--objects", "8", "--minutes", "0.00001", "--out", str(tmp_path)
    ).succeeded()  # fmt: skip
    assert [c["label"] for c in found["candidates"]] == [
        "points, cells of 500 m and hours of the day, at most 70 % one object's"
    ]
    assert any(
        "lg+cut" in left["label"] and left["reason"].startswith("no time left")
        for left in found["left_out"]
    )


def test_a_release_that_exposes_says_so_once(city: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = (
        "Risk: in a release of this kind, anyone who knows a few of a person's positions can usually "
        "re-identify that person. Which method avoids that: freqdp recommend city"
    )

    def said(*arguments: str) -> list[str]:
        assert main.run([*arguments, "--dsn", city]) == 0
        return capsys.readouterr().out.splitlines()

    for kind, last in (("lg", True), ("cut", False)):
        assert (said("plan", "city", "--method", kind)[-1] == line) is last
    # beside what another test unlinked, it would be refused
    for (other,) in query(city, "SELECT name FROM freqdp_release.catalog WHERE kind = 'unlinked'"):
        said("release", "withdraw", other)
    name = f"exposed{value(city, 'SELECT count(*) FROM freqdp.release')}"
    made = said("anonymize", "city", "--method", "lg", "--epsilon", "0.5", "--as", name)
    assert made.count(line) == 1
    # answered before: said before
    assert line not in said("anonymize", "city", "--method", "lg", "--epsilon", "0.5", "--as", name)
    assert line not in said(
        "anonymize", "city", "--method", "lg", "--epsilon", "0.5", "--as", name, "--json"
    )
