"""`freqdp audit`: the mechanisms as the pipeline calls them, run many times on neighbouring worlds.

With the lists held equal the losses must stay within the claim. With lists that move, and for the
table of trajectories, nothing is claimed, and the experiment shows why. Nothing is written or spent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

import numpy as np

from freqdp_db.columns.build import Build
from freqdp_db.columns.trajectories import Trajectories
from freqdp_db.dataset.facts import facts_of
from freqdp_db.dataset.memory import load_build
from freqdp_db.errors import BadInput, VerificationFailed
from freqdp_db.evaluation.audit.bounds import Bound, bound_from_hits
from freqdp_db.evaluation.audit.vectors import PROBES, richest, with_canary, without_visits
from freqdp_db.mechanisms.accounting import rounded_down
from freqdp_db.mechanisms.noise import RandomSource, SecureSource
from freqdp_db.methods.contract import AnyStep, State, World, options_of
from freqdp_db.methods.loop import Trial, run_steps
from freqdp_db.methods.protected_unit import ProtectedUnit
from freqdp_db.methods.synthesis.options import StrictOptions
from freqdp_db.progress import Progress
from freqdp_db.release.inputs import require_public_inputs
from freqdp_db.release.request import Request
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.records.builds import find_build
from freqdp_db.storage.records.datasets import DatasetRow

DEFAULT_RUNS = 40_000
MIN_RUNS, MAX_RUNS = 1_000, 10_000_000
_ALPHA = 0.001
"""All intervals of an audit together miss with this probability at most."""
_WHOLE_RUNS = 200
"""Runs of whole worlds, in each of the two: these take longer, and their events are certain."""
_RUNS_PER_RELEASE, _LEAST_RELEASES = 400, 20
"""Whole releases of `strict` take about a second: so many runs of the vectors for each."""
_TABLE = "trajectories"
Side = TypeVar("Side", State, Trajectories)
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
        require_public_inputs(connection, database, dataset, row, request)
    build = load_build(database, number, progress)
    findings = audit_build(build, request, SecureSource(), runs, progress)
    return Audit(dataset.name, request, dataset.protected, findings)


def _require_probes(request: Request) -> None:
    for step in request.method.steps:
        if step.name not in PROBES:
            raise BadInput(
                f"[[method]] {request.method.name}: no experiment is known for its step {step.name}",
                remedy="audit the steps that draw noise by themselves, such as lg",
            )


def audit_build(
    build: Build, request: Request, source: RandomSource, runs: int, progress: Progress
) -> list[AuditFinding]:
    world = World(build, facts=facts_of(build))
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
            for change, claim, bound in probe.held(whole, options, source, runs, alpha):
                findings.append(_finding(probe.artefact, "held equal", change, bound, claim))
    with progress.stage("lists that move"):
        for step in steps:
            findings += _moving(step, small, world, request, source, alpha)
    with progress.stage("table of trajectories"):
        findings.append(_canary(small, world, request, source, alpha))
    return findings


def _object(
    world: World, request: Request, source: RandomSource, runs: int, progress: Progress
) -> list[AuditFinding]:
    """One object with all its data, as the guarantee has it: in the vectors, and in the trips."""
    (step,) = request.method.steps
    options = options_of(step, request.values)
    if not isinstance(options, StrictOptions):
        raise BadInput(
            f"[[method]] {request.method.name} is there to compare with, and is not audited",
            remedy="audit strict, whose vectors and noise it shares",
        )
    from freqdp_db.evaluation.audit.persons import released_told_apart, told_apart

    claim, findings = float(options.epsilon), []
    if not options.parameters.pure:
        with progress.stage("one object, with and without"):
            bound = told_apart(world, options, source, runs)
        findings.append(_finding("noisy_vectors", "none", "- 1 object", bound, claim))
    with progress.stage("releases with and without"):
        releases = max(runs // _RUNS_PER_RELEASE, _LEAST_RELEASES)
        seen = released_told_apart(world, options, source, releases, _ALPHA)
    return findings + [
        _finding(_TABLE, "none", f"- 1 object, by {name}", bound, claim)
        for name, bound in seen.items()
    ]


def _begun(trajectories: Trajectories, world: World) -> State:
    return State(trajectories, world.locations, np.arange(len(trajectories), dtype=np.int64))


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
    step: AnyStep, state: State, world: World, request: Request, source: RandomSource, alpha: float
) -> list[AuditFinding]:
    """A listed place that is gone with one unit: it is in the vector of one world alone."""
    probe, options = PROBES[step.name], options_of(step, request.values)
    found = probe.only_visit(state, step.draw(world, state, options, source))
    if found is None:
        return []
    owner, place = found

    def listed(side: State) -> bool:
        return probe.lists(step.draw(world, side, options, source), owner, place)

    without = _begun(without_visits(state.trajectories, owner, place), world)
    return [_told_apart(probe.artefact, f"- 1 {probe.unit}", listed, state, without, alpha)]


def _canary(
    state: State, world: World, request: Request, source: RandomSource, alpha: float
) -> AuditFinding:
    """An object with a place of its own: is the place in the table? And without that sample?"""
    owner = richest(state.frequencies)
    here, locations, place = with_canary(state.trajectories, state.places, owner)
    wider = World(replace(world.build, trajectories=here, locations=locations))
    trial = Trial(lambda number: source)

    def released(side: Trajectories) -> bool:
        made = run_steps(request.method, request.values, wider, trial, Progress(), side)
        return bool((made.trajectories.location == place).any())

    without = without_visits(here, owner, place)
    return _told_apart(_TABLE, "- 1 occurrence", released, here, without, alpha)


def _told_apart(
    artefact: str, change: str, shown: Callable[[Side], bool], here: Side, there: Side, alpha: float
) -> AuditFinding:
    """How often each of two worlds shows what should not tell them apart."""
    often, seldom = (sum(shown(side) for _ in range(_WHOLE_RUNS)) for side in (here, there))
    bound = bound_from_hits(often, seldom, _WHOLE_RUNS, alpha)
    return _finding(artefact, "move", change, bound, unbounded=seldom == 0 < often)
