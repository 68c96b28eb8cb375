"""The picture that explains a kind of release: a swap, pieces, areas that several share, made-up trips."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from freqdp_db.columns.arrays import Ints
from freqdp_db.columns.days import local_times
from freqdp_db.evaluation.attacks.exposure.case import Case
from freqdp_db.evaluation.pair import CellBox, Pair
from freqdp_db.evaluation.report.contents import Explained, busy_window, rows_within
from freqdp_db.evaluation.report.grouped import areas_explained
from freqdp_db.evaluation.report.maps import SAME_NAME, Map, RoadLines

_MINUTE_US = 60_000_000
_BESIDE_MIN = 40
"""So much before and after a meeting is drawn."""
_MOST_OF_A_WAY = 14
"""Samples of one way: of more, a picture is a tangle."""
_TRIED = 400
_RING, _ROOM = 13.0, 6.0
"""On the paper: the least ring around a meeting, and what it has beyond both."""
_TRIPS, _PIECES = 5, 12
_TRIP_LINES = ("way ink", "way accent", "way ink dashed", "way accent dashed", "way ink dotted")


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
    for before, after, line in ((one[0], one[1], ""), (two[0], two[1], " dashed")):
        person = ("ink", "accent") if not line else ("accent", "ink")
        drawn.way(x[before], y[before], f"way broad {person[0]}{line}")
        tail = np.concatenate([before[-1:], after])
        drawn.way(x[tail], y[tail], f"way broad {person[1]}{line}")
    stops = np.array([pair.first, pair.second])
    middle_x, middle_y = float(x[stops].mean()), float(y[stops].mean())
    apart = float(np.hypot(np.diff(x[stops]), np.diff(y[stops]))[0])
    wide = round(max(apart * drawn.scale / 2 + _ROOM, _RING), 1)
    drawn.rings(np.array([middle_x]), np.array([middle_y]), wide, "meeting")
    for row, name in ((one[0][0], "1: A"), (one[1][-1], "1: B"),
                      (two[0][0], "2: B"), (two[1][-1], "2: A")):  # fmt: skip
        drawn.rings(x[[row]], y[[row]])
        drawn.name(x[row], y[row], name)
    words = (
        "Two persons met in the ring, and it was drawn who goes on as whom. The solid line is released "
        "trajectory 1, the dashed one is 2; the colour is the person: B is red. Each trajectory "
        "begins as one and ends as the other; no sample is moved for it."
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
    drawn.way(case.x[truth], case.y[truth], "truth")
    numbers = np.unique(release.trajectory[mine])
    firsts = sorted((int(mine[release.trajectory[mine] == t][0]), t) for t in numbers)
    for n, (first, t) in enumerate(sorted(firsts, key=lambda f: release.trajectories.at[f[0]])):
        rows = mine[release.trajectory[mine] == t]
        line = "way ink" if n % 2 == 0 else "way accent dashed"
        drawn.way(release.x[rows], release.y[rows], line)
        drawn.rings(release.x[[first]], release.y[[first]])
        if n < _PIECES:
            drawn.name(release.x[first], release.y[first], str(n + 1))
    words = (
        f"Object A, {window.words}: released as {len(firsts):,} pieces, each with an id of its own "
        "(numbered by time; now solid, now dashed). Broad grey: the original; where nothing is drawn "
        "over it, it was left out."
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
        drawn.rings(case.places.x[some], case.places.y[some], 1.1, "backdrop")
    begun: list[tuple[float, float]] = []
    for n, trip in enumerate(rows):
        x, y = release.x[trip], release.y[trip]
        here = drawn.at(float(x[0]), float(y[0]))
        beside = sum(math.dist(here, other) < SAME_NAME for other in begun)
        begun.append(here)
        drawn.way(x, y, f"{_TRIP_LINES[n]} broad")
        drawn.rings(x[:1], y[:1])
        drawn.name(x[0], y[0], str(n + 1), dx=7.0 + SAME_NAME * beside)
    words = (
        f"{len(chosen)} made-up trips over the region, each from its ring on. Nobody made them: places, "
        "ways and lengths were drawn from noisy counts. Behind them, grey: "
        f"{'the roads' if behind else 'places where somebody really was'}."
    )
    return Explained("Made-up trips", words, [("Chosen at random among those of middling length",
                                                drawn.picture(words))])  # fmt: skip
