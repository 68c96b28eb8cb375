"""What the report shows of D and D*: heat maps, trajectories, frequencies and edits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from freqdp_db.columns.arrays import Flags, Ids, Ints
from freqdp_db.columns.days import DAY_US, local_times
from freqdp_db.columns.edits import MM_PER_M, Edits, PfTargets
from freqdp_db.columns.ragged import owners, within
from freqdp_db.columns.trajectories import Trajectories
from freqdp_db.evaluation.pair import Box, Pair
from freqdp_db.evaluation.report.drawing import (
    Curve,
    Path,
    bar_chart,
    heat_png,
    line_chart,
    trajectory_map,
)
from freqdp_db.frequency.counts import count_frequencies
from freqdp_db.frequency.signatures import rank_places
from freqdp_db.methods.frequency.possible import reached_pf

_HEAT_SIDE = 120
_EDGE_PERCENT = 0.5
_SHOWN = 3
_MOST_SAMPLES = 600
_LOSSES_M = (0, 50, 100, 200, 500, 1_000, 2_000)
_RANKS = 20


@dataclass(frozen=True)
class Heat:
    """A picture of how many samples lie where."""

    title: str
    source: str
    alt: str


def heat_maps(sides: Sequence[tuple[str, Ids]], box: Box, pair: Pair) -> tuple[list[Heat], int]:
    """Samples by cell for each named column of locations, all on one scale; and its upper end."""
    cells = box.cells(pair.locations, _HEAT_SIDE)
    inside = (
        (pair.locations.x >= box.west)
        & (pair.locations.x <= box.east)
        & (pair.locations.y >= box.south)
        & (pair.locations.y <= box.north)
    )
    grids = []
    for _, places in sides:
        shown = places[inside[places]]
        counts = np.bincount(cells[shown], minlength=_HEAT_SIDE * _HEAT_SIDE)
        grids.append(counts.reshape(_HEAT_SIDE, _HEAT_SIDE))
    most = int(max((grid.max(initial=0) for grid in grids), default=0))
    pictures = [
        Heat(
            name,
            heat_png(grid, most),
            f"Heat map, {name}: {int(grid.sum()):,} samples, busiest cell {int(grid.max()):,}",
        )
        for (name, _), grid in zip(sides, grids, strict=True)
    ]
    return pictures, most


def map_box(pair: Pair) -> Box:
    """The area that maps show: a square around D's 0.5 to 99.5 percentiles."""
    box = Box.of(pair, _EDGE_PERCENT)
    side = max(box.east - box.west, box.north - box.south, 100.0)
    x, y = (box.west + box.east) / 2, (box.south + box.north) / 2
    return Box(x - side / 2, y - side / 2, x + side / 2, y + side / 2)


def box_of_release(released: Trajectories, pair: Pair) -> Box:
    """The same, but of what was released: a public report may not show where D was."""
    return map_box(Pair(released, released, pair.locations))


@dataclass(frozen=True)
class EditedSamples:
    """Which samples of D are not in D*, and which of D* not in D."""

    deleted: Flags
    inserted: Flags


def edited_samples(pair: Pair) -> EditedSamples:
    """What differs, by (object, place, time)."""
    at = pair.coarse(pair.original.at)
    times = np.union1d(at, pair.released.at)

    def facts(side: Trajectories, when: Ints) -> Ints:
        """One number for each: objects, times and places of any data set fit into 63 bits."""
        moment = np.searchsorted(times, when)
        return (side.owner * np.int64(len(times)) + moment) * len(pair.locations) + side.location

    before, after = facts(pair.original, at), facts(pair.released, pair.released.at)
    return EditedSamples(~np.isin(before, after), ~np.isin(after, before))


def trajectory_maps(
    pair: Pair, edited: EditedSamples, roads: Sequence[NDArray[np.float64]]
) -> list[tuple[str, str]]:
    """A busy day of three objects: of the few, middling and many samples."""
    deleted, inserted = edited.deleted, edited.inserted
    lengths = np.where(pair.on_both_sides, pair.original.lengths, 0)
    order = np.argsort(lengths, kind="stable")
    order = order[lengths[order] > 1]
    pictures = []
    for number, share in enumerate((0.25, 0.5, 0.75)[:_SHOWN]):
        if not len(order):
            break
        t = int(order[int(share * (len(order) - 1))])
        window = _busiest_day(pair, t)
        mine = _within(pair.original, t, window, pair.timezone)
        theirs = _within(pair.released, t, window, pair.timezone)
        if len(mine) < 2 or len(theirs) < 1:
            continue
        x, y = pair.locations.x, pair.locations.y
        old, new = pair.original.location[mine], pair.released.location[theirs]
        path = Path(x[old], y[old], x[new], y[new], deleted[mine], inserted[theirs])
        title = (
            f"Object {'ABC'[number]}, its busiest day: {len(mine):,} samples before, "
            f"{len(theirs):,} after; {int(deleted[mine].sum()):,} deleted, "
            f"{int(inserted[theirs].sum()):,} inserted"
        )
        pictures.append((title, trajectory_map(title, path, roads)))
    return pictures


def _busiest_day(pair: Pair, t: int) -> int:
    lo, hi = pair.original.offsets[t], pair.original.offsets[t + 1]
    moving = np.append(True, np.diff(pair.original.location[lo:hi]) != 0)
    days = local_times(pair.original.at[lo:hi][moving], pair.timezone) // DAY_US
    known, counts = np.unique(days, return_counts=True)
    return int(known[np.argmax(counts)])


def _within(side: Trajectories, t: int, day: int, timezone: str) -> Ints:
    rows = np.arange(side.offsets[t], side.offsets[t + 1])
    today: Ints = rows[local_times(side.at[rows], timezone) // DAY_US == day]
    return today[:_MOST_SAMPLES]


def frequency_charts(pair: Pair, signature: int) -> list[tuple[str, str]]:
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
    kept = reached_pf(after, wanted)
    position = rank[rank < _RANKS]
    many = np.maximum(np.bincount(position, minlength=_RANKS), 1)
    old = np.bincount(position, weights=before.pf[listed], minlength=_RANKS) / many
    new = np.bincount(position, weights=kept, minlength=_RANKS) / many
    x = list(range(1, _RANKS + 1))
    pf_title = f"How often an object visits its {_RANKS} most telling places (PF), mean"
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


def loss_chart(edits: Sequence[Edits]) -> tuple[str, str]:
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
    names = ["0", *(f"≤{m:,}" for m in _LOSSES_M[1:]), f">{_LOSSES_M[-1]:,}"]
    return title, bar_chart(title, names, sides, "metres", "edits")
