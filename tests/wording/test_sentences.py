"""Guarantees, verdicts and metrics in words, around each threshold."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from snapshots import require_same

from freqdp_db.evaluation.recommendation.choosing import (
    PURPOSES,
    Candidate,
    LeftOut,
    Recommendation,
    choose,
    percent,
    price_of_histories,
    risk_in_words,
    use_in_words,
)
from freqdp_db.evaluation.recommendation.recommend import how_long, span, write_page
from freqdp_db.evaluation.report.words import (
    attackers,
    beside_attackers,
    by_group,
    meaning_of,
    verdicts,
)
from freqdp_db.methods.contract import KINDS
from freqdp_db.methods.registry import METHODS
from freqdp_db.methods.relations import TRAJECTORIES
from freqdp_db.privacy.guarantee import ProtectedUnit
from freqdp_db.release.budgets import in_words
from freqdp_db.release.catalogue import notes_for, release_comment, whole_user
from freqdp_db.release.export.notice import readme
from freqdp_db.release.request import Request

BIKE = ProtectedUnit("bike", "fleet.ride")
DRIVER = ProtectedUnit("driver", "fleet.ride", "fleet-drivers")
SHARES = {"epsilon_global": "0.25", "epsilon_local": "0.75"}
NEEDED = {
    "strict": {"region": "4,50,5,51", "period": "2024-01-01/2024-02-01"},
    "klt": {"poi": "demo.poi", "category": "kind"},
}


def _asked(name: str, **more: Any) -> Request:
    known = {p.name for p in METHODS[name].parameters}
    shares = {share: value for share, value in SHARES.items() if share in known}
    return Request.parse(name, **shares, **NEEDED.get(name, {}), **more)


def _guarantees() -> Iterator[str]:
    for name, method in METHODS.items():
        yield f"== {name}: {method.for_analysts}"
        yield json.dumps(_asked(name).guarantee(BIKE), indent=1)
    for name, more in (
        ("lg", {"seed": 7}),
        ("swap", {"seed": 7}),
        ("strict", {"seed": 7}),
        ("strict", {"epsilon": "1"}),
        ("strict", {"epsilon": "4"}),
        ("strict", {"accounting": "pure"}),
        ("glove", {"widest": "6km/2h"}),
        ("glove", {"pieces": "30min"}),
    ):
        document = _asked(name, **more).guarantee(BIKE)
        yield f"== {name} {more}: {document['plain']}"
        yield f"{document['noise']}; {document['not_protected'][-2:]}"
    yield f"== drivers: {_asked('strict').guarantee(DRIVER)['plain']}"


def test_guarantees() -> None:
    require_same("guarantees.txt", "\n".join(_guarantees()) + "\n")


def _published() -> Iterator[str]:
    document = _asked("lg").guarantee(BIKE)
    yield from (
        TRAJECTORIES[0].comments(release_comment("r", document, KINDS["edited"]), "UTC").values()
    )
    columns = {"area": "", "during_begin": ""}
    catalogued = {
        "name": "r", "version": 1, "dataset": "d", "published_at": "now", "rows": 1, "series": None,
        "method": "glove", "granted": True, "parameters": {},
        "guarantee": _asked("glove", k=3).guarantee(BIKE),
        "file": {"name": "r.csv", "format": "csv", "columns": list(columns), "srid": 4326,
                 "reference_system": "WGS 84", "software": "freqdp", "sha256": "0"},
    }  # fmt: skip
    yield readme(catalogued, 1, columns)
    rho = Request.parse("strict", epsilon="2").spend
    yield from (in_words(BIKE, rho), in_words(BIKE, Decimal(0), rho), in_words(BIKE, Decimal(0)))
    yield whole_user({"epsilon_per_user_mean": 123.74, "epsilon_per_user_max": 1174.01})
    yield whole_user({"epsilon_per_user_mean": 123.74, "epsilon_per_user_max": 174.0})
    for kind in KINDS:
        yield "\n".join((f"== notes, {kind}", *notes_for(kind, {}, "Asia/Shanghai", "grid:100")))
    for values, snap in (
        ({}, "exact"),
        ({"time_step": 300_000_000}, "anchors:public.stop"),
        ({"grain": Decimal(250), "dates": "week"}, "grid:100"),
    ):
        yield "\n".join((f"== notes, {values} {snap}", *notes_for("unlinked", values, "UTC", snap)))


def test_what_stands_beside_a_release() -> None:
    require_same("published.txt", "\n\n".join(_published()) + "\n")


FOUND = {
    "exposure.relink.10.low": 0.01,
    "exposure.relink.10.high": 0.3,
    "exposure.x.4": 0.0,
    "exposure.relink.10.half": 0.25,
    "exposure.relink.10.precision": 0.9,
}
CASES: list[dict[str, float]] = [
    {},
    *({**FOUND, "exposure.relink.10": v, "exposure": v} for v in (0, 0.0494, 0.0496, 0.2994, 0.2996)),
    *({"query_error": v, "hotspot": 0.8, "inf": 0.4} for v in (0, 0.0994, 0.0996, 0.2994, 0.2996)),
    *({"density": v, "flow": 0.2, "query_error": 0, "hotspot": 1} for v in (0.0994, 0.0996, 0.2996)),
    *({"density": 0.05, "flow": v, "query_error": 0, "hotspot": 1} for v in (0.299, 0.2996, 0.6)),
    # flows do not mend places, nor counts that stay that most samples are gone
    {"density": 0.2, "flow": 0.9, "query_error": 0, "hotspot": 1},
    {"query_error": 0, "hotspot": 0.8, "inf": 0.88, "density": 0.32, "flow": 0.8},
    {"query_error": 0, "hotspot": 0.8, "inf": 0.08, "density": 0.004, "flow": 0.8},
    *(
        {"recovery.f": v, "recovery.precision": 0.5, "recovery.recall": 0.25}
        for v in (0.1994, 0.1996, 0.5994, 0.5996)
    ),
]  # fmt: skip
METRICS = [
    "exposure", "exposure.s.b.10", "exposure.near.1.precision", "la", "la_t.b", "inf",
    "density.busiest.shares", "exposure.habits.low", "query_error", "query_error.mean",
    "exposure.x.1", "exposure.x.1.half", "mi.nats", "of.another.version",
]  # fmt: skip


def _verdicts() -> Iterator[str]:
    for values in CASES:
        yield f"== {values}"
        for said in verdicts(values, "city_1"):
            if said.metric in values or not values:
                yield f"{said.answer} ({said.tone}; {said.metric} {said.value}): {said.meaning}"
        yield from (f"{a.who}: {a.learnt}, {a.half}, {a.precision}" for a in attackers(values))
        yield from beside_attackers(values)
    yield f"== moot: {verdicts({}, 'city_1', 'Its trips are nobody s.')[2]}"
    yield "== metrics"
    yield from (f"{name}: {meaning_of(name).what}" for name in METRICS)
    yield json.dumps(by_group(METRICS), indent=1)
    yield "== shares"
    for share in (0, 0.0009, 0.0099, 0.01, 0.0499, 0.05, 0.199, 0.2, 0.499, 0.5, 1):
        yield f"{share}: {percent(share)}, {risk_in_words(share)}"
    for share in (1, 0.9, 0.899, 0.7, 0.699, 0.5, 0.499, 0.25, 0.249, 0):
        yield f"{share}: {use_in_words(share)}"
    yield "; ".join(span(seconds) for seconds in (0.2, 89.4, 90, 600))
    yield "; ".join(how_long(*seconds) for seconds in ((30, 120), (180, 120)))


def test_verdicts() -> None:
    require_same("verdicts.txt", "\n".join(_verdicts()) + "\n")


def _candidate(label: str, risk: float, use: float | None, **more: Any) -> Candidate:
    """By one trial, in which an attacker learns this much of everybody; `more` sets it apart."""
    made = Candidate(
        label, label.split(",")[0], "does something", "unlinked", {}, risk, 0.0, risk, 0.0, 1,
        "exposure.x.4", "one who knows 4 exact samples (place and time) of somebody", use,
        use is not None and risk <= 0.05, None, "Words.", {},
        f"freqdp anonymize city --method {label.split(',')[0]}", 1.0,
    )  # fmt: skip
    return replace(made, **more)


USEFUL = _candidate("c", 0.04, 0.99, risk_high=0.06, meets=False)
CUT_SHORT = _candidate("a", 0.4, 0.9, complete=False)
LG, GL = _candidate("lg", 0.6, 0.8), _candidate("gl", 0.3, 0.8)
CHOICES = {
    "the most useful within the risk": [
        _candidate("a", 0.01, 0.5), _candidate("b", 0.05, 0.8), _candidate("c", 0.0501, 0.99)
    ],
    "about as useful and less risky": [_candidate("a", 0.04, 0.6), _candidate("b", 0.03, 0.585)],
    "another draw may show more": [_candidate("a", 0.01, 0.5), USEFUL],
    "more than half of some": [_candidate("a", 0.01, 0.5), replace(USEFUL, half=0.1)],
    "not attacked further": [_candidate("a", 0.01, 0.5), replace(USEFUL, complete=False)],
    "nor of some": [_candidate("a", 0.01, 0.5), replace(USEFUL, half=0.1, complete=False)],
    "nothing within the risk": [_candidate("a", 0.6, 0.9), _candidate("b", 0.08, 0.4)],
    "nor attacked further": [CUT_SHORT, _candidate("c", 0.5, 0.9)],
    "nothing serves": [_candidate("a", 0.01, None)],
    "serves poorly": [_candidate("lg+swap", 0.01, 0.34)],
}  # fmt: skip
HISTORIES = {
    "all were tried": [LG, GL],
    "not on the lower one": [LG, replace(GL, complete=False)],
    "on neither": [replace(LG, complete=False), replace(GL, complete=False)],
}


def _recommendations(folder: Path) -> Iterator[str]:
    for what, candidates in CHOICES.items():
        choice = choose(candidates, 0.05)
        found = Recommendation(
            "ci<ty", "density", 0.05, 20, 5, 20, 40, 1, 10.0, 12.0,
            choice.recommended.label if choice.recommended else None,
            choice.nearest.label if choice.nearest else None,
            choice.why, choice.picked.command if choice.picked else None,
            "No measurement replaces a guarantee.", candidates, [LeftOut("strict", "no region")],
            ["A note."], folder / "page.html",
        )  # fmt: skip
        yield f"== {what}"
        yield from (" | ".join(row) for row in found.rows())
        yield from (line.replace(str(folder), "TMP") for line in found.lines())
        write_page(found, PURPOSES["density"])
        heads = re.findall(r"<strong>(.*?)</strong>", found.file.read_text("utf-8"))
        yield f"page: {' | '.join(heads)}"
    for what, inside in HISTORIES.items():
        yield f"== histories, {what}: {price_of_histories([*inside, _candidate('lg+cut', 0.04, None)])}"


def test_recommendations(tmp_path: Path) -> None:
    require_same("recommendations.txt", "\n".join(_recommendations(tmp_path)) + "\n")
