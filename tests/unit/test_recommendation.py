"""What `recommend` chooses, on made-up numbers around every threshold, and what it says and draws."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sides import side_of
from svg_texts import require_readable, texts
from synthetic_world import small_city

from freqdp_db.dataset.text_values import parse_share
from freqdp_db.errors import BadInput
from freqdp_db.evaluation.recommendation.choosing import (
    LADDERS,
    PURPOSES,
    TRIALS,
    Candidate,
    Climb,
    LeftOut,
    MethodToTry,
    Purpose,
    Recommendation,
    choose,
    contender,
    frontier,
    grid_for,
    guaranteed,
    is_out,
    judged,
    kept,
    learns,
    never_tried,
    upper_end,
    within,
)
from freqdp_db.evaluation.recommendation.recommend import (
    KIND_WORDS,
    LABELS,
    NAMED,
    SHAPES,
    WIDTH,
    TimeBudget,
    draw_frontier,
    line_through,
    objects_within,
    split,
    write_page,
)
from freqdp_db.methods.contract import KINDS
from freqdp_db.methods.registry import METHODS
from freqdp_db.privacy.guarantee import ProtectedUnit

BIKE = ProtectedUnit("bike", "fleet.ride")
LIMIT = 0.05


def made_up(
    label: str, risk: float, usefulness: float | None, half: float = 0.0, kind: str = "unlinked",
    epsilon: str | None = None,
) -> Candidate:  # fmt: skip
    return Candidate(
        label, label.split(",")[0], "does something", kind, {}, risk, half, risk, half, TRIALS,
        "exposure.x.4",
        "one who knows 4 exact samples (place and time) of somebody", usefulness,
        usefulness is not None and within(risk, half, LIMIT), epsilon, "Words.", {},
        f"freqdp anonymize city --method {label.split(',')[0]}", 1.0,
    )  # fmt: skip


def judge(
    method: str,
    trials: list[dict[str, float]],
    given: dict[str, str] | None = None,
    purpose: str = "density",
) -> Candidate:
    variant = MethodToTry(method, given=given or {})
    return judged(
        variant, variant.request(), trials, PURPOSES[purpose], LIMIT, "command", 1.0, BIKE
    )


def test_the_most_useful_that_meets_the_risk() -> None:
    few, more, risky = made_up("a", 0.01, 0.5), made_up("b", 0.05, 0.8), made_up("c", 0.0501, 0.99)
    found = choose([few, more, risky], LIMIT)
    assert found.recommended is more and found.nearest is None
    assert "within 5 %" in found.why and "most useful of the 2 candidates" in found.why
    assert "c would be more useful (0.99 instead of 0.80), but lets" in found.why


def test_who_is_out_is_not_attacked_further() -> None:
    """What was not tried may only add to the risk, and is said to be missing."""
    values = {"exposure.x.4": 0.04, "exposure.x.4.half": 0.0, "density": 0.1}
    assert not is_out(values, LIMIT)
    assert is_out(values | {"exposure.x.4": 0.0501}, LIMIT)
    assert is_out(values | {"exposure.x.4.half": 0.0501}, LIMIT)
    cut = replace(made_up("a", 0.4, 0.9), complete=False)
    assert (cut.learnt, cut.half_shown) == ("at least 40 %", "at least 0 %")
    assert cut.risk_shown == "at least 40 %", "what is more is not put in words"
    met = made_up("b", 0.01, 0.5)
    assert "lets an attacker learn at least 40 %" in choose([cut, met], LIMIT).why
    # it is attacked by all only where it comes nearest of what is all too risky
    assert contender([cut, met], LIMIT) is None
    worse = made_up("c", 0.5, 0.9)
    assert contender([cut, worse], LIMIT) is cut
    # and if there is no time for that, no upper end is named
    why = choose([cut, worse], LIMIT).why
    assert "a comes nearest, as far as it was attacked. An attacker, one who knows" in why
    assert "learns at least 40 % of a person's samples on average. Not all attackers were" in why
    assert "tried: it may be more. Do not hand out" in why and "at most" not in why


@pytest.mark.parametrize(
    ("risk", "half", "meets"),
    [(0.05, 0.05, True), (0.0501, 0.0, False), (0.0, 0.0501, False), (0.0, 0.0, True)],
)
def test_both_ways_of_counting_risk_are_limited(risk: float, half: float, meets: bool) -> None:
    assert within(risk, half, LIMIT) is meets
    found = choose([made_up("a", risk, 0.5, half)], LIMIT)
    assert (found.recommended is not None) is meets


def test_about_as_useful_and_less_risky_wins() -> None:
    best, alike = made_up("a", 0.04, 0.60), made_up("b", 0.03, 0.585)
    found = choose([best, alike], LIMIT)
    assert found.recommended is alike
    assert "a is about as useful (0.60 against 0.58) but riskier (4 %)" in found.why
    # a real difference in use is one
    assert choose([best, replace(alike, usefulness=0.575)], LIMIT).recommended is best


def test_nothing_meets_the_risk() -> None:
    far, near = made_up("a", 0.6, 0.9), made_up("b", 0.08, 0.4)
    found = choose([far, near], LIMIT)
    assert found.recommended is None and found.nearest is near
    assert found.why.startswith(
        "No method that was tried keeps the risk at 5 % or less. b comes nearest"
    )
    assert "Do not hand out" in found.why
    # of whom much is learnt counts for nearness as well
    assert choose([made_up("a", 0.06, 0.9, half=0.5), near], LIMIT).nearest is near


def test_the_frontier_is_what_no_other_beats() -> None:
    candidates = [
        made_up("a", 0.01, 0.3), made_up("b", 0.02, 0.3), made_up("c", 0.5, 0.9),
        made_up("d", 0.6, 0.9), made_up("e", 0.04, 0.7), made_up("out", 0.0, None),
        replace(made_up("not attacked further", 0.06, 0.95), complete=False),
    ]  # fmt: skip
    assert [c.label for c in frontier(candidates)] == ["a", "e", "c"]


@pytest.mark.parametrize("purpose", PURPOSES.values())
def test_every_method_is_tried_or_said_not_to_be(purpose: Purpose) -> None:
    tried = {part for method in grid_for(purpose) for part in method.method.split("+")}
    never = {name for names, _ in never_tried(purpose) for name in names.split(", ")}
    assert tried | never == set(METHODS)
    if purpose.name != "histories":
        assert not tried & never


def test_a_guarantee_is_on_a_line_of_its_own() -> None:
    weak = made_up("strict, epsilon 4", 0.0, 0.5, kind="synthetic", epsilon="4")
    strong = made_up("strict, epsilon 1", 0.0, 0.49, kind="synthetic", epsilon="1")
    poor = replace(strong, usefulness=0.4)
    assert guaranteed([made_up("cut", 0.01, 0.9)]) is None
    assert guaranteed([weak, strong]) is strong
    assert guaranteed([weak, poor]) is weak


def test_the_upper_end_keeps_the_limit() -> None:
    """4.6 % in one trial is no promise of 5 %: another draw showed 5.2 %."""
    values = {"exposure": 0.046, "exposure.x.4": 0.046, "exposure.x.4.half": 0.0, "density": 0.0}

    def of(*risks: float) -> Candidate:
        return judge("cut", [values | {"exposure.x.4": risk} for risk in risks])

    once, sure, unsure = of(0.046), of(0.046, 0.0462, 0.0458), of(0.046, 0.052, 0.044)
    assert once.risk_high == pytest.approx(1.25 * 0.046) and not once.meets
    # mean and standard deviation by hand: 2.920 * 0.0002 * sqrt(4 / 3)
    assert sure.risk_high == pytest.approx(0.046 + 2.920 * 0.0002 * math.sqrt(4 / 3))
    assert sure.meets and (sure.trials, sure.risk) == (3, pytest.approx(0.046))
    assert unsure.risk < LIMIT < unsure.risk_high and not unsure.meets
    assert (
        "Expect at most 4.7 %" in choose([sure], LIMIT).why
        and "by 3 trials" in choose([sure], LIMIT).why
    )
    # the single trial may keep the limit: it is tried again, and what has been tried enough is not
    assert contender([once], LIMIT) is once
    assert contender([sure], LIMIT) is None and contender([unsure], LIMIT) is None
    useful = replace(once, usefulness=0.9)
    less = replace(sure, usefulness=0.5)
    assert contender([useful, less], LIMIT) is useful
    assert contender([replace(useful, risk=0.06), less], LIMIT) is None
    assert upper_end([0.9]) == 1.0 and upper_end([0.0, 0.0, 0.0]) == 0.0
    # a metric that a trial could not measure is the mean of the others
    trials = [values | {"speed": 3.0}, values, values | {"speed": 5.0}]
    some = judge("cut", trials)
    assert some.numbers["speed"] == 4.0 and some.numbers["density"] == 0.0


def test_risk_of_made_up_trips_is_above_the_control() -> None:
    values = {
        "exposure": 0.6, "exposure.x.4": 0.6, "exposure.x.4.control": 0.5,
        "exposure.x.4.half": 0.2, "exposure.x.4.half.control": 0.05, "exposure.x.4.precision": 0.9,
        "exposure.s.a.full": 0.3, "exposure.s.a.full.control": 0.0, "exposure.s.a.full.half": 0.1,
        "exposure.near.1": 0.0, "exposure.near.1.high": 0.9, "exposure.near.1.half": 0.0,
        "density": 0.0,
    }  # fmt: skip
    # where samples are somebody's, as evaluate counts
    found = judge("cut", [values])
    assert (found.risk, found.half, found.worst) == (0.6, 0.2, "exposure.x.4")
    facts = {"region": "0,0,1,1", "period": "2024-01-01/2024-02-01"}
    found = judge("strict", [values], facts)
    assert (found.risk, found.worst) == (0.3, "exposure.s.a.full")
    assert found.half == pytest.approx(0.15)
    assert found.attacker == "one who compares places, all of them, over the whole period"
    assert (found.usefulness, found.meets, found.person_epsilon) == (1.0, False, "2")
    assert "learns 30 % of a person's samples on average" in learns(found)
    out = judge("strict", [values], facts, purpose="histories")
    assert (out.usefulness, out.meets, out.use_words) == (None, False, "cannot be used for it")


def test_usefulness_is_from_0_to_1() -> None:
    nothing, same = math.log(2), 0.0
    for divergence, number in ((same, 1.0), (nothing, 0.0), (nothing / 4, 0.5), (1.0, 0.0)):
        assert kept(divergence) == pytest.approx(number)
    for name, worst, best in (
        ("density", {"density": nothing}, {"density": same}),
        ("flows", {"flow": 7.0, "flow.f1": 0.0}, {"flow": 0.0, "flow.f1": 1.0}),
        ("trips", dict.fromkeys(("length", "duration", "transitions"), nothing),
         dict.fromkeys(("length", "duration", "transitions"), same)),
        ("histories", {"inf.sym": 1.0}, {"inf.sym": 0.0}),
    ):  # fmt: skip
        assert PURPOSES[name].score(worst) == pytest.approx(0.0)
        assert PURPOSES[name].score(best) == pytest.approx(1.0)


def test_every_candidate_can_be_asked_for() -> None:
    for purpose in PURPOSES.values():
        grid = grid_for(purpose)
        assert len({v.label for v in grid}) == len(grid)
        for variant in grid:
            request = variant.request()
            assert request.grantable and variant.does
            assert "--seed" not in request.command()
    # a guarantee is tried first
    assert all(grid_for(PURPOSES[n])[0].is_for_an_object for n in ("density", "flows", "trips"))


@pytest.mark.parametrize(("objects", "out"), [(4, 1), (20, 4), (31, 6)])
def test_members_and_controls_are_apart(objects: int, out: int) -> None:
    city, _ = small_city(31, 1)
    numbered = replace(city, start=np.arange(len(city), dtype=np.int64))
    sides = split(numbered, objects, 1)
    members, controls = set(sides.members.start), set(sides.controls.start)
    assert (len(members), len(controls)) == (objects - out, out)
    assert not members & controls
    assert sides.attacked.tolist() == list(range(objects - out)), "few are attacked all"
    again = split(numbered, objects, 1)
    assert np.array_equal(again.members.start, sides.members.start)
    assert set(split(numbered, objects, 2).controls.start) != controls


def test_of_many_some_are_attacked() -> None:
    many = side_of([[(0, minute)] for minute in range(2_000)])
    sides = split(many, 1_500, 1)
    assert (len(sides.members), len(sides.controls), len(sides.attacked)) == (1_300, 200, 300)
    assert len(set(sides.attacked.tolist())) == 300 and sides.attacked.max() < 1_300


@pytest.mark.parametrize("rungs", range(6))
def test_a_ladder_is_climbed_to_where_the_limit_lies(rungs: int) -> None:
    """Whatever rung is the first that keeps the limit: it is tried, and so is the one above it."""
    ladder = [MethodToTry("points", given={"share": str(share)}) for share in range(1, rungs + 1)]
    for first in range(rungs + 1):
        climb, tried = Climb(ladder), []
        while (method := climb.next()) is not None:
            tried.append(ladder.index(method))
            climb.tried(method, within=tried[-1] >= first)
        assert len(tried) == len(set(tried)) <= rungs.bit_length()
        assert {n for n in (first - 1, first) if 0 <= n < rungs} <= set(tried)


def test_ladders_show_less_and_less() -> None:
    for name, ladder in LADDERS.items():
        assert len({method.method for method in ladder}) == 1, name
        shares = [float(m.given.get("share", 100)) for m in ladder]
        assert shares == sorted(shares, reverse=True), name


def test_time_is_kept() -> None:
    now = [0.0]
    budget = TimeBudget(10.0, 2.0, {"points, all": 1.0, "strict, all": 6.0}, clock=lambda: now[0])
    cheap, dear, known = MethodToTry("lg"), MethodToTry("strict"), MethodToTry("points")
    assert budget.expected([cheap, dear, known]) == 9.0
    now[0] = 4.0
    assert budget.allows(dear)
    now[0] = 4.1
    assert not budget.allows(dear) and budget.allows(cheap)
    budget.took(cheap, 0.1, complete=False)
    assert budget.expected([cheap]) == 2.0, "what was stopped does not say how long a trial is"
    budget.took(cheap, 10.0, complete=True)
    assert budget.expected([cheap]) == 6.0
    assert not budget.allows(cheap) and budget.allows(known), "of another pace"


def test_paces_are_those_of_what_is_published() -> None:
    """Ends of trips are few samples, whatever else is asked for."""
    paces = [{m.pace for m in LADDERS[name]} for name in ("points", "cells", "ends", "cut")]
    assert [len(pace) for pace in paces] == [1, 1, 1, 1]
    assert paces[0] == paces[1] and paces[2] != paces[3]


@pytest.mark.parametrize(
    ("seconds", "most", "objects"),
    [(1_000, 200, 200), (100, 5_000, 810), (0.1, 5_000, 20), (0.1, 15, 15), (1e12, 91, 91)],
)  # fmt: skip
def test_how_many_fit(seconds: float, most: int, objects: int) -> None:
    alike = 7 * np.arange(1, most + 1)
    assert objects_within(seconds, alike, np.array([23.0, 0.01])) == objects


def test_what_fits_is_reckoned_in_samples() -> None:
    """One of a million samples takes as long as a thousand of a thousand."""
    samples = np.cumsum([1_000] * 100 + [1_000_000] * 900)
    assert objects_within(1.0, samples, np.array([0.0, 1e-5])) == 80
    assert objects_within(400.0, samples, np.array([0.0, 1e-5])) == 130


def test_how_long_more_will_take() -> None:
    """What a trial takes in any case does not grow with it."""
    line = line_through([0.0, 100.0, 400.0], [0.0, 5.0, 6.5])
    assert line @ [1, 400] == pytest.approx(6.5) and line @ [1, 1_000] == pytest.approx(11.375)
    # of one trial alone, all of it may grow; and if the larger one was the quicker one, half of it
    assert line_through([0.0, 100.0], [0.0, 5.0]) @ [1, 200] == pytest.approx(10.0)
    assert line_through([0.0, 100.0, 400.0], [0.0, 9.0, 8.0]) @ [1, 800] == pytest.approx(12.0)


@pytest.mark.parametrize(
    ("text", "risk"),
    [("5%", 0.05), (" 5 % ", 0.05), ("0.05", 0.05), ("0.1%", 0.001), ("100%", 1.0),
     *((bad, None) for bad in ("5", "1", "0", "-5%", "101%", "0.05%", "nan", "some", "", "%"))],
)  # fmt: skip
def test_risks(text: str, risk: float | None) -> None:
    if risk is not None:
        assert parse_share("--risk", text) == risk
        return
    with pytest.raises(BadInput, match=r"risk .* is not a share between 0\.1% and 100%"):
        parse_share("--risk", text)


CROWD = [
    made_up(f"m{n}, some variant_name", 0.04 + 0.002 * (n % 3), 0.7 + 0.001 * n) for n in range(12)
]


def test_every_kind_has_a_shape_of_its_own() -> None:
    assert set(SHAPES) == set(KIND_WORDS) == set(KINDS) and len(set(SHAPES.values())) == 5


# numbers of a city's recommendation: clusters below the limit, at its words, and above it
CITY = [
    made_up("cut", 0.049, 0.67), made_up("cut, short pieces", 0.041, 0.62),
    made_up("lg+swap+cut", 0.042, 0.62), made_up("lg+cut", 0.043, 0.62),
    made_up("lg+swap+cut, short pieces", 0.037, 0.58), made_up("lg+cut, short pieces", 0.039, 0.58),
    made_up("swap, wide meetings", 0.895, 1.0), made_up("swap", 0.899, 1.0),
    made_up("lg+swap, wide meetings", 0.498, 0.69), made_up("lg", 0.627, 0.69, kind="edited"),
]  # fmt: skip


def _crowds() -> list[list[Candidate]]:
    kinds = list(KINDS)
    crowd = [replace(c, kind=kinds[n % 4]) for n, c in enumerate(CROWD)]
    crowd += [made_up("far", 0.9, 1.0, kind="edited"), made_up("none", 0.0, 0.2, kind="synthetic")]
    crowds = [
        crowd,
        [replace(c, complete=c.meets) for c in CITY],
        [replace(c, complete=False) for c in CITY],
        [replace(c, usefulness=(c.usefulness or 0) - 0.08) for c in CITY],
    ]
    for seed in range(8):
        rng = np.random.default_rng(seed)
        middles = rng.uniform((0.0, 0.3), (0.2, 1.0), (4, 2))
        crowds.append([
            made_up(f"lg+swap{'+cut' * (n % 2)}{', short pieces' * (n % 3 == 0)}{n}",
                    float(abs(middles[n % 4, 0] + rng.normal(0, 0.01))),
                    float(np.clip(middles[n % 4, 1] + rng.normal(0, 0.01), 0, 1)))
            for n in range(13)
        ])  # fmt: skip
    return crowds


@pytest.mark.parametrize("crowd", _crowds())
def test_every_candidate_has_its_label_and_no_label_lies_on_another(crowd: list[Candidate]) -> None:
    svg = draw_frontier("T", crowd, crowd[0], LIMIT, "it")
    require_readable(svg)
    there = [text.words for text in texts(svg)]
    for number, candidate in enumerate(crowd, start=1):
        assert f"{number} {candidate.label}{'' if candidate.complete else ' ↑'}" in there
    assert "limit 5 %" in there
    # labels begin below each other, to the right of every point
    column = {
        text.left for text in texts(svg) if text.words[0].isdigit() and text.left > WIDTH - LABELS
    }
    assert len(column) == 1


def test_of_many_candidates_those_that_the_choice_is_about_have_names() -> None:
    many = [made_up(f"lg+swap{n}", 0.02 + 0.01 * n, 0.3 + 0.015 * n) for n in range(40)]
    there = [text.words for text in texts(draw_frontier("T", many, many[39], LIMIT, "it"))]
    named = [c.label for n, c in enumerate(many, start=1) if f"{n} {c.label}" in there]
    assert len(named) == NAMED and {"lg+swap0", "lg+swap1", "lg+swap39"} <= set(named)


def recommendation(file: Path, candidates: list[Candidate]) -> Recommendation:
    choice = choose(candidates, LIMIT)
    return Recommendation(
        "ci<ty", "density", LIMIT, 20, 5, 20, 40, 1, 10.0, 12.0,
        choice.recommended.label if choice.recommended else None,
        choice.nearest.label if choice.nearest else None,
        choice.why, choice.picked.command if choice.picked else None,
        "No measurement replaces a guarantee.", candidates, [LeftOut("strict", "no region")],
        ["A note."], file,
    )  # fmt: skip


@pytest.mark.parametrize("met", [True, False])
def test_the_page(tmp_path: Path, met: bool) -> None:
    candidates = [made_up("lg", 0.6, 0.9, kind="edited"), made_up("cut", 0.2, 0.6)]
    if met:
        candidates.append(made_up("lg+cut", 0.03, 0.5))
    found = recommendation(tmp_path / "new" / "page.html", candidates)
    write_page(found, PURPOSES["density"])
    page = found.file.read_text()
    assert "default-src 'none'" in page and "ci&lt;ty" in page and "ci<ty" not in page
    links = set(re.findall(r'(?:href|src|action)="([^"]*)"', page))
    assert {link for link in links if not link.startswith("#")} == {"data:,"}
    assert set(re.findall(r"https?://[^\"' ]+", page)) <= {"http://www.w3.org/2000/svg"}
    for words in ("where and when there are many", "For the curator.", "based on the original data",
                  "No measurement replaces a guarantee.", "limit 5 %", "Not tried", "no region",
                  "A note.", "prefers-color-scheme: dark", "@media print"):  # fmt: skip
        assert words in page, words
    for candidate in candidates:
        assert candidate.label in page
    if met:
        assert "Use lg+cut" in page and "The command, to copy:" in page
    else:
        assert "Nothing meets 5 %. Nearest: cut" in page and "If you accept that" in page
    assert "freqdp anonymize city --method" in re.sub(
        r'<span class="option">(.*?)</span>', r"\1", page
    )
