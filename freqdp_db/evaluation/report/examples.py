"""Maps of single examples: what a method did to somebody, and what an attacker sees who knows one sample.

They show originals: for the curator alone. Nobody is named in them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from freqdp_db.evaluation.attacks.claims import right_ones
from freqdp_db.evaluation.attacks.known_samples import SightingIndex, draw_known, held_samples
from freqdp_db.evaluation.attacks.relinking import (
    Links,
    claim_linked,
    find_joints,
    find_runs,
    learn_links,
)
from freqdp_db.evaluation.figures import ACCENT, INK, TRUTH, Picture, Span, span_chart
from freqdp_db.evaluation.pair import Case, CellBox, Pair, ReleaseSeen
from freqdp_db.evaluation.report.contents import Explained, busy_window, clock, rows_within
from freqdp_db.evaluation.report.maps import SAME_NAME, Map, RoadLines
from freqdp_db.model.arrays import Flags, Ints
from freqdp_db.model.days import DAY_US, HOUR_US, local_times

_MINUTE_US = 60_000_000
_BESIDE_MIN = 40
"""So much before and after a meeting is drawn."""
_MOST_OF_A_WAY = 14
"""Samples of one way: of more, a picture is a tangle."""
_TRIED = 400
_RING, _ROOM = 13.0, 6.0
"""On the paper: the least ring around a meeting, and what it has beyond both."""
_TRIPS, _PIECES = 5, 12
_TRIP_LINES = (
    (INK, "solid"), (ACCENT, "solid"), (INK, "dashed"), (ACCENT, "dashed"), (INK, "dotted")
)  # fmt: skip
_BROAD = 2.2


def explained(case: Case, kind: str, box: CellBox, roads: RoadLines, seed: int) -> Explained | None:
    """What the method did, on one example; None where there is no such thing to show."""
    if kind == "unlinked":
        return swap_explained(case, roads) or pieces_explained(case, roads)
    if kind == "generalised":
        return areas_explained(case, roads)
    if kind == "synthetic":
        return trips_explained(case, box, roads, seed)
    return None


@dataclass(frozen=True)
class Exchange:
    """Two released trajectories that met and exchanged tails: the stops of both."""

    first: int
    second: int


def exchanges(case: Case) -> list[Exchange]:
    """Pairs of stops of one meeting after which two went on as each other."""
    release = case.release
    if release.groups is None or release.owner is None:
        return []
    stop, group = release.groups.stop, release.groups.of_members()
    goes_on = ~release.ends[stop]
    stop, group = stop[goes_on], group[goes_on]
    before, after = release.owner[stop].astype(np.int64), release.owner[stop + 1].astype(np.int64)
    changed = before != after
    stop, group, before, after = stop[changed], group[changed], before[changed], after[changed]
    partner = {
        key: int(p) for key, p in zip(zip(group, before, after, strict=True), stop, strict=True)
    }
    return [
        Exchange(int(p), partner[(g, b, a)])
        for p, g, a, b in zip(stop, group, before, after, strict=True)
        if a < b and (g, b, a) in partner
    ]


def _stretch(case: Case, stop: int) -> tuple[Ints, Ints]:
    """What one person did up to a stop, and another one after it, within the time drawn."""
    release = case.release
    at, owner = release.trajectories.at, release.owners
    t = release.trajectory[stop]
    lo, hi = release.trajectories.offsets[t], release.trajectories.offsets[t + 1]
    first, last = stop, stop + 1
    lo, hi = max(lo, stop - _MOST_OF_A_WAY + 1), min(hi, stop + 1 + _MOST_OF_A_WAY)
    while first > lo and owner[first - 1] == owner[stop] and _near(at[first - 1], at[stop]):
        first -= 1
    while last + 1 < hi and owner[last + 1] == owner[stop + 1] and _near(at[last + 1], at[stop]):
        last += 1
    return np.arange(first, stop + 1), np.arange(stop + 1, last + 1)


def _near(at: int, other: int) -> bool:
    return abs(int(at) - int(other)) <= _BESIDE_MIN * _MINUTE_US


def _clarity(case: Case, pair: Exchange) -> float:
    """How well a picture shows an exchange: all four ways long and straight, and apart at their ends."""
    ways = [*_stretch(case, pair.first), *_stretch(case, pair.second)]
    x, y = case.release.x, case.release.y
    if min(len(way) for way in ways) < 3:
        return 0.0
    ends = [ways[0][0], ways[1][-1], ways[2][0], ways[3][-1]]
    apart = min(
        float(np.hypot(x[a] - x[b], y[a] - y[b])) for n, a in enumerate(ends) for b in ends[n + 1 :]
    )
    straight = 1.0
    for way in ways:
        along = float(np.hypot(np.diff(x[way]), np.diff(y[way])).sum())
        straight = min(
            straight,
            float(np.hypot(x[way[-1]] - x[way[0]], y[way[-1]] - y[way[0]])) / max(along, 1.0),
        )
    return min(len(way) for way in ways) * min(apart, 3_000.0) * straight


def swap_explained(case: Case, roads: RoadLines) -> Explained | None:
    """Two that meet and exchange tails."""
    found = exchanges(case)
    if not found:
        return None
    some = found[:: max(1, len(found) // _TRIED)]
    pair = max(some, key=lambda each: _clarity(case, each))
    one, two = _stretch(case, pair.first), _stretch(case, pair.second)
    x, y = case.release.x, case.release.y
    rows = np.concatenate([*one, *two])
    drawn = Map.around(x[rows], y[rows])
    drawn.roads(roads)
    # the way from a stop to what follows it belongs to who goes on
    for (before, after), (first, then), line in (
        (one, (INK, ACCENT), "solid"), (two, (ACCENT, INK), "dashed")
    ):  # fmt: skip
        drawn.way(x[before], y[before], first, line, _BROAD)
        tail = np.concatenate([before[-1:], after])
        drawn.way(x[tail], y[tail], then, line, _BROAD)
    stops = np.array([pair.first, pair.second])
    middle_x, middle_y = float(x[stops].mean()), float(y[stops].mean())
    apart = float(np.hypot(np.diff(x[stops]), np.diff(y[stops]))[0])
    drawn.circle(middle_x, middle_y, max(apart * drawn.scale / 2 + _ROOM, _RING))
    for row, name in ((one[0][0], "1: A"), (one[1][-1], "1: B"),
                      (two[0][0], "2: B"), (two[1][-1], "2: A")):  # fmt: skip
        drawn.rings(x[[row]], y[[row]])
        drawn.name(x[row], y[row], name)
    words = (
        "Two people met in the ring, and chance decided who continues as whom. The solid line is released "
        "trajectory 1, the dashed one is 2; the colour is the person: B is red. Each trajectory "
        "begins as one person and ends as the other; no sample is moved."
    )
    return Explained("Two that meet and exchange tails", words, [(_CAPTION, drawn.picture(words))])


_CAPTION = f"Up to {_BESIDE_MIN} minutes and {_MOST_OF_A_WAY} samples before and after the meeting"


def pieces_explained(case: Case, roads: RoadLines) -> Explained | None:
    """A day of one person, in pieces that have nothing to do with each other any more."""
    release, lengths = case.release, case.original.lengths
    if not release.pieces or not release.trajectories.samples:
        return None
    pieces = np.unique(release.owners.astype(np.int64) << 32 | release.trajectory) >> 32
    each = np.bincount(pieces, minlength=len(case))
    order = np.argsort(np.where(each > 1, lengths, 0), kind="stable")
    order = order[each[order] > 1]
    if not len(order):
        return None
    u = int(order[len(order) // 2])
    window = busy_window(Pair(case.original, case.original, case.places, case.timezone), u)
    truth = rows_within(case.original, u, window, case.pair)
    mine = np.flatnonzero(release.owners == u)
    local = local_times(release.trajectories.at[mine], case.timezone)
    mine = mine[(local >= window.begin) & (local < window.end)]
    if not len(mine) or not len(truth):
        return None
    drawn = Map.around(case.x[truth], case.y[truth])
    drawn.roads(roads)
    drawn.truth(case.x[truth], case.y[truth])
    numbers = np.unique(release.trajectory[mine])
    firsts = sorted((int(mine[release.trajectory[mine] == t][0]), t) for t in numbers)
    for n, (first, t) in enumerate(sorted(firsts, key=lambda f: release.trajectories.at[f[0]])):
        rows = mine[release.trajectory[mine] == t]
        line = (INK, "solid") if n % 2 == 0 else (ACCENT, "dashed")
        drawn.way(release.x[rows], release.y[rows], *line)
        drawn.rings(release.x[[first]], release.y[[first]])
        if n < _PIECES:
            drawn.name(release.x[first], release.y[first], str(n + 1))
    words = (
        f"Object A, {window.words}: released as {len(firsts):,} pieces, each with an id of its own "
        "(numbered by time, alternately solid and dashed). Broad grey: the original; parts with nothing "
        "drawn over them were left out."
    )
    return Explained(
        "A day in pieces", words, [("A ring is where a piece begins", drawn.picture(words))]
    )


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
    drawn = Map.over(
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
    return Explained("Synthetic trips", words, [("Chosen at random among those of middling length",
                                                drawn.picture(words))])  # fmt: skip


_AREAS = 7


def areas_explained(case: Case, roads: RoadLines) -> Explained | None:
    """Areas and intervals of one group, one after the other."""
    release = case.release
    if release.areas is None or release.members is None:
        return None
    lengths = release.trajectories.lengths
    rows = _telling_areas(case)
    if not len(rows):
        return None
    t = release.trajectory[rows[0]]
    members = int(release.members[t])
    areas, begin = release.areas, release.trajectories.at
    drawn = Map.over(
        CellBox(
            areas.x_min[rows].min(), areas.y_min[rows].min(),
            areas.x_max[rows].max(), areas.y_max[rows].max(),
        )
    )  # fmt: skip
    drawn.roads(roads)
    inside = _inside(case, rows)
    drawn.dots(case.x[inside], case.y[inside], ACCENT, 2.2)
    spans = []
    corners: dict[tuple[int, int], tuple[float, float, list[str]]] = {}
    for n, row in enumerate(rows, start=1):
        west, south, east, north = (
            side[row] for side in (areas.x_min, areas.y_min, areas.x_max, areas.y_max)
        )
        drawn.box_of(west, south, east, north)
        u, v = drawn.at(west, north)
        corner = (round(u / SAME_NAME), round(v / SAME_NAME))
        corners.setdefault(corner, (west, north, []))[2].append(str(n))
        size = f"{(east - west) / 1000:.1f} × {(north - south) / 1000:.1f} km"
        spans.append(Span(str(n), float(begin[row]), float(areas.until[row]), size))
    for west, north, numbers in corners.values():
        drawn.name(west, north, ", ".join(numbers), dx=3, dy=13)
    ends = local_times(np.array([begin[rows].min(), areas.until[rows].max()]), case.timezone)
    words = (
        f"{len(rows)} of the {int(lengths[t]):,} areas of one released trajectory, in order of time. "
        f"It stands for {members:,} objects: whichever of them was recorded in interval 1 was in area "
        "1 then, and so on. It does not say who that was, nor how many."
    )
    return Explained(
        "Areas and intervals of one group",
        words,
        [
            (
                f"The areas. Dots: samples that lie in them, {_of_whom(case, inside, members)}",
                drawn.picture(f"Map: {words}"),
            ),
            (
                "The intervals, and how wide each area is",
                span_chart(f"Intervals: {words}", spans, (_when(ends[0]), _when(ends[1]))),
            ),
        ],
    )


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


def _when(local_us: int) -> str:
    day = np.datetime64("2000-01-01") + np.timedelta64(int(local_us) // DAY_US, "D")
    return f"{day} {clock(int(local_us))}"


def _inside(case: Case, rows: Ints) -> Flags:
    """Original samples in these areas at their times: the group's, where it is known who is in it."""
    areas, begin = case.release.areas, case.release.trajectories.at
    assert areas is not None
    at, owner = case.original.at, case.original.owner
    inside = np.zeros(len(at), np.bool_)
    for row in rows:
        inside |= (
            (at >= begin[row]) & (at < areas.until[row])
            & (case.x >= areas.x_min[row]) & (case.x <= areas.x_max[row])
            & (case.y >= areas.y_min[row]) & (case.y <= areas.y_max[row])
        )  # fmt: skip
    if case.release.part_of is None:
        return inside
    mine: Flags = inside & (case.release.part_of[owner] == case.release.trajectory[rows[0]])
    return mine


def _of_whom(case: Case, inside: Flags, members: int) -> str:
    """Whose the dots are: a part of the group does not mean that the group is smaller."""
    if case.release.part_of is None:
        return "of anybody, of the group or not"
    seen = len(np.unique(case.original.owner[inside]))
    if seen == members:
        return f"of all {members:,} objects of the group"
    others = members - seen
    return (
        f"of {seen:,} of the {members:,} objects of the group; the other {others:,} "
        f"{'has' if others == 1 else 'have'} none in these intervals"
    )


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
    told = right_ones(case, claims)
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
    (_draw_areas if release.areas is not None else _draw_ways)(drawn, release, one)
    drawn.star(case.x[one.known], case.y[one.known])
    if release.areas is None:
        drawn.crosses(x[~one.right], y[~one.right])
    right, wrong = int(one.right.sum()), int((~one.right).sum())
    told = (
        f"of {len(one.claim):,} samples that it claims, {right:,} tell where the person was (solid line) "
        f"and {wrong:,} do not (dashed, crossed)"
        if release.areas is None
        else f"of {len(one.claim):,} areas that it claims, {right:,} tell where the person was (filled) "
        f"and {wrong:,} do not, or not closely enough (dashed)"
    )
    words = (
        f"A typical person. The attacker knows one sample (the star) and claims what goes on for {HOURS} "
        f"hours either way: {told}. Broad grey: where the person really was in that time."
    )
    return words, drawn.picture(words)


def _draw_ways(drawn: Map, release: ReleaseSeen, one: Followed) -> None:
    """What is right as a line, what is wrong dashed."""
    x, y = release.x[one.claim], release.y[one.claim]
    for begin, end, right in _stretches(one.right):
        # a stretch goes on to where the next one begins: no gap between them
        part = slice(begin, min(end + 1, len(x)))
        drawn.way(x[part], y[part], *((INK, "solid") if right else (ACCENT, "dashed")))


def _draw_areas(drawn: Map, release: ReleaseSeen, one: Followed) -> None:
    """What is right filled, what is wrong dashed."""
    areas = release.areas
    assert areas is not None
    for row, right in zip(one.claim, one.right, strict=True):
        corners = (areas.x_min[row], areas.y_min[row], areas.x_max[row], areas.y_max[row])
        drawn.box_of(*corners, wrong=not right)


def _stretches(right: Flags) -> list[tuple[int, int, bool]]:
    """Runs of claims that are right, or wrong: begin, end, which."""
    edges = np.flatnonzero(np.diff(right)) + 1
    bounds = [0, *edges.tolist(), len(right)]
    return [(a, b, bool(right[a])) for a, b in pairwise(bounds) if b > a]
