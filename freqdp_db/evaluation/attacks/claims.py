"""Scores of claims: an attacker says which released samples belong to an object.

An original sample counts as found if a claimed sample lies within 200 m and 5 min of it, or if a claimed
area of at most 500 m and interval of at most 10 min contain it. A score has both sides: which share of the
object's samples the claim finds, and which share of the claim is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numba import njit
from numpy.typing import NDArray

from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.evaluation.pair import WIDEST_M, Case, ReleaseSeen
from freqdp_db.model.arrays import Flags, Ids, Ints, new_rows, offsets_of, owners, rows_of
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
def _surest(boxes, begin, end, others, their_begin, their_end, worth, reach, apart_us, longest_us):  # type: ignore[no-untyped-def]
    """Of each box and interval, the largest worth of the others that are near it; -inf: none is.

    Both in order of their beginnings. Boxes are x_min, y_min, x_max, y_max.
    """
    found = np.full(len(boxes), -np.inf)
    blocks = (len(others) + _BLOCK - 1) // _BLOCK
    around, top = np.empty((blocks, 4)), np.empty(blocks)
    for b in range(blocks):
        part = slice(b * _BLOCK, (b + 1) * _BLOCK)
        around[b, 0], around[b, 1] = others[part, 0].min(), others[part, 1].min()
        around[b, 2], around[b, 3] = others[part, 2].max(), others[part, 3].max()
        top[b] = worth[part].max()
    low = 0
    for i in range(len(boxes)):
        while low < len(others) and their_begin[low] < begin[i] - apart_us - longest_us:
            low += 1
        k = low
        while k < len(others) and their_begin[k] <= end[i] + apart_us:
            b = k // _BLOCK
            stop = min((b + 1) * _BLOCK, len(others))
            if top[b] <= found[i] or not _is_near(boxes[i], around[b], reach):
                k = stop
            while k < stop and their_begin[k] <= end[i] + apart_us:
                more = worth[k] > found[i] and their_end[k] >= begin[i] - apart_us
                if more and _is_near(boxes[i], others[k], reach):
                    found[i] = worth[k]
                k += 1
    return found


@njit(nogil=True, cache=True)
def _is_near(one, other, reach):  # type: ignore[no-untyped-def]
    dx = max(one[0] - other[2], other[0] - one[2], 0.0)
    dy = max(one[1] - other[3], other[1] - one[3], 0.0)
    return dx * dx + dy * dy <= reach * reach


@njit(nogil=True, cache=True)
def _judge(  # type: ignore[no-untyped-def]
    first, last, offsets, samples, at, claims, claim, worth, boxes, begin, end, reach, apart_us,
    longest_us,
):  # fmt: skip
    told = np.empty(offsets[last] - offsets[first])
    right = np.zeros(claims[last] - claims[first], np.bool_)
    for u in range(first, last):
        own = slice(offsets[u], offsets[u + 1])
        rows = claims[u] + stable_order(begin[claim[claims[u] : claims[u + 1]]])
        mine = claim[rows]
        hits = _surest(
            boxes[mine], begin[mine], end[mine], samples[own], at[own], at[own],
            np.zeros(own.stop - own.start), reach, apart_us, 0,
        )  # fmt: skip
        rows = rows[hits == 0.0]
        right[rows - claims[first]] = True
        mine = claim[rows]
        told[own.start - offsets[first] : own.stop - offsets[first]] = _surest(
            samples[own], at[own], at[own], boxes[mine], begin[mine], end[mine], worth[rows],
            reach, apart_us, longest_us,
        )  # fmt: skip
    return told, right


def judge(case: Case, claims: Claims) -> tuple[Shares, Flags]:
    """Of each original sample, the worth of the surest claim that tells it (-inf: none does).

    And of each claim, whether it tells any sample of its object.
    """
    release, side = case.release, case.original
    boxes, begin = np.column_stack([release.x, release.y] * 2), release.true_at
    end, within = begin, (NEAR_M, NEAR_US, 0)
    if release.areas is not None:
        (boxes, end), within = boxes_of(release), (0.0, 0, _LONGEST_US)
    told, right = joined(
        map_ranges(
            _judge, claims.offsets, side.offsets, np.column_stack(case.judged * 2), case.judged_at,
            claims.offsets, claims.sample, claims.worth, boxes, begin, end, *within,
        )
    )  # fmt: skip
    return told, right


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
    told, right = judge(case, claims)
    left = np.ones(len(told), np.bool_) if known is None else ~known
    owner, claimant = case.original.owner, owners(claims.offsets)

    def count(of: Ids) -> Ints:
        counts = np.bincount(of, minlength=len(case))
        return counts if asked is None else counts[asked]

    scores = []
    for level in levels:
        enough = claims.worth >= level
        claimed = count(claimant[enough])
        with np.errstate(invalid="ignore"):
            found = count(owner[left & (told >= level)]) / count(owner[left])
            scores.append(AttackScore(found, count(claimant[enough & right]) / claimed, claimed))
    return scores


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
