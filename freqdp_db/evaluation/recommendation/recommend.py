"""A recommendation from a dataset's name to a page."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

import freqdp_db
from freqdp_db.dataset.memory import load_build
from freqdp_db.evaluation.pages import render
from freqdp_db.evaluation.recommendation.choosing import (
    FOR_THE_CURATOR,
    Chosen,
    LeftOut,
    Recommendation,
    choose,
    guaranteed,
    percent,
    price_of_histories,
    share,
)
from freqdp_db.evaluation.recommendation.grid import MethodToTry, never_tried
from freqdp_db.evaluation.recommendation.options import Purpose, RecommendOptions
from freqdp_db.evaluation.recommendation.picture import NARROW, WIDE, draw_frontier, legend
from freqdp_db.evaluation.recommendation.running import TrialResults, span, try_all
from freqdp_db.methods.protected_unit import ProtectedUnit
from freqdp_db.progress import Progress
from freqdp_db.release.conflicts import joined_with
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.records.builds import find_build
from freqdp_db.storage.records.datasets import DatasetRow, find_dataset
from freqdp_db.storage.records.requests import published_beside

_FEW_MEMBERS = 100


def write_page(found: Recommendation, purpose: Purpose) -> None:
    """Write it where the recommendation says."""
    text = render("recommendation", "recommendation.html", _context(found, purpose))
    found.file.parent.mkdir(parents=True, exist_ok=True)
    found.file.write_text(text, "utf-8")


def _context(found: Recommendation, purpose: Purpose) -> dict[str, Any]:
    ordered = found.ordered()
    title = (
        f"Risk against usefulness of {len(ordered)} candidates for {found.dataset}; "
        f"{found.recommended or 'none'} is recommended"
    )

    wide, narrow = (
        draw_frontier(title, ordered, found.picked, found.risk, frame, purpose.asks)
        for frame in (WIDE, NARROW)
    )
    return {
        "found": found,
        "purpose": purpose,
        "ordered": ordered,
        "wide": wide,
        "narrow": narrow,
        "legend": legend(ordered),
        "percent": percent,
        "share": share,
        "took": span(found.seconds),
        "curator": FOR_THE_CURATOR,
        "software": freqdp_db.__version__,
    }


def recommend_on(
    database: Database, name: str, options: RecommendOptions, begin: Callable[[], Progress]
) -> Recommendation:
    """Try the grid on the current build of a dataset, choose, and write the page.

    begin: called when nothing is left to refuse; compiles what is not compiled yet.
    """
    dataset = find_dataset(database, name)
    row = find_build(database, dataset.require_build())
    options.require_possible(row.trajectories)
    file = options.page(name)
    progress = begin()
    build = load_build(database, row.build_id, progress)
    tried = try_all(database, dataset, row, build, options, progress)
    choice = choose(tried.candidates, options.risk)
    picked = choice.picked
    found = Recommendation(
        dataset=name,
        purpose=options.purpose.name,
        risk=options.risk,
        objects=len(tried.halves.members),
        objects_in_all=row.trajectories,
        seed=options.seed,
        minutes=options.minutes,
        seconds=round(tried.seconds, 1),
        recommended=choice.recommended.label if choice.recommended else None,
        nearest=choice.nearest.label if choice.nearest else None,
        why=choice.why,
        command=None if picked is None else picked.command,
        guarantee=_guarantee(tried, options.purpose, dataset.protected),
        candidates=tried.candidates,
        left_out=[
            *_by_reason(tried.left_out),
            *(LeftOut(names, why) for names, why in never_tried(options.purpose)),
        ],
        notes=_notes(database, dataset, choice, tried),
        file=file,
    )
    with progress.stage("draw"):
        write_page(found, options.purpose)
    return found


def _guarantee(tried: TrialResults, purpose: Purpose, protected: ProtectedUnit) -> str:
    """What can be had that is proved, and if nothing can, why."""
    best = guaranteed(tried.candidates)
    if best is not None:
        return (
            f"With a guarantee for {protected.words}: {best.label}. {best.guarantee} Usefulness "
            f"{share(best.usefulness)} ({best.use_words}). No measurement replaces a guarantee: "
            f"these numbers do not cover future attacks. {best.command}"
        )
    none = (
        f"None of these guarantees anything for {protected.words}, and no measurement replaces a "
        "guarantee."
    )
    if "synthetic" not in purpose.kinds:
        return f"{none} Methods that do (strict) generate synthetic trips, which keep nobody's history."
    reason = next((why for method, why in tried.left_out if method.is_for_an_object), None)
    return none if reason is None else f"{none} To include such a method: {reason}"


def _by_reason(left_out: list[tuple[MethodToTry, str]]) -> list[LeftOut]:
    """What was left out for the same reason, said once."""
    labels: dict[str, list[str]] = {}
    for method, why in left_out:
        labels.setdefault(why, []).append(method.label)
    return [LeftOut("; ".join(those), why) for why, those in labels.items()]


def _notes(
    database: Database, dataset: DatasetRow, choice: Chosen, tried: TrialResults
) -> list[str]:
    notes = []
    price = price_of_histories(tried.candidates)
    if price is not None:
        notes.append(price)
    members = len(tried.halves.members)
    if members < _FEW_MEMBERS:
        notes.append(
            f"Measured on only {members} objects: one object is {percent(1 / max(members, 1))} of them, so "
            "smaller differences mean nothing."
        )
    notes.append(
        "Trial releases use half of the objects. With all of them, methods that mix people (swap) or add "
        "noise (strict) do better."
    )
    if choice.picked is not None and choice.picked.kind == "unlinked":
        with database.begin() as connection:
            out = joined_with(published_beside(connection, database, dataset.account_id))
        if out:
            notes.append(
                f"{out[0].name} ({out[0].method}) is a published release of the same source: "
                "anyone who has both can join them by their true samples and undo the unlinking. Withdraw "
                "it first: "
                f"freqdp release withdraw {shlex.quote(out[0].name)}"
            )
    return notes
