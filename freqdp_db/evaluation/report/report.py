"""The report of a release: one HTML file that needs nothing else.

The curator's shows originals beside the release. The public one is made from the catalogue and the
released table alone.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyproj

import freqdp_db
from freqdp_db.dataset.projection import ReferenceSystem, seen_degrees, transform, utm_srid
from freqdp_db.dataset.road_tables import RoadTable
from freqdp_db.dataset.snapping import grid_metres
from freqdp_db.db.builds import find_build
from freqdp_db.db.connection import Database
from freqdp_db.db.copy import POSTGRES_EPOCH_US
from freqdp_db.db.datasets import DatasetRow, get_dataset
from freqdp_db.db.draws import load_edits
from freqdp_db.db.ledger import entries
from freqdp_db.db.metrics import load_metrics
from freqdp_db.db.names import format_relation
from freqdp_db.db.published import ReleaseReader
from freqdp_db.db.releases import ReleaseRow, list_releases, list_steps
from freqdp_db.db.source_maps import read_roads
from freqdp_db.errors import BadData, BadInput
from freqdp_db.evaluation.attacks.exposure import is_exposure
from freqdp_db.evaluation.figures import render
from freqdp_db.evaluation.loading import load_case
from freqdp_db.evaluation.metrics import measure_published
from freqdp_db.evaluation.pair import Case, CellBox, Pair
from freqdp_db.evaluation.report.contents import (
    Heats,
    box_of,
    edited_samples,
    exposures,
    frequency_charts,
    heat_maps,
    loss_chart,
    over_series,
    trajectory_maps,
)
from freqdp_db.evaluation.report.counts import count_pictures
from freqdp_db.evaluation.report.examples import explained, followed_map
from freqdp_db.evaluation.report.maps import RoadLines
from freqdp_db.evaluation.report.words import (
    BESIDE,
    Verdict,
    by_group,
    meaning_of,
    news_of,
    remark_of,
    verdicts_of,
)
from freqdp_db.evaluation.rules import RuleResult
from freqdp_db.evaluation.tables import JudgedTable
from freqdp_db.methods.registry import find_method
from freqdp_db.model.arrays import Metres
from freqdp_db.model.documents import Document
from freqdp_db.model.edits import EditLog, Edits
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.privacy.guarantee import stands_for
from freqdp_db.progress import Progress
from freqdp_db.release.catalogue import Published, find_published
from freqdp_db.release.export.notice import why_not_granted
from freqdp_db.release.request import Request
from freqdp_db.release.summary import whole_user
from freqdp_db.release.verification import require_published

_SIGNATURE = 10
_SEED = 1
"""Picks the examples that are shown."""
_FOR_THE_CURATOR: dict[str, Any] = {
    "verdicts": [], "exposures": None, "over_series": None, "series": None, "news_of": news_of,
    "ledger_entry": None, "software": None,
    "objects": None, "build": None, "steps": [], "user_level": None, "timings": {}, "command": "",
    "edit_heats": None, "charts": [], "maps": [], "followed": None, "explained": None,
    "on_roads": False, "left": "", "counts": None, "heats": None, "rules": [], "ledger_hash": None,
    "remark_of": remark_of,
}  # fmt: skip


@dataclass(frozen=True)
class Reported(Document):
    """What was written."""

    release: str
    file: Path
    public: bool
    bytes: int


def target(path: Path, overwrite: bool) -> Path:
    """The file to write, or a refusal."""
    if path.exists() and not overwrite:
        raise BadInput(
            f"{path} is there already", remedy="name another file with [[out]], or say [[force]]"
        )
    if not path.resolve().parent.is_dir():
        raise BadInput(f"[[out]] {path}: there is no such folder", remedy="create it first")
    return path


def write_report(
    database: Database,
    release: ReleaseRow,
    progress: Progress,
    *,
    out: Path | None,
    overwrite: bool,
    roads: RoadTable | None,
) -> Reported:
    """Write the curator's report; all of it or nothing."""
    path = target(out or Path(f"{release.name}.report.html"), overwrite)
    if release.kind == "counts":
        require_published(release, "reported")
        pictures = {"counts": count_pictures(database, release.name, progress)}
        return written(path, _curators_facts(database, release, 0) | pictures)
    case, build = load_case(database, release, progress), find_build(database, release.build_id)
    lines = _road_lines(database, roads, build.srid)
    pitch, request = grid_metres(build.snap), Request.of(release)
    with database.begin() as connection:
        logs = [
            load_edits(connection, database, release.release_id, number)
            for number, step in enumerate(request.method.steps, start=1)
            if step.logs is EditLog
        ]
    signature = request.values.get("signature", _SIGNATURE)
    pictures = _pictures(release.kind, case, lines, pitch, progress, logs, signature)
    there = int((case.release.trajectories.lengths > 0).sum())
    return written(path, _curators_facts(database, release, there) | pictures)


def written(path: Path, context: dict[str, Any]) -> Reported:
    """Write the page."""
    text = render("report", "report.html", context)
    path.write_text(text, "utf-8")
    return Reported(context["name"], path.resolve(), context["public"], len(text.encode()))


def facts(
    database: Database,
    release: ReleaseRow | Published,
    measured: dict[str, float],
    trajectories: int,
) -> dict[str, Any]:
    """What both reports tell; what is for the curator alone is empty."""
    method, published = find_method(release.method), find_published(database, release.name)
    return {
        **_FOR_THE_CURATOR,
        "name": release.name,
        "heading": f"Release {release.name}",
        "table": format_relation(database.settings.release_schema, published.relations[0]),
        "method": release.method,
        "summary": method.summary,
        "for_analysts": method.for_analysts,
        "errors": published.guarantee.get("errors", []),
        "version": release.version,
        "published_at": f"{release.published_at:%Y-%m-%d %H:%M %Z}",
        "released": _released(release, trajectories),
        "granted": release.granted,
        "guarantee": release.guarantee,
        "metrics": measured,
        "meaning_of": meaning_of,
        "drawn_by": freqdp_db.__version__,
        "not_granted": why_not_granted(release.guarantee),
    }


def _released(release: ReleaseRow | Published, trajectories: int) -> str:
    """What the table holds, in words: samples are not always somebody's, nor rows samples."""
    if release.kind == "counts":
        return f"Counts in tables, {release.rows:,} rows in the first of them,"
    if release.kind == "synthetic":
        return f"{release.rows:,} samples of {trajectories:,} synthetic trips"
    k = stands_for(release.guarantee)
    if k is not None:
        return f"{release.rows:,} areas of {trajectories:,} trajectories, each for at least {k} objects,"
    return f"{release.rows:,} samples in {trajectories:,} trajectories"


def _curators_facts(database: Database, release: ReleaseRow, trajectories: int) -> dict[str, Any]:
    """Everything that is text and numbers."""
    request = Request.of(release)
    dataset = get_dataset(database, release.dataset_id)
    build = find_build(database, release.build_id)
    measured = {m.name: m.value for m in load_metrics(database, release.release_id)}
    account = entries(database, dataset.account_id)
    entry = next(
        (e for e in reversed(account) if e.release == release.name and e.kind == "spend"), None
    )
    return facts(database, release, measured, trajectories) | {
        "public": False,
        "dataset": dataset.name,
        "price": request.price(dataset.protected),
        "parameters": {name: in_plain_times(value) for name, value in request.shown()},
        "verdicts": verdicts_of(release, measured),
        "groups": by_group(_in_the_table(measured)),
        "exposures": exposures(measured),
        "over_series": over_series(measured),
        "series": release.series,
        "comparison": _comparison(database, release, measured),
        "ledger_hash": entry.hash if entry else "",
        "ledger_entry": entry,
        "software": release.software,
        "objects": build.trajectories,
        "build": build,
        "steps": _steps(database, release, request),
        "user_level": {m: whole_user(cost) for m, cost in (release.user_level or {}).items()},
        "timings": dict(release.timings or {}),
        "command": f"freqdp anonymize {shlex.quote(dataset.name)} {request.command()}",
    }


_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(?::00)?\+00:00")


def in_plain_times(text: Any) -> Any:
    """A value with times as people read them: `2024-05-06 22:00 UTC`."""
    return (
        _MOMENT.sub(r"\1 \2 UTC", text).replace("UTC/", "UTC to ")
        if isinstance(text, str)
        else text
    )


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


def _in_the_table(measured: Mapping[str, float]) -> list[str]:
    """What the table shows: single attackers' exposures are in the panels above it."""
    return [n for n in measured if meaning_of(n).group != BESIDE and not is_exposure(n)]


def _road_lines(database: Database, roads: RoadTable | None, srid: int) -> RoadLines:
    if roads is None:
        return RoadLines.none()
    with database.begin(snapshot=True) as connection:
        rows = read_roads(connection, roads.relation, srid, roads.mapping)
    return RoadLines(rows.x, rows.y, rows.offsets)


def _pictures(
    kind: str,
    case: Case,
    roads: RoadLines,
    pitch: float | None,
    progress: Progress,
    logs: Sequence[Edits] = (),
    signature: int = _SIGNATURE,
) -> dict[str, Any]:
    """What is drawn of a release beside its originals. logs: what was edited, if that is on record."""
    # made-up trips lie inside the region that was said, and the data may reach far beyond
    inside = kind == "synthetic" and len(case.release.x) > 0
    box = box_of(case.release.x, case.release.y) if inside else box_of(case.x, case.y)
    with progress.stage("draw maps"):
        after = "after" if case.release.areas is None else "after: the middle of each area"
        sides = [("before", case.x, case.y), (after, case.release.x, case.release.y)]
        heats = heat_maps(sides, box, pitch)
        example = explained(case, kind, box, roads, _SEED)
    with progress.stage("follow somebody"):
        followed = followed_map(case, _SEED, roads)
    shown: dict[str, Any] = {
        "heats": heats,
        "followed": followed,
        "explained": example,
        "on_roads": bool(len(roads)),
    }
    if kind != "edited":
        return shown
    with progress.stage("draw edits"):
        return shown | _edit_pictures(case.pair, roads, box, pitch, logs, signature)


def _edit_pictures(
    pair: Pair,
    roads: RoadLines,
    box: CellBox,
    pitch: float | None,
    logs: Sequence[Edits],
    signature: int,
) -> dict[str, Any]:
    """What was taken out and put in, where trajectories are the objects'."""
    edited = edited_samples(pair)
    out, put_in = pair.original.location[edited.deleted], pair.released.location[edited.inserted]
    x, y = pair.locations.x, pair.locations.y
    sides = [("samples taken out", x[out], y[out]), ("samples put in", x[put_in], y[put_in])]
    charts = frequency_charts(pair, signature)
    if logs:
        charts.append(loss_chart(logs))
    kept = 1 - edited.deleted.mean() if len(edited.deleted) else 0.0
    gone = int((pair.original.lengths > 0).sum() - (pair.released.lengths > 0).sum())
    return {
        "left": f"{kept:.1%} of the original samples are left."
        + (f" {gone:,} objects have no sample left." if gone else ""),
        "edit_heats": heat_maps(sides, box, pitch),
        "charts": [picture for picture in charts if picture[1]],
        "maps": trajectory_maps(pair, edited, roads),
    }


# The report of a table that was made elsewhere: the same page, without what is known of releases alone.

_NOTHING_GUARANTEED = {
    "plain": "Nothing is known of how this table was made, so nothing is guaranteed. What stands below was "
    "measured, by these attackers, and is no guarantee.",
    "artefacts": {},
    "not_protected": ["What other attackers learn, or these with other knowledge."],
    "seeded": False,
}


def write_table_report(
    database: Database,
    dataset: DatasetRow,
    judged: JudgedTable,
    measured: dict[str, float],
    verdicts: list[Verdict],
    rules: list[RuleResult],
    path: Path,
    roads: RoadTable | None,
    progress: Progress,
) -> Path:
    """Write the page of a table that was judged."""
    build = find_build(database, dataset.require_build())
    lines = _road_lines(database, roads, judged.srid)
    context = _FOR_THE_CURATOR | {
        "name": judged.name,
        "heading": f"Table {judged.name}",
        "public": False,
        "published_at": None,
        "dataset": dataset.name,
        "released": " ".join(judged.lines()),
        "method": "made elsewhere",
        "granted": True,
        "guarantee": _NOTHING_GUARANTEED,
        "verdicts": verdicts,
        "rules": rules,
        "groups": by_group(_in_the_table(measured)),
        "exposures": exposures(measured),
        "comparison": [{"name": judged.name, "method": "made elsewhere", "values": measured}],
        "objects": build.trajectories,
        "build": build,
        "metrics": measured,
        "meaning_of": meaning_of,
        "drawn_by": freqdp_db.__version__,
        "parameters": {},
    }
    pictures = _pictures(judged.kind, judged.case, lines, judged.pitch, progress)
    return written(path, context | pictures).file


# The report for the public: from the catalogue and the released table, and nothing else.
#
# It reads no build and nothing of the private schema, so that whoever may read a release can write it.


_WGS84 = 4326
_LEAST_PITCH_M = 1.0


def write_public_report(
    database: Database, name: str, progress: Progress, *, out: Path | None, overwrite: bool
) -> Reported:
    """Write the report; all of it or nothing."""
    release = find_published(database, name)
    path = target(out or Path(f"{name}.public.html"), overwrite)
    if not release.granted:
        raise BadInput(
            f"release {name!r} is not granted: there is nothing to tell the public",
            remedy=f"approve it first if it is held (freqdp release approve {shlex.quote(name)}), or "
            "leave [[public]] out",
        )
    measured: dict[str, float] = {}
    pictures: dict[str, Any]
    if release.kind == "counts":
        trajectories, pictures = 0, {"counts": count_pictures(database, name, progress)}
    else:
        pair = _read(database, release, progress)
        with progress.stage("count"):
            measured = measure_published(pair, release.kind, _SEED)
        with progress.stage("draw maps"):
            trajectories, pictures = len(pair.released), {"heats": heats_of(pair)}
    context = facts(database, release, measured, trajectories) | {
        "public": True,
        "dataset": release.dataset,
        "price": _price(release.guarantee),
        "parameters": {k: in_plain_times(_word(v)) for k, v in release.parameters.items()},
        "groups": by_group(list(measured)),
        "comparison": [{"name": release.name, "method": release.method, "values": measured}],
        "ledger_hash": release.ledger_head,
        **pictures,
    }
    return written(path, context)


def _read(database: Database, release: Published, progress: Progress) -> Pair:
    """The released trajectories in metres, on both sides: there is nothing to compare them with."""
    with (
        progress.stage("read release", release.rows) as stage,
        database.begin(snapshot=True) as connection,
    ):
        reader = ReleaseReader(connection, database, release.name)
        parts = []
        for part in reader.samples():
            parts.append((part.trajectory_id, part.at_us - POSTGRES_EPOCH_US, part.x, part.y))
            stage.advance(len(part.x))
        ids, at, x, y = (
            (np.concatenate(column) for column in zip(*parts, strict=True))
            if parts
            else (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros(0))
        )
        x, y = _in_metres(reader, x, y)
    begins = np.flatnonzero(np.r_[True, ids[1:] != ids[:-1]]) if len(ids) else np.zeros(0, np.int64)
    offsets = np.r_[begins, len(ids)].astype(np.int64)
    places, location = np.unique(x + 1j * y, return_inverse=True)
    released = Trajectories(offsets, location.reshape(-1).astype(np.int32), at, at[begins])
    return Pair(released, released, Locations(places.real.copy(), places.imag.copy()))


def _in_metres(reader: ReleaseReader, x: Metres, y: Metres) -> tuple[Metres, Metres]:
    """In the release's own system if it is in metres, else in a UTM zone, else around the middle."""
    own = ReferenceSystem.parse(reader.srid, reader.definition())
    if own.metric or not len(x):
        return x, y
    degrees = ReferenceSystem(_WGS84, pyproj.CRS.from_epsg(_WGS84))
    lon, lat = transform(own, degrees, x, y)
    try:
        zone = utm_srid(seen_degrees(lon, lat))
        plane = ReferenceSystem(zone, pyproj.CRS.from_epsg(zone))
    except BadData:  # too wide for one
        middle = f"+lon_0={np.median(lon)} +lat_0={np.median(lat)}"
        plane = ReferenceSystem(0, pyproj.CRS.from_proj4(f"+proj=laea {middle} +units=m"))
    return transform(own, plane, x, y)


def heats_of(pair: Pair) -> Heats:
    """Where the released samples are."""
    x, y = (side[pair.released.location] for side in (pair.locations.x, pair.locations.y))
    return heat_maps([("the release", x, y)], box_of(x, y), pitch_of(pair.locations))


def pitch_of(places: Locations) -> float | None:
    """The side of the grid that places lie on, if they lie on one."""
    pitches = []
    for values in (places.x, places.y):
        gaps = np.diff(np.unique(np.round(values, 2)))
        if not len(gaps) or gaps.min() < _LEAST_PITCH_M:
            return None
        pitch = float(gaps.min())
        if np.abs(gaps / pitch - np.round(gaps / pitch)).max() > 0.01:
            return None
        pitches.append(pitch)
    return pitches[0] if abs(pitches[0] - pitches[1]) < 0.01 * pitches[0] else None


def _price(guarantee: dict[str, Any]) -> str:
    """What was claimed for what, in words."""
    claimed = [
        f"epsilon {part['claimed_epsilon']} for {part['unit']}"
        for part in guarantee["artefacts"].values()
        if part["claimed_epsilon"]
    ]
    return "; ".join(claimed) or "nothing"


def _word(value: Any) -> Any:
    return ("yes" if value else "no") if isinstance(value, bool) else value
