"""What a report shows of a release: heat maps, trajectories, frequencies, edits, exposure by attacker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from freqdp_db.evaluation.attacks.exposure import is_exposure
from freqdp_db.evaluation.attacks.known_samples import absent_from
from freqdp_db.evaluation.figures import Curve, Picture, Share, bar_chart, line_chart, share_panel
from freqdp_db.evaluation.metrics import EXPOSED
from freqdp_db.evaluation.pair import CellBox, Pair
from freqdp_db.evaluation.report.maps import EditedWay, Raster, RoadLines, heat_png, trajectory_map
from freqdp_db.evaluation.report.words import (
    Tone,
    attack_in_words,
    between,
    counted,
    judge_risk,
    series_rows,
    strongest,
)
from freqdp_db.evaluation.series import from_metrics
from freqdp_db.methods.frequency.applying import pf_of_targets
from freqdp_db.methods.frequency.counts import count_frequencies, rank_places
from freqdp_db.model.arrays import Flags, Ints, Metres, owners, within
from freqdp_db.model.days import DAY_US, local_times
from freqdp_db.model.edits import MM_PER_M, Edits, PfTargets
from freqdp_db.model.trajectories import Trajectories

_EDGE_PERCENT = 0.5
_MOST_PERCENT = (95, 90, 80)
_MUCH_FARTHER, _AROUND = 8, 1.5
_MOST_SAMPLES = 600
_MINUTE_US = 60_000_000
_SPANS_MIN = (720, 480, 360, 240, 180, 120, 90, 60, 45, 30, 20, 10, 5, 2, 1)
"""Half of a window, in minutes: as much of a day as can be drawn."""
_LOSSES_M = (0, 50, 100, 200, 500, 1_000, 2_000)
_RANKS = 20


@dataclass(frozen=True)
class EditedSamples:
    """Which samples of D are not in D*, and which of D* not in D."""

    deleted: Flags
    inserted: Flags


def edited_samples(pair: Pair) -> EditedSamples:
    """What differs, by (object, place, time)."""
    before, after = (
        replace(side, at=pair.coarse(side.at)) for side in (pair.original, pair.released)
    )
    return EditedSamples(
        deleted=absent_from(after, before, before.owner),
        inserted=absent_from(before, after, after.owner),
    )


@dataclass(frozen=True)
class Heat:
    """A picture of how many samples lie where."""

    title: str
    source: str
    alt: str
    of: int
    """How many samples there are, on the map or not."""
    outside: int
    """How many of them are not on it."""


@dataclass(frozen=True)
class Heats:
    """Pictures on one scale."""

    pictures: list[Heat]
    most: int
    """The upper end of the scale."""
    cell_m: float

    @property
    def cell(self) -> str:
        """How wide a cell is, as it is read: coordinates in degrees make no round metres."""
        return f"{self.cell_m:,.0f} m" if self.cell_m >= 10 else f"{self.cell_m:.2g} m"


@dataclass(frozen=True)
class Explained:
    """Pictures of one thing, and what they show of it."""

    title: str
    words: str
    pictures: list[Picture]


def heat_maps(
    sides: Sequence[tuple[str, Metres, Metres]], box: CellBox, pitch: float | None
) -> Heats:
    """Samples by cell for each named column of positions.

    `pitch`: positions lie on a grid of so many metres; None: anywhere.
    """
    raster = Raster.over(box, pitch)
    grids = [raster.counts(x, y) for _, x, y in sides]
    most = int(max((grid.max(initial=0) for grid in grids), default=0))
    pictures = [
        Heat(
            name,
            heat_png(grid, most),
            f"Heat map, {name}: {int(grid.sum()):,} samples, busiest cell {int(grid.max()):,}",
            len(x),
            len(x) - int(grid.sum()),
        )
        for (name, x, _), grid in zip(sides, grids, strict=True)
    ]
    return Heats(pictures, most, raster.cell)


def box_of(x: Metres, y: Metres) -> CellBox:
    """The area that maps of these positions show: where most are.

    From their 0.5 to their 99.5 percentile. But people travel: where most are much nearer to the
    middle than the others, the map shows that part.
    """
    box = CellBox.around(x, y, _EDGE_PERCENT)
    if not len(x):
        return box
    middle_x, middle_y = float(np.median(x)), float(np.median(y))
    away = np.maximum(np.abs(x - middle_x), np.abs(y - middle_y))
    for reach in np.percentile(away, _MOST_PERCENT).tolist():
        if _MUCH_FARTHER * 2 * reach < max(box.east - box.west, box.north - box.south):
            around = _AROUND * reach
            box = CellBox(
                max(box.west, middle_x - around), max(box.south, middle_y - around),
                min(box.east, middle_x + around), min(box.north, middle_y + around),
            )  # fmt: skip
    return box


def trajectory_maps(pair: Pair, edited: EditedSamples, roads: RoadLines) -> list[Picture]:
    """A busy day of three objects: of the few, middling and many samples."""
    lengths = np.where(pair.on_both_sides, pair.original.lengths, 0)
    order = np.argsort(lengths, kind="stable")
    order = order[lengths[order] > 1]
    pictures = []
    for letter, share in zip("ABC", (0.25, 0.5, 0.75), strict=True):
        if not len(order):
            break
        t = int(order[int(share * (len(order) - 1))])
        window = busy_window(pair, t)
        mine, theirs = (
            rows_within(side, t, window, pair) for side in (pair.original, pair.released)
        )
        if len(mine) < 2 or len(theirs) < 1:
            continue
        x, y = pair.locations.x, pair.locations.y
        old, new = pair.original.location[mine], pair.released.location[theirs]
        deleted, inserted = edited.deleted[mine], edited.inserted[theirs]
        title = (
            f"Object {letter}, {window.words}: {len(mine):,} samples before, {len(theirs):,} after; "
            f"{int(deleted.sum()):,} deleted, {int(inserted.sum()):,} inserted"
        )
        path = EditedWay(x[old], y[old], x[new], y[new], deleted, inserted)
        pictures.append((title, trajectory_map(title, path, roads)))
    return pictures


@dataclass(frozen=True)
class Window:
    """A part of an object's time, by its local clock: the same before and after."""

    begin: int
    end: int
    """Not in it."""
    words: str


def busy_window(pair: Pair, t: int) -> Window:
    """The day on which an object moves most; of a day with too many samples to draw, the hours
    around the middle of its moves, and the words say so."""
    lo, hi = pair.original.offsets[t], pair.original.offsets[t + 1]
    moving = np.append(True, np.diff(pair.original.location[lo:hi]) != 0)
    moves = local_times(pair.original.at[lo:hi][moving], pair.timezone)
    known, counts = np.unique(moves // DAY_US, return_counts=True)
    day = int(known[np.argmax(counts)])
    whole = Window(day * DAY_US, (day + 1) * DAY_US, "its busiest day")
    in_all = _most_samples(pair, t, whole)
    if in_all <= _MOST_SAMPLES:
        return whole
    today = moves[moves // DAY_US == day]
    middle = int(np.median(today)) // _MINUTE_US * _MINUTE_US
    for minutes in _SPANS_MIN:
        begin = max(middle - minutes * _MINUTE_US, whole.begin)
        end = min(middle + minutes * _MINUTE_US, whole.end)
        words = f"{clock(begin)} to {clock(end)} of its busiest day (which has {in_all:,} samples)"
        window = Window(begin, end, words)
        if _most_samples(pair, t, window) <= _MOST_SAMPLES:
            break
    return window


def clock(local_us: int) -> str:
    """Hours and minutes of a local time."""
    minutes = local_us % DAY_US // _MINUTE_US
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _most_samples(pair: Pair, t: int, window: Window) -> int:
    return max(len(rows_within(side, t, window, pair)) for side in (pair.original, pair.released))


def rows_within(side: Trajectories, t: int, window: Window, pair: Pair) -> Ints:
    """An object's samples in a window."""
    rows = np.arange(side.offsets[t], side.offsets[t + 1])
    local = local_times(side.at[rows], pair.timezone)
    inside: Ints = rows[(local >= window.begin) & (local < window.end)]
    return inside


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
    x = list(range(1, _RANKS + 1))
    pf_title = f"How often an object visits its {_RANKS} most revealing places (PF), mean"
    return [
        (tf_title, line_chart(tf_title, curves, "rank of the place", "objects", log=True)),
        (
            pf_title,
            line_chart(
                pf_title,
                [Curve("before", x, old.tolist()), Curve("after", x, new.tolist(), dashed=True)],
                "rank of the place by weight",
                "samples",
            ),
        ),
    ]


def loss_chart(edits: Sequence[Edits]) -> Picture:
    """How many edits cost how many metres."""
    title = "What the edits cost: distance between the edit and the way that was there"
    sides = []
    for name, runs in (
        ("deleted", [e.deletions for e in edits]),
        ("inserted", [e.insertions for e in edits]),
    ):
        metres = np.concatenate([r.loss_mm for r in runs]) / MM_PER_M if runs else np.zeros(0)
        bucket = np.searchsorted(_LOSSES_M, metres, side="left")
        sides.append((name, np.bincount(bucket, minlength=len(_LOSSES_M) + 1).tolist()))
    short = [f"{m / 1_000:g} k" if m >= 1_000 else str(m) for m in _LOSSES_M]
    names = ["0", *(f"≤{m}" for m in short[1:]), f">{short[-1]}"]
    return title, bar_chart(title, names, sides, "metres", "edits")


_OF = {
    "a.10": "the 10 strongest, whole period",
    "a.full": "all, whole period",
    "b.10": "the 10 strongest, other days",
    "b.full": "all, other days",
}
_KNOWN = {k: f"{k} known sample{'s' * (k != '1')}" for k in ("1", "2", "4", "10")}
_NEAR = {k: f"{k} known sample{'s' * (k != '1')}" for k in ("1", "4", "10")}
_FROM = {k: f"from {k} known sample{'s' * (k != '1')}" for k in ("1", "10")}


def _each(attack: str, variants: Mapping[str, str]) -> dict[str, str]:
    return {f"exposure.{attack}.{variant}": name for variant, name in variants.items()}


_PANELS = {
    "Knows a few exact samples": _each("x", _KNOWN),
    "Takes what is near known samples": _each("near", _NEAR),
    "Joins pieces and undoes swaps": _each("relink", _FROM),
    "Knows habits of other days": {"exposure.habits": "every piece that fits"},
    "Knows the device, from 10 known samples": {
        "exposure.fraction.10": "by its fraction of a second",
        "exposure.second.10": "by its second of the minute",
        "exposure.interval.10": "by its interval",
        "exposure.digits.10": "by its digits",
    },
    "Compares places": _each("s", _OF),
    "Compares places by the hour": _each("st", _OF),
    "Compares movements between places": _each("sq", _OF),
    "Compares times of day": _each("t", {"a": "whole period", "b": "other days"}),
}
"""Of each kind of attacker: its metrics, and what the bar of each is called."""
_BESIDE = {
    "home": "Homes located to within 200 m: {:.1%} of people, by the trajectory that 4 known samples find.",
    "habits": "Habits of other days match {:.1%} of the released trajectories of the days between with the "
    "right person.",
    "relink": "The re-linker undoes {:.1%} of the swaps and cuts.",
    "edits.auc": "Inserted samples can be told apart from true ones with an AUC of {:.2f} (0.5 is chance, "
    "1 is certainty).",
}


@dataclass(frozen=True)
class Exposures:
    """What the section shows."""

    worst: str
    """In words."""
    marked: bool
    """Whether one of them is marked as the worst: not if none learns anything."""
    tone: Tone
    """How that is."""
    panels: list[Picture]
    """Of each kind of attacker."""
    beside: list[str]
    """Sentences."""


def exposures(values: Mapping[str, float]) -> Exposures | None:
    """From the metrics of a release; None if they were not measured."""
    if EXPOSED not in values:
        return None
    worst = strongest(values, filter(is_exposure, values))
    # as it is shown: of nothing, none is the worst
    marked = worst if round(values[worst], 3) > 0 else None
    tone = judge_risk(values[worst])[1]
    panels = []
    for title, bars in _PANELS.items():
        shares = [
            Share(
                name,
                values[metric],
                values.get(f"{metric}.precision"),
                worst=metric == marked,
                alarming=metric == marked and tone == "bad",
            )
            for metric, name in bars.items()
            if metric in values
        ]
        if shares:
            told = "; ".join(f"{share.name} {share.value:.1%}" for share in shares)
            panels.append((title, share_panel(f"{title}: {told}", shares)))
    beside = [words.format(values[name]) for name, words in _BESIDE.items() if name in values]
    return Exposures(worst_in_words(values, worst), marked is not None, tone, panels, beside)


@dataclass(frozen=True)
class OverSeries:
    """What attackers learn who have several windows of the series."""

    words: str
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
    words += (
        f" learns {last.exposure:.1%} of what a person did in them on average, and more than half for "
        f"{last.half:.1%} of people. The strongest is one {last.attacker}."
        if last.exposure > 0
        else " learns nothing about a person."
    )
    if len(rows) == 1:
        return OverSeries(words, None)
    title = "What the strongest attacker learns, by how many of the newest windows it has"
    number = [row.windows for row in rows]
    curves = [
        Curve("of a person, on average", number, [100 * row.exposure for row in rows]),
        Curve("people of whom over half", number, [100 * row.half for row in rows], dashed=True),
    ]
    return OverSeries(words, (title, line_chart(title, curves, "windows", "%")))


def worst_in_words(values: Mapping[str, float], worst: str) -> str:
    """Who it is, what it learns, of how many, and how often it is right."""
    if values[worst] <= 0:
        return "None of these attackers learns anything about a person's samples."
    words = (
        f"The strongest attacker, one {attack_in_words(worst)}, learns {values[worst]:.1%} of a "
        f"person's other samples on average{between(values, worst)}"
    )
    half = values.get(f"{worst}.half")
    if half is not None and round(half, 3) > 0:
        words += f", and more than half for {half:.1%} of people"
    elif half is not None:
        words += ", and more than half of nobody"
    if f"{worst}.precision" in values:
        words += f". {values[f'{worst}.precision']:.1%} of its claims are right"
    return words + "."
