"""The result of an experiment as CSV, Markdown and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from freqdp_db.evaluation.experiment.runs import Run

# The paper's table, column by column, then what it does not have.
COLUMNS = {
    "LA_s": "la_s.a.10",
    "LA_s full": "la_s.a.full",
    "LA_t": "la_t.a",
    "LA_st": "la_st.a.10",
    "LA_st full": "la_st.a.full",
    "LA_sq": "la_sq.a.10",
    "LA_sq full": "la_sq.a.full",
    "LA_x 1": "la_x.1",
    "LA_x 4": "la_x.4",
    "LA_x 10": "la_x.10",
    "MI": "mi",
    "INF": "inf",
    "INF sym": "inf.sym",
    "DE": "de",
    "TE": "te.trip",
    "FFP": "ffp",
    "fast": "plausibility.fast",
    "length": "plausibility.length_ratio",
    "query": "query_error",
    "hotspot": "hotspot",
    "Prec": "recovery.precision",
    "Rec": "recovery.recall",
    "F": "recovery.f",
    "RMF": "recovery.rmf",
    "Acc": "recovery.accuracy",
    "TE trips": "trip.te",
    "DE trips": "trip.de",
    "length trips": "trip.length",
    "density trips": "trip.density",
    "Kendall trips": "trip.kendall",
    "query trips": "trip.query",
    "query mean": "trip.query.mean",
    "FFP trips": "trip.ffp",
}
_SETTINGS = ("method", "epsilon", "objects", "time_step_s")


def grouped(runs: Sequence[Run]) -> list[tuple[tuple[Any, ...], list[Run]]]:
    """Runs that differ in their seed only, together."""
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs:
        groups.setdefault(tuple(getattr(run, name) for name in _SETTINGS), []).append(run)
    return list(groups.items())


def as_csv(runs: Sequence[Run]) -> str:
    """One row a run, all metrics."""
    names = sorted({name for run in runs for name in run.values})
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*_SETTINGS, "seed", "seconds", *names])
    for run in runs:
        writer.writerow(
            [
                *(getattr(run, name) for name in _SETTINGS),
                run.seed,
                f"{run.seconds:.3f}",
                *(run.values.get(name, "") for name in names),
            ]
        )
    return text.getvalue()


def as_json(runs: Sequence[Run], about: dict[str, Any]) -> str:
    return json.dumps({**about, "runs": [asdict(run) for run in runs]}, indent=1) + "\n"


def as_markdown(runs: Sequence[Run], about: dict[str, Any]) -> str:
    """Mean and standard deviation over the seeds."""
    shown = {title: name for title, name in COLUMNS.items() if any(name in r.values for r in runs)}
    lines = [
        f"Dataset {about['dataset']} ({about['snap']}), signature {about['signature']}, "
        f"{len(about['seeds'])} seed(s), freqdp {about['software']}. Mean ± standard deviation over "
        "the seeds. Seeded noise, nothing published, nothing spent.",
        "",
        "| method | epsilon | objects | time step | " + " | ".join(shown) + " | seconds |",
        "|---" * 4 + "|---:" * (len(shown) + 1) + "|",
    ]
    for (method, epsilon, objects, step), same in grouped(runs):
        cells = [_spread([r.values[n] for r in same if n in r.values]) for n in shown.values()]
        seconds = _spread([r.seconds for r in same], 1)
        lines.append(
            f"| {method} | {epsilon or '-'} | {objects:,} | {'-' if step is None else f'{step:g} s'} | "
            + " | ".join(cells)
            + f" | {seconds} |"
        )
    return "\n".join(lines) + "\n"


def _spread(values: Sequence[float], digits: int = 3) -> str:
    if not values:
        return "-"
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {np.std(values, ddof=1):.{digits}f}"
