"""What an audit can see of the two vectors of the paper: TF and PF, with the lists held equal.

Each mechanism treats every candidate, or every trajectory, alike and apart from the others. So one
call on many copies is as many runs of the very functions that the pipeline calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from freqdp_db.methods.contract import WorkingSet
from freqdp_db.methods.frequency.counts import Frequencies, Signatures, rank_places
from freqdp_db.methods.frequency.perturbation import (
    perturb_pf,
    perturb_tf,
    pf_mechanism,
    tf_mechanism,
)
from freqdp_db.methods.frequency.steps import GlobalOptions, GlobalStep, LocalOptions, LocalStep
from freqdp_db.model.arrays import Flags, Ints
from freqdp_db.model.edits import PfTargets, TfTargets
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.privacy.noise import RandomSource

# Lower bounds on epsilon from experiments on two neighbouring worlds.
#
# If a mechanism is eps-DP, no event is more than exp(eps) times as likely in one world as in the
# other. So the log ratio of an event's two frequencies, less what chance explains, bounds eps from
# below. The event is chosen on one part of the runs and counted on the others.


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


def copied_tf(frequencies: Frequencies, tf: int, copies: int) -> tuple[Frequencies, Flags]:
    """A vector of equal candidates over as many trajectories as there are, and all of them listed."""
    nothing = np.zeros(0, np.int32)
    vector = Frequencies(frequencies.offsets, nothing, nothing, np.full(copies, tf, np.int32))
    return vector, np.ones(copies, np.bool_)


@dataclass(frozen=True)
class PointList:
    """The places of one trajectory that its noise goes to, the signature first, and their counts."""

    size: int
    pf: Ints

    @classmethod
    def of(cls, targets: PfTargets, trajectory: int, size: int) -> PointList:
        return cls(size, targets.pf[targets.trajectory == trajectory].astype(np.int64))

    def __len__(self) -> int:
        return len(self.pf)

    def with_one_more(self, place: int) -> PointList:
        """The neighbour: one occurrence of this listed place added, the list unchanged."""
        pf = self.pf.copy()
        pf[place] += 1
        return PointList(self.size, pf)

    def copied(self, copies: int) -> tuple[Frequencies, Signatures]:
        """So many trajectories with just this list: nothing of it is left to chance."""
        places = len(self)
        frequencies = Frequencies(
            np.arange(copies + 1, dtype=np.int64) * places,
            np.tile(np.arange(places, dtype=np.int32), copies),
            np.tile(self.pf.astype(np.int32), copies),
            np.ones(places, np.int32),
        )
        order = np.arange(copies * places, dtype=np.int64)
        return frequencies, Signatures(order, self.size, np.ones(places, np.bool_))


def without_visits(trajectories: Trajectories, owner: int, place: int) -> Trajectories:
    """The neighbour in which this trajectory never visits this place."""
    mine = slice(trajectories.offsets[owner], trajectories.offsets[owner + 1])
    gone = np.zeros(trajectories.samples, np.bool_)
    gone[mine] = trajectories.location[mine] == place
    return trajectories.where(~gone)


def with_canary(
    trajectories: Trajectories, locations: Locations, trajectory: int
) -> tuple[Trajectories, Locations, int]:
    """One sample of a trajectory moved to a place of its own, which nobody else has; and that place."""
    canary = len(locations)
    sample = int(trajectories.offsets[trajectory] + trajectories.lengths[trajectory] // 2)
    place = trajectories.location.copy()
    home = place[sample]
    place[sample] = canary
    beside = Locations(
        np.append(locations.x, locations.x[home] + 1.0),
        np.append(locations.y, locations.y[home] + 1.0),
    )
    return replace(trajectories, location=place), beside, canary


def richest(frequencies: Frequencies) -> int:
    """The trajectory with the most places: it has the most to lose."""
    return int(np.argmax(np.diff(frequencies.offsets)))


Held = Callable[[WorkingSet, Any, RandomSource, int, float], Iterator[tuple[str, float, Bound]]]
"""Changes with the lists held equal: each with the epsilon that is claimed, and what was found."""


@dataclass(frozen=True)
class Probed:
    """How to look at the vector of one step."""

    artefact: str
    unit: str
    held: Held
    only_visit: Callable[[WorkingSet, Any], tuple[int, int] | None]
    """A trajectory and a place that only its own visit puts on a list."""
    lists: Callable[[Any, int, int], bool]
    """Whether a draw lists the place of the trajectory."""


def _held_tf(
    state: WorkingSet, options: GlobalOptions, source: RandomSource, runs: int, alpha: float
) -> Iterator[tuple[str, float, Bound]]:
    """One incidence of a candidate removed. The most visited one has the most room on both sides."""
    frequencies, epsilon = state.frequencies, Fraction(options.epsilon_global)
    candidates = rank_places(frequencies, options.signature).candidates
    tf = int(frequencies.tf[candidates].max())

    def targets(count: int) -> Observed:
        vector, listed = copied_tf(frequencies, count, runs)
        drawn = perturb_tf(vector.tf, len(vector.offsets) - 1, listed, epsilon, source)
        return Observed(drawn.target.astype(np.int64))

    claim = float(tf_mechanism(epsilon).epsilon)
    yield "- 1 incidence", claim, bound_from(targets(tf), targets(tf - 1), alpha)


def _held_pf(
    state: WorkingSet, options: LocalOptions, source: RandomSource, runs: int, alpha: float
) -> Iterator[tuple[str, float, Bound]]:
    """One occurrence more of a listed place: of one in the signature, and of one in stage 2."""
    frequencies = state.frequencies
    epsilon, size = Fraction(options.epsilon_local), options.signature
    drawn = perturb_pf(frequencies, rank_places(frequencies, size), epsilon, source)
    points = PointList.of(drawn, richest(frequencies), size)
    claim = float(pf_mechanism(epsilon, size).epsilon)

    def targets(of: PointList) -> Ints:
        copies = perturb_pf(*of.copied(runs), epsilon, source)
        return copies.target.reshape(runs, len(of)).astype(np.int64)

    def shift(target: Ints) -> Ints:
        """m times mu, as somebody computes it who knows the first world."""
        return np.asarray((target[:, :size] - points.pf[:size]).sum(axis=1))

    def noise(target: Ints, place: int) -> Ints:
        """Noise on a place of stage 2 for the same person, in steps of the lattice."""
        return np.asarray(size * (target[:, place] - points.pf[place]) + shift(target))

    def in_signature(target: Ints) -> Observed:
        # such an occurrence moves mu, and shows by where f - mu lies between whole numbers
        total = sum(noise(target, place) for place in range(size, len(points)))
        return Observed(np.asarray(total), shift(target) % size)

    def in_stage_2(target: Ints) -> Observed:
        return Observed(noise(target, size))

    changes: list[tuple[str, int, Callable[[Ints], Observed]]] = [
        # without a stage 2 all of it is stage 1, which does not see the counts
        ("+ 1 in stage 1", 0, lambda target: Observed(shift(target)))
    ]
    if len(points) > size:
        changes = [("+ 1 in stage 1", 0, in_signature), ("+ 1 in stage 2", size, in_stage_2)]
    here = targets(points)
    for change, place, look in changes:
        there = targets(points.with_one_more(place))
        yield change, claim, bound_from(look(there), look(here), alpha)


def _only_incidence(state: WorkingSet, drawn: TfTargets) -> tuple[int, int] | None:
    for place in drawn.location[drawn.tf == 1][:1]:
        entry = int(np.flatnonzero(state.frequencies.location == place)[0])
        owner = int(np.searchsorted(state.frequencies.offsets, entry, side="right")) - 1
        return owner, int(place)
    return None


def _only_occurrence(state: WorkingSet, drawn: PfTargets) -> tuple[int, int] | None:
    # the highest ranks first: those are on the list in every run
    once = np.flatnonzero(drawn.pf == 1)
    for i in once[np.argsort(drawn.rank[once], kind="stable")][:1]:
        return int(drawn.trajectory[i]), int(drawn.location[i])
    return None


def _in_tf(drawn: TfTargets, owner: int, place: int) -> bool:
    return bool((drawn.location == place).any())


def _in_pf(drawn: PfTargets, owner: int, place: int) -> bool:
    return bool(((drawn.location == place) & (drawn.trajectory == owner)).any())


PROBES = {
    GlobalStep.name: Probed("tf_vector", "incidence", _held_tf, _only_incidence, _in_tf),
    LocalStep.name: Probed("pf_vectors", "occurrence", _held_pf, _only_occurrence, _in_pf),
}
"""What an audit can look at, by the name of the step."""
