"""What the learning attackers share: objects dealt into halves, gradient-boosted trees, thresholds.

Trees learn on one half of the objects and are tested on the other, then the other way round, for each
of a few splits: no object is ever attacked by what was learnt from itself. An attacker claims what is
likely enough; of the thresholds at which claims are right at least every second time, the best counts.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freqdp_db.engines.ranges import cores
from freqdp_db.evaluation.attacks.claims import (
    AttackScore,
    Claims,
    Shares,
    best_at_even_odds,
    score_claims,
)
from freqdp_db.evaluation.pair import Case
from freqdp_db.model.arrays import Flags, Ints

Features = NDArray[np.float32]
Scorer = Callable[[Features], Shares]
_TREES = {"max_iter": 60, "max_depth": 4, "learning_rate": 0.2, "l2_regularization": 1.0}
_FEW_ROWS = 20_000
"""Up to so many, threads cost more than they gain."""
_HIGHEST = 30.0
"""Log odds beyond this are certain."""
SPLITS = 2
"""Of the objects, each into two halves."""
THRESHOLDS = (0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05)
LEAST = THRESHOLDS[-1]


def halves(objects: int, rng: np.random.Generator, splits: int = SPLITS) -> list[Flags]:
    """Objects to learn from, one half after the other: the others are those to attack."""
    found = []
    for _ in range(splits):
        first = rng.permutation(objects) < objects // 2
        found += [first, ~first]
    return found


def cross_test(
    case: Case,
    objects: Ints,
    known: Mapping[str, Flags],
    claims_by: Callable[[Flags, Flags], Mapping[str, Claims]],
    rng: np.random.Generator,
    splits: int = SPLITS,
) -> dict[str, float]:
    """What attackers learn of some objects, each by what was learnt from the other half of them.

    known: of each metric, original samples that its attacker has.
    claims_by: of objects to learn from, and objects to attack: the claims of each attacker, worth their
    chances.
    """
    scores: dict[str, list[list[AttackScore]]] = {name: [] for name in known}
    half = []
    for number, part in enumerate(halves(len(objects), rng, splits)):
        learn, attack = np.zeros((2, len(case)), np.bool_)
        learn[objects[part]], attack[objects[~part]] = True, True
        for name, claims in claims_by(learn, attack).items():
            scores[name].append(score_claims(case, claims, THRESHOLDS, known[name], attack))
        half += [number] * int(attack.sum())
    found: dict[str, float] = {}
    for name, of_halves in scores.items():
        levels = [AttackScore.of_parts(level) for level in zip(*of_halves, strict=True)]
        found |= best_at_even_odds(name, levels, np.array(half, np.int32))
    return found


def trees(
    features: Features, answer: Flags, weight: Ints | None = None, **settings: float
) -> Scorer:
    """Gradient-boosted trees that learn `answer`: what gives the log odds of yes, from -30 to 30.

    weight: how often each row counts; None: once.
    They learn in one thread with a fixed seed: the same data give the same trees. Where all answers are the
    same, that is the answer to everything.
    """
    # unless it is said, scikit-learn counts physical cores, with a traceback where a container hides them
    os.environ.setdefault("OMP_NUM_THREADS", str(cores()))
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import ThreadpoolController

    if len(np.unique(answer)) < 2:
        always = _HIGHEST if answer.any() else -_HIGHEST
        return lambda asked: np.full(len(asked), always)
    # a column without any number cannot be binned, and says nothing
    said = np.flatnonzero(~np.isnan(features).all(axis=0))
    model = HistGradientBoostingClassifier(
        **(_TREES | settings), early_stopping=False, random_state=0
    )
    threads = ThreadpoolController()
    with _at_most(1, threads):
        model.fit(features[:, said], answer, sample_weight=weight)

    def score(asked: Features) -> Shares:
        if not len(asked):
            return np.zeros(0)
        with _at_most(1 if len(asked) <= _FEW_ROWS else cores(), threads):
            odds: Shares = model.decision_function(asked[:, said])
        return np.clip(odds, -_HIGHEST, _HIGHEST)

    return score


@contextmanager
def _at_most(number: int, threads: Any) -> Iterator[None]:
    with threads.limit(limits=number), warnings.catch_warnings():
        # joblib counts cores although one thread is asked for, and warns where it cannot
        warnings.filterwarnings("ignore", "Could not find the number of physical cores")
        yield


def chances(log_odds: NDArray[np.floating]) -> Features:
    likely: Features = (1.0 / (1.0 + np.exp(-log_odds))).astype(np.float32)
    return likely
