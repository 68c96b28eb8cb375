"""The report of a release: one HTML file that needs nothing else.

The curator's shows originals beside the release. The public one is made from the catalogue and the
released table alone.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyproj

import freqdp_db
from freqdp_db.dataset.projection import ReferenceSystem, seen_degrees, transform, utm_srid
from freqdp_db.dataset.road_tables import RoadTable
from freqdp_db.dataset.text_values import grid_metres
from freqdp_db.db.builds import find_build
from freqdp_db.db.connection import Database
from freqdp_db.db.copy import POSTGRES_EPOCH_US
from freqdp_db.db.datasets import DatasetRow, get_dataset
from freqdp_db.db.ledger import budgets, entries
from freqdp_db.db.names import format_relation
from freqdp_db.db.published import ReleaseReader
from freqdp_db.db.releases import ReleaseRow, list_releases, list_steps, load_metrics
from freqdp_db.db.source_maps import read_roads
from freqdp_db.errors import BadData, BadInput
from freqdp_db.evaluation.attacks.exposure import is_exposure
from freqdp_db.evaluation.evaluate import EXPOSED, LINKED, measure_published
from freqdp_db.evaluation.figures import Curve, Picture, line_chart, render
from freqdp_db.evaluation.pair import Case, Pair, load_case
from freqdp_db.evaluation.report.counts import count_pictures
from freqdp_db.evaluation.report.examples import (
    edited_samples,
    explained,
    followed_map,
    trajectory_maps,
)
from freqdp_db.evaluation.report.maps import Heats, RoadLines, box_of, heat_maps
from freqdp_db.evaluation.report.words import (
    BESIDE,
    Tone,
    Verdict,
    attackers,
    beside_attackers,
    by_group,
    counted,
    judge_risk,
    learnt_in_words,
    meaning_of,
    news_of,
    remark_of,
    series_rows,
    strongest,
    verdicts_of,
)
from freqdp_db.evaluation.rules import RuleResult
from freqdp_db.evaluation.series import from_metrics
from freqdp_db.methods.frequency.applying import pf_of_targets
from freqdp_db.methods.frequency.counts import count_frequencies, rank_places
from freqdp_db.methods.registry import find_method
from freqdp_db.model.arrays import Metres, owners, within
from freqdp_db.model.documents import Document
from freqdp_db.model.trajectories import Locations, PfTargets, Trajectories
from freqdp_db.privacy.guarantee import stands_for
from freqdp_db.progress import Progress
from freqdp_db.release.catalogue import Published, find_published, not_covered_beside, whole_user
from freqdp_db.release.export.notice import why_not_granted
from freqdp_db.release.request import Request
from freqdp_db.release.verification import require_published

if TYPE_CHECKING:
    from freqdp_db.evaluation.tables import JudgedTable

_SIGNATURE, _RANKS = 10, 20
_SEED = 1
"""Picks the examples that are shown."""
_NOT_SHOWN: dict[str, Any] = {
    "verdicts": [], "attackers": [], "beside": [], "over_series": None, "series": None,
    "ledger_entry": None, "ledger_hash": None, "software": None, "objects": None, "build": None,
    "steps": [], "user_level": None, "timings": {}, "command": "", "charts": [], "maps": [],
    "followed": None, "explained": None, "on_roads": False, "left": "", "counts": None, "heats": None,
    "rules": [], "not_granted": "", "errors": [],
}  # fmt: skip
"""What a page has only if it is given."""


@dataclass(frozen=True)
class Reported(Document):
    release: str
    file: Path
    public: bool
    bytes: int


def target(path: Path, overwrite: bool) -> Path:
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
    signature = Request.of(release).values.get("signature", _SIGNATURE)
    pitch = grid_metres(build.snap)
    pictures = _pictures(release.kind, case, lines, pitch, progress, signature)
    there = int((case.release.trajectories.lengths > 0).sum())
    return written(path, _curators_facts(database, release, there) | pictures)


def written(path: Path, context: dict[str, Any]) -> Reported:
    words = {"meaning_of": meaning_of, "news_of": news_of, "remark_of": remark_of}
    drawn_by = {"drawn_by": freqdp_db.__version__}
    text = render("report.html", _NOT_SHOWN | words | drawn_by | context)
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
    recorded = list_steps(database, release.release_id)
    return facts(database, release, measured, trajectories) | {
        "public": False,
        "dataset": dataset.name,
        "price": request.price(dataset.protected),
        "parameters": {name: in_plain_times(value) for name, value in request.shown()},
        "verdicts": verdicts_of(release, measured),
        **_attacked(measured),
        "over_series": over_series(measured),
        "series": release.series,
        "comparison": _comparison(database, release, measured),
        "ledger_hash": entry.hash if entry else "",
        "ledger_entry": entry,
        "software": release.software,
        "objects": build.trajectories,
        "build": build,
        "steps": [
            (step.words, step.describe(row.drawn, row.counts or {}))
            for step, row in zip(request.method.steps, recorded, strict=True)
        ],
        "user_level": {m: whole_user(cost) for m, cost in (release.user_level or {}).items()},
        "timings": dict(release.timings or {}),
        "command": f"freqdp anonymize {shlex.quote(dataset.name)} {request.command()}",
    }


_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(?::00)?\+00:00")


def in_plain_times(text: Any) -> Any:
    """A value with times as people read them: `2024-05-06 22:00 UTC`."""
    if not isinstance(text, str):
        return text
    return _MOMENT.sub(r"\1 \2 UTC", text).replace("UTC/", "UTC to ")


def _comparison(
    database: Database, release: ReleaseRow, measured: dict[str, float]
) -> list[dict[str, Any]]:
    """This release and the others of the same build that were measured."""
    columns = [{"name": release.name, "method": release.method, "values": measured}]
    for other in _others(database, release):
        values = {m.name: m.value for m in load_metrics(database, other.release_id)}
        if other.build_id == release.build_id and values:
            columns.append({"name": other.name, "method": other.method, "values": values})
    return columns


def _others(database: Database, release: ReleaseRow) -> list[ReleaseRow]:
    """The other published releases."""
    return [
        other
        for other in list_releases(database)
        if other.state == "published" and other.release_id != release.release_id
    ]


def _attacked(measured: Mapping[str, float]) -> dict[str, Any]:
    """What attackers learnt, and all other metrics by group."""
    others = [n for n in measured if meaning_of(n).group != BESIDE and not is_exposure(n)]
    return {
        "metrics": measured,
        "attackers": attackers(measured),
        "beside": beside_attackers(measured),
        "groups": by_group(others),
    }


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
    signature: int = _SIGNATURE,
) -> dict[str, Any]:
    """What is drawn of a release beside its originals."""
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
        "heats": heats, "followed": followed, "explained": example, "on_roads": bool(len(roads)),
    }  # fmt: skip
    if kind != "edited":
        return shown
    with progress.stage("draw edits"):
        pair = case.pair
        edited = edited_samples(pair)
        kept = 1 - edited.deleted.mean() if len(edited.deleted) else 0.0
        gone = int((pair.original.lengths > 0).sum() - (pair.released.lengths > 0).sum())
        left = f" {gone:,} objects have no sample left." if gone else ""
        return shown | {
            "left": f"{kept:.1%} of the original samples are left.{left}",
            "charts": [chart for chart in frequency_charts(pair, signature) if chart[1]],
            "maps": trajectory_maps(pair, edited, roads),
        }


# Charts: frequencies before and after, and what attackers learn from windows of a series.


def frequency_charts(pair: Pair, signature: int) -> list[Picture]:
    """TF by rank of place, and PF of each object's most telling places, before and after."""
    before = count_frequencies(pair.original, len(pair.locations))
    after = count_frequencies(pair.released, len(pair.locations))
    curves = []
    for name, tf, dashed in (("before", before.tf, False), ("after", after.tf, True)):
        ranked = np.sort(tf[tf > 0])[::-1]
        at = np.unique(np.geomspace(1, max(len(ranked), 1), 60).astype(np.int64))
        at = at[at <= len(ranked)]
        curves.append(Curve(name, at.tolist(), ranked[at - 1].tolist(), dashed))
    tf_title = "How many objects visit a place (TF), places by rank"
    ranks = rank_places(before, signature)
    rank = within(before.offsets)
    listed = ranks.order[rank < _RANKS]
    owner = owners(before.offsets)
    nothing = np.zeros(len(listed), np.int16)
    wanted = PfTargets(
        owner[listed], before.location[listed], nothing, nothing,
        before.pf[listed], before.pf[listed],
    )  # fmt: skip
    kept = pf_of_targets(after, wanted)
    position = rank[rank < _RANKS]
    many = np.maximum(np.bincount(position, minlength=_RANKS), 1)
    old = np.bincount(position, weights=before.pf[listed], minlength=_RANKS) / many
    new = np.bincount(position, weights=kept, minlength=_RANKS) / many
    x = range(1, _RANKS + 1)
    pf_title = f"How often an object visits its {_RANKS} most revealing places (PF), mean"
    means = [Curve("before", x, old.tolist()), Curve("after", x, new.tolist(), dashed=True)]
    return [
        (tf_title, line_chart(tf_title, curves, "rank of the place", "objects", log=True)),
        (pf_title, line_chart(pf_title, means, "rank of the place by weight", "samples")),
    ]


class OverSeries(NamedTuple):
    """What attackers learn who have several windows of the series."""

    words: str
    note: str
    chart: Picture | None
    """By how many they have; None where that was measured for one number alone."""


def over_series(values: Mapping[str, float]) -> OverSeries | None:
    """From the metrics of a window; None if the series was not measured with it."""
    rows = series_rows(from_metrics(values))
    if not rows:
        return None
    last = rows[-1]
    words = f"From {counted(last.windows, 'window')} of its series"
    words += " together, an attacker" if last.windows > 1 else ", an attacker"
    if last.exposure == 0:
        words += " learns nothing about a person."
    elif last.counts:
        words += (
            f" {last.attacker} is right {last.exposure:.1%} more often than wrong. Where it is wrong about "
            f"one in a hundred who was not counted, it finds {last.half + 0.01:.1%} of those who were."
        )
    else:
        words += (
            f" learns {last.exposure:.1%} of what a person did in them on average, and more than half "
            f"for {last.half:.1%} of people. The strongest is one {last.attacker}."
        )
    note = _JOINED_COUNTS if last.counts else _JOINED
    if len(rows) == 1:
        return OverSeries(words, note, None)
    title = "What the strongest attacker learns, by how many of the newest windows it has"
    names = ("of a person, on average", "people of whom over half")
    if last.counts:
        title = (
            "How well an attacker tells who was counted, by how many of the newest windows it has"
        )
        names = ("right minus wrong", "found minus false alarms")
    number = [row.windows for row in rows]
    curves = [
        Curve(names[0], number, [100 * row.exposure for row in rows]),
        Curve(names[1], number, [100 * row.half for row in rows], dashed=True),
    ]
    return OverSeries(words, note, (title, line_chart(title, curves, "windows", "%")))


_JOINED = (
    "Windows share no samples, and ids are others in each. What joins them is what people do again: habits "
    "of other days, and who is where in the evening and the next morning."
)
_JOINED_COUNTS = (
    "Each window has noise of its own. What many say of somebody who is in all of them adds up, and the "
    "guarantee says to what at most."
)


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
    build = find_build(database, dataset.require_build())
    lines = _road_lines(database, roads, judged.srid)
    context = {
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
        **_attacked(measured),
        "comparison": [{"name": judged.name, "method": "made elsewhere", "values": measured}],
        "objects": build.trajectories,
        "build": build,
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
        "parameters": {
            name: {True: "yes", False: "no"}[value]
            if isinstance(value, bool)
            else in_plain_times(value)
            for name, value in release.parameters.items()
        },
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
        reader = ReleaseReader(connection, release.name)
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
    claimed = [
        f"epsilon {part['claimed_epsilon']} for {part['unit']}"
        for part in guarantee["artefacts"].values()
        if part["claimed_epsilon"]
    ]
    return "; ".join(claimed) or "nothing"


# The page for a data protection officer: what a release publishes, and what can be learnt from it.
#
# It follows the three questions of the Article 29 Working Party (Opinion 05/2014, WP216): can somebody be
# singled out, can records of somebody be linked, can something be inferred about somebody. What is proved
# and what was only measured stand apart.


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


class Question(NamedTuple):
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
    readers = "curators only, until it is approved" if release.held else "curators only"
    if release.granted:
        readers = "analysts (members of freqdp_analyst) and curators"
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
        "readers": readers,
        "unit": release.guarantee.get("object", dataset.protected.words),
        "proved": guarantees_objects(release),
        "price": request.price(dataset.protected),
        "budgets": [budget.in_words for budget in budgets(database, dataset.account_id)],
        "questions": questions_of(release, measured),
        "attackers": learnt,
        "measured": measured,
        "strongest": f"{strongest_of}, {learnt_in_words(measured)}" if learnt else None,
        "news_of": news_of,
        "others": [
            other
            for other in _others(database, release)
            if get_dataset(database, other.dataset_id).account_id == dataset.account_id
        ],
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
    found = f"{what[0].lower()}{what[1:]}, {measured[worst]:.1%}"
    return answer, tone, f"Measured, not proved: {found}. Other attackers may do better."


def _values(names: Iterable[str], measured: Mapping[str, float]) -> list[tuple[str, str, float]]:
    return [(meaning_of(name).what, name, measured[name]) for name in names if name in measured]
