"""`membership`: was this object in it? Half of the objects make the release, the others do not."""

from __future__ import annotations

import numpy as np

from freqdp_db.columns.arrays import Flags, Ints
from freqdp_db.evaluation.attacks.exposure.case import Case
from freqdp_db.evaluation.attacks.exposure.claims import Shares
from freqdp_db.evaluation.attacks.exposure.likeness import pick_by_cosine
from freqdp_db.evaluation.attacks.exposure.sightings import KnownSamples, SightingIndex
from freqdp_db.evaluation.attacks.linking import dimensions_of
from freqdp_db.evaluation.attacks.vectors import tf_idf

_FALSE_ALARMS = 0.01
_MOST_KNOWN = 1_000


def membership(
    members: Case, others: Case, index: SightingIndex, rng: np.random.Generator
) -> dict[str, float]:
    """`membership.auc` and `membership.tpr1`; each attack beside them.

    Score of an object: likeness to its most alike released trajectory by places, by pairs of
    places, and by exact samples (how many of its samples the best trajectory holds). Chance is 0.5
    and 0.01. The best attack of the three counts.
    """
    found: dict[str, float] = {}
    for name, scores in (
        ("places", [_by_cosine(case, "s", rng) for case in (members, others)]),
        ("pairs", [_by_cosine(case, "sq", rng) for case in (members, others)]),
        ("samples", [_by_samples(case, index, rng) for case in (members, others)]),
    ):
        there = [s[c.original.lengths > 0] for s, c in zip(scores, (members, others), strict=True)]
        found[f"membership.auc.{name}"] = area_under_curve(there[0], there[1])
        found[f"membership.tpr1.{name}"] = found_at(there[0], there[1], _FALSE_ALARMS)
    return {
        kind: max(value for name, value in found.items() if name.startswith(kind))
        for kind in ("membership.auc", "membership.tpr1")
    } | found


def _by_cosine(case: Case, kind: str, rng: np.random.Generator) -> Shares:
    original, released, dimensions = dimensions_of(case.pair, kind)
    _, like = pick_by_cosine(
        tf_idf(original, dimensions, None), tf_idf(released, dimensions, None), dimensions, rng
    )
    return like


def _by_samples(case: Case, index: SightingIndex, rng: np.random.Generator) -> Shares:
    """Of an object's samples, those that its best trajectory has: exactly, then nearby."""
    known = _spread(case, _MOST_KNOWN)
    sighted = index.find(case, known, rng)
    share: Shares = sighted.score / np.maximum(np.diff(known.offsets), 1)
    return share


def _spread(case: Case, most: int) -> KnownSamples:
    """Every object's samples, thinned evenly where there are too many."""
    lengths = case.original.lengths
    every = np.maximum(-(-lengths // most), 1)
    within = np.arange(case.original.samples) - np.repeat(case.original.offsets[:-1], lengths)
    chosen: Flags = within % np.repeat(every, lengths) == 0
    position: Ints = np.flatnonzero(chosen)
    return KnownSamples(np.searchsorted(position, case.original.offsets).astype(np.int64), position)


def area_under_curve(positive: Shares, negative: Shares) -> float:
    """Chance that a positive scores above a negative; a tie is half a win."""
    if not len(positive) or not len(negative):
        return 0.5
    ranked = np.sort(negative)
    below = np.searchsorted(ranked, positive, side="left")
    not_above = np.searchsorted(ranked, positive, side="right")
    return float((below + not_above).mean() / (2 * len(negative)))


def found_at(positive: Shares, negative: Shares, false_alarms: float) -> float:
    """Share of positives above a line that at most this share of negatives is above."""
    if not len(positive) or not len(negative):
        return false_alarms
    ranked = np.sort(negative)[::-1]
    line = ranked[min(int(false_alarms * len(ranked)), len(ranked) - 1)]
    return float((positive > line).mean())
