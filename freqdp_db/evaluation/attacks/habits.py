"""Habits: who made which piece, by what people did on other days; and where an object rests at night.

`exposure.habits` is trajectory-user linking. The attacker has D's even days, with names, and the release.
Each *unit* of the release (a run, or a whole trajectory, of odd days; of single samples, those that are
shown at one place and time, which nobody can tell apart) is compared with the persons whose habits fit
best: how much more they use its cells than people do, at five grains of place and hour, and how far ahead
of the others they are; where it begins and ends; whether they were recorded on the days before and after;
their hours; their sampling interval. Gradient-boosted trees that learnt from half of the persons turn this
into a probability. In a second round the other units of a person vote: those of the same day, those that it
joins on to, and those that it overlaps. Every unit that is likely enough is claimed; the threshold that
finds most at even odds counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.evaluation.attacks.claims import NEAR_M, Claims
from freqdp_db.evaluation.attacks.known_samples import Sighted
from freqdp_db.evaluation.attacks.learning import (
    LEAST,
    SPLITS,
    Features,
    chances,
    cross_test,
    trees,
)
from freqdp_db.evaluation.attacks.points import is_of_points
from freqdp_db.evaluation.attacks.relinking import find_runs
from freqdp_db.evaluation.pair import Case, hours_of_day, on_odd_days, share_of
from freqdp_db.methods.frequency.counts import Frequencies, count_frequencies
from freqdp_db.model.arrays import Flags, Ids, Ints, new_rows, offsets_of, owners
from freqdp_db.model.days import HOUR_US, local_days
from freqdp_db.model.trajectories import Trajectories

_GRAINS: Sequence[tuple[float, int | None]] = (
    (100.0, None),
    (300.0, None),
    (1_000.0, None),
    (1_000.0, 1),
    (300.0, 3),
)
"""Cells of so many metres, and hours of the day in steps of so many; None: at any hour."""
_ENDS_GRAIN = 1
_LEVELS = len(_GRAINS)
# How much of a habit is taken to be everybody's.
_SMOOTHING = 0.2
_CANDIDATES = 8
"""Persons that are compared with a unit."""
_MOST_PERSONS = 500
"""So many are attacked where there are more, by what is learnt from them."""
_MOST_PAIRS, _LARGE = 1_000_000, 100_000
"""Fewer persons are compared with a unit beyond the first; beyond the second, one split has to do."""
_MOST_TO_LEARN = 200_000
_TREES: dict[str, Any] = {"max_iter": 80, "min_samples_leaf": 5}
_WEEK = 7
_VOTING_US = 12 * HOUR_US
_MOST_VOTERS = 1_000
"""So many of a person's units, the likeliest, speak for the others."""
_JOINS_M = 500.0
_EVENING, _MORNING = 22, 6

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Units:
    """What is matched with persons: stretches of the release, in odd days."""

    offsets: Ints
    sample: Ints
    """Their samples, unit by unit, in order of time."""
    size: Ints
    """What each counts for: a stretch, which is one person's, for one; single samples by their number."""

    def __len__(self) -> int:
        return len(self.size)

    @property
    def first(self) -> Ints:
        return self.sample[self.offsets[:-1]]

    @property
    def last(self) -> Ints:
        return self.sample[self.offsets[1:] - 1]


def find_units(case: Case) -> Units:
    """Runs of the release, without their even days; of single samples, those of one place and time."""
    release = case.release
    sample = np.flatnonzero(on_odd_days(release.true_at, case.timezone))
    if is_of_points(release):
        place, at = release.trajectories.location[sample], release.trajectories.at[sample]
        order = np.lexsort((place, at))
        first = np.flatnonzero(new_rows(place[order], at[order]))
        offsets = np.append(first, len(sample))
        return Units(offsets, sample[order], np.diff(offsets))
    there, number = np.unique(find_runs(release).of[sample], return_inverse=True)
    return Units(offsets_of(number, len(there)), sample, np.ones(len(there), np.int64))


@dataclass(frozen=True)
class Habits:
    """How much each person uses each cell, at all grains; and what else is known of them."""

    used: Frequencies
    """Of each person, over the cells of all grains, one grain after the other."""
    gain: Floats
    """What one use of a cell says for a person, against anybody: log((1 - s) own / (s common) + 1)."""
    by_cell: Ints
    """The uses in order of cells."""
    cell_offsets: Ints
    recorded: NDArray[np.int32]
    """Days with history up to each day, from the first one on, by person."""
    first_day: int
    hours: Floats
    """Log ratio of own to common use of each hour of the day."""
    interval: Floats
    """Between samples, the median, seconds."""
    samples: Ints

    @property
    def person_of(self) -> Ids:
        return owners(self.used.offsets)[self.by_cell]


def _cells(case: Case) -> tuple[list[tuple[Ids, Ids]], Ints]:
    """Of each grain: the cell of each original place and of each released one; and where it begins."""
    found, begins = [], [0]
    for metres, hours in _GRAINS:
        x, y = (
            np.floor(np.concatenate(side) / metres).astype(np.int64)
            for side in (
                (case.places.x, case.release.places.x), (case.places.y, case.release.places.y)
            )
        )  # fmt: skip
        used, number = np.unique((x << 32) + y, return_inverse=True)
        cell = number.reshape(-1).astype(np.int32)
        found.append((cell[: len(case.places)], cell[len(case.places) :]))
        begins.append(begins[-1] + len(used) * (24 // hours if hours else 1))
    return found, np.array(begins, np.int64)


def _at_all_grains(
    location: Ids, hour: Ids, offsets: Ints, cells: list[Ids], begins: Ints
) -> Trajectories:
    """Samples as cells of every grain, where the cell or the hour is new."""
    fresh = new_rows(cells[0][location], hour)
    fresh[offsets[:-1][np.diff(offsets) > 0]] = True
    kept = np.flatnonzero(fresh)
    place, hour = location[kept], hour[kept]
    columns = []
    for (_, hours), cell, begin in zip(_GRAINS, cells, begins, strict=False):
        column = cell[place].astype(np.int64)
        if hours:
            column = column * (24 // hours) + hour // hours
        columns.append(column + begin)
    each = np.column_stack(columns).astype(np.int32).reshape(-1)
    lengths = np.searchsorted(kept, offsets)
    nothing = np.zeros(0, np.int64)
    return Trajectories(lengths * _LEVELS, each, nothing, nothing)


def learn_habits(case: Case, persons: Ints, cells: list[Ids], begins: Ints) -> Habits:
    """From these persons' even days."""
    side = case.original.take(persons)
    side = side.where(~on_odd_days(side.at, case.timezone))
    hour = hours_of_day(side.at, case.timezone)
    uses = _at_all_grains(side.location, hour, side.offsets, cells, begins)
    used = count_frequencies(uses, int(begins[-1]))
    owner = owners(used.offsets)
    own = used.pf / np.maximum(uses.lengths[owner] / _LEVELS, 1.0)
    common = np.bincount(used.location, own, int(begins[-1])) / max(len(persons), 1)
    gain = np.log1p((1.0 - _SMOOTHING) * own / (_SMOOTHING * common[used.location]))
    by_cell = np.argsort(used.location, kind="stable")
    day = local_days(side.at, case.timezone)
    first_day = int(day.min(initial=0)) - 1
    recorded = np.zeros((len(persons), int(day.max(initial=0)) - first_day + 2), np.bool_)
    recorded[side.owner, day - first_day] = True
    hours = np.bincount(side.owner.astype(np.int64) * 24 + hour, minlength=len(persons) * 24)
    shares = (hours.reshape(-1, 24) + 1.0) / (side.lengths[:, None] + 24.0)
    gaps = np.diff(side.at, append=0) / 1e6
    gaps[side.ends] = np.nan
    return Habits(
        used, gain.astype(np.float32), by_cell, offsets_of(used.location[by_cell], int(begins[-1])),
        np.cumsum(recorded, axis=1, dtype=np.int32), first_day,
        np.log(shares / shares.mean(axis=0)).astype(np.float32), _medians(gaps, side.offsets),
        side.lengths,
    )  # fmt: skip


def _medians(values: NDArray[np.float64], offsets: Ints) -> Floats:
    """Of each group, without what is not a number."""
    (found,) = joined(map_ranges(_median_each, offsets, offsets, values))
    return found


@njit(nogil=True, cache=True)
def _median_each(first, last, offsets, values):  # type: ignore[no-untyped-def]
    found = np.full(last - first, np.nan, np.float32)
    for g in range(first, last):
        part = values[offsets[g] : offsets[g + 1]]
        part = part[~np.isnan(part)]
        if len(part):
            found[g - first] = np.median(part)
    return (found,)


@njit(nogil=True, cache=True)
def _compare(  # type: ignore[no-untyped-def]
    first, last, offsets, cell, level, cell_offsets, person_of, gain, persons, most
):
    """The persons that fit each unit best: what each grain says for them, and how far ahead they are."""
    unit = np.empty((last - first) * most, np.int64)
    person = np.empty((last - first) * most, np.int64)
    told = np.empty(((last - first) * most, 2 * _LEVELS + 3), np.float32)
    score = np.zeros((persons, _LEVELS + 1))
    touched = np.empty(persons, np.int64)
    n = 0
    for t in range(first, last):
        count, cells = 0, np.zeros(_LEVELS)
        for i in range(offsets[t], offsets[t + 1]):
            cells[level[cell[i]]] += 1.0
        for i in range(offsets[t], offsets[t + 1]):
            c = cell[i]
            for j in range(cell_offsets[c], cell_offsets[c + 1]):
                u = person_of[j]
                if score[u, _LEVELS] == 0.0:
                    touched[count] = u
                    count += 1
                says = gain[j] / cells[level[c]]
                score[u, level[c]] += says
                score[u, _LEVELS] += says
        there = score[touched[:count]]
        # the best of each grain, and the second best for who is the best himself
        best, second = np.zeros(_LEVELS + 1), np.zeros(_LEVELS + 1)
        for k in range(count):
            for g in range(_LEVELS + 1):
                if there[k, g] > best[g]:
                    best[g], second[g] = there[k, g], best[g]
                elif there[k, g] > second[g]:
                    second[g] = there[k, g]
        order = np.argsort(-there[:, _LEVELS], kind="mergesort")
        for rank in range(min(count, most)):
            row = there[order[rank]]
            unit[n], person[n] = t, touched[order[rank]]
            for g in range(_LEVELS + 1):
                told[n, g] = row[g]
                told[n, _LEVELS + 1 + g] = row[g] - (second[g] if row[g] == best[g] else best[g])
            told[n, 2 * _LEVELS + 2] = rank
            n += 1
        for k in range(count):
            score[touched[k]] = 0.0
    return unit[:n].copy(), person[:n].copy(), told[:n].copy()


@dataclass(frozen=True)
class Matches:
    """Units and persons who may have made them, in order of persons and time."""

    unit: Ints
    person: Ints
    """By number among those that are attacked."""
    offsets: Ints
    """Of each person."""
    features: Features
    own: Ints
    """How much of the size of the unit is the person's."""


def find_matches(case: Case, units: Units, persons: Ints) -> Matches:
    """The persons that fit each unit best, and what is known of each such pair."""
    release, zone = case.release, case.timezone
    cells, begins = _cells(case)
    habits = learn_habits(case, persons, [original for original, _ in cells], begins)
    at, location = release.trajectories.at, release.trajectories.location
    hour = hours_of_day(at, zone)
    shown = [released for _, released in cells]
    walks = count_frequencies(
        _at_all_grains(location[units.sample], hour[units.sample], units.offsets, shown, begins),
        int(begins[-1]),
    )
    level = np.repeat(np.arange(_LEVELS), np.diff(begins))
    most = max(min(_CANDIDATES, _MOST_PAIRS // max(len(units), 1)), 1)
    unit, person, told = joined(
        map_ranges(
            _compare, walks.offsets, walks.offsets, walks.location, level, habits.cell_offsets,
            habits.person_of, habits.gain[habits.by_cell], len(persons), most,
        )
    )  # fmt: skip
    order = np.lexsort((at[units.first][unit], person))
    unit, person, told = unit[order], person[order], told[order]
    gaps = np.diff(at[units.sample], append=0) / 1e6
    gaps[units.offsets[1:] - 1] = np.nan
    interval = _medians(gaps, units.offsets)[unit]
    day = local_days(at[units.first], zone)[unit] - habits.first_day
    lasts = (at[units.last] - at[units.first]) / 1e6
    columns = [
        told,
        *(_end_gain(habits, person, shown[_ENDS_GRAIN][location[end]][unit] + begins[_ENDS_GRAIN])
          for end in (units.first, units.last)),
        *(_recorded(habits, person, day, reach) for reach in (1, _WEEK)),
        habits.hours[person, hour[units.first][unit]],
        interval,
        habits.interval[person],
        np.abs(np.log(np.maximum(interval, 0.1) / np.maximum(habits.interval[person], 0.1))),
        lasts[unit],
        units.size[unit] if is_of_points(release) else np.diff(walks.offsets)[unit],
        habits.samples[person],
        habits.recorded[person, -1],
    ]  # fmt: skip
    features = np.column_stack(columns).astype(np.float32)
    own = _own_of(case, units, unit, persons[person])
    return Matches(unit, person, offsets_of(person, len(persons)), features, own)


def _own_of(case: Case, units: Units, unit: Ints, who: Ints) -> Ints:
    """How much of the size of these units is each object's."""
    objects, owner = len(case) + 1, case.release.owners[units.sample]
    pairs, count = np.unique(owners(units.offsets) * objects + owner, return_counts=True)
    asked = unit * objects + who
    at = np.minimum(np.searchsorted(pairs, asked), len(pairs) - 1)
    own: Ints = np.minimum(np.where(pairs[at] == asked, count[at], 0), units.size[unit])
    return own


def _end_gain(habits: Habits, person: Ints, cell: Ints) -> Floats:
    """What a use of a cell says for a person; 0: it is not known there."""
    cells = len(habits.cell_offsets) - 1
    uses = owners(habits.used.offsets).astype(np.int64) * cells + habits.used.location
    asked = person * cells + cell
    at = np.minimum(np.searchsorted(uses, asked), len(uses) - 1)
    return np.where(uses[at] == asked, habits.gain[at], np.float32(0))


def _recorded(habits: Habits, person: Ints, day: Ints, reach: int) -> Ints:
    """On how many days around a day the person was recorded."""
    last = habits.recorded.shape[1] - 1
    upto, before = np.clip(day + reach, 0, last), np.clip(day - reach - 1, 0, last)
    return habits.recorded[person, upto] - habits.recorded[person, before]


def learn_matches(
    case: Case, units: Units, matches: Matches, learn: Flags, rng: np.random.Generator
) -> Floats:
    """How likely each match is, by what is learnt from these persons; two rounds.

    For the second round, what the first one says of persons to learn from comes from trees that have not
    seen them: they were trained on the other quarter.
    """
    quarter = rng.random(len(learn)) < 0.5
    mine = learn[matches.person]
    first = np.zeros(len(mine), np.float32)
    for part in (quarter, ~quarter):
        seen = mine & part[matches.person]
        said = _trained(matches.features, units, matches, seen, rng)
        first += np.where(mine, np.where(seen, 0.0, said), said / 2).astype(np.float32)
    votes = _votes_of(case, units, matches, first)
    features = np.column_stack([first, votes, matches.features])
    return chances(_trained(features, units, matches, mine, rng))


def _trained(
    features: Features, units: Units, matches: Matches, seen: Flags, rng: np.random.Generator
) -> Floats:
    """Log odds of all rows, by those that are seen: that a sample of the unit is the person's."""
    rows = np.flatnonzero(seen)
    if len(rows) > _MOST_TO_LEARN:
        rows = np.sort(rng.choice(rows, _MOST_TO_LEARN, replace=False))
    own, size = matches.own[rows], units.size[matches.unit[rows]]
    # a unit of several persons is a row for what is the person's, and one for the rest
    both = np.flatnonzero((own > 0) & (own < size))
    learnt = np.concatenate([rows, rows[both]])
    answer = np.concatenate([own > 0, np.zeros(len(both), np.bool_)])
    weight = np.concatenate([np.where(own > 0, own, size), (size - own)[both]])
    score = trees(features[learnt], answer, None if (weight == 1).all() else weight, **_TREES)
    return score(features).astype(np.float32)


def _votes_of(case: Case, units: Units, matches: Matches, first: Floats) -> Floats:
    """What a person's other units say, and how far the person is ahead in this one."""
    release = case.release
    head, tail = units.first[matches.unit], units.last[matches.unit]
    parts = map_ranges(
        _votes, matches.offsets, matches.offsets, release.trajectories.at[head],
        release.trajectories.at[tail], release.x[head], release.y[head], release.x[tail],
        release.y[tail], chances(first),
    )  # fmt: skip
    (votes,) = joined(parts)
    best = np.full(len(units), -np.inf, np.float32)
    np.maximum.at(best, matches.unit, first)
    return np.column_stack([votes, first - best[matches.unit]])


@njit(nogil=True, cache=True)
def _votes(first, last, offsets, begin, end, bx, by, ex, ey, chance):  # type: ignore[no-untyped-def]
    """Of units within 12 h: all together, the likeliest, the likeliest that it joins on to, overlaps."""
    start = offsets[first]
    found = np.zeros((offsets[last] - start, 4), np.float32)
    for u in range(first, last):
        voters = np.arange(offsets[u], offsets[u + 1])
        if len(voters) > _MOST_VOTERS:
            voters = np.sort(voters[np.argsort(-chance[voters], kind="mergesort")[:_MOST_VOTERS]])
        low = 0
        for i in range(offsets[u], offsets[u + 1]):
            out = found[i - start]
            while low < len(voters) and begin[voters[low]] < begin[i] - _VOTING_US:
                low += 1
            for j in voters[low:]:
                if begin[j] > begin[i] + _VOTING_US:
                    break
                if j == i:
                    continue
                out[0] += chance[j]
                out[1] = max(out[1], chance[j])
                if end[j] <= begin[i]:
                    away = np.hypot(ex[j] - bx[i], ey[j] - by[i])
                elif begin[j] >= end[i]:
                    away = np.hypot(bx[j] - ex[i], by[j] - ey[i])
                else:
                    away = np.inf
                    out[3] += chance[j]
                if away <= _JOINS_M:
                    out[2] = max(out[2], chance[j])
    return (found,)


def habit_exposures(case: Case, rng: np.random.Generator) -> dict[str, float]:
    """`exposure.habits`, and `habits`: the share of units whose likeliest person made them.

    Of odd days: the even ones are what the attacker has. Nothing where all samples are nobody's, or where
    trajectories are several objects'.
    """
    even = ~on_odd_days(case.original.at, case.timezone)
    if (case.release.owners < 0).all() or not even.any() or even.all():
        return {}
    units = find_units(case)
    persons = np.flatnonzero(np.bincount(case.original.owner[even], minlength=len(case)) > 0)
    persons = np.sort(rng.permutation(persons)[:_MOST_PERSONS])
    if not len(units) or len(persons) < 2:
        return {}
    matches = find_matches(case, units, persons)
    hits = []

    def claims_by(learn: Flags, attack: Flags) -> dict[str, Claims]:
        chance = learn_matches(case, units, matches, learn[persons], rng)
        who = persons[matches.person]
        hits.append(_accuracy(case, units, matches, chance, who, attack))
        likely = np.flatnonzero((chance >= LEAST) & attack[who])
        claims = Claims.of_groups(
            len(case),
            who[likely],
            matches.unit[likely],
            chance[likely],
            units.offsets,
            units.sample,
        )
        return {"exposure.habits": claims}

    splits = SPLITS if len(matches.unit) <= _LARGE else 1
    found = cross_test(case, persons, {"exposure.habits": even}, claims_by, rng, splits)
    return found | {"habits": float(np.mean(hits))}


def _accuracy(
    case: Case, units: Units, matches: Matches, chance: Floats, who: Ints, attack: Flags
) -> float:
    """Of the units of these persons: the share whose likeliest person of all is the right one.

    Of equally likely ones, the last. who: the object of each match.
    """
    order = np.lexsort((-np.arange(len(chance)), -chance, matches.unit))
    best = order[new_rows(matches.unit[order])]
    right = matches.own[best[attack[who[best]]]].sum()
    owner = case.release.owners[units.sample]
    theirs = attack[owner] & (owner >= 0)
    # a unit counts for its size, however many samples it has
    each = (units.size / np.maximum(np.diff(units.offsets), 1))[owners(units.offsets)]
    in_all = float(each[theirs].sum())
    return float(right / in_all) if in_all else 0.0


def resting_place(side: Trajectories, timezone: str) -> Ids:
    """The place with most samples between 22 and 6 h; ties go to the lower one; -1: no such sample."""
    hour = hours_of_day(side.at, timezone)
    night: Flags = (hour >= _EVENING) | (hour < _MORNING)
    nights = side.where(night)
    place = np.full(len(side), -1, np.int32)
    if not nights.samples:
        return place
    counted = count_frequencies(nights, int(nights.location.max()) + 1)
    owner = owners(counted.offsets)
    order = np.lexsort((counted.location, -counted.pf.astype(np.int64), owner))
    most = order[new_rows(owner[order])]
    place[owner[most]] = counted.location[most]
    return place


def home_exposure(case: Case, sighted: Sighted) -> dict[str, float]:
    """`home`: share of objects whose resting place the found trajectory tells, within 200 m."""
    truth = resting_place(case.original, case.timezone)
    told = resting_place(case.release.trajectories, case.timezone)
    guess = np.where(sighted.pick >= 0, told[sighted.pick], -1) if len(told) else truth * 0 - 1
    rests, guessed = truth >= 0, guess >= 0
    both = rests & guessed
    right = np.zeros(len(case), np.bool_)
    a, b = truth[both], guess[both]
    places, release = case.places, case.release.places
    right[both] = np.hypot(places.x[a] - release.x[b], places.y[a] - release.y[b]) <= NEAR_M
    return {"home": share_of(right, rests)}
