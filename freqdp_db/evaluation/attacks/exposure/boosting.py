"""Gradient-boosted trees for a yes or no, on features in 64 bins: small, exact to repeat, fast.

Each tree is grown level by level to a fixed depth on the gradient of the log loss; a split is the
best of all bins of all features by the gain of second order, as usual. Nothing is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from freqdp_db.columns.arrays import Flags
from freqdp_db.engines.ranges import joined, map_each

BINS = 64
_DEPTH = 4
_TREES = 60
_RATE = 0.2
_RIDGE = 1.0
_LEAST_WEIGHT = 5.0

Features = NDArray[np.float64]
Binned = NDArray[np.uint8]


@dataclass(frozen=True)
class Forest:
    """Trees as full binary arrays: node n has the children 2n + 1 and 2n + 2."""

    edges: list[NDArray[np.float64]]
    feature: NDArray[np.int64]
    threshold: NDArray[np.int64]
    """Bins above it go right."""
    value: NDArray[np.float64]
    """Of each tree's leaves."""
    bias: float

    def score(self, features: Features) -> NDArray[np.float64]:
        """Log odds of yes."""
        binned = _bins(features, self.edges)
        trees = (self.feature, self.threshold, self.value, self.bias)
        (result,) = joined(map_each(_descend, len(binned), binned, *trees))
        return result


def _edges(features: Features) -> list[NDArray[np.float64]]:
    shares = np.linspace(0, 100, BINS + 1)[1:-1]
    return [np.unique(np.percentile(column, shares)) for column in features.T]


def _bins(features: Features, edges: list[NDArray[np.float64]]) -> Binned:
    binned = np.empty(features.shape, np.uint8)
    for f, cuts in enumerate(edges):
        binned[:, f] = np.searchsorted(cuts, features[:, f], side="left")
    return binned


@njit(nogil=True, cache=True)
def _descend(first, last, binned, feature, threshold, value, bias):  # type: ignore[no-untyped-def]
    result = np.full(last - first, bias)
    for i in range(first, last):
        for tree in range(len(feature)):
            node = 0
            for _ in range(_DEPTH):
                right = binned[i, feature[tree, node]] > threshold[tree, node]
                node = 2 * node + 1 + right
            result[i - first] += value[tree, node - (2**_DEPTH - 1)]
    return (result,)


@njit(nogil=True, cache=True)
def _histogram(first, last, binned, leaf, gradient, weight, width):  # type: ignore[no-untyped-def]
    """Gradients and weights by (feature, node of the level, bin): of features first to last - 1."""
    gradients = np.zeros((last - first, width, BINS + 1))
    weights = np.zeros((last - first, width, BINS + 1))
    for f in range(first, last):
        for i in range(len(leaf)):
            gradients[f - first, leaf[i], binned[i, f]] += gradient[i]
            weights[f - first, leaf[i], binned[i, f]] += weight[i]
    return gradients, weights


def train(features: Features, answer: Flags) -> Forest:
    """Learn to tell rows whose answer is yes from the others."""
    edges = _edges(features)
    binned = _bins(features, edges)
    nodes, leaves = 2**_DEPTH - 1, 2**_DEPTH
    feature = np.zeros((_TREES, nodes), np.int64)
    threshold = np.full((_TREES, nodes), BINS, np.int64)
    value = np.zeros((_TREES, leaves))
    share = min(max(float(answer.mean()), 1e-6), 1 - 1e-6) if len(answer) else 0.5
    bias = float(np.log(share / (1 - share)))
    odds = np.full(len(answer), bias)
    for tree in range(_TREES):
        chance = 1 / (1 + np.exp(-odds))
        gradient, weight = answer - chance, chance * (1 - chance)
        leaf = np.zeros(len(answer), np.int64)
        for level in range(_DEPTH):
            width, base = 2**level, 2**level - 1
            parts = map_each(_histogram, features.shape[1], binned, leaf, gradient, weight, width)
            chosen, cut = _best_splits(*(sums.swapaxes(0, 1) for sums in joined(parts)))
            feature[tree, base : base + width] = chosen
            threshold[tree, base : base + width] = cut
            leaf = 2 * leaf + (binned[np.arange(len(leaf)), chosen[leaf]] > cut[leaf])
        top = np.bincount(leaf, gradient, leaves)
        value[tree] = _RATE * top / (np.bincount(leaf, weight, leaves) + _RIDGE)
        odds += value[tree][leaf]
    return Forest(edges, feature, threshold, value, bias)


def _best_splits(
    gradient: NDArray[np.float64], weight: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Feature and bin of the best split of each node; a node without one sends all to the left."""
    left_g, left_w = gradient.cumsum(axis=2), weight.cumsum(axis=2)
    all_g, all_w = left_g[:, :, -1:], left_w[:, :, -1:]
    right_g, right_w = all_g - left_g, all_w - left_w
    gain = left_g**2 / (left_w + _RIDGE) + right_g**2 / (right_w + _RIDGE)
    gain -= all_g**2 / (all_w + _RIDGE)
    gain[(left_w < _LEAST_WEIGHT) | (right_w < _LEAST_WEIGHT)] = 0.0
    flat = gain.reshape(len(gain), -1)
    best = flat.argmax(axis=1)
    chosen, cut = np.divmod(best, gain.shape[2])
    none = flat[np.arange(len(flat)), best] <= 0.0
    return np.where(none, 0, chosen), np.where(none, BINS + 1, cut)
