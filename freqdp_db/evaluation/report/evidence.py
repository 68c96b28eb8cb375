"""The page for a data protection officer: what a release publishes, and what can be learnt from it.

It follows the three questions of the Article 29 Working Party (Opinion 05/2014, WP216): can somebody be
singled out, can records of somebody be linked, can something be inferred about somebody. What is proved and
what was only measured stand apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import freqdp_db
from freqdp_db.db.builds import find_build
from freqdp_db.db.connection import Database
from freqdp_db.db.datasets import get_dataset
from freqdp_db.db.ledger import budgets
from freqdp_db.db.names import format_relation
from freqdp_db.db.releases import ReleaseRow, list_releases, load_metrics
from freqdp_db.evaluation.evaluate import EXPOSED, LINKED
from freqdp_db.evaluation.figures import render
from freqdp_db.evaluation.report.report import Reported, in_plain_times, target
from freqdp_db.evaluation.report.words import (
    Tone,
    attackers,
    judge_risk,
    learnt_in_words,
    meaning_of,
    news_of,
    strongest,
)
from freqdp_db.methods.registry import find_method
from freqdp_db.privacy.guarantee import stands_for
from freqdp_db.release.catalogue import not_covered_beside
from freqdp_db.release.request import Request
from freqdp_db.release.verification import require_published

_SINGLED_OUT: dict[str, tuple[str, Tone, str]] = {
    "edited": ("yes", "bad", "Each trajectory is the record of one object."),
    "unlinked": (
        "in part",
        "middling",
        "Each piece or sample is the record of one object, but no id says which belong together.",
    ),
    "generalised": (
        "not by its rows",
        "middling",
        "Each trajectory stands for at least {k} objects. Nothing is proved about an attacker who knows "
        "more.",
    ),
}
_PROVED = (
    "No row is the record of an object, and what anybody can conclude about one object is bounded by the "
    "guarantee above, whatever else they know."
)
_SINGLING = ("unicity", "unicity.place", "exposure.x.1", "exposure.x.4", "home")
_LINKING = (LINKED, "relink", "habits", "exposure.habits")
_INFERRING = (EXPOSED, "exposure.near.1", "exposure.near.10", "membership.auc", "edits.auc")


@dataclass(frozen=True)
class Question:
    """One of the three, with its answer, what is proved, and what was measured."""

    title: str
    asks: str
    answer: str
    tone: Tone
    reason: str
    measured: list[tuple[str, str, float]]
    """What it is, its metric, its value."""


def write_evidence(
    database: Database, release: ReleaseRow, *, out: Path, overwrite: bool
) -> Reported:
    """Write the page; all of it or nothing."""
    require_published(release, "reported")
    path = target(out, overwrite)
    text = render("evidence.html", evidence(database, release))
    path.write_text(text, "utf-8")
    return Reported(release.name, path.resolve(), False, len(text.encode()))


def evidence(database: Database, release: ReleaseRow) -> dict[str, Any]:
    """What the page is filled in with."""
    request = Request.of(release)
    dataset = get_dataset(database, release.dataset_id)
    measured = {m.name: m.value for m in load_metrics(database, release.release_id)}
    learnt = attackers(measured)
    strongest_of = f"the strongest of {len(learnt)} simulated attackers"
    return {
        "release": release,
        "dataset": dataset,
        "build": find_build(database, release.build_id),
        "method": find_method(release.method),
        "tables": [
            format_relation(database.settings.release_schema, relation)
            for relation in release.relation_names
        ],
        "kept": ", ".join(request.kept_names),
        "parameters": {key: in_plain_times(value) for key, value in request.shown()},
        "readers": _readers(release),
        "unit": release.guarantee.get("object", dataset.protected.words),
        "proved": guarantees_objects(release),
        "price": request.price(dataset.protected),
        "budgets": [budget.in_words for budget in budgets(database, dataset.account_id)],
        "questions": questions_of(release, measured),
        "attackers": learnt,
        "measured": measured,
        "strongest": f"{strongest_of}, {learnt_in_words(measured)}" if learnt else None,
        "news_of": news_of,
        "others": _others(database, release, dataset.account_id),
        "not_covered": not_covered_beside(database, release),
        "drawn_by": freqdp_db.__version__,
    }


def guarantees_objects(release: ReleaseRow) -> bool:
    """Whether something is proved for one object with its data: synthetic releases and counts."""
    guarantee = release.guarantee
    return str(guarantee["unit"]).startswith("person") and not guarantee["seeded"]


def questions_of(release: ReleaseRow, measured: Mapping[str, float]) -> list[Question]:
    """The three questions, answered from the kind of the release and from what was measured."""
    proved = guarantees_objects(release)
    return [
        Question(
            "Singling out",
            "Can the records of one individual be isolated?",
            *_singled_out(release, proved=proved),
            _values(_SINGLING, measured),
        ),
        Question(
            "Linkability",
            "Can records of the same individual be linked, here or with other data?",
            *_by_measure(_LINKING, measured, proved=proved),
            _values(_LINKING, measured),
        ),
        Question(
            "Inference",
            "Can more about an individual be deduced than was known before?",
            *_by_measure((EXPOSED,), measured, proved=proved),
            _values(_INFERRING, measured),
        ),
    ]


def _singled_out(release: ReleaseRow, *, proved: bool) -> tuple[str, Tone, str]:
    if proved:
        return "no, within the bound", "good", _PROVED
    if release.kind not in _SINGLED_OUT:
        return "unknown", "unknown", "Nothing is proved of this release: its noise was seeded."
    answer, tone, reason = _SINGLED_OUT[release.kind]
    return answer, tone, reason.format(k=stands_for(release.guarantee))


def _by_measure(
    names: Iterable[str], measured: Mapping[str, float], *, proved: bool
) -> tuple[str, Tone, str]:
    """By the guarantee if there is one, else by the largest of these metrics."""
    if proved:
        return "no, within the bound", "good", _PROVED
    there = [name for name in names if name in measured]
    if not there:
        reason = (
            "None of the attackers of this kind has anything to work on in such a release."
            if EXPOSED in measured
            else "This release has not been measured."
        )
        return "not measured", "unknown", reason
    worst = strongest(measured, there)
    answer, tone = judge_risk(measured[worst])
    what = meaning_of(worst).what
    return (
        answer,
        tone,
        (
            f"Measured, not proved: {what[0].lower()}{what[1:]}, {measured[worst]:.1%}. Other attackers "
            "may do better."
        ),
    )


def _values(names: Iterable[str], measured: Mapping[str, float]) -> list[tuple[str, str, float]]:
    return [(meaning_of(name).what, name, measured[name]) for name in names if name in measured]


def _readers(release: ReleaseRow) -> str:
    if release.granted:
        return "analysts (members of freqdp_analyst) and curators"
    return "curators only, until it is approved" if release.held else "curators only"


def _others(database: Database, release: ReleaseRow, account_id: int) -> list[ReleaseRow]:
    """Other published releases of the same source."""
    return [
        other
        for other in list_releases(database)
        if other.state == "published"
        and other.release_id != release.release_id
        and get_dataset(database, other.dataset_id).account_id == account_id
    ]
