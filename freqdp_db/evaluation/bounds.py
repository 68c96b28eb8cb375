"""Lower bounds on epsilon from experiments on two neighbouring worlds.

If a mechanism is eps-DP, no event is more than exp(eps) times as likely in one world as in the
other. So the log ratio of an event's two frequencies, less what chance explains, bounds eps from
below. The event is chosen on one part of the runs and counted on the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from freqdp_db.model.arrays import Ints

Numbers = NDArray[np.float64]
_CHOOSING = 4
"""One run in so many goes into choosing the event."""
_MOST_THRESHOLDS = 400


@dataclass(frozen=True)
class Bound:
    """A confidence interval for the log ratio of an event's probabilities in two worlds.

    Epsilon is at least `lower`; `upper` says how sharp the experiment was, and bounds nothing.
    """

    lower: float
    upper: float
    runs: int
    """Runs in each world that the event was counted on."""


def proportion(hits: Numbers, runs: int, alpha: float) -> tuple[Numbers, Numbers]:
    """Clopper and Pearson's interval, which misses with probability alpha at most."""
    low = np.where(hits > 0, stats.beta.ppf(alpha / 2, hits, runs - hits + 1), 0.0)
    high = np.where(hits < runs, stats.beta.ppf(1 - alpha / 2, hits + 1, runs - hits), 1.0)
    return low, high


def log_ratio(
    often: Numbers, seldom: Numbers, runs: int, alpha: float, delta: float = 0.0
) -> tuple[Numbers, Numbers]:
    """Interval for ln((p - delta) / q) from hits; each proportion may miss with half of alpha."""
    p_low, p_high = proportion(often, runs, alpha / 2)
    q_low, q_high = proportion(seldom, runs, alpha / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.log(np.maximum(p_low - delta, 0.0)) - np.log(q_high)
        high = np.log(np.maximum(p_high - delta, 0.0)) - np.log(q_low)
        return low, np.where(
            np.isnan(high), np.inf, high
        )  # of nothing over nothing nothing is known


@dataclass(frozen=True)
class Observed:
    """What was seen of each run: a number, and a class that the run falls in."""

    number: Ints
    group: Ints | None = None

    def part(self, chosen: NDArray[np.bool_]) -> Observed:
        group = None if self.group is None else self.group[chosen]
        return Observed(self.number[chosen], group)

    def of_group(self, group: int | None) -> Ints:
        """None: of any class."""
        return self.number if group is None else self.number[self.group == group]


@dataclass(frozen=True)
class Event:
    """Being in a class and on one side of a threshold; `swapped`: likelier in the second world."""

    group: int | None
    above: bool
    threshold: int
    swapped: bool

    def hits(self, seen: Observed) -> int:
        number = seen.of_group(self.group)
        return int((number >= self.threshold if self.above else number < self.threshold).sum())


def bound_from(left: Observed, right: Observed, alpha: float, delta: float = 0.0) -> Bound:
    """Bound epsilon by what was seen in two worlds, in as many runs of the one as of the other.

    `delta`: what is claimed for (epsilon, delta) lets an event be so much likelier for nothing.
    """
    counted = np.arange(len(left.number)) % _CHOOSING != 0
    event = _likely_event(left.part(~counted), right.part(~counted), alpha)
    often, seldom = (event.hits(seen.part(counted)) for seen in (left, right))
    if event.swapped:
        often, seldom = seldom, often
    return bound_from_hits(often, seldom, int(counted.sum()), alpha, delta)


def bound_from_hits(often: int, seldom: int, runs: int, alpha: float, delta: float = 0.0) -> Bound:
    """Bound epsilon by an event that was named beforehand."""
    hits = np.array([float(often)]), np.array([float(seldom)])
    lower, upper = log_ratio(*hits, runs, alpha, delta)
    return Bound(max(0.0, float(lower[0])), float(upper[0]), runs)


def _likely_event(left: Observed, right: Observed, alpha: float) -> Event:
    """The event with the best bound."""
    runs, best, event = len(left.number), -math.inf, Event(None, True, 0, False)
    groups = [] if left.group is None else np.unique(left.group).tolist()
    for group in (None, *groups):
        numbers = [np.sort(seen.of_group(group)) for seen in (left, right)]
        thresholds = np.unique(np.concatenate(numbers))
        if len(thresholds) > _MOST_THRESHOLDS:
            chosen = np.linspace(0, len(thresholds) - 1, _MOST_THRESHOLDS).astype(np.int64)
            thresholds = thresholds[chosen]
        below = [np.searchsorted(number, thresholds) for number in numbers]
        for above in (True, False):
            hits = [
                (len(n) - b if above else b).astype(np.float64)
                for n, b in zip(numbers, below, strict=True)
            ]
            for swapped in (False, True):
                lower, _ = log_ratio(hits[swapped], hits[not swapped], runs, alpha)
                at = int(np.argmax(lower))
                if lower[at] > best:
                    best, event = (
                        float(lower[at]),
                        Event(group, above, int(thresholds[at]), swapped),
                    )
    return event
