"""How long trying takes: said before it begins, and kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from freqdp_db.columns.arrays import Ints
from freqdp_db.evaluation.recommendation.grid import MethodToTry

_USED = 0.8
"""Of the time, what is planned for: what was measured on few objects is a guess for many."""
LEAST_OBJECTS = 4
_FEW = 20
_TRIAL_OBJECTS = 40
_TRIAL_SAMPLES = 1_000_000


@dataclass
class Allowance:
    """The time that there is, and what has been learnt of how long a candidate takes."""

    seconds: float
    per_weight: float
    """Seconds for a candidate of weight 1."""
    clock: Callable[[], float] = time.monotonic
    started: float = field(init=False)

    def __post_init__(self) -> None:
        self.started = self.clock()

    @property
    def used(self) -> float:
        return self.clock() - self.started

    def allows(self, variant: MethodToTry) -> bool:
        """Whether it will end in time, by what is known so far."""
        return self.used + self.per_weight * variant.weight <= self.seconds

    def took(self, variant: MethodToTry, seconds: float) -> None:
        """Learn from one: halfway from what was thought to what was seen."""
        self.per_weight = (self.per_weight + seconds / variant.weight) / 2


def expected(variants: Sequence[MethodToTry], per_weight: float) -> float:
    """Seconds for all of these."""
    return per_weight * sum(variant.weight for variant in variants)


def objects_within(trials: float, samples: Ints, trial: int) -> int:
    """How many objects fit, if there is time for so many trials; a round, even number.

    samples: for one object, for two, and so on. They are what takes time, and objects may differ in
    them a thousandfold. trial: how many objects it had.
    """
    most = len(samples)
    fitting = int(np.searchsorted(samples, _USED * trials * samples[trial - 1], side="right"))
    if fitting < most:
        step = 10 ** max(len(str(fitting)) - 2, 0)
        fitting = max(fitting // step * step, min(_FEW, most))
    return fitting - fitting % 2


def objects_of_trial(samples: Ints) -> int:
    """How many objects show in seconds how long all will take."""
    fitting = int(np.searchsorted(samples, _TRIAL_SAMPLES, side="right"))
    return min(max(fitting, _FEW), _TRIAL_OBJECTS, len(samples))


def how_long(needed: float, allowed: float) -> str:
    """What to expect: the time it takes, or that what does not fit is left out."""
    if needed > allowed:
        return (
            f"about {span(needed)} for all of them; what does not fit into {span(allowed)} "
            "(--minutes) is left out, and said"
        )
    return f"about {span(needed)}, and no more than {span(allowed)}"


def span(seconds: float) -> str:
    """So long, in words."""
    if seconds < 90:
        return f"{max(round(seconds), 1)} s"
    return f"{round(seconds / 60)} min"
