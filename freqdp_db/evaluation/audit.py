"""`freqdp audit`: the mechanisms as the pipeline calls them, run many times on neighbouring worlds.

With the lists held equal the losses must stay within the claim. With lists that move, and for the
table of trajectories, nothing is claimed, and the experiment shows why. Nothing is written or spent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from freqdp_db.dataset.memory import load_build
from freqdp_db.db.builds import find_build
from freqdp_db.db.connection import Database
from freqdp_db.db.datasets import DatasetRow
from freqdp_db.errors import BadInput, VerificationFailed
from freqdp_db.evaluation.audit_persons import OF_METHODS, bound_of_vectors, bounds_of_releases
from freqdp_db.evaluation.bounds import Bound, Observed, bound_from, bound_from_hits
from freqdp_db.methods.contract import AnyStep, StepContext, WorkingSet, options_of
from freqdp_db.methods.counts.family import CountsOptions
from freqdp_db.methods.frequency.counts import Frequencies, Signatures, rank_places
from freqdp_db.methods.frequency.perturbation import (
    perturb_pf,
    perturb_tf,
    pf_mechanism,
    tf_mechanism,
)
from freqdp_db.methods.frequency.steps import GlobalOptions, GlobalStep, LocalOptions, LocalStep
from freqdp_db.methods.loop import Trial, run_steps
from freqdp_db.model.arrays import Ints
from freqdp_db.model.trajectories import Locations, PfTargets, TfTargets, Trajectories
from freqdp_db.privacy.accounting import rounded_down
from freqdp_db.privacy.guarantee import ProtectedUnit
from freqdp_db.privacy.noise import RandomSource, SecureSource
from freqdp_db.progress import Progress
from freqdp_db.release.inputs import make_world, require_public_inputs
from freqdp_db.release.request import Request

# What an audit can see of the two vectors of the paper: TF and PF, with the lists held equal.
#
# Each mechanism treats every candidate, or every trajectory, alike and apart from the others. So one
# call on many copies is as many runs of the very functions that the pipeline calls.


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
            entry = int(np.flatnonzero(state.frequencies.location == place)[0])
            owner = int(np.searchsorted(state.frequencies.offsets, entry, side="right")) - 1
            return owner, int(place)
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
                rounded_down(f.epsilon_at_least), f.runs, _verdict(f),
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


def _verdict(finding: AuditFinding) -> str:
    if finding.within_claim is None:
        return "unbounded" if finding.unbounded else "nothing claimed"
    return "holds" if finding.within_claim else "EXCEEDED"


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
    if request.method.unit == "occurrence":
        _require_probes(request)
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


def _require_probes(request: Request) -> None:
    for step in request.method.steps:
        if step.name not in PROBES:
            raise BadInput(
                f"[[method]] {request.method.name}: no experiment is known for its step {step.name}",
                remedy="audit the steps that draw noise by themselves, such as lg",
            )


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
