"""Maps of single examples: what a method did to somebody, and what an attacker sees who knows one sample.

They show originals: for the curator alone. Nobody is named in them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from freqdp_db.evaluation.attacks.claims import judge
from freqdp_db.evaluation.attacks.known_samples import (
    SightingIndex,
    absent_from,
    draw_known,
    held_samples,
)
from freqdp_db.evaluation.attacks.relinking import (
    Links,
    claim_linked,
    find_joints,
    find_runs,
    learn_links,
)
from freqdp_db.evaluation.figures import ACCENT, INK, TRUTH, Picture
from freqdp_db.evaluation.pair import Case, CellBox, Pair
from freqdp_db.evaluation.report.maps import SAME_NAME, Map, RoadLines
from freqdp_db.model.arrays import Flags, Ints
from freqdp_db.model.days import DAY_US, HOUR_US, local_times
from freqdp_db.model.trajectories import Trajectories

_MINUTE_US = 60_000_000
_MOST_SAMPLES = 600
"""Of one object: more of them cannot be told apart."""


class EditedSamples(NamedTuple):
    """Which samples of D are not in D*, and which of D* not in D."""

    deleted: Flags
    inserted: Flags


def edited_samples(pair: Pair) -> EditedSamples:
    """What differs, by (object, place, time)."""
    sides = (pair.original, pair.released)
    before, after = (replace(side, at=pair.coarse(side.at)) for side in sides)
    return EditedSamples(
        absent_from(after, before, before.owner), absent_from(before, after, after.owner)
    )


def trajectory_maps(pair: Pair, edited: EditedSamples, roads: RoadLines) -> list[Picture]:
    """A busy day of three objects, of the few, middling and many samples: before (broad) and after
    (thin), deleted samples crossed out, inserted ones ringed."""
    lengths = np.where(pair.on_both_sides, pair.original.lengths, 0)
    order = np.argsort(lengths, kind="stable")
    order = order[lengths[order] > 1]
    x, y = pair.locations.x, pair.locations.y
    pictures = []
    for letter, share in zip("ABC", (0.25, 0.5, 0.75), strict=True):
        if not len(order):
            break
        t = int(order[int(share * (len(order) - 1))])
        window = busy_window(pair, t)
        mine = rows_within(pair.original, t, window, pair.timezone)
        theirs = rows_within(pair.released, t, window, pair.timezone)
        if len(mine) < 2 or len(theirs) < 1:
            continue
        old, new = pair.original.location[mine], pair.released.location[theirs]
        deleted, inserted = old[edited.deleted[mine]], new[edited.inserted[theirs]]
        title = (
            f"Object {letter}, {window.words}: {len(mine):,} samples before, {len(theirs):,} after; "
            f"{len(deleted):,} deleted, {len(inserted):,} inserted"
        )
        both = np.concatenate([old, new])
        drawn = Map.around(x[both], y[both])
        drawn.roads(roads)
        drawn.truth(x[old], y[old])
        drawn.way(x[new], y[new])
        drawn.crosses(x[deleted], y[deleted])
        drawn.rings(x[inserted], y[inserted])
        pictures.append((title, drawn.picture(title)))
    return pictures


class Window(NamedTuple):
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
    day = int(known[np.argmax(counts)]) * DAY_US
    window = Window(day, day + DAY_US, "its busiest day")

    def most_samples() -> int:
        sides = (pair.original, pair.released)
        return max(len(rows_within(side, t, window, pair.timezone)) for side in sides)

    in_all = most_samples()
    middle = int(np.median(moves[moves // DAY_US * DAY_US == day])) // _MINUTE_US * _MINUTE_US
    reach = DAY_US // 2
    while most_samples() > _MOST_SAMPLES and reach > _MINUTE_US:
        reach = max(reach // 2 // _MINUTE_US, 1) * _MINUTE_US
        begin, end = max(middle - reach, day), min(middle + reach, day + DAY_US)
        words = f"{clock(begin)} to {clock(end)} of its busiest day (which has {in_all:,} samples)"
        window = Window(begin, end, words)
    return window


def clock(local_us: int) -> str:
    minutes = local_us % DAY_US // _MINUTE_US
    return f"{minutes // 60:02}:{minutes % 60:02}"


def rows_within(side: Trajectories, t: int, window: Window, timezone: str) -> Ints:
    rows = np.arange(side.offsets[t], side.offsets[t + 1])
    local = local_times(side.at[rows], timezone)
    inside: Ints = rows[(local >= window.begin) & (local < window.end)]
    return inside


# What the method did, on one example.

_TRIPS, _PIECES, _AREAS = 5, 12, 7
_TRIP_LINES = (
    (INK, "solid"), (ACCENT, "solid"), (INK, "dashed"), (ACCENT, "dashed"), (INK, "dotted")
)  # fmt: skip
_BROAD = 2.2


class Explained(NamedTuple):
    """A picture of what the method did, and what it shows."""

    title: str
    words: str
    picture: Picture


def explained(case: Case, kind: str, box: CellBox, roads: RoadLines, seed: int) -> Explained | None:
    """What the method did, on one example; None where there is no such thing to show."""
    drawn = {
        "unlinked": lambda: pieces_explained(case, roads),
        "generalised": lambda: areas_explained(case, roads),
        "synthetic": lambda: trips_explained(case, box, roads, seed),
    }
    return drawn[kind]() if kind in drawn else None


def pieces_explained(case: Case, roads: RoadLines) -> Explained | None:
    """A day of one person, under the ids that it was released with."""
    release = case.release
    pieces = np.unique(release.owners.astype(np.int64) << 32 | release.trajectory) >> 32
    each = np.bincount(pieces[pieces >= 0], minlength=len(case))
    order = np.argsort(case.original.lengths, kind="stable")
    order = order[each[order] > 1]
    if not len(order):
        return None
    u = int(order[len(order) // 2])
    window = busy_window(Pair(case.original, case.original, case.places, case.timezone), u)
    truth = rows_within(case.original, u, window, case.timezone)
    mine = np.flatnonzero(release.owners == u)
    local = local_times(release.true_at[mine], case.timezone)
    mine = mine[(local >= window.begin) & (local < window.end)]
    if not len(mine) or not len(truth):
        return None
    drawn = Map.around(case.x[truth], case.y[truth])
    drawn.roads(roads)
    drawn.truth(case.x[truth], case.y[truth])
    ids = [mine[release.trajectory[mine] == t] for t in np.unique(release.trajectory[mine])]
    ids.sort(key=lambda rows: release.true_at[rows[0]])
    for n, rows in enumerate(ids):
        line = (INK, "solid") if n % 2 == 0 else (ACCENT, "dashed")
        drawn.way(release.x[rows], release.y[rows], *line)
        drawn.rings(release.x[rows[:1]], release.y[rows[:1]])
        if n < _PIECES:
            drawn.name(release.x[rows[0]], release.y[rows[0]], str(n + 1))
    words = (
        f"Object A, {window.words}: released under {len(ids):,} ids (numbered by time, alternately "
        "solid and dashed). Broad grey: the original; parts with nothing drawn over them were left out."
    )
    picture = ("A ring is where an id begins", drawn.picture(words))
    return Explained("One person under several ids", words, picture)


def trips_explained(case: Case, box: CellBox, roads: RoadLines, seed: int) -> Explained | None:
    """A few made-up trips over the region."""
    release = case.release
    lengths = release.trajectories.lengths
    moving = np.flatnonzero(lengths > 2)
    if not len(moving):
        return None
    # of middling length: the shortest hop about, the longest are everywhere
    order = moving[np.argsort(lengths[moving], kind="stable")]
    middle = order[len(order) // 4 : max(3 * len(order) // 4, len(order) // 4 + 1)]
    chosen = np.random.default_rng([seed, 21]).permutation(middle)[:_TRIPS]
    offsets = release.trajectories.offsets
    rows = [np.arange(offsets[t], offsets[t + 1]) for t in chosen]
    every = np.concatenate(rows)
    x, y = release.x[every], release.y[every]
    drawn = Map(
        CellBox(
            min(box.west, x.min()), min(box.south, y.min()),
            max(box.east, x.max()), max(box.north, y.max()),
        )
    )  # fmt: skip
    behind = drawn.roads(roads)
    if not behind:
        places = np.unique(case.original.location)
        some = places[:: max(1, len(places) // 4_000)]
        drawn.dots(case.places.x[some], case.places.y[some], TRUTH, 1.1)
    begun: list[tuple[float, float]] = []
    for n, trip in enumerate(rows):
        x, y = release.x[trip], release.y[trip]
        here = drawn.at(float(x[0]), float(y[0]))
        beside = sum(math.dist(here, other) < SAME_NAME for other in begun)
        begun.append(here)
        drawn.way(x, y, *_TRIP_LINES[n], _BROAD)
        drawn.rings(x[:1], y[:1])
        drawn.name(x[0], y[0], str(n + 1), dx=7.0 + SAME_NAME * beside)
    words = (
        f"{len(chosen)} synthetic trips over the region, each starting at its ring. Nobody made them: "
        "places, paths and lengths were drawn from noisy counts. Behind them, grey: "
        f"{'the roads' if behind else 'places that were really visited'}."
    )
    picture = ("Chosen at random among those of middling length", drawn.picture(words))
    return Explained("Synthetic trips", words, picture)


def areas_explained(case: Case, roads: RoadLines) -> Explained | None:
    """Areas of one group, one after the other."""
    release = case.release
    if release.areas is None or release.members is None:
        return None
    rows = _telling_areas(case)
    if not len(rows):
        return None
    t = release.trajectory[rows[0]]
    areas = release.areas
    drawn = Map(
        CellBox(
            areas.x_min[rows].min(), areas.y_min[rows].min(),
            areas.x_max[rows].max(), areas.y_max[rows].max(),
        )
    )  # fmt: skip
    drawn.roads(roads)
    corners: dict[tuple[int, int], tuple[float, float, list[str]]] = {}
    for n, row in enumerate(rows, start=1):
        west, north = areas.x_min[row], areas.y_max[row]
        drawn.box_of(west, areas.y_min[row], areas.x_max[row], north)
        u, v = drawn.at(west, north)
        corner = (round(u / SAME_NAME), round(v / SAME_NAME))
        corners.setdefault(corner, (west, north, []))[2].append(str(n))
    for west, north, numbers in corners.values():
        drawn.name(west, north, ", ".join(numbers), dx=3, dy=13)
    ends = np.array([release.trajectories.at[rows].min(), areas.until[rows].max()])
    times = np.datetime64("2000-01-01", "us") + local_times(ends, case.timezone)
    begin, end = (str(time)[:16].replace("T", " ") for time in times)
    words = (
        f"{len(rows)} of the {int(release.trajectories.lengths[t]):,} areas of one released trajectory, "
        f"numbered by time, from {begin} to {end}. It stands for {int(release.members[t]):,} objects: "
        "whichever of them was recorded in the interval of area 1 was in area 1 then, and so on. It does "
        "not say who that was, nor how many."
    )
    return Explained("Areas of one group", words, ("The areas", drawn.picture(words)))


def _telling_areas(case: Case) -> Ints:
    """Areas of one group, one after the other: where they differ most for their size."""
    release, areas = case.release, case.release.areas
    assert areas is not None
    size = np.hypot(areas.x_max - areas.x_min, areas.y_max - areas.y_min)
    step = np.hypot(np.diff(release.x), np.diff(release.y)) / np.maximum(size[1:] + size[:-1], 1.0)
    best, found = -1.0, np.zeros(0, np.int64)
    for begin, end in pairwise(release.trajectories.offsets.tolist()):
        count = min(_AREAS, end - begin)
        if count < 1:
            continue
        sums = np.concatenate([[0.0], np.cumsum(step[begin : end - 1])])
        moved = sums[count - 1 :] - sums[: len(sums) - count + 1]
        first = int(np.argmax(moved))
        # of shorter ones there is less to see
        if count + moved[first] > best:
            best, found = count + float(moved[first]), begin + first + np.arange(count)
    return found


# What an attacker sees who knows one sample.

HOURS = 3
_HORIZON_US = HOURS * HOUR_US
_LOOKED_AT = 200
"""So many persons are followed, to find a typical one."""
_LIKELY = 0.5
"""What is joined less likely than this is not shown."""
_ENOUGH = 12
"""Different places that a picture should have, if there is somebody with as many."""


@dataclass(frozen=True)
class Followed:
    """One person, and what the attacker claims of them."""

    person: int
    known: int
    """Position of the known sample in the original."""
    claim: Ints
    """Positions in the release, in order of time."""
    right: Flags

    @property
    def share(self) -> float:
        return float(self.right.mean())


def follow_somebody(case: Case, seed: int) -> Followed | None:
    """Somebody typical: right in the attacker's claim as in the median. None: nobody is found."""
    rng = np.random.default_rng([seed, 20])
    there = np.flatnonzero(case.original.lengths > 1)
    if not len(there) or not case.release.trajectories.samples:
        return None
    chosen = rng.permutation(there)[: min(_LOOKED_AT, -(-len(there) // 2))]
    everybody = _follow_each(case, np.sort(chosen), rng)
    if not everybody:
        return None
    x, y = case.release.x, case.release.y

    def places(f: Followed) -> int:
        return len(np.unique(np.column_stack([x[f.claim], y[f.claim]]), axis=0))

    lively = [f for f in everybody if places(f) >= _ENOUGH] or everybody
    middle = float(np.median([f.share for f in everybody]))
    return min(lively, key=lambda f: abs(f.share - middle))


def _follow_each(case: Case, chosen: Ints, rng: np.random.Generator) -> list[Followed]:
    """What is claimed of these, with what was learnt from the others."""
    release, side = case.release, case.release.trajectories
    learn = np.ones(len(case), np.bool_)
    learn[chosen] = False
    joints = find_joints(release)
    if joints is None:
        runs = find_runs(release)
        links = Links.none(len(runs))
    else:
        runs, links = joints.runs, learn_links(joints, learn, rng)
    known = draw_known(case, 1, rng, held_samples(case))
    sighted = SightingIndex(release).find(case, known, rng)
    attack = np.zeros(len(case), np.bool_)
    attack[chosen] = True
    claims = claim_linked(runs, links, known, sighted, attack)
    told = judge(case, claims)[1]
    found = []
    for u in chosen[known.offsets[chosen + 1] > known.offsets[chosen]]:
        position = known.offsets[u]
        if sighted.where[position] < 0:
            continue
        mine = np.arange(claims.offsets[u], claims.offsets[u + 1])
        away = np.abs(side.at[claims.sample[mine]] - side.at[sighted.where[position]])
        mine = mine[(claims.worth[mine] >= _LIKELY) & (away <= _HORIZON_US)]
        mine = mine[np.argsort(release.true_at[claims.sample[mine]], kind="stable")]
        one = Followed(int(u), int(known.position[position]), claims.sample[mine], told[mine])
        found.append(one)
    return found


def followed_map(case: Case, seed: int, roads: RoadLines) -> Picture | None:
    """A map and its words; None: nobody is found."""
    one = follow_somebody(case, seed)
    if one is None:
        return None
    release = case.release
    x, y = release.x[one.claim], release.y[one.claim]
    near = np.arange(case.original.offsets[one.person], case.original.offsets[one.person + 1])
    away = np.abs(case.original.at[near] - case.original.at[one.known])
    near = near[away <= _HORIZON_US]
    true_x, true_y = case.x[near], case.y[near]
    if release.areas is not None:
        # of areas, their corners
        areas = release.areas
        x = np.concatenate([areas.x_min[one.claim], areas.x_max[one.claim]])
        y = np.concatenate([areas.y_min[one.claim], areas.y_max[one.claim]])
    drawn = Map.around(np.concatenate([x, true_x]), np.concatenate([y, true_y]))
    drawn.roads(roads)
    drawn.truth(true_x, true_y)
    right, wrong = int(one.right.sum()), int((~one.right).sum())
    if release.areas is not None:
        for row, sure in zip(one.claim, one.right, strict=True):
            corners = (areas.x_min[row], areas.y_min[row], areas.x_max[row], areas.y_max[row])
            drawn.box_of(*corners, wrong=not sure)
        told = (
            f"of {len(one.claim):,} areas that it claims, {right:,} tell where the person was (filled) "
            f"and {wrong:,} do not, or not closely enough (dashed)"
        )
    else:
        edges = np.flatnonzero(np.diff(one.right)) + 1
        for begin, end in pairwise([0, *edges.tolist(), len(one.right)]):
            # a stretch goes on to where the next one begins: no gap between them
            line = (INK, "solid") if one.right[begin] else (ACCENT, "dashed")
            drawn.way(x[begin : end + 1], y[begin : end + 1], *line)
        drawn.crosses(x[~one.right], y[~one.right])
        told = (
            f"of {len(one.claim):,} samples that it claims, {right:,} tell where the person was (solid "
            f"line) and {wrong:,} do not (dashed, crossed)"
        )
    drawn.star(case.x[one.known], case.y[one.known])
    words = (
        f"A typical person. The attacker knows one sample (the star) and claims what goes on for {HOURS} "
        f"hours either way: {told}. Broad grey: where the person really was in that time."
    )
    return words, drawn.picture(words)
