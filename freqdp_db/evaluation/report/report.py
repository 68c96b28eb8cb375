"""The report of a release: one HTML file that needs nothing else.

For the curator it shows originals beside the release. The public one leaves out whatever reads
originals: it has the catalogue's words and what can be counted in the released table alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

import freqdp_db
from freqdp_db.columns.edits import Edits
from freqdp_db.documents import Document
from freqdp_db.errors import BadInput
from freqdp_db.evaluation.evaluate import load_case
from freqdp_db.evaluation.metrics import PUBLISHABLE
from freqdp_db.evaluation.pair import Pair
from freqdp_db.evaluation.report.contents import (
    box_of_release,
    edited_samples,
    frequency_charts,
    heat_maps,
    loss_chart,
    map_box,
    trajectory_maps,
)
from freqdp_db.evaluation.report.verdicts import verdicts
from freqdp_db.progress import Progress
from freqdp_db.release.request import Request
from freqdp_db.roads.tables import RoadTable
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.connection.names import format_relation
from freqdp_db.storage.records.builds import find_build
from freqdp_db.storage.records.datasets import get_dataset
from freqdp_db.storage.records.draws import load_columns
from freqdp_db.storage.records.ledger import entries
from freqdp_db.storage.records.metrics import load_metrics
from freqdp_db.storage.records.releases import ReleaseRow, list_releases, list_steps
from freqdp_db.storage.source.roads import read_roads

_SIGNATURE = 10
# The metrics table: what each is, in words, and which way is good.
WORDS = {
    "la": ("linked by the best attacker", "lower is more private"),
    "la_s.a.10": ("linked by the 10 strongest places", "lower is more private"),
    "la_s.a.full": ("linked by all places", "lower is more private"),
    "la_st.a.full": ("linked by places and hours", "lower is more private"),
    "la_sq.a.full": ("linked by movements", "lower is more private"),
    "la_t.a": ("linked by times of day", "lower is more private"),
    "la_s.b.full": ("linked by places of other days", "lower is more private"),
    "la_x.1": ("found by 1 known sample", "lower is more private"),
    "la_x.4": ("found by 4 known samples", "lower is more private"),
    "mi": ("mutual information of positions", "lower is more private"),
    "unicity": ("pinned down by 4 samples of the release", "lower is more private"),
    "unicity.place": ("has a place of its own left", "lower is more private"),
    "recovery.f": ("roads recovered (F)", "lower is more private"),
    "recovery.rmf": ("route mismatch fraction", "higher is more private"),
    "inf": ("samples lost", "lower is more useful"),
    "de": ("change of diameters (JSD)", "lower is more useful"),
    "te.trip": ("change of trips (JSD)", "lower is more useful"),
    "ffp": ("frequent patterns kept (F1)", "higher is more useful"),
    "query_error": ("error of area counts", "lower is more useful"),
    "hotspot": ("order of hotspots (Kendall)", "higher is more useful"),
    "plausibility.fast": ("segments over 120 km/h", "lower is more plausible"),
    "plausibility.length_ratio": ("length against the original", "1 is as before"),
}


@dataclass(frozen=True)
class Reported(Document):
    """What was written."""

    release: str
    file: Path
    public: bool
    bytes: int


def write_report(
    database: Database,
    release: ReleaseRow,
    progress: Progress,
    *,
    public: bool,
    out: Path | None,
    overwrite: bool,
    roads: RoadTable | None,
) -> Reported:
    """Write the report; all of it or nothing."""
    path = out or Path(f"{release.name}.{'public' if public else 'report'}.html")
    if path.exists() and not overwrite:
        raise BadInput(
            f"{path} is there already", remedy="name another file with --out, or say --force"
        )
    if not path.resolve().parent.is_dir():
        raise BadInput(f"--out {path}: there is no such folder", remedy="create it first")
    if public and not release.granted:
        raise BadInput(
            f"release {release.name!r} is not granted: there is nothing to tell the public",
            remedy=f"approve it first: freqdp release approve {release.name}"
            if release.grantable
            else "leave --public out",
        )
    case, build = load_case(database, release, progress)
    pair = case.pair
    with progress.stage("draw"):
        context = _facts(database, release, public)
        if public:
            context |= _public_pictures(pair)
        else:
            lines = _road_lines(database, roads, build.srid)
            context |= _curator_pictures(database, release, pair, lines)
        text = _render(context)
    path.write_text(text, "utf-8")
    return Reported(release.name, path.resolve(), public, len(text.encode()))


def _render(context: dict[str, Any]) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("freqdp_db.evaluation.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html").render(**context)


def _facts(database: Database, release: ReleaseRow, public: bool) -> dict[str, Any]:
    """Everything that is text and numbers."""
    request = Request.of(release)
    dataset = get_dataset(database, release.dataset_id)
    build = find_build(database, release.build_id)
    measured = {m.name: m.value for m in load_metrics(database, release.release_id)}
    if public:
        measured = {n: v for n, v in measured.items() if n in PUBLISHABLE}
    account = entries(database, dataset.account_id)
    entry = next(
        (e for e in reversed(account) if e.release == release.name and e.kind == "spend"), None
    )
    return {
        "name": release.name,
        "public": public,
        "table": format_relation(database.settings.release_schema, release.name),
        "dataset": dataset.name,
        "method": release.method,
        "summary": request.method.summary,
        "price": request.price,
        "kind": release.kind,
        "for_analysts": request.method.for_analysts,
        "version": release.version,
        "published_at": f"{release.published_at:%Y-%m-%d %H:%M %Z}",
        "rows": release.rows,
        "granted": release.granted,
        "guarantee": release.guarantee,
        "parameters": dict(request.shown()),
        "verdicts": verdicts(measured) if not public else [],
        "metrics": measured,
        "words": WORDS,
        "comparison": [] if public else _comparison(database, release, measured),
        "ledger_hash": entry.hash if entry else "",
        "ledger_entry": None if public or entry is None else entry,
        "software": release.software,
        "drawn_by": freqdp_db.__version__,
        "samples": None if public else build.samples,
        "objects": None if public else build.trajectories,
        "build": None if public else build,
        "steps": [] if public else _steps(database, release, request),
        "user_level": None if public else release.user_level,
        "timings": {} if public else dict(release.timings or {}),
        "command": f"freqdp anonymize {dataset.name} {request.command()}",
    }


def _steps(database: Database, release: ReleaseRow, request: Request) -> list[tuple[str, str]]:
    """What each step changed, and what it did."""
    with database.begin() as connection:
        recorded = list_steps(connection, database, release.release_id)
    return [
        (step.words, step.describe(row.drawn, row.counts or {}))
        for step, row in zip(request.method.steps, recorded, strict=True)
    ]


def _comparison(
    database: Database, release: ReleaseRow, measured: dict[str, float]
) -> list[dict[str, Any]]:
    """This release and the others of the same build that were measured."""
    columns = [{"name": release.name, "method": release.method, "values": measured}]
    for other in list_releases(database):
        same = other.build_id == release.build_id and other.release_id != release.release_id
        if same and other.state == "published":
            values = {m.name: m.value for m in load_metrics(database, other.release_id)}
            if values:
                columns.append({"name": other.name, "method": other.method, "values": values})
    return columns


def _road_lines(
    database: Database, roads: RoadTable | None, srid: int
) -> Sequence[NDArray[np.float64]]:
    if roads is None:
        return []
    with database.begin(snapshot=True) as connection:
        rows = read_roads(connection, roads.relation, srid, roads.mapping)
    points = np.column_stack([rows.x, rows.y])
    return np.split(points, rows.offsets[1:-1])


def _public_pictures(pair: Pair) -> dict[str, Any]:
    box = box_of_release(pair.released, pair)
    heats, most = heat_maps([("the release", pair.released.location)], box, pair)
    return {"heats": heats, "heat_most": most, "edit_heats": [], "charts": [], "maps": []}


def _curator_pictures(
    database: Database,
    release: ReleaseRow,
    pair: Pair,
    roads: Sequence[NDArray[np.float64]],
) -> dict[str, Any]:
    box = map_box(pair)
    heats, most = heat_maps(
        [("before", pair.original.location), ("after", pair.released.location)], box, pair
    )
    shown: dict[str, Any] = {
        "heats": heats, "heat_most": most, "edit_heats": [], "charts": [], "maps": [],
    }  # fmt: skip
    if release.kind != "edited":
        return shown
    edited = edited_samples(pair)
    edits, edit_most = heat_maps(
        [
            ("samples taken out", pair.original.location[edited.deleted]),
            ("samples put in", pair.released.location[edited.inserted]),
        ],
        box,
        pair,
    )
    request = Request.of(release)
    with database.begin() as connection:
        logs = [
            load_columns(connection, database, release.release_id, number, "log", Edits)
            for number, step in enumerate(request.method.steps, start=1)
            if step.logs is Edits
        ]
    charts = frequency_charts(pair, request.values.get("signature", _SIGNATURE))
    if logs:
        charts.append(loss_chart(logs))
    return {
        "heats": heats,
        "heat_most": most,
        "edit_heats": edits,
        "edit_most": edit_most,
        # drawn here, from numbers; names in them are escaped
        "charts": [(title, Markup(svg)) for title, svg in charts if svg],
        "maps": [(title, Markup(svg)) for title, svg in trajectory_maps(pair, edited, roads)],
        "on_roads": bool(len(roads)),
    }
