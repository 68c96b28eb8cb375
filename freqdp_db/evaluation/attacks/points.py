"""`exposure.tracked.<k>`: single samples that are claimed from a few known ones, where no id joins them.

Samples of one place and time that carry the same values along are one mark. From the mark of each known
sample the attacker does two things.

He *follows* from mark to mark, both ways. Candidates are the marks of the next ticks within reach. Of each
it is known how far it is from the last mark and from where the last velocity leads, how many others are as
near, how many marks were as near to it, and how often its place occurs. Marks that carry other values along
come after those with the same. The chance of a mark is the product of the chances on the way to it.

He *stays*: marks of the same place and values, before and after, may be of the same visit, or of another
one. Of each it is known how long before or after it is, how many marks and samples lie between, for how
long the place was empty between, and how often it occurs.

Gradient-boosted trees that learnt from half of the objects give the chances. He claims the samples of all
marks with a chance above a threshold.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from freqdp_db.engines.ranges import joined, map_each
from freqdp_db.evaluation.attacks.claims import Claims, judge
from freqdp_db.evaluation.attacks.known_samples import (
    SightingIndex,
    draw_known,
    held_samples,
)
from freqdp_db.evaluation.attacks.learning import LEAST, Scorer, chances, cross_test, trees
from freqdp_db.evaluation.pair import Case, ReleaseSeen
from freqdp_db.model.arrays import Flags, Ints, Metres, new_rows, offsets_of
from freqdp_db.model.trajectories import Codes

TRACKED = (1, 10)
_CELL_M = 500.0
_OTHER_VALUES_M = 3_000.0
"""A mark that carries other values along is as far as one so much farther away."""
_FASTEST_M_S = 35.0
_FARTHEST_M = 6_000.0
_LEAST_M = 100.0
"""Within reach, however short a tick is."""
_WAITING_M_S = 0.5
"""A mark a second later costs as much as one so much farther away."""
_MEMORY_S = 180.0
"""So long the last velocity says where somebody is."""
_LEAST_TICK_US = 30_000_000
_FEWEST_TICKS, _MOST_TICKS = 3, 12
"""Ahead: as many as nine of ten steps of those who are learnt from."""
_CANDIDATES = 16
_MOST_STEPS = 300
_MOST_TO_LEARN = 10_000
"""Steps, each with its candidates."""
_MOST_OBJECTS = 500
"""So many are attacked where there are more; every mark is still a candidate."""
_TREES: dict[str, Any] = {"max_iter": 40, "max_depth": 6, "learning_rate": 0.25}
"""Few, because every step asks all of them."""
_MOST_VISITS = 100
"""Marks of a place before a known one, and as many after it."""
_MOST_MARKS_TO_LEARN = 200_000

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Marks:
    """Released samples of one place, tick and values, in order of (tick, column, row)."""

    key: Ints
    frame: Ints
    """What keys are made of: the least tick, column and row, and how many columns and rows."""
    x: Metres
    y: Metres
    tick: Ints
    kept: Codes
    """What the samples carry along."""
    offsets: Ints
    sample: Ints
    of_sample: Ints
    tick_us: int

    @cached_property
    def place(self) -> Ints:
        """A number for the place of each mark, and what it carries along."""
        place = np.unique(self.x + 1j * self.y, return_inverse=True)[1].reshape(-1)
        values = int(self.kept.max(initial=0)) + 1
        number: Ints = np.unique(place * values + self.kept, return_inverse=True)[1]
        return number

    @cached_property
    def visits(self) -> Floats:
        """How often the place of each mark occurs in the release, as a logarithm."""
        samples = np.bincount(self.place, np.diff(self.offsets))
        return np.log(samples[self.place]).astype(np.float32)


def is_of_points(release: ReleaseSeen) -> bool:
    """Whether no trajectory has two samples."""
    return release.areas is None and bool((release.trajectories.lengths <= 1).all())


def find_marks(release: ReleaseSeen) -> Marks:
    tick_us = max(release.clock_us or 0, release.time_step_us or 0, _LEAST_TICK_US)
    tick = release.trajectories.at // tick_us
    column, row = (np.floor(v / _CELL_M).astype(np.int64) for v in (release.x, release.y))
    low = [int(v.min(initial=0)) for v in (tick, column, row)]
    columns, rows = (
        int(v.max(initial=0)) - least + 1 for v, least in ((column, low[1]), (row, low[2]))
    )
    key = ((tick - low[0]) * columns + column - low[1]) * rows + row - low[2]
    order = np.lexsort((release.kept, release.y, release.x, key))
    fresh = new_rows(key[order], release.x[order], release.y[order], release.kept[order])
    first = np.flatnonzero(fresh)
    of_sample = np.empty(len(order), np.int64)
    of_sample[order] = np.cumsum(fresh) - 1
    head = order[first]
    frame = np.array([*low, columns, rows], np.int64)
    return Marks(
        key[head], frame, release.x[head], release.y[head], tick[head], release.kept[head],
        np.append(first, len(order)), order, of_sample, tick_us,
    )  # fmt: skip


@dataclass(frozen=True)
class Walkers:
    """Who is followed: the mark where each is, and the velocity with which it came there."""

    mark: Ints
    vx: NDArray[np.float64]
    """Metres a second; not a number where none is known."""
    vy: NDArray[np.float64]
    way: Ints
    """1: forwards in time, -1: backwards."""

    def __len__(self) -> int:
        return len(self.mark)


(
    _AWAY, _OFF, _FAR_OFF, _SECONDS, _SPEED, _SPEED_BEFORE, _COSINE, _NEARER, _FITTER, _MARGIN,
    _FIT_MARGIN, _EARLIER, _IN_REACH, _SIZE, _SIZE_BEFORE, _VISITS, _VISITS_BEFORE, _RIVALS, _HOUR,
    _SAME, _FEATURES,
) = range(21)  # fmt: skip


@njit(nogil=True, cache=True)
def _cells_within(px, py, reach, frame):  # type: ignore[no-untyped-def]
    """Columns from, to, rows from, to."""
    return (
        max(int(np.floor((px - reach) / _CELL_M)) - frame[1], 0),
        min(int(np.floor((px + reach) / _CELL_M)) - frame[1], frame[3] - 1),
        max(int(np.floor((py - reach) / _CELL_M)) - frame[2], 0),
        min(int(np.floor((py + reach) / _CELL_M)) - frame[2], frame[4] - 1),
    )


@njit(nogil=True, cache=True)
def _rivals(mark, other, away, key, frame, x, y, tick, kept):  # type: ignore[no-untyped-def]
    """Other marks of the walker's tick that are nearer to a candidate than the walker is, and like it."""
    west, east, south, north = _cells_within(x[other], y[other], away, frame)
    nearer = 0
    for column in range(west, east + 1):
        base = ((tick[mark] - frame[0]) * frame[3] + column) * frame[4]
        k = np.searchsorted(key, base + south)
        while k < len(key) and key[k] <= base + north:
            alike = kept[k] == kept[other]
            if alike and k != mark and np.hypot(x[k] - x[other], y[k] - y[other]) < away:
                nearer += 1
            k += 1
    return nearer


@njit(nogil=True, cache=True)
def _look_around(  # type: ignore[no-untyped-def]
    first, last, at, vx, vy, way, ticks, key, frame, x, y, tick, tick_s, kept, size, visits
):
    """The marks that each walker may go on to, -1: no more; and what is known of each."""
    walkers = last - first
    found = np.full((walkers, _CANDIDATES), -1, np.int64)
    told = np.full((walkers, _CANDIDATES, _FEATURES), np.nan, np.float32)
    cost, other_values = np.empty(_CANDIDATES), np.empty(_CANDIDATES)
    for n in range(walkers):
        mark, ux, uy = at[first + n], vx[first + n], vy[first + n]
        moving = not np.isnan(ux)
        count = in_reach = 0
        for ahead in range(1, ticks + 1):
            seconds = ahead * tick_s
            reach = min(max(_FASTEST_M_S * seconds, _LEAST_M), _FARTHEST_M)
            west, east, south, north = _cells_within(x[mark], y[mark], reach, frame)
            when = tick[mark] + way[first + n] * ahead - frame[0]
            if when < 0:
                continue
            for column in range(west, east + 1):
                base = (when * frame[3] + column) * frame[4]
                k = np.searchsorted(key, base + south)
                while k < len(key) and key[k] <= base + north:
                    dx, dy = x[k] - x[mark], y[k] - y[mark]
                    away = np.hypot(dx, dy)
                    if away <= reach:
                        in_reach += 1
                        worth = away
                        if moving:
                            memory = min(seconds, _MEMORY_S)
                            worth = min(away, np.hypot(dx - ux * memory, dy - uy * memory))
                        worth += _WAITING_M_S * seconds
                        worth += _OTHER_VALUES_M * (kept[k] != kept[mark])
                        if count < _CANDIDATES or worth < cost[count - 1]:
                            count = min(count + 1, _CANDIDATES)
                            i = count - 1
                            while i > 0 and cost[i - 1] > worth:
                                cost[i], found[n, i] = cost[i - 1], found[n, i - 1]
                                i -= 1
                            cost[i], found[n, i] = worth, k
                    k += 1
        speed = np.hypot(ux, uy)
        for i in range(count):
            k, out = found[n, i], told[n, i]
            dx, dy = x[k] - x[mark], y[k] - y[mark]
            seconds = abs(tick[k] - tick[mark]) * tick_s
            memory = min(seconds, _MEMORY_S)
            away = np.hypot(dx, dy)
            out[_AWAY], out[_SECONDS], out[_SPEED] = away, seconds, away / seconds
            out[_SPEED_BEFORE] = speed
            if moving:
                out[_OFF] = np.hypot(dx - ux * memory, dy - uy * memory)
                out[_FAR_OFF] = np.hypot(dx - ux * seconds, dy - uy * seconds)
                if away * speed > 1e-6:
                    out[_COSINE] = (dx * ux + dy * uy) / (away * speed)
            out[_IN_REACH] = in_reach
            out[_SIZE], out[_SIZE_BEFORE] = size[k], size[mark]
            out[_VISITS], out[_VISITS_BEFORE] = visits[k], visits[mark]
            out[_RIVALS] = _rivals(mark, k, away, key, frame, x, y, tick, kept)
            out[_SAME] = kept[k] == kept[mark]
            other_values[i] = _OTHER_VALUES_M * (1.0 - out[_SAME])
            out[_HOUR] = tick[mark] * tick_s % 86_400 // 3_600
        for i in range(count):
            out = told[n, i]
            out[_NEARER] = out[_FITTER] = out[_EARLIER] = 0.0
            nearest, fittest = np.inf, np.inf
            for j in range(count):
                if j != i:
                    other, farther = told[n, j], other_values[j] - other_values[i]
                    out[_NEARER] += other[_AWAY] + farther < out[_AWAY]
                    out[_EARLIER] += other[_SECONDS] < out[_SECONDS]
                    nearest = min(nearest, other[_AWAY] + farther)
                    if moving:
                        out[_FITTER] += other[_OFF] + farther < out[_OFF]
                        fittest = min(fittest, other[_OFF] + farther)
            if count > 1:
                out[_MARGIN] = nearest - out[_AWAY]
                out[_FIT_MARGIN] = fittest - out[_OFF]
    return found, told


def look_around(marks: Marks, walkers: Walkers, ticks: int) -> tuple[Ints, Floats]:
    """Of each walker: candidates, -1 where there are no more; and what is known of them."""
    parts = map_each(
        _look_around, len(walkers), walkers.mark, walkers.vx, walkers.vy, walkers.way, ticks,
        marks.key, marks.frame, marks.x, marks.y, marks.tick, marks.tick_us / 1e6, marks.kept,
        np.diff(marks.offsets), marks.visits,
    )  # fmt: skip
    found, told = joined(parts)
    return found, told


def find_ways(case: Case, marks: Marks) -> tuple[Ints, Ints]:
    """Objects, and the marks that each really went through, in order of time."""
    release = case.release
    rows = np.flatnonzero(release.owners >= 0)
    order = rows[np.lexsort((release.true_at[rows], release.owners[rows]))]
    owner, mark = release.owners[order], marks.of_sample[order]
    fresh = new_rows(owner, mark)
    return owner[fresh].astype(np.int64), mark[fresh]


def _velocities(marks: Marks, before: Ints, mark: Ints, way: Ints) -> Walkers:
    """Walkers who came from one mark to another one; no velocity where times do not fit."""
    ticks = way * (marks.tick[mark] - marks.tick[before])
    seconds = np.where(ticks > 0, ticks * marks.tick_us / 1e6, np.nan)
    return Walkers(
        mark,
        (marks.x[mark] - marks.x[before]) / seconds,
        (marks.y[mark] - marks.y[before]) / seconds,
        way,
    )


@dataclass(frozen=True)
class Guide:
    """What was learnt of how objects go on."""

    ticks: int
    score: Scorer


def learn_ways(
    marks: Marks, ways: tuple[Ints, Ints], learn: Flags, rng: np.random.Generator
) -> Guide | None:
    """From steps of some objects, both ways, some of them without a velocity; None: they have none."""
    owner, on_way = ways
    inner = np.flatnonzero(learn[owner][1:-1] & (owner[2:] == owner[:-2])) + 1
    if not len(inner):
        return None
    inner = rng.permutation(inner)[:_MOST_TO_LEARN]
    way = rng.choice((-1, 1), len(inner))
    before, mark, after = on_way[inner - way], on_way[inner], on_way[inner + way]
    walkers = _velocities(marks, before, mark, way)
    unknown = rng.random(len(inner)) < 1 / 10
    vx, vy = (np.where(unknown, np.nan, v) for v in (walkers.vx, walkers.vy))
    gaps = way * (marks.tick[after] - marks.tick[mark])
    usual = np.percentile(gaps[gaps > 0], 90) if (gaps > 0).any() else 1
    ticks = int(np.clip(usual, _FEWEST_TICKS, _MOST_TICKS))
    found, told = look_around(marks, Walkers(mark, vx, vy, way), ticks)
    there = found >= 0
    right = (found == after[:, None])[there]
    if len(np.unique(right)) < 2:
        return None
    return Guide(ticks, trees(told[there], right, **_TREES))


def follow(marks: Marks, guide: Guide | None, who: Ints, mark: Ints) -> tuple[Ints, Ints, Floats]:
    """From known marks both ways, step by step, all at once; without a guide, nowhere.

    Who comes to another known mark of the same object stops: from there it is followed anyway. Returns
    objects, marks that they are taken to have been at, and how likely that is.
    """
    steps = [(who, mark, np.ones(len(who), np.float32))]
    if guide is None:
        return steps[0]
    places = len(marks.key)
    known = np.unique(who * places + mark)
    who, way = np.tile(who, 2), np.repeat((1, -1), len(who))
    nowhere = np.full(len(who), np.nan)
    walkers, chance = Walkers(np.tile(mark, 2), nowhere, nowhere, way), np.ones(len(who))
    for _ in range(_MOST_STEPS):
        if not len(walkers):
            break
        found, told = look_around(marks, walkers, guide.ticks)
        there = found >= 0
        odds = np.zeros(found.shape)
        odds[there] = np.exp(guide.score(told[there]))
        best = odds.argmax(axis=1)
        each = np.arange(len(walkers))
        chance = chance * odds[each, best] / (1.0 + odds.sum(axis=1))
        on = (chance >= LEAST) & ~np.isin(who * places + found[each, best], known)
        following = found[each, best][on]
        walkers = _velocities(marks, walkers.mark[on], following, walkers.way[on])
        who, chance = who[on], chance[on]
        steps.append((who, following, chance.astype(np.float32)))
    who, mark, likely = (np.concatenate(column) for column in zip(*steps, strict=True))
    return who, mark, likely


(
    _LATER, _BETWEEN, _SAMPLES_BETWEEN, _EMPTY, _HERE, _THERE, _OFTEN, _HOUR_HERE, _HOUR_THERE,
    _TIME_OF_DAY, _KNOWN_HERE, _STAY_FEATURES,
) = range(12)  # fmt: skip
_DAY_S = 86_400.0


@njit(nogil=True, cache=True)
def _same_place(first, last, mark, known_here, begins, order, rank, tick, tick_s, samples):  # type: ignore[no-untyped-def]
    """Marks of the place of each known one, and what is known of them."""
    room = (last - first) * 2 * _MOST_VISITS
    which, found = np.empty(room, np.int64), np.empty(room, np.int64)
    told, count = np.empty((room, _STAY_FEATURES), np.float32), 0
    for n in range(first, last):
        here = rank[mark[n]]
        for way in (-1, 1):
            empty = 0
            for k in range(1, _MOST_VISITS + 1):
                there = here + way * k
                if there < begins[n, 0] or there >= begins[n, 1]:
                    break
                m = order[there]
                empty = max(empty, abs(tick[m] - tick[order[there - way]]))
                seconds = abs(tick[m] - tick[mark[n]]) * tick_s
                out = told[count]
                out[_LATER], out[_BETWEEN], out[_EMPTY] = seconds, k, empty * tick_s
                out[_SAMPLES_BETWEEN] = abs(samples[there] - samples[here])
                out[_HERE] = samples[here + 1] - samples[here]
                out[_THERE] = samples[there + 1] - samples[there]
                out[_OFTEN] = samples[begins[n, 1]] - samples[begins[n, 0]]
                out[_HOUR_HERE] = tick[mark[n]] * tick_s % _DAY_S // 3_600
                out[_HOUR_THERE] = tick[m] * tick_s % _DAY_S // 3_600
                off = seconds % _DAY_S
                out[_TIME_OF_DAY], out[_KNOWN_HERE] = min(off, _DAY_S - off), known_here[n]
                which[count], found[count] = n, m
                count += 1
    return which[:count].copy(), found[:count].copy(), told[:count].copy()


@dataclass(frozen=True)
class Stays:
    """Marks at the places of known ones, each once for an object: that nearest in time."""

    who: Ints
    mark: Ints
    features: Floats


def find_stays(marks: Marks, who: Ints, mark: Ints) -> Stays:
    """All marks of the same places, within so many."""
    place = marks.place
    order = np.lexsort((marks.tick, place))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    samples = np.concatenate([[0], np.cumsum(np.diff(marks.offsets)[order])])
    of_place = offsets_of(place[order], int(place.max(initial=-1)) + 1)
    begins = np.column_stack([of_place[place[mark]], of_place[place[mark] + 1]])
    _, pair, count = np.unique(
        who * (len(order) + 1) + place[mark], return_inverse=True, return_counts=True
    )
    parts = map_each(
        _same_place, len(mark), mark, count[pair], begins, order, rank, marks.tick,
        marks.tick_us / 1e6, samples,
    )  # fmt: skip
    which, found, told = joined(parts)
    owner = who[which]
    nearest = np.lexsort((told[:, _LATER], found, owner))
    chosen = nearest[new_rows(owner[nearest], found[nearest])]
    return Stays(owner[chosen], found[chosen], told[chosen])


def learn_stays(
    case: Case, marks: Marks, stays: Stays, learn: Flags, rng: np.random.Generator
) -> Floats:
    """How likely it is that most samples of each mark tell where its object was."""
    rows = np.flatnonzero(learn[stays.who])
    rows = np.sort(rng.permutation(rows)[:_MOST_MARKS_TO_LEARN])
    if not len(rows):
        return np.zeros(len(stays.who), np.float32)
    mark = stays.mark[rows]
    claims = Claims.of_groups(
        len(case), stays.who[rows], mark, np.ones(len(rows)), marks.offsets, marks.sample
    )
    size = np.diff(marks.offsets)[mark]
    right = np.add.reduceat(judge(case, claims)[1], np.cumsum(size) - size, dtype=np.int64)
    return chances(trees(stays.features[rows], 2 * right > size, **_TREES)(stays.features))


def tracked_exposures(case: Case, rng: np.random.Generator) -> dict[str, float]:
    """Of every object, or of 500; nothing where a trajectory has two samples."""
    release = case.release
    if not is_of_points(release) or not release.trajectories.samples:
        return {}
    index, marks, held = SightingIndex(release), find_marks(release), held_samples(case)
    known: dict[str, Flags] = {}
    seen: list[tuple[Ints, Ints]] = []
    for count in TRACKED:
        samples = draw_known(case, count, rng, held)
        where = index.find(case, samples, rng).where
        who = np.repeat(np.arange(len(case)), np.diff(samples.offsets))[where >= 0]
        seen.append((who, marks.of_sample[where[where >= 0]]))
        known[f"exposure.tracked.{count}"] = samples.flags(case.original.samples)
    objects = rng.permutation(np.flatnonzero(case.original.lengths > 0))[:_MOST_OBJECTS]
    attacked = np.isin(np.arange(len(case)), objects)
    ways = find_ways(case, marks)
    stays = [find_stays(marks, who[attacked[who]], mark[attacked[who]]) for who, mark in seen]

    def claims_by(learn: Flags, attack: Flags) -> dict[str, Claims]:
        guide = learn_ways(marks, ways, learn, rng)
        # all sets of known samples at once: a step costs few walkers as much as many
        begin = [
            (who[attack[who]] + n * len(case), mark[attack[who]])
            for n, (who, mark) in enumerate(seen)
        ]
        on_the_way = follow(
            marks, guide, *(np.concatenate(column) for column in zip(*begin, strict=True))
        )
        found = {}
        for n, (name, at_rest) in enumerate(zip(known, stays, strict=True)):
            mine = on_the_way[0] // len(case) == n
            likely = learn_stays(case, marks, at_rest, learn, rng)
            on = attack[at_rest.who] & (likely >= LEAST)
            found[name] = Claims.of_groups(
                len(case),
                np.concatenate([on_the_way[0][mine] - n * len(case), at_rest.who[on]]),
                np.concatenate([on_the_way[1][mine], at_rest.mark[on]]),
                np.concatenate([on_the_way[2][mine], likely[on]]),
                marks.offsets,
                marks.sample,
            )
        return found

    return cross_test(case, objects, known, claims_by, rng, splits=1)
