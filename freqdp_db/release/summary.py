"""A release in words and as a document, for the curator."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from freqdp_db.release.pipeline import Outcome, epsilon_of
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.connection.names import format_relation
from freqdp_db.storage.records.builds import find_build
from freqdp_db.storage.records.releases import ReleaseRow, StepRow, list_steps

_WORDS = {"local": "how often each object visits its listed places",
          "global": "how many objects visit each signature place",
          "closure": "the signatures"}  # fmt: skip


def release_document(database: Database, release: ReleaseRow) -> dict[str, Any]:
    """Everything the curator may know about a release."""
    schema = database.settings.release_schema
    return {
        **asdict(release),
        "epsilon": epsilon_of(release),
        "table": f"{schema}.{release.name}",
        "line_table": f"{schema}.{release.name}_line",
        "steps": [asdict(step) for step in list_steps(database, release.release_id)],
    }


def outcome_document(database: Database, outcome: Outcome) -> dict[str, Any]:
    return {
        **release_document(database, outcome.release),
        "existed": outcome.existed,
        "resumed": outcome.resumed,
        "verified": asdict(outcome.verified) if outcome.verified else None,
    }


def describe_outcome(database: Database, outcome: Outcome) -> list[str]:
    """What a newcomer should read when `anonymize` is done."""
    release = outcome.release
    table = format_relation(database.settings.release_schema, release.name)
    if outcome.existed:
        return [
            f"{table} answers this request already (published {release.published_at:%Y-%m-%d %H:%M}).",
            "Nothing was drawn and nothing spent. --new-draw asks for another one.",
        ]
    lines = describe_release(database, release)
    if outcome.verified is not None:
        checked = outcome.verified
        lines.append(
            f"Verified: {checked.edits:,} edits replayed, {checked.targets:,} targets hold exactly, "
            f"{checked.rows:,} rows equal."
        )
    lines_table = format_relation(database.settings.release_schema, f"{release.name}_line")
    lines.append(f"Look at it: SELECT * FROM {table} LIMIT 10;  (as lines: {lines_table})")
    return lines


def describe_release(database: Database, release: ReleaseRow) -> list[str]:
    """One release: what it is, what was edited, what it guarantees."""
    table = format_relation(database.settings.release_schema, release.name)
    build = find_build(database, release.build_id)
    head = f"{table}: {release.state}"
    if release.state == "published":
        head = f"Published {table}, version {release.version}: {release.rows:,} rows"
    lines = [
        head + f" (from {build.samples:,} samples of {build.trajectories:,} objects, "
        f"build {build.build_id}).",
        f"Method {release.method}, epsilon {epsilon_of(release):f} (global "
        f"{release.epsilon_global:f}, local {release.epsilon_local:f}), signature "
        f"{release.signature_size}, spread {release.options['spread']}.",
    ]
    lines += [_describe_step(step) for step in list_steps(database, release.release_id)]
    lines += ["Guarantee: " + release.guarantee["plain"]]
    for mechanism, cost in (release.user_level or {}).items():
        lines.append(
            f"For a whole user the {mechanism} mechanism costs epsilon "
            f"{cost['epsilon_per_user_mean']:,.1f} on average and {cost['epsilon_per_user_max']:,.1f} "
            "at most (curator only)."
        )
    return lines


def _describe_step(step: StepRow) -> str:
    if step.digest is None:
        return (
            f"Step {step.step}, {step.mechanism}: {step.targets:,} targets drawn, not edited yet."
        )
    edits = []
    for count, loss, verb in (
        (step.deletions, step.deletion_loss_m, "deleted"),
        (step.insertions, step.insertion_loss_m, "inserted"),
    ):
        mean = f" at {(loss or 0) / count:,.0f} m mean loss" if count else ""
        edits.append(f"{count or 0:,} samples {verb}{mean}")
    return (
        f"Step {step.step}, {_WORDS[step.mechanism]}: {step.targets:,} targets, {', '.join(edits)}."
    )
