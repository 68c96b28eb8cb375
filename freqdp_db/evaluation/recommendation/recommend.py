"""A recommendation from a dataset's name to a page."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass

from freqdp_db.columns.build import Build
from freqdp_db.dataset.memory import load_build
from freqdp_db.errors import BadInput
from freqdp_db.evaluation.recommendation.choosing import (
    Candidate,
    Choice,
    choose,
    guaranteed,
    judged,
    percent,
    price_of_histories,
    share,
)
from freqdp_db.evaluation.recommendation.document import LeftOut, Recommendation
from freqdp_db.evaluation.recommendation.grid import HEAVIEST, Variant, grid_for
from freqdp_db.evaluation.recommendation.page import write_page
from freqdp_db.evaluation.recommendation.timing import Allowance, expected, objects_within, span
from freqdp_db.evaluation.recommendation.trying import Halves, require_possible, split, try_out
from freqdp_db.evaluation.recommendation.wishes import Wishes
from freqdp_db.progress import Progress
from freqdp_db.release.request import Request
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.records.builds import BuildRow, find_build
from freqdp_db.storage.records.datasets import DatasetRow, find_dataset
from freqdp_db.storage.records.requests import linked_releases

_TRIAL_OBJECTS = 40
_FEW_MEMBERS = 100
_NO_TIME = "no time was left; give it more --minutes, or fewer --objects"


@dataclass(frozen=True)
class _Tried:
    candidates: list[Candidate]
    left_out: list[LeftOut]
    halves: Halves
    seconds: float


def recommend_on(
    database: Database, name: str, wishes: Wishes, progress: Progress
) -> Recommendation:
    """Try the grid on the current build of a dataset, choose, and write the page."""
    dataset = find_dataset(database, name)
    row = find_build(database, dataset.require_build())
    wishes.require_possible(row.trajectories)
    file = wishes.page(name)
    build = load_build(database, row.build_id, progress)
    tried = _try_all(dataset, row, build, wishes, progress)
    choice = choose(tried.candidates, wishes.risk)
    picked = choice.picked
    found = Recommendation(
        dataset=name,
        purpose=wishes.purpose.name,
        risk=wishes.risk,
        objects=len(tried.halves.members),
        objects_in_all=row.trajectories,
        seed=wishes.seed,
        minutes=wishes.minutes,
        seconds=round(tried.seconds, 1),
        recommended=choice.recommended.label if choice.recommended else None,
        nearest=choice.nearest.label if choice.nearest else None,
        why=choice.why,
        command=None if picked is None else picked.command,
        guarantee=_guarantee(tried, name),
        candidates=tried.candidates,
        left_out=tried.left_out,
        notes=_notes(database, dataset, choice, tried),
        file=file,
    )
    with progress.stage("draw"):
        write_page(found, wishes.purpose)
    return found


def _try_all(
    dataset: DatasetRow, row: BuildRow, build: Build, wishes: Wishes, progress: Progress
) -> _Tried:
    asked, left_out = _possible(dataset, row, wishes)
    most = wishes.objects or row.trajectories
    trial = min(_TRIAL_OBJECTS, most)
    with progress.stage("get ready", 2, "trials") as stage:
        seconds = 0.0
        for _ in range(2):  # the first one loads the kernels, or compiles them
            seconds = _trial(build, trial, wishes.seed)
            stage.advance(1)
    per_weight = seconds / HEAVIEST.weight
    objects = most
    if wishes.objects is None:
        whole = expected([v for v, _ in asked], per_weight)
        objects = objects_within(60 * wishes.minutes, whole, trial, most)
    allowance = Allowance(60 * wishes.minutes, per_weight * objects / trial)
    halves = split(build.trajectories, objects, wishes.seed)
    progress.note(
        f"Trying {len(asked)} candidates on {len(halves.members):,} objects, {len(halves.controls):,} "
        f"others held out (of {row.trajectories:,}): about "
        f"{span(expected([v for v, _ in asked], allowance.per_weight))}, and no more than "
        f"{span(allowance.seconds)}."
    )
    candidates: list[Candidate] = []
    with progress.stage("recommend", len(asked), "candidates") as stage:
        for variant, request in asked:
            # the first is tried however little time there is: else there is nothing to say
            if candidates and not allowance.allows(variant):
                left_out.append(LeftOut(variant.label, _NO_TIME))
                continue
            started = time.monotonic()
            try:
                require_possible(request, halves)
            except BadInput as error:
                left_out.append(LeftOut(variant.label, _refusal(error)))
                continue
            values = try_out(build, halves, request, wishes.seed)
            took = time.monotonic() - started
            allowance.took(variant, took)
            command = f"freqdp anonymize {shlex.quote(dataset.name)} {variant.request().command()}"
            candidates.append(
                judged(
                    variant, request, values, wishes.purpose, wishes.risk, command, round(took, 2)
                )
            )
            stage.advance(1)
    return _Tried(candidates, _by_reason(left_out), halves, allowance.used)


def _possible(
    dataset: DatasetRow, row: BuildRow, wishes: Wishes
) -> tuple[list[tuple[Variant, Request]], list[LeftOut]]:
    """What can be asked for, in its order; what needs public facts that were not said is left out."""
    asked: list[tuple[Variant, Request]] = []
    missing: dict[str, LeftOut] = {}
    for variant in grid_for(wishes.purpose):
        try:
            asked.append((variant, variant.request().with_facts(dataset, row)))
        except BadInput as error:
            said = error.as_options()
            missing[variant.method] = LeftOut(
                variant.method, f"{said['message']}. {said['remedy']}"
            )
    return asked, list(missing.values())


def _trial(build: Build, objects: int, seed: int) -> float:
    """Seconds for the heaviest candidate on a few objects."""
    started = time.monotonic()
    try_out(build, split(build.trajectories, objects, seed), HEAVIEST.request(), seed)
    return time.monotonic() - started


def _guarantee(tried: _Tried, name: str) -> str:
    best = guaranteed(tried.candidates)
    if best is not None:
        return (
            f"With a guarantee for a person: {best.label}. {best.guarantee} Usefulness "
            f"{share(best.usefulness)} ({best.use_words}). No measurement replaces a guarantee: the "
            f"attackers of tomorrow are not in any of these numbers. {best.command}"
        )
    none = (
        "None of these guarantees anything for a person, and no measurement replaces a guarantee."
    )
    if any(c.kind == "synthetic" or c.usefulness is None for c in tried.candidates):
        return f"{none} Methods that do (strict) make trips up: they keep nobody's history."
    reason = next((left.reason for left in tried.left_out if "strict" in left.label), None)
    return none if reason is None else f"{none} To have that line too: {reason}"


def _notes(database: Database, dataset: DatasetRow, choice: Choice, tried: _Tried) -> list[str]:
    notes = []
    price = price_of_histories(tried.candidates)
    if price is not None:
        notes.append(price)
    members = len(tried.halves.members)
    if members < _FEW_MEMBERS:
        notes.append(
            f"Measured on {members} objects only: one of them is {percent(1 / max(members, 1))} of "
            "all, so differences of that size mean nothing."
        )
    notes.append(
        "Trial releases are made from half of the objects: with all of them, methods that mix people "
        "(swap) or add noise (strict) do better."
    )
    if choice.picked is not None and choice.picked.kind == "unlinked":
        with database.begin() as connection:
            out = linked_releases(connection, database, dataset.account_id)
        if out:
            notes.append(
                f"{out[0]} is a published release of the same source in which trajectories are still "
                "linked: whoever has it undoes the unlinking. Withdraw it first: freqdp release "
                f"withdraw {shlex.quote(out[0])}"
            )
    return notes
