"""Scores of claims: an attacker says which released samples belong to an object.

An original sample counts as found if a claimed sample lies within 200 m and 5 min of it, or if a claimed
area of at most 500 m and interval of at most 10 min contain it. A score has both sides: which share of the
object's samples the claim finds, and which share of the claim is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.evaluation.pair import WIDEST_M, Case, ReleaseSeen
from freqdp_db.model.arrays import Flags, Ids, Ints, new_rows, offsets_of, rows_of
from freqdp_db.model.kernels import stable_order

NEAR_M = 200.0
NEAR_US = 300_000_000
_LONGEST_US = 600_000_000
_EVEN_ODDS = 0.5
_BLOCK = 32
"""So many positions, one after the other, are passed over at once where they are far."""

Shares = NDArray[np.float64]


@dataclass(frozen=True)
class AttackScore:
    """For each object, the share of its samples that was found and the share of the claim that is right."""

    found: Shares
    """Not a number for an object of which nothing is left to find."""
    right: Shares
    """Not a number where nothing was claimed."""
    claimed: Ints
    """How many samples were claimed."""

    @classmethod
    def of_parts(cls, parts: Sequence[AttackScore]) -> AttackScore:
        """Of the objects of several scores, one after the other."""
        columns = ([part.found, part.right, part.claimed] for part in parts)
        return cls(*(np.concatenate(column) for column in zip(*columns, strict=True)))

    def above_even_odds(self) -> tuple[float, float]:
        """What claims are right more often than every second time: summed over objects, over samples."""
        there = self.claimed > 0
        more = self.right[there] - _EVEN_ODDS
        return float(more.sum()), float((more * self.claimed[there]).sum())

    def precision(self) -> float:
        """Share of the claim that is right: the mean over objects or that of all samples, the larger."""
        there = self.claimed > 0
        if not there.any():
            return 0.0
        right, weights = self.right[there], self.claimed[there]
        return max(float(right.mean()), float(np.average(right, weights=weights)))

    def named(self, name: str) -> dict[str, float]:
        """The metrics of one attack."""
        there = self.found[~np.isnan(self.found)]
        return {
            name: float(there.mean()) if len(there) else 0.0,
            f"{name}.precision": self.precision(),
            f"{name}.half": float((there > 0.5).mean()) if len(there) else 0.0,
            f"{name}.p95": float(np.percentile(there, 95)) if len(there) else 0.0,
        }

    def means(self, parts: Ids) -> Shares:
        """What is found on average of the objects of each part."""
        there = ~np.isnan(self.found)
        return np.array(
            [self.found[there & (parts == part)].mean() for part in np.unique(parts[there])]
        )


def boxes_of(release: ReleaseSeen) -> tuple[NDArray[np.float64], Ints]:
    """x_min, y_min, x_max, y_max of each sample's area, and the end of its interval.

    The end is before all times where the area is too wide or the interval too long to tell anything. Both
    are empty unless the release has areas.
    """
    if release.areas is None:
        return np.zeros((0, 4)), np.zeros(0, np.int64)
    areas = release.areas
    small = (areas.x_max - areas.x_min <= WIDEST_M) & (areas.y_max - areas.y_min <= WIDEST_M)
    small &= areas.until - release.trajectories.at <= _LONGEST_US
    boxes = np.column_stack([areas.x_min, areas.y_min, areas.x_max, areas.y_max])
    return boxes, np.where(small, areas.until, np.iinfo(np.int64).min)


@dataclass(frozen=True)
class Claims:
    """The released samples that an attacker claims for each object."""

    offsets: Ints
    """Object u claims the samples offsets[u] to offsets[u + 1] - 1."""
    sample: Ints
    worth: Shares
    """How sure the attacker is of each: a claim is cut at a level of this."""

    @classmethod
    def of_groups(
        cls,
        objects: int,
        who: Ints,
        group: Ints,
        worth: NDArray[np.floating],
        offsets: Ints,
        sample: Ints | None = None,
    ) -> Claims:
        """All samples of groups (pieces, marks), each group once for an object, at its highest worth.

        offsets, sample: the samples of each group; without `sample` they follow each other.
        """
        order = np.lexsort((-worth, group, who))
        who, group, worth = who[order], group[order], worth[order]
        first = new_rows(who, group)
        who, group, worth = who[first], group[first], worth[first]
        rows, taken = rows_of(offsets, group)
        return cls(
            taken[offsets_of(who, objects)],
            rows if sample is None else sample[rows],
            np.repeat(worth, np.diff(taken)).astype(np.float64),
        )


@njit(nogil=True, cache=True)
def _near_some(qx, qy, qt, x, y, t):  # type: ignore[no-untyped-def]
    """Which of some positions have another one within 200 m and 5 min; both in order of time."""
    found = np.zeros(len(qx), np.bool_)
    blocks = (len(x) + _BLOCK - 1) // _BLOCK
    west, south = np.empty(blocks), np.empty(blocks)
    east, north = np.empty(blocks), np.empty(blocks)
    for b in range(blocks):
        part = slice(b * _BLOCK, (b + 1) * _BLOCK)
        west[b], east[b] = x[part].min(), x[part].max()
        south[b], north[b] = y[part].min(), y[part].max()
    first = last = hint = 0
    for i in range(len(qx)):
        while first < len(t) and t[first] < qt[i] - NEAR_US:
            first += 1
        last = max(last, first)
        while last < len(t) and t[last] <= qt[i] + NEAR_US:
            last += 1
        # what the one before was near to comes first: they follow one way
        hint = min(max(hint, first), last)
        for begin, end in ((hint, last), (first, hint)):
            k = begin
            while k < end:
                b = k // _BLOCK
                dx = max(west[b] - qx[i], qx[i] - east[b], 0.0)
                dy = max(south[b] - qy[i], qy[i] - north[b], 0.0)
                stop = min((b + 1) * _BLOCK, end)
                if dx * dx + dy * dy > NEAR_M * NEAR_M:
                    k = stop
                    continue
                while k < stop:
                    dx, dy = x[k] - qx[i], y[k] - qy[i]
                    if dx * dx + dy * dy <= NEAR_M * NEAR_M:
                        break
                    k += 1
                if k < stop:
                    found[i] = True
                    hint = k
                    break
            if found[i]:
                break
    return found


@njit(nogil=True, cache=True)
def _is_inside(ux, uy, ut, p, at, boxes, until):  # type: ignore[no-untyped-def]
    """Whether somebody was in area p in its interval."""
    return (
        at[p] <= ut <= until[p]
        and boxes[p, 0] <= ux <= boxes[p, 2]
        and boxes[p, 1] <= uy <= boxes[p, 3]
    )


@njit(nogil=True, cache=True)
def _inside_some(ux, uy, ut, claim, at, boxes, until):  # type: ignore[no-untyped-def]
    """Which of an object's samples lie in a claimed area and interval."""
    found = np.zeros(len(ux), np.bool_)
    low = 0
    for i in range(len(ux)):
        while low < len(claim) and at[claim[low]] < ut[i] - _LONGEST_US:
            low += 1
        k = low
        while k < len(claim) and at[claim[k]] <= ut[i]:
            if _is_inside(ux[i], uy[i], ut[i], claim[k], at, boxes, until):
                found[i] = True
                break
            k += 1
    return found


@njit(nogil=True, cache=True)
def _hold_some(ux, uy, ut, claim, at, boxes, until):  # type: ignore[no-untyped-def]
    """Which of the claimed areas and intervals hold a sample of the object."""
    found = np.zeros(len(claim), np.bool_)
    low = 0
    for k in range(len(claim)):
        p = claim[k]
        while low < len(ut) and ut[low] < at[p]:
            low += 1
        i = low
        while i < len(ut) and ut[i] <= until[p]:
            if _is_inside(ux[i], uy[i], ut[i], p, at, boxes, until):
                found[k] = True
                break
            i += 1
    return found


@njit(nogil=True, cache=True)
def _right_ones(ux, uy, ut, claim, x, y, at, boxes, until):  # type: ignore[no-untyped-def]
    """Which of the claimed positions, in order of time, tell where the object was."""
    if len(boxes):
        return _hold_some(ux, uy, ut, claim, at, boxes, until)
    return _near_some(x[claim], y[claim], at[claim], ux, uy, ut)


@njit(nogil=True, cache=True)
def _judge(first, last, offsets, ux, uy, ut, claims, claim, x, y, at, boxes, until):  # type: ignore[no-untyped-def]
    """Whether each claim of some objects is right."""
    right = np.empty(claims[last] - claims[first], np.bool_)
    for u in range(first, last):
        own = slice(offsets[u], offsets[u + 1])
        mine = claim[claims[u] : claims[u + 1]]
        order = stable_order(at[mine])
        told = _right_ones(ux[own], uy[own], ut[own], mine[order], x, y, at, boxes, until)
        right[claims[u] - claims[first] + order] = told
    return (right,)


@njit(nogil=True, cache=True)
def _score(  # type: ignore[no-untyped-def]
    first, last, offsets, ux, uy, ut, claims, claim, x, y, at, boxes, until, worth, levels, known,
    asked,
):  # fmt: skip
    """Of the part of each object's claim that is worth each level: shares found and right, and its size.

    Levels fall.
    """
    found = np.full((last - first, len(levels)), np.nan)
    right = np.full((last - first, len(levels)), np.nan)
    claimed = np.zeros((last - first, len(levels)), np.int64)
    for u in range(first, last):
        if not asked[u]:
            continue
        own = slice(offsets[u], offsets[u + 1])
        left = ~known[own]
        mine = slice(claims[u], claims[u + 1])
        order = stable_order(at[claim[mine]])
        in_time, value = claim[mine][order], worth[mine][order]
        size = -1
        for n in range(len(levels)):
            part = in_time[value >= levels[n]]
            claimed[u - first, n] = len(part)
            if len(part) == size:
                found[u - first, n] = found[u - first, n - 1]
                right[u - first, n] = right[u - first, n - 1]
                continue
            size = len(part)
            if len(boxes):
                there = _inside_some(ux[own], uy[own], ut[own], part, at, boxes, until)
            else:
                there = _near_some(ux[own], uy[own], ut[own], x[part], y[part], at[part])
            if left.any():
                found[u - first, n] = (there & left).sum() / left.sum()
            if size:
                told = _right_ones(ux[own], uy[own], ut[own], part, x, y, at, boxes, until)
                right[u - first, n] = told.sum() / size
    return found, right, claimed


def right_ones(case: Case, claims: Claims) -> Flags:
    """Whether each claimed sample tells where its object was."""
    (right,) = joined(map_ranges(_judge, claims.offsets, *_judged_by(case, claims)))
    return right


def score_claims(
    case: Case,
    claims: Claims,
    levels: Sequence[float],
    known: Flags | None = None,
    asked: Flags | None = None,
) -> list[AttackScore]:
    """What the claims that are worth at least each level find, and how many of them are right.

    known: original samples that the attacker had before; they do not count as found. asked: of these
    objects alone.
    """
    known = np.zeros(case.original.samples, np.bool_) if known is None else known
    everybody = np.ones(len(case), np.bool_) if asked is None else asked
    parts = map_ranges(
        _score, case.original.offsets, *_judged_by(case, claims), claims.worth, np.array(levels),
        known, everybody,
    )  # fmt: skip
    columns = (column[everybody].T for column in joined(parts))
    return [AttackScore(*score) for score in zip(*columns, strict=True)]


def _judged_by(case: Case, claims: Claims) -> tuple[NDArray[Any], ...]:
    """What kernels that judge claims read: true samples, claims, released samples."""
    release, side = case.release, case.original
    return (
        side.offsets, case.judged_x, case.judged_y, side.at, claims.offsets, claims.sample,
        release.x, release.y, release.true_at, *boxes_of(release),
    )  # fmt: skip


def score_picks(case: Case, pick: Ints, known: Flags | None = None) -> AttackScore:
    """Of claiming one whole released trajectory for each object; -1 claims nothing."""
    who = np.flatnonzero(pick >= 0)
    offsets = case.release.trajectories.offsets
    claims = Claims.of_groups(len(case), who, pick[who], np.ones(len(who)), offsets)
    return score_claims(case, claims, (1.0,), known)[0]


def best_at_even_odds(
    name: str, scores: Sequence[AttackScore], half: Ids | None = None
) -> dict[str, float]:
    """What the best claims find of which at least half are right.

    That is counted over objects, each with the share of its claim that is right, and over all claimed
    samples; the way that finds more is taken. Nobody has to stick to one of the scores: an attacker may
    make a bolder claim for as many objects as even odds allow, and a surer one for the others.

    half: the half of a split that each score was tested in; `.low` and `.high` are the least and the
    largest value of these halves.
    """
    nothing = AttackScore(
        scores[0].found * 0.0, scores[0].right * np.nan, np.zeros_like(scores[0].claimed)
    )
    every = [nothing, *scores]
    found = [score.named(name) for score in every]
    sure, bold, share = 0, 0, 0.0
    best = 0.0
    for margins in zip(*(score.above_even_odds() for score in every), strict=True):
        for one, two in product(range(len(every)), repeat=2):
            if margins[one] < 0:
                continue
            part = 1.0 if margins[two] >= 0 else margins[one] / (margins[one] - margins[two])
            value = (1 - part) * found[one][name] + part * found[two][name]
            if value > best:
                best, sure, bold, share = value, one, two, part
    mixed = {key: (1 - share) * found[sure][key] + share * found[bold][key] for key in found[0]}
    if best > 0:
        mixed[f"{name}.precision"] = max(mixed[f"{name}.precision"], _EVEN_ODDS)
    if half is None:
        return mixed
    parts = (1 - share) * every[sure].means(half) + share * every[bold].means(half)
    low, high = (float(parts.min()), float(parts.max())) if len(parts) else (0.0, 0.0)
    return mixed | {f"{name}.low": low, f"{name}.high": high}


def found_at(positive: Shares, negative: Shares, false_alarms: float) -> float:
    """Share of positives above a line that at most this share of negatives is above."""
    if not len(positive) or not len(negative):
        return false_alarms
    ranked = np.sort(negative)[::-1]
    line = ranked[min(int(false_alarms * len(ranked)), len(ranked) - 1)]
    return float((positive > line).mean())


def area_under_curve(positive: Shares, negative: Shares) -> float:
    """Chance that a positive scores above a negative; a tie is half a win."""
    if not len(positive) or not len(negative):
        return 0.5
    ranked = np.sort(negative)
    below = np.searchsorted(ranked, positive, side="left")
    not_above = np.searchsorted(ranked, positive, side="right")
    return float((below + not_above).mean() / (2 * len(negative)))
