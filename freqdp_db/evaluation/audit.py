"""`freqdp audit`: the mechanisms as the pipeline calls them, run many times on neighbouring worlds.

If a mechanism is eps-DP, no event is more than exp(eps) times as likely in one world as in the
other. So the log ratio of an event's two frequencies, less what chance explains, bounds eps from
below. Nothing is written or spent.

Of the vectors of the paper: with the lists held equal the losses must stay within the claim. With lists
that move, and for the table of trajectories, nothing is claimed, and the experiment shows why. Each
mechanism treats every candidate, or every trajectory, alike and apart from the others. So one call on
many copies is as many runs of the very functions that the pipeline calls.

Of a guarantee for an object: whoever knows everybody else subtracts their sums. What is left is noise, with
or without the vectors of the one: their sum, each entry weighted by the one's own over the variance of its
noise, tells the two worlds apart best of all that is linear. Each vector is looked at alone, too: one
without its noise would drown in the sum of all. Whoever has the release alone counts what is in it, and
what is where the one was. These are releases of few objects: the busiest one shows most among few, and
many releases can be made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from freqdp_db.dataset.memory import load_build
from freqdp_db.db.builds import find_build
from freqdp_db.db.connection import Database
from freqdp_db.db.datasets import DatasetRow
from freqdp_db.errors import BadInput, VerificationFailed
from freqdp_db.methods.contract import AnyStep, StepContext, WorkingSet, options_of
from freqdp_db.methods.counts.contributions import Contributions
from freqdp_db.methods.counts.family import CountsOptions, contributions_to, design_of
from freqdp_db.methods.counts.measuring import bounded_by, first_numbers, totals
from freqdp_db.methods.counts.measuring import measure as measure_counts
from freqdp_db.methods.counts.plan import plan_of as plan_of_counts
from freqdp_db.methods.counts.plan import second_round
from freqdp_db.methods.counts.tables import make_tables
from freqdp_db.methods.frequency.counts import Frequencies, Signatures, rank_places
from freqdp_db.methods.frequency.perturbation import (
    perturb_pf,
    perturb_tf,
    pf_mechanism,
    tf_mechanism,
)
from freqdp_db.methods.frequency.steps import GlobalOptions, GlobalStep, LocalOptions, LocalStep
from freqdp_db.methods.loop import Trial, run_steps
from freqdp_db.methods.synthesis.plan import FIRST_ROUND, SCALE, plan_of, planned_from
from freqdp_db.methods.synthesis.public import Region, StrictOptions
from freqdp_db.methods.synthesis.strict import carry_out, released_size
from freqdp_db.methods.synthesis.trips import Trips, cut_trips
from freqdp_db.methods.synthesis.vectors import (
    cell_trips,
    measured,
    size_counts,
    vectors_of,
    with_noise,
)
from freqdp_db.model.arrays import Flags, Ints, Metres, owners, rows_of
from freqdp_db.model.trajectories import Locations, PfTargets, TfTargets, Trajectories
from freqdp_db.privacy.accounting import epsilon_of, rounded_down
from freqdp_db.privacy.guarantee import ProtectedUnit
from freqdp_db.privacy.noise import RandomSource, SecureSource
from freqdp_db.progress import Progress
from freqdp_db.release.inputs import make_world, require_public_inputs
from freqdp_db.release.request import Request

DEFAULT_RUNS = 40_000
MIN_RUNS, MAX_RUNS = 1_000, 10_000_000
_ALPHA = 0.001
"""All intervals of an audit together miss with this probability at most."""
_WHOLE_RUNS = 200
"""Runs of whole worlds, in each of the two: these take longer, and their events are certain."""
_MOST_RUNS = 20_000
"""Of the vectors of one object."""
_RUNS_PER_RELEASE, _LEAST_RELEASES = 400, 20
"""Whole releases of `strict` take about a second: so many runs of the vectors for each."""
_TABLE = "trajectories"
Side = TypeVar("Side", WorkingSet, Trajectories)
"""One of two neighbouring worlds."""
_MOST_OBJECTS = 50
_ENOUGH_SAMPLES = 10_000
_FEW = 50
"""Releases are made of so many objects."""
_CANDIDATES = 100
"""So many objects are looked at to find one that costs much in counts."""
_SIDE = 15
_STEPS = 100_000
"""Shares of trips are looked at in steps of this part."""
_MOST_TRIPS = 1_000
"""Of a release so many are made: where they pass shows in them."""
_MOST_APART = 40.0
_SURE = 5.0
"""Standard deviations that a bound stays on the safe side by."""
Numbers = NDArray[np.float64]
_CHOOSING = 4
"""One run in so many goes into choosing the event."""
_MOST_THRESHOLDS = 400


# Bounds of epsilon by what was seen in two worlds: an event is chosen on one part of the runs and counted
# on the others.


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
        # of nothing over nothing nothing is known
        return low, np.where(np.isnan(high), np.inf, high)


class Observed(NamedTuple):
    """What was seen of each run: a number, and a class that the run falls in."""

    number: Ints
    group: Ints | None = None

    def part(self, chosen: Flags) -> Observed:
        return Observed(self.number[chosen], None if self.group is None else self.group[chosen])

    def of_group(self, group: int | None) -> Ints:
        """None: of any class."""
        return self.number if group is None else self.number[self.group == group]


class Event(NamedTuple):
    """Being in a class and on one side of a threshold; `swapped`: likelier in the second world."""

    group: int | None = None
    above: bool = True
    threshold: int = 0
    swapped: bool = False

    def hits(self, seen: Observed) -> int:
        above = int((seen.of_group(self.group) >= self.threshold).sum())
        return above if self.above else len(seen.of_group(self.group)) - above


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
    runs, best, event = len(left.number), -math.inf, Event()
    groups = [] if left.group is None else np.unique(left.group).tolist()
    for group in (None, *groups):
        numbers = [np.sort(seen.of_group(group)) for seen in (left, right)]
        thresholds = np.unique(np.concatenate(numbers))
        if len(thresholds) > _MOST_THRESHOLDS:
            chosen = np.linspace(0, len(thresholds) - 1, _MOST_THRESHOLDS).astype(np.int64)
            thresholds = thresholds[chosen]
        below = [np.searchsorted(number, thresholds).astype(np.float64) for number in numbers]
        above = [len(number) - less for number, less in zip(numbers, below, strict=True)]
        for hits in (above, below):
            for swapped in (False, True):
                lower, _ = log_ratio(hits[swapped], hits[not swapped], runs, alpha)
                at = int(np.argmax(lower))
                if lower[at] > best:
                    best = float(lower[at])
                    event = Event(group, hits is above, int(thresholds[at]), swapped)
    return event


@dataclass(frozen=True)
class AuditFinding:
    """One row of an audit: what was compared, and how much of epsilon the experiment could show."""

    artefact: str
    lists: str
    change: str
    claimed_epsilon: str | None
    epsilon_at_least: float
    interval: tuple[float, float | None]
    runs: int
    unbounded: bool
    """Whether one world shows what the other cannot show at all: more runs give any bound."""

    @property
    def within_claim(self) -> bool | None:
        """None where nothing is claimed."""
        if self.claimed_epsilon is None:
            return None
        return self.epsilon_at_least <= float(self.claimed_epsilon)

    @property
    def verdict(self) -> str:
        if self.within_claim is None:
            return "unbounded" if self.unbounded else "nothing claimed"
        return "holds" if self.within_claim else "EXCEEDED"


@dataclass(frozen=True)
class Audit:
    dataset: str
    request: Request
    protected: ProtectedUnit
    findings: list[AuditFinding]
    confidence: float = 1 - _ALPHA

    def document(self) -> dict[str, Any]:
        return {
            "dataset": self.dataset,
            "method": self.request.method.name,
            "object": self.protected.words,
            "parameters": self.request.published(),
            "confidence": self.confidence,
            "findings": [{**asdict(f), "within_claim": f.within_claim} for f in self.findings],
        }

    def rows(self) -> list[tuple[Any, ...]]:
        return [
            (
                f.artefact.replace("_", " "), f.lists, f.change, f.claimed_epsilon,
                rounded_down(f.epsilon_at_least), f.runs, f.verdict,
            )
            for f in self.findings
        ]  # fmt: skip

    def require_within_claims(self) -> None:
        broken = [f for f in self.findings if f.within_claim is False]
        if broken:
            raise VerificationFailed(
                "; ".join(
                    f"{f.artefact}: epsilon is at least {rounded_down(f.epsilon_at_least)} for {f.change}, "
                    f"claimed {f.claimed_epsilon}"
                    for f in broken
                ),
                remedy="do not publish with this version of freqdp; report it (see PRIVACY.md)",
            )


def audit(
    database: Database,
    dataset: DatasetRow,
    request: Request,
    progress: Progress,
    runs: int,
) -> Audit:
    """Audit the mechanisms of a method on a dataset's current build."""
    if request.method.unit is None:
        raise BadInput(
            f"[[method]] {request.method.name} draws no noise: it has no epsilon to bound",
            remedy="audit one that does, such as lg",
        )
    for step in request.method.steps if request.method.unit == "occurrence" else ():
        if step.name not in PROBES:
            raise BadInput(
                f"[[method]] {request.method.name}: no experiment is known for its step {step.name}",
                remedy="audit the steps that draw noise by themselves, such as lg",
            )
    if not MIN_RUNS <= runs <= MAX_RUNS:
        raise BadInput(
            f"[[runs]] {runs} is not between {MIN_RUNS:,} and {MAX_RUNS:,}",
            remedy=f"the default is {DEFAULT_RUNS:,}",
        )
    number = dataset.require_build()
    row = find_build(database, number)
    request = request.with_facts(dataset, row)
    with database.begin() as connection:
        require_public_inputs(connection, dataset, row, request)
    build = load_build(database, number, progress)
    world = make_world(database, build, request.method, request.values)
    findings = audit_world(world, request, SecureSource(), runs, progress)
    return Audit(dataset.name, request, dataset.protected, findings)


def audit_world(
    world: StepContext, request: Request, source: RandomSource, runs: int, progress: Progress
) -> list[AuditFinding]:
    build = world.build
    if request.method.unit == "person":
        return _object(world, request, source, runs, progress)
    whole, small = _begun(build.trajectories, world), _begun(_cut(build.trajectories), world)
    steps = sorted(request.method.steps, key=lambda step: step.name)
    # two changes in the point lists, and one for every other row
    alpha = _ALPHA / (2 * len(steps) + 2)
    findings = []
    with progress.stage("lists held equal"):
        for step in steps:
            probe, options = PROBES[step.name], options_of(step, request.values)
            for change, claim, bound in probe.held_equal(whole, options, source, runs, alpha):
                findings.append(_finding(probe.artefact, "held equal", change, bound, claim))
    with progress.stage("lists that move"):
        for step in steps:
            findings += _moving(step, small, world, request, source, alpha)
    with progress.stage("table of trajectories"):
        findings.append(_canary(small, world, request, source, alpha))
    return findings


def _begun(trajectories: Trajectories, world: StepContext) -> WorkingSet:
    return WorkingSet(trajectories, world.locations, np.arange(len(trajectories), dtype=np.int64))


def _finding(
    artefact: str, lists: str, change: str, bound: Bound, claim: float | None = None,
    *, unbounded: bool = False,
) -> AuditFinding:  # fmt: skip
    return AuditFinding(
        artefact=artefact,
        lists=lists,
        change=change,
        claimed_epsilon=None if claim is None else f"{claim:.15g}",
        epsilon_at_least=bound.lower,
        interval=(bound.lower, None if np.isinf(bound.upper) else bound.upper),
        runs=bound.runs,
        unbounded=unbounded,
    )


def _cut(trajectories: Trajectories) -> Trajectories:
    """Whole worlds are run again and again: the objects with the most samples are enough."""
    order = np.argsort(-trajectories.lengths, kind="stable")[:_MOST_OBJECTS]
    enough = int(np.searchsorted(np.cumsum(trajectories.lengths[order]), _ENOUGH_SAMPLES)) + 1
    return trajectories.take(np.sort(order[: max(enough, 3)]))


def _moving(
    step: AnyStep,
    state: WorkingSet,
    world: StepContext,
    request: Request,
    source: RandomSource,
    alpha: float,
) -> list[AuditFinding]:
    """A listed place that is gone with one unit: it is in the vector of one world alone."""
    probe, options = PROBES[step.name], options_of(step, request.values)
    found = probe.only_visit(state, step.draw(world, state, options, source))
    if found is None:
        return []
    owner, place = found

    def listed(side: WorkingSet) -> bool:
        return bool(probe.lists(step.draw(world, side, options, source), owner, place))

    without = _begun(without_visits(state.trajectories, owner, place), world)
    return [_compare_worlds(probe.artefact, f"- 1 {probe.unit}", listed, state, without, alpha)]


def _canary(
    state: WorkingSet, world: StepContext, request: Request, source: RandomSource, alpha: float
) -> AuditFinding:
    """An object with a place of its own: is the place in the table? And without that sample?"""
    owner = richest(state.frequencies)
    here, locations, place = with_canary(state.trajectories, state.places, owner)
    wider = StepContext(world.build.with_trajectories(here, locations))
    trial = Trial(lambda number: source)

    def released(side: Trajectories) -> bool:
        made = run_steps(request.method, request.values, wider, trial, Progress(), side)
        return bool((made.trajectories.location == place).any())

    without = without_visits(here, owner, place)
    return _compare_worlds(_TABLE, "- 1 occurrence", released, here, without, alpha)


def _compare_worlds(
    artefact: str, change: str, shown: Callable[[Side], bool], here: Side, there: Side, alpha: float
) -> AuditFinding:
    """How often each of two worlds shows what should not tell them apart."""
    often, seldom = (sum(shown(side) for _ in range(_WHOLE_RUNS)) for side in (here, there))
    bound = bound_from_hits(often, seldom, _WHOLE_RUNS, alpha)
    return _finding(artefact, "move", change, bound, unbounded=seldom == 0 < often)


# What an audit can see of the two vectors of the paper: TF and PF.


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


def copies_of_list(pf: Ints, size: int, copies: int) -> tuple[Frequencies, Signatures]:
    """So many trajectories whose lists have just these counts: nothing of the list is left to chance."""
    places = len(pf)
    frequencies = Frequencies(
        np.arange(copies + 1, dtype=np.int64) * places,
        np.tile(np.arange(places, dtype=np.int32), copies),
        np.tile(pf.astype(np.int32), copies),
        np.ones(places, np.int32),
    )
    order = np.arange(copies * places, dtype=np.int64)
    return frequencies, Signatures(order, size, np.ones(places, np.bool_))


def richest(frequencies: Frequencies) -> int:
    """The trajectory with the most places: it has the most to lose."""
    return int(np.argmax(np.diff(frequencies.offsets)))


Equal = Iterator[tuple[str, float, Bound]]
"""Changes with the lists held equal: each with the epsilon that is claimed, and what was found."""


class TfProbe:
    """How to look at the TF vector of the global step."""

    artefact, unit = "tf_vector", "incidence"

    def held_equal(
        self,
        state: WorkingSet,
        options: GlobalOptions,
        source: RandomSource,
        runs: int,
        alpha: float,
    ) -> Equal:
        """One incidence of a candidate removed. The most visited one has the most room on both sides."""
        frequencies, epsilon = state.frequencies, Fraction(options.epsilon_global)
        candidates = rank_places(frequencies, options.signature).candidates
        tf = int(frequencies.tf[candidates].max())

        def targets(count: int) -> Observed:
            # a vector of equal candidates, all of them listed
            copies, listed = np.full(runs, count, np.int32), np.ones(runs, np.bool_)
            drawn = perturb_tf(copies, len(frequencies.offsets) - 1, listed, epsilon, source)
            return Observed(drawn.target.astype(np.int64))

        claim = float(tf_mechanism(epsilon).epsilon)
        yield "- 1 incidence", claim, bound_from(targets(tf), targets(tf - 1), alpha)

    def only_visit(self, state: WorkingSet, drawn: TfTargets) -> tuple[int, int] | None:
        """A trajectory and a place that only its own visit puts on the list."""
        for place in drawn.location[drawn.tf == 1][:1]:
            (entry,) = np.flatnonzero(state.frequencies.location == place)
            return int(owners(state.frequencies.offsets)[entry]), int(place)
        return None

    def lists(self, drawn: TfTargets, owner: int, place: int) -> bool:
        """Whether a draw lists the place."""
        return bool((drawn.location == place).any())


class PfProbe:
    """How to look at the PF vectors of the local step."""

    artefact, unit = "pf_vectors", "occurrence"

    def held_equal(
        self,
        state: WorkingSet,
        options: LocalOptions,
        source: RandomSource,
        runs: int,
        alpha: float,
    ) -> Equal:
        """One occurrence more of a listed place: of one in the signature, and of one in stage 2."""
        frequencies = state.frequencies
        epsilon, size = Fraction(options.epsilon_local), options.signature
        drawn = perturb_pf(frequencies, rank_places(frequencies, size), epsilon, source)
        pf = drawn.pf[drawn.trajectory == richest(frequencies)].astype(np.int64)
        claim = float(pf_mechanism(epsilon, size).epsilon)

        def targets(of: Ints) -> Ints:
            drawn = perturb_pf(*copies_of_list(of, size, runs), epsilon, source)
            return drawn.target.reshape(runs, len(of)).astype(np.int64)

        def shift(target: Ints) -> Ints:
            """m times mu, as somebody computes it who knows the first world."""
            return np.asarray((target[:, :size] - pf[:size]).sum(axis=1))

        def noise(target: Ints, place: int) -> Ints:
            """Noise on a place of stage 2 for the same person, in steps of the lattice."""
            return np.asarray(size * (target[:, place] - pf[place]) + shift(target))

        def in_signature(target: Ints) -> Observed:
            # such an occurrence moves mu, and shows by where f - mu lies between whole numbers
            total = sum(noise(target, place) for place in range(size, len(pf)))
            return Observed(np.asarray(total), shift(target) % size)

        def in_stage_2(target: Ints) -> Observed:
            return Observed(noise(target, size))

        changes: list[tuple[str, int, Callable[[Ints], Observed]]] = [
            # without a stage 2 all of it is stage 1, which does not see the counts
            ("+ 1 in stage 1", 0, lambda target: Observed(shift(target)))
        ]
        if len(pf) > size:
            changes = [("+ 1 in stage 1", 0, in_signature), ("+ 1 in stage 2", size, in_stage_2)]
        here = targets(pf)
        for change, place, look in changes:
            # the neighbour: one occurrence of this listed place more, the list unchanged
            there = targets(pf + (np.arange(len(pf)) == place))
            yield change, claim, bound_from(look(there), look(here), alpha)

    def only_visit(self, state: WorkingSet, drawn: PfTargets) -> tuple[int, int] | None:
        """A trajectory and a place that only its own visit puts on its list."""
        # the highest ranks first: those are on the list in every run
        once = np.flatnonzero(drawn.pf == 1)
        for i in once[np.argsort(drawn.rank[once], kind="stable")][:1]:
            return int(drawn.trajectory[i]), int(drawn.location[i])
        return None

    def lists(self, drawn: PfTargets, owner: int, place: int) -> bool:
        """Whether a draw lists the place of the trajectory."""
        return bool(((drawn.location == place) & (drawn.trajectory == owner)).any())


PROBES: dict[str, Any] = {GlobalStep.name: TfProbe(), LocalStep.name: PfProbe()}
"""What an audit can look at, by the name of the step."""


# What it can see of a guarantee for an object.


def _object(
    world: StepContext, request: Request, source: RandomSource, runs: int, progress: Progress
) -> list[AuditFinding]:
    """One object with all its data, as the guarantee has it: in the vectors, and in what is released."""
    (step,) = request.method.steps
    options: Any = options_of(step, request.values)
    if type(options) not in OF_METHODS:
        raise BadInput(
            f"[[method]] {request.method.name} is there to compare with, and is not audited",
            remedy="audit strict, whose vectors and noise it shares",
        )
    artefact = "counts" if isinstance(options, CountsOptions) else _TABLE
    claim, findings = float(options.epsilon), []
    if not options.parameters.pure:
        with progress.stage("one object, with and without"):
            bound = bound_of_vectors(world, options, source, min(runs, _MOST_RUNS))
        findings.append(_finding("noisy_vectors", "none", "- 1 object", bound, claim))
    with progress.stage("releases with and without"):
        releases = max(runs // _RUNS_PER_RELEASE, _LEAST_RELEASES)
        seen = bounds_of_releases(world, options, source, releases, _ALPHA)
    return findings + [
        _finding(artefact, "none", f"- 1 object, by {name}", bound, claim)
        for name, bound in seen.items()
    ]


class OwnVector(NamedTuple):
    """What one object adds to a vector that is measured."""

    values: Ints
    precision: float
    """One over the variance of its noise, but for a factor that all vectors share."""
    noisy: Callable[[Ints], Ints]
    """Totals with noise, as a release draws it."""


Look = Callable[[Any], dict[str, float]]
"""Makes a release of a world, and counts in it."""


def bound_of_vectors(world: StepContext, options: Any, source: RandomSource, runs: int) -> Bound:
    """How much of epsilon one object shows in the noisy vectors, from below."""
    vectors, _ = OF_METHODS[type(options)]
    every, apart = np.zeros((2, runs)), 0.0
    for own in vectors(world, options, source):
        values = own.values[own.values != 0]
        if not len(values):
            continue
        worlds = [own.noisy(np.tile(values * there, runs)) for there in range(2)]
        weight = values * own.precision
        scores = np.stack([w.reshape(runs, -1).astype(np.float64) @ weight for w in worlds])
        every += scores
        apart = max(apart, deviations_apart(scores))
    apart = max(apart, deviations_apart(every))
    delta = options.parameters.delta
    lower, upper = (max(apart + way * _SURE * math.sqrt(2 / runs), 0.0) for way in (-1, 1))
    return Bound(_epsilon(lower, delta), _epsilon(upper, delta), runs)


def deviations_apart(scores: Metres) -> float:
    """How many standard deviations lie between the means of two worlds. scores: a row of each."""
    between = float(scores[1].mean() - scores[0].mean())
    spread = math.sqrt(float(scores[0].var() + scores[1].var()) / 2)
    return min(between / spread, _MOST_APART) if spread > 0 else _MOST_APART * (between > 0)


def _epsilon(apart: float, delta: Fraction) -> float:
    """The epsilon that two normal laws so many deviations apart stand for."""
    rho = Fraction(apart) ** 2 / 2
    return float(epsilon_of(rho, delta)) if rho else 0.0


def bounds_of_releases(
    world: StepContext, options: Any, source: RandomSource, runs: int, alpha: float
) -> dict[str, Bound]:
    """The same for whoever has releases alone, by what they look at in them."""
    _, releases = OF_METHODS[type(options)]
    here, there, look = releases(world, options, source)
    delta = 0.0 if options.parameters.pure else float(options.delta)
    seen = [[look(side) for _ in range(runs)] for side in (here, there)]
    bounds = {}
    for name in seen[0][0]:
        left, right = (
            Observed(np.floor([found[name] for found in of_world]).astype(np.int64))
            for of_world in seen
        )
        bounds[name] = bound_from(left, right, alpha / len(seen[0][0]), delta)
    return bounds


# `strict`: the object with the most trips.


def _vectors_of_trips(
    world: StepContext, options: StrictOptions, source: RandomSource
) -> Iterator[OwnVector]:
    parameters = options.parameters
    region, period = world.public_facts(options.region, options.period)
    trips = cut_trips(world.build.trajectories, world.locations, region, period)
    count, classes = size_counts(trips)
    plan = planned_from(np.array([count * SCALE]), classes * SCALE, region, period, parameters)
    one = int(np.argmax(np.diff(trips.by_object)))
    alone = _some(trips, np.array([one]))
    first = [np.array([size_counts(alone)[0]]) * SCALE, size_counts(alone)[1] * SCALE]
    vectors = [*first, *vectors_of(trips, plan, one, pure=False)]
    for statistic, vector in zip([*FIRST_ROUND, *plan.statistics], vectors, strict=True):
        if statistic.share:
            precision = statistic.share / statistic.bound**2
            yield OwnVector(
                vector,
                float(precision),
                lambda total, of=statistic: with_noise(total, of, parameters, source),  # type: ignore[misc]
            )


def _releases_of_trips(
    world: StepContext, options: StrictOptions, source: RandomSource
) -> tuple[Trips, Trips, Look]:
    parameters = options.parameters
    region, period = world.public_facts(options.region, options.period)
    all_trips = cut_trips(world.build.trajectories, world.locations, region, period)
    busiest = np.argsort(-np.diff(all_trips.by_object), kind="stable")[:_FEW]
    where = _passing(_some(all_trips, busiest[:1]), region)

    def look(trips: Trips) -> dict[str, float]:
        drawn = measured(trips, region, period, parameters, source)
        plan = plan_of(drawn, region, period, parameters)
        count = released_size(drawn, plan, parameters)
        made = carry_out(drawn, region, period, replace(parameters, size=min(count, _MOST_TRIPS)))[
            1
        ]
        t, places = made.trajectories, made.places
        x, y = places.x[t.location], places.y[t.location]
        out = Trips(np.array([0, len(t)]), t.offsets, x, y, t.at)
        shown = _STEPS * float(_passing(out, region) @ where) / len(t)
        return {"number of trips": count, "where they pass": shown}

    return _some(all_trips, busiest), _some(all_trips, busiest[1:]), look


def _some(trips: Trips, chosen: Ints) -> Trips:
    which, by_object = rows_of(trips.by_object, chosen)
    samples, offsets = rows_of(trips.offsets, which)
    return Trips(by_object, offsets, trips.x[samples], trips.y[samples], trips.at[samples])


def _passing(trips: Trips, region: Region) -> Metres:
    """Share of the trips that pass each cell of a coarse grid."""
    found = cell_trips(trips, region, _SIDE)
    once = np.unique(owners(found.offsets).astype(np.int64) * _SIDE**2 + found.cells)
    share: Metres = np.bincount(once % _SIDE**2, minlength=_SIDE**2) / max(len(trips), 1)
    return share


# `counts`: the object that costs most, of some with few and with many contributions.


def _contributions(
    world: StepContext, options: CountsOptions, chosen: Iterable[int]
) -> Contributions:
    some = world.build.trajectories.take(np.array(chosen, np.int64))
    return contributions_to(world, some, world.locations, options)


def _by_contributions(found: Contributions) -> Ints:
    return np.argsort(found.visits.counts + found.trips.counts, kind="stable")


def _vectors_of_counts(
    world: StepContext, options: CountsOptions, source: RandomSource
) -> Iterator[OwnVector]:
    trajectories, design = world.build.trajectories, design_of(world, options)
    whole = contributions_to(world, trajectories, world.locations, options)
    plan = second_round(design, first_numbers(whole, design))
    known = {m.name: m for m in plan.every_measurement}
    order = _by_contributions(whole)
    vectors: dict[str, Ints] = {}
    most = 0.0
    for one in np.unique(order[np.linspace(0, len(order) - 1, _CANDIDATES).astype(np.int64)]):
        alone = _contributions(world, options, [one])
        own = first_numbers(alone, design) | totals(bounded_by(alone, plan), plan)
        cost = sum(float((v**2).sum()) / known[n].deviation ** 2 for n, v in own.items())
        if cost > most:
            most, vectors = cost, own
    for name, vector in vectors.items():
        yield OwnVector(
            vector,
            1 / known[name].deviation ** 2,
            lambda total, of=known[name]: total + of.noise(source, len(total)),  # type: ignore[misc]
        )


def _releases_of_counts(
    world: StepContext, options: CountsOptions, source: RandomSource
) -> tuple[Contributions, Contributions, Look]:
    design = design_of(world, options)
    city, bins = design.zones.city_id, len(design.bins)
    most = _contributions(world, options, range(len(world.build.trajectories)))
    busiest = _by_contributions(most)[::-1][:_FEW]
    cells = _contributions(world, options, busiest[:1]).visits.cells(bins)

    def look(found: Contributions) -> dict[str, float]:
        drawn = measure_counts(found, design, source)
        made, seen = make_tables(drawn, plan_of_counts(drawn, design)), {}
        if "visits" in design.tables:
            table = made.table("visits")
            in_all = (table["zone"] == city) & (table["bin"] == 0)
            seen["visits of the city"] = table["value"][in_all][0]
            place = (table["zone"] - 1) * bins + table["bin"] - 1
            there = np.isin(place, cells) & (table["bin"] > 0)
            seen["visits where it was"] = table["value"][there].sum()
        if "flows" in design.tables:
            table = made.table("flows")
            in_all = (
                (table["origin"] == city) & (table["destination"] == city) & (table["bin"] == 0)
            )
            seen["flows of the city"] = table["value"][in_all][0]
        return seen

    here, there = (_contributions(world, options, side) for side in (busiest, busiest[1:]))
    return here, there, look


OF_METHODS: dict[type, tuple[Callable[..., Iterator[OwnVector]], Callable[..., Any]]] = {
    StrictOptions: (_vectors_of_trips, _releases_of_trips),
    CountsOptions: (_vectors_of_counts, _releases_of_counts),
}
"""By the options of a method with a guarantee for an object."""
