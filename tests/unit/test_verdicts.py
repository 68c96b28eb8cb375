"""Verdicts around each threshold, and metrics in words."""

from __future__ import annotations

import pytest

from freqdp_db.evaluation.report.contents import exposures
from freqdp_db.evaluation.report.words import BESIDE, Verdict, by_group, meaning_of, verdicts

FOUND = {
    "exposure.x.4": 0.0,
    "exposure.relink.10": 0.0,
    "exposure.relink.10.half": 0.25,
    "exposure.relink.10.precision": 0.9,
}


def found(value: float) -> Verdict:
    return verdicts({**FOUND, "exposure.relink.10": value, "exposure": value})[0]


def useful(value: float) -> Verdict:
    return verdicts({"query_error": value, "hotspot": 0.8, "inf": 0.4})[1]


def useful_in_all(value: float) -> Verdict:
    return verdicts({"density": value, "flow": 0.2, "query_error": 0.0, "hotspot": 1.0})[1]


def recovered(value: float) -> Verdict:
    values = {"recovery.f": value, "recovery.precision": 0.5, "recovery.recall": 0.25}
    return verdicts(values)[2]


@pytest.mark.parametrize(
    ("value", "answer", "tone"),
    [
        (0.0, "hardly", "good"),
        (0.0494, "hardly", "good"),
        (0.0496, "in part", "middling"),
        (0.05, "in part", "middling"),
        (0.2994, "in part", "middling"),
        (0.2996, "yes", "bad"),
        (0.3, "yes", "bad"),
        (1.0, "yes", "bad"),
    ],
)
def test_could_someone_be_found(value: float, answer: str, tone: str) -> None:
    verdict = found(value)
    assert (verdict.answer, verdict.tone, verdict.value) == (answer, tone, value)
    if value == 0:
        assert "None of the attacks learns anything" in verdict.meaning
    else:
        assert f"learns {value:.1%} of a person's samples" in verdict.meaning
        assert "knows 10 exact samples of somebody and joins what was cut" in verdict.meaning
        assert "and more than half for 25.0% of people." in verdict.meaning


@pytest.mark.parametrize(
    ("value", "answer", "tone"),
    [
        (0.0, "yes", "good"),
        (0.0994, "yes", "good"),
        (0.0996, "for coarse questions", "middling"),
        (0.1, "for coarse questions", "middling"),
        (0.2994, "for coarse questions", "middling"),
        (0.2996, "hardly", "bad"),
        (0.3, "hardly", "bad"),
        (0.69, "hardly", "bad"),
    ],
)
def test_is_it_still_good_for_analysis(value: float, answer: str, tone: str) -> None:
    by_objects, by_all = useful(value), useful_in_all(value)
    assert (by_objects.answer, by_objects.tone) == (by_all.answer, by_all.tone) == (answer, tone)
    assert f"off by {value:.1%} in the median" in by_objects.meaning
    assert "40.0% of each object's samples are gone" in by_objects.meaning
    assert f"differs from the original by {value:.3f}" in by_all.meaning
    assert "do not count objects by them" in by_all.meaning


@pytest.mark.parametrize(
    ("value", "answer", "tone"),
    [
        (0.0, "hardly", "good"),
        (0.1994, "hardly", "good"),
        (0.1996, "in part", "middling"),
        (0.5994, "in part", "middling"),
        (0.5996, "mostly", "bad"),
        (1.0, "mostly", "bad"),
    ],
)
def test_could_it_be_put_back_together(value: float, answer: str, tone: str) -> None:
    verdict = recovered(value)
    assert (verdict.answer, verdict.tone) == (answer, tone)
    assert "recovers 25.0% of the road kilometres" in verdict.meaning
    assert f"(F {value:.3f})" in verdict.meaning


def test_counts_that_stay_do_not_hide_that_most_samples_are_gone() -> None:
    """Persons who rest at few places: areas keep their visitors where hardly a sample is left."""
    values = {"query_error": 0.0, "hotspot": 0.8, "inf": 0.88, "density": 0.32, "flow": 0.8}
    verdict = verdicts(values)[1]
    assert (verdict.answer, verdict.metric, verdict.value) == ("hardly", "density", 0.32)
    assert "differs from the original by 0.320" in verdict.meaning
    kept = verdicts({**values, "density": 0.004, "inf": 0.08})[1]
    assert (kept.answer, kept.metric) == ("yes", "density")


def test_roads_alone_do_not_put_pieces_together() -> None:
    """Who gave --roads for a release of pieces is not told to give them."""
    assert "trajectory for each object" in verdicts({})[2].meaning


def test_the_command_names_the_release_and_is_not_offered_where_it_does_not_apply() -> None:
    assert "freqdp evaluate city_1 --roads schema.table" in verdicts({}, "city_1")[2].meaning
    assert "freqdp evaluate city_1." in verdicts({}, "city_1")[0].meaning
    moot = verdicts({}, "city_1", "Its trips are nobody's.")[2]
    assert (moot.answer, moot.tone) == ("does not apply", "moot")
    assert moot.meaning == "Its trips are nobody's."


@pytest.mark.parametrize(("value", "marked"), [(0.0, False), (0.0004, False), (0.0006, True)])
def test_nothing_is_the_worst_where_nothing_is_learnt(value: float, marked: bool) -> None:
    shown = exposures({**FOUND, "exposure": value, "exposure.relink.10": value})
    assert shown is not None
    assert any("font-weight: 700" in svg for _, svg in shown.panels) == marked == shown.marked


def test_errors_of_counts_say_their_unit() -> None:
    for name in ("query_error", "query_error.mean", "published.query"):
        assert meaning_of(name).what.endswith("as a share of the true count")


def test_what_was_not_measured_is_neither_good_nor_bad() -> None:
    for verdict in verdicts({}):
        assert (verdict.answer, verdict.tone, verdict.value) == ("not measured", "unknown", None)


def test_the_bad_yes_is_not_the_good_yes() -> None:
    bad, good = found(0.9), useful(0.01)
    assert bad.answer == good.answer == "yes"
    assert (bad.tone, good.tone) == ("bad", "good")


def test_the_worst_attacker_is_named() -> None:
    values = {**FOUND, "exposure": 0.4, "exposure.relink.10": 0.4, "exposure.s.a.full": 0.3}
    shown = exposures(values)
    assert shown is not None
    assert shown.worst == (
        "The strongest attacker, one who knows 10 exact samples of somebody and joins what was cut or "
        "swapped there, learns 40.0% of a person's other samples on average, and more than half for "
        "25.0% of people. 90.0% of its claims are right."
    )
    assert [title for title, _ in shown.panels] == [
        "Knows a few exact samples",
        "Joins pieces and undoes swaps",
        "Compares places",
    ]
    assert [svg.count("fill: var(--accent)") for _, svg in shown.panels] == [0, 1, 0]
    assert exposures({"la": 1.0}) is None
    nothing = exposures({**FOUND, "exposure": 0.0})
    assert nothing is not None and nothing.worst.startswith("None of these attackers")


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("exposure", "learnt of a person by the strongest attacker"),
        ("exposure.s.b.10", "learnt by one who compares places, the 10 strongest of them, from other"
         " days"),
        ("exposure.near.1.precision", "learnt by one who knows 1 exact sample of somebody and takes what "
         "the same released trajectories hold before and after: share of the claims that is right"),
        ("exposure.habits.low", "learnt by one who knows somebody's habits of other days and takes every "
         "piece that fits: the lowest of the halves it was tested on"),
        ("la_t.b", "linked by one who compares times of day from other days"),
        ("density.busiest.shares", "change of where samples lie by the hour (JSD): error of the 100 "
         "busiest, as shares"),
        ("relink.cut.precision", "swaps and cuts that the re-linker undoes: at cuts alone: share of the "
         "claims that is right"),
        ("of.another.version", "of.another.version"),
    ],
)  # fmt: skip
def test_metrics_in_words(name: str, what: str) -> None:
    assert meaning_of(name).what == what


def test_metrics_are_shown_in_the_order_people_read() -> None:
    groups = by_group(["inf", "la", "exposure.x.1", "exposure", "exposure.x.1.half", "mi.nats"])
    assert list(groups.items()) == [
        ("What an attacker learns", ["exposure", "exposure.x.1"]),
        ("Who is linked", ["la"]),
        ("What analysts keep", ["inf"]),
        (BESIDE, ["mi.nats", "exposure.x.1.half"]),
    ]


@pytest.mark.parametrize(
    ("flow", "answer", "tone"),
    [
        (0.299, "yes", "good"),
        (0.2996, "for places and times, less for flows", "middling"),
        (0.6, "for places and times, less for flows", "middling"),
    ],
)
def test_flows_that_are_off_are_not_called_useful(flow: float, answer: str, tone: str) -> None:
    found = verdicts({"density": 0.05, "flow": flow, "query_error": 0.0, "hotspot": 1.0})[1]
    assert (found.answer, found.tone) == (answer, tone)


def test_flows_do_not_mend_places() -> None:
    found = verdicts({"density": 0.2, "flow": 0.9, "query_error": 0.0, "hotspot": 1.0})[1]
    assert found.answer == "for coarse questions"
