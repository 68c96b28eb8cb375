"""What the learning attackers share: objects dealt into halves, and gradient-boosted trees.

Trees learn on one half of the objects and are tested on the other, then the other way round, for each
of a few splits: no object is ever attacked by what was learnt from itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from freqdp_db.engines.ranges import cores
from freqdp_db.evaluation.attacks.claims import Shares
from freqdp_db.model.arrays import Flags, Ids

Features = NDArray[np.float32]
Scorer = Callable[[Features], Shares]
_TREES = {"max_iter": 60, "max_depth": 4, "learning_rate": 0.2, "l2_regularization": 1.0}
_FEW_ROWS = 20_000
"""Up to so many, threads cost more than they gain."""
SPLITS = 2
"""Of the objects, each into two halves."""


def halves(objects: int, rng: np.random.Generator, splits: int = SPLITS) -> list[Flags]:
    """Objects to learn from, one half after the other: the others are those to attack."""
    found = []
    for _ in range(splits):
        first = rng.permutation(objects) < objects // 2
        found += [first, ~first]
    return found


def trees(features: Features, answer: Flags, **settings: float) -> Scorer:
    """Gradient-boosted trees that learn `answer`: what gives the log odds of yes.

    They learn in one thread with a fixed seed: the same data give the same trees.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import ThreadpoolController

    # a column without any number cannot be binned, and says nothing
    said = np.flatnonzero(~np.isnan(features).all(axis=0))
    model = HistGradientBoostingClassifier(
        **(_TREES | settings), early_stopping=False, random_state=0
    )
    threads = ThreadpoolController()
    with threads.limit(limits=1), warnings.catch_warnings():
        # joblib counts cores although one thread is asked for, and warns where it cannot
        warnings.filterwarnings("ignore", "Could not find the number of physical cores")
        model.fit(features[:, said], answer)

    def score(asked: Features) -> Shares:
        few = len(asked) <= _FEW_ROWS
        with threads.limit(limits=1 if few else cores()), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Could not find the number of physical cores")
            odds: Shares = model.decision_function(asked[:, said])
        return odds

    return score


def pooled_halves(test: list[Flags]) -> Ids:
    """Of each score in `found[test]` of every half, one after the other: which half it is of."""
    return np.repeat(np.arange(len(test)), [int(t.sum()) for t in test]).astype(np.int32)
