"""A release in words and as a document, for the curator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from freqdp_db.release.pipeline import Outcome
from freqdp_db.release.request import Request
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.connection.names import format_relation
from freqdp_db.storage.records.builds import find_build
from freqdp_db.storage.records.releases import ReleaseRow, StepRow, list_steps


def _steps(database: Database, release: ReleaseRow) -> list[StepRow]:
    with database.begin() as connection:
        return list_steps(connection, database, release.release_id)


def release_document(database: Database, release: ReleaseRow) -> dict[str, Any]:
    """Everything the curator may know about a release."""
    schema = database.settings.release_schema
    request = Request.of(release)
    return {
        **asdict(release),
        "spend": request.spend,
        "unit": request.method.unit,
        "table": f"{schema}.{release.name}",
        "line_table": f"{schema}.{release.name}_line",
        "steps": [asdict(step) for step in _steps(database, release)],
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
        checked = outcome.verified.words(Request.of(release))
        lines.append(f"Verified: {', '.join(checked)}, {outcome.verified.rows:,} rows equal.")
    lines_table = format_relation(database.settings.release_schema, f"{release.name}_line")
    lines.append(f"Look at it: SELECT * FROM {table} LIMIT 10;  (as lines: {lines_table})")
    return lines


def describe_release(database: Database, release: ReleaseRow) -> list[str]:
    """One release: what it is, what was edited, what it guarantees."""
    table = format_relation(database.settings.release_schema, release.name)
    build = find_build(database, release.build_id)
    request = Request.of(release)
    head = f"{table}: {release.state}"
    if release.state == "published":
        head = f"Published {table}, version {release.version}: {release.rows:,} rows"
    parameters = ", ".join(f"{name} {value}" for name, value in request.shown())
    lines = [
        head + f" (from {build.samples:,} samples of {build.trajectories:,} objects, "
        f"build {build.build_id}).",
        f"Method {release.method}" + (f": {parameters}." if parameters else "."),
    ]
    steps = zip(request.method.steps, _steps(database, release), strict=False)
    for step, recorded in steps:
        if recorded.counts is None:
            done = f"{recorded.drawn:,} drawn, not carried out yet"
        else:
            done = step.describe(recorded.drawn, recorded.counts)
        lines.append(f"Step {recorded.step}, {step.words}: {done}.")
    lines += [f"What it is: {request.method.for_analysts}"]
    lines += ["Guarantee: " + release.guarantee["plain"]]
    for mechanism, cost in (release.user_level or {}).items():
        lines.append(
            f"For a whole user the {mechanism} mechanism costs {whole_user(cost)} (curator only)."
        )
    return lines


def whole_user(cost: Mapping[str, float]) -> str:
    """What a whole user costs, in words; nothing where nothing is counted."""
    if not cost:
        return ""
    mean, most = cost["epsilon_per_user_mean"], cost["epsilon_per_user_max"]
    return f"epsilon {mean:,.1f} on average and {most:,.1f} at most"
