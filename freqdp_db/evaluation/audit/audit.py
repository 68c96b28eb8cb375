"""`freqdp audit`: the mechanisms as the pipeline calls them, run many times on neighbouring worlds.

With the lists held equal the losses must stay within the claim. With lists that move, and for the
table of trajectories, nothing is claimed, and the experiment shows why. Nothing is written or spent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from freqdp_db.columns.arrays import Ints
from freqdp_db.columns.edits import PfTargets, Targets
from freqdp_db.columns.trajectories import Locations, Trajectories
from freqdp_db.errors import BadInput, NotFound, VerificationFailed
from freqdp_db.evaluation.audit import neighbours
from freqdp_db.evaluation.audit.bounds import Bound, Observed, bound_from, bound_from_hits
from freqdp_db.evaluation.audit.neighbours import PointList
from freqdp_db.frequency.counts import Frequencies
from freqdp_db.frequency.signatures import rank_places
from freqdp_db.mechanisms.global_tf import perturb_tf, tf_mechanism
from freqdp_db.mechanisms.local_pf import perturb_pf, pf_mechanism
from freqdp_db.mechanisms.mechanism import Mechanism
from freqdp_db.mechanisms.noise import RandomSource, SecureSource, released_ids
from freqdp_db.methods.registry import MechanismName
from freqdp_db.progress import Progress
from freqdp_db.release import steps
from freqdp_db.release.request import Request
from freqdp_db.release.verification import load_build
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.records.datasets import DatasetRow

DEFAULT_RUNS = 40_000
MIN_RUNS, MAX_RUNS = 1_000, 10_000_000
_ALPHA = 0.001
"""All intervals of an audit together miss with this probability at most."""
_WHOLE_RUNS = 200
"""Runs of whole worlds, in each of the two: these take longer, and their events are certain."""
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
    findings: list[AuditFinding]
    confidence: float = 1 - _ALPHA

    def document(self) -> dict[str, Any]:
        return {
            "dataset": self.dataset,
            "method": self.request.method.name,
            "epsilon_global": self.request.epsilon_global,
            "epsilon_local": self.request.epsilon_local,
            "signature": self.request.signature,
            "confidence": self.confidence,
            "findings": [{**asdict(f), "within_claim": f.within_claim} for f in self.findings],
        }

    def rows(self) -> list[tuple[Any, ...]]:
        return [
            (
                f.artefact.replace("_", " "), f.lists, f.change, f.claimed_epsilon,
                f"{f.epsilon_at_least:.3f}", f.runs, _verdict(f),
            )
            for f in self.findings
        ]  # fmt: skip

    def require_within_claims(self) -> None:
        broken = [f for f in self.findings if f.within_claim is False]
        if broken:
            raise VerificationFailed(
                "; ".join(
                    f"{f.artefact}: epsilon is at least {f.epsilon_at_least:.3f} for {f.change}, "
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
    *,
    runs: int = DEFAULT_RUNS,
    source: RandomSource | None = None,
) -> Audit:
    """Audit the mechanisms of a method on a dataset's current build."""
    if not request.method.draws_noise:
        raise BadInput(
            f"--method {request.method.name} draws no noise: it has no epsilon to bound",
            remedy="audit one that does, such as lg",
        )
    if not MIN_RUNS <= runs <= MAX_RUNS:
        raise BadInput(
            f"--runs {runs} is not between {MIN_RUNS:,} and {MAX_RUNS:,}",
            remedy=f"the default is {DEFAULT_RUNS:,}",
        )
    if dataset.current_build is None:
        raise NotFound(
            f"dataset {dataset.name!r} has not been built",
            remedy=f"freqdp dataset build {dataset.name}",
        )
    loaded = load_build(database, dataset.current_build, progress)
    drawing = source if source is not None else SecureSource()
    findings = audit_world(loaded.trajectories, loaded.world, request, drawing, runs, progress)
    return Audit(dataset.name, request, findings)


def audit_world(
    trajectories: Trajectories,
    world: steps.World,
    request: Request,
    source: RandomSource,
    runs: int,
    progress: Progress,
) -> list[AuditFinding]:
    frequencies = steps.count(trajectories, world)
    small = _cut(trajectories)
    mechanisms = sorted(request.method.steps)
    # two changes in the point lists, and one for every other row
    alpha = _ALPHA / (2 * len(mechanisms) + 2)
    findings = []
    with progress.stage("lists held equal"):
        if "global" in mechanisms:
            findings.append(_held_tf(frequencies, request, source, runs, alpha))
        if "local" in mechanisms:
            findings += _held_pf(frequencies, request, source, runs, alpha)
    with progress.stage("lists that move"):
        for mechanism in mechanisms:
            findings += _moving(mechanism, small, world, request, source, alpha)
    with progress.stage("table of trajectories"):
        findings.append(_canary(small, world, request, source, alpha))
    return findings


def _finding(
    mechanism: Mechanism | None, artefact: str, lists: str, change: str, bound: Bound,
    *, unbounded: bool = False,
) -> AuditFinding:  # fmt: skip
    return AuditFinding(
        artefact=artefact,
        lists=lists,
        change=change,
        claimed_epsilon=None if mechanism is None else f"{float(mechanism.epsilon):g}",
        epsilon_at_least=bound.lower,
        interval=(bound.lower, None if np.isinf(bound.upper) else bound.upper),
        runs=bound.runs,
        unbounded=unbounded,
    )


# --- lists held equal ----------------------------------------------------------------------------


def _held_tf(
    frequencies: Frequencies, request: Request, source: RandomSource, runs: int, alpha: float
) -> AuditFinding:
    """One incidence of a candidate removed. The most visited one has the most room on both sides."""
    epsilon = Fraction(request.epsilon_global)
    candidates = rank_places(frequencies, request.signature).candidates
    tf = int(frequencies.tf[candidates].max())

    def targets(count: int) -> Observed:
        vector, listed = neighbours.copied_tf(frequencies, count, runs)
        return Observed(perturb_tf(vector, listed, epsilon, source).target.astype(np.int64))

    mechanism = tf_mechanism(epsilon)
    bound = bound_from(targets(tf), targets(tf - 1), alpha)
    return _finding(mechanism, mechanism.artefact, "held equal", "- 1 incidence", bound)


def _held_pf(
    frequencies: Frequencies, request: Request, source: RandomSource, runs: int, alpha: float
) -> list[AuditFinding]:
    """One occurrence more of a listed place: of one in the signature, and of one in stage 2."""
    epsilon, size = Fraction(request.epsilon_local), request.signature
    drawn = perturb_pf(frequencies, rank_places(frequencies, size), epsilon, source)
    points = PointList.of(drawn, neighbours.richest(frequencies), size)
    mechanism = pf_mechanism(epsilon, size)

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

    here = targets(points)
    findings = []
    changes: list[tuple[str, int, Callable[[Ints], Observed]]] = []
    if len(points) > size:
        changes += [("+ 1 in stage 1", 0, in_signature), ("+ 1 in stage 2", size, in_stage_2)]
    else:
        # all of it is stage 1, which does not see the counts
        changes += [("+ 1 in stage 1", 0, lambda target: Observed(shift(target)))]
    for change, place, look in changes:
        there = targets(points.with_one_more(place))
        bound = bound_from(look(there), look(here), alpha)
        findings.append(_finding(mechanism, mechanism.artefact, "held equal", change, bound))
    return findings


# --- lists that move, and the table of trajectories ----------------------------------------------


def _cut(trajectories: Trajectories) -> Trajectories:
    """Whole worlds are run again and again: the objects with the most samples are enough."""
    order = np.argsort(-trajectories.lengths, kind="stable")[:_MOST_OBJECTS]
    enough = int(np.searchsorted(np.cumsum(trajectories.lengths[order]), _ENOUGH_SAMPLES)) + 1
    return neighbours.cut_to(trajectories, np.sort(order[: max(enough, 3)]))


def _moving(
    mechanism: MechanismName,
    trajectories: Trajectories,
    world: steps.World,
    request: Request,
    source: RandomSource,
    alpha: float,
) -> list[AuditFinding]:
    """A listed place that is gone with one unit: it is in the vector of one world alone."""
    found = _only_visit(mechanism, trajectories, world, request, source)
    if found is None:
        return []
    hits = []
    for state in (trajectories, neighbours.without(trajectories, *found)):
        frequencies = steps.count(state, world)
        hits.append(
            sum(
                _lists(steps.draw(mechanism, frequencies, world.locations, request, source), *found)
                for _ in range(_WHOLE_RUNS)
            )
        )
    artefact, change = (
        ("tf_vector", "- 1 incidence")
        if mechanism == "global"
        else ("pf_vectors", "- 1 occurrence")
    )
    bound = bound_from_hits(hits[0], hits[1], _WHOLE_RUNS, alpha)
    return [_finding(None, artefact, "move", change, bound, unbounded=hits[1] == 0 < hits[0])]


def _lists(targets: Targets, owner: int, place: int) -> bool:
    listed = targets.location == place
    if isinstance(targets, PfTargets):
        listed = listed & (targets.trajectory == owner)
    return bool(listed.any())


def _only_visit(
    mechanism: MechanismName,
    trajectories: Trajectories,
    world: steps.World,
    request: Request,
    source: RandomSource,
) -> tuple[int, int] | None:
    """A trajectory and a place that only its own visit puts on a list; None if there is none."""
    frequencies = steps.count(trajectories, world)
    targets = steps.draw(mechanism, frequencies, world.locations, request, source)
    if isinstance(targets, PfTargets):
        # the highest ranks first: those are on the list in every run
        once = np.flatnonzero(targets.pf == 1)
        once = once[np.argsort(targets.rank[once], kind="stable")]
        return next(
            ((int(targets.trajectory[i]), int(targets.location[i])) for i in once[:1]), None
        )
    for place in targets.location[targets.tf == 1][:1]:
        entry = int(np.flatnonzero(frequencies.location == place)[0])
        return int(np.searchsorted(frequencies.offsets, entry, side="right")) - 1, int(place)
    return None


def _canary(
    trajectories: Trajectories,
    world: steps.World,
    request: Request,
    source: RandomSource,
    alpha: float,
) -> AuditFinding:
    """An object with a place of its own: is the place in the table? And without that sample?"""
    owner = neighbours.richest(steps.count(trajectories, world))
    here, locations, place = neighbours.with_canary(trajectories, world.locations, owner)
    there = neighbours.without(here, owner, place)
    hits = [
        sum(
            bool((_released(state, locations, world, request, source).location == place).any())
            for _ in range(_WHOLE_RUNS)
        )
        for state in (here, there)
    ]
    bound = bound_from_hits(hits[0], hits[1], _WHOLE_RUNS, alpha)
    return _finding(
        None, "trajectories", "move", "- 1 occurrence", bound, unbounded=hits[1] == 0 < hits[0]
    )


def _released(
    state: Trajectories,
    locations: Locations,
    world: steps.World,
    request: Request,
    source: RandomSource,
) -> Trajectories:
    """What a release of this world would publish."""
    wider = steps.World(locations, world.clock)
    rank = np.argsort(np.argsort(released_ids(source, len(state))))
    for mechanism in request.method.steps:
        frequencies = steps.count(state, wider)
        targets = steps.draw(mechanism, frequencies, wider.locations, request, source)
        _, state = steps.edit(state, frequencies, targets, wider, request, rank)
    return state
