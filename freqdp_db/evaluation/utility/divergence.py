"""How far apart two distributions are, and how much one tells about the other. Natural logarithms."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import rel_entr
from scipy.stats import entropy, kendalltau

from freqdp_db.columns.arrays import Ints, Metres
from freqdp_db.evaluation.pair import CellBox, Pair

_EDGE_PERCENT = 0.1
_MI_SIDE = 32
_BINS = 20


def jensen_shannon(a: NDArray[np.int64], b: NDArray[np.int64]) -> float:
    """Divergence of two histograms of counts: 0 if alike, ln 2 if disjoint. An empty one is unlike
    all but another empty one."""
    if not a.sum() or not b.sum():
        return 0.0 if a.sum() == b.sum() else float(np.log(2.0))
    p, q = a / a.sum(), b / b.sum()
    middle = (p + q) / 2
    return max(float(rel_entr(p, middle).sum() + rel_entr(q, middle).sum()) / 2, 0.0)


def binned_divergence(before: Metres, after: Metres, top: float) -> float:
    """Of two columns of numbers, over 20 equal bins from 0 to `top`; the last one has no end."""
    width = top / _BINS or 1.0

    def histogram(values: Metres) -> Ints:
        return np.bincount(np.minimum(values // width, _BINS - 1).astype(np.int64), minlength=_BINS)

    return jensen_shannon(histogram(before), histogram(after))


def same_order(before: NDArray[Any], after: NDArray[Any]) -> float:
    """Kendall's rank correlation of two columns of counts."""
    if np.ptp(before) == 0 or np.ptp(after) == 0:  # no order to keep
        return float(np.array_equal(before, after))
    return float(kendalltau(before, after).statistic)


def same_members(before: Ints, after: Ints) -> float:
    """F1 of two lists without repeats; both empty are the same."""
    size = len(before) + len(after)
    return 2 * len(np.intersect1d(before, after)) / size if size else 1.0


def mutual_information(pair: Pair) -> dict[str, float]:
    """MI of the cells (32 x 32) of the same object at the same instants in D and in D*.

    D*'s cell is that of the last released sample at or before each of D's times; instants before
    the first one are left out. `mi` is divided by sqrt(H(X) H(Y)), `mi.nats` is not.
    """
    cells = CellBox.of(pair, _EDGE_PERCENT).cells(pair.locations, _MI_SIDE).astype(np.int64)
    last = last_at_or_before(pair)
    seen = last >= 0
    x = cells[pair.original.location[seen]]
    y = cells[pair.released.location[last[seen]]]
    size = _MI_SIDE * _MI_SIDE
    if not len(x):
        return {"mi": 0.0, "mi.nats": 0.0}
    joint = np.bincount(x * size + y)
    of_x, of_y = (float(entropy(np.bincount(side))) for side in (x, y))
    nats = max(of_x + of_y - float(entropy(joint)), 0.0)
    scale = float(np.sqrt(of_x * of_y))
    return {"mi": nats / scale if scale > 0 else 0.0, "mi.nats": nats}


def last_at_or_before(pair: Pair) -> Ints:
    """For each sample of D, the same trajectory's last sample of D* not after it; -1 if there is none.

    Both sides merged by (trajectory, time), released samples first among equals.
    """
    released, original = pair.released, pair.original
    owner = np.concatenate([released.owner, original.owner])
    at = np.concatenate([released.at, original.at])
    is_original = np.zeros(len(at), np.bool_)
    is_original[released.samples :] = True
    order = np.lexsort((is_original, at, owner))
    # the running maximum of positions in D* is the last one met, if it is of the same trajectory
    met = np.where(is_original[order], -1, order)
    met = np.maximum.accumulate(met) if len(met) else met
    same = (met >= 0) & (owner[met] == owner[order])
    result = np.full(original.samples, -1, np.int64)
    mine = is_original[order]
    result[order[mine] - released.samples] = np.where(same, met, -1)[mine]
    return result
