"""Evaluate a release: all metrics in their order, measured and stored; approve it within a limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from operator import call

import numpy as np

import freqdp_db
from freqdp_db.dataset.memory import deal_out
from freqdp_db.dataset.road_tables import RoadTable
from freqdp_db.db.builds import find_build
from freqdp_db.db.connection import Database
from freqdp_db.db.datasets import get_dataset
from freqdp_db.db.releases import ReleaseRow, get_release, load_metrics, store_metrics
from freqdp_db.engines.partitions import LOCAL, Engine
from freqdp_db.errors import BadInput
from freqdp_db.evaluation.attacks import exposure
from freqdp_db.evaluation.attacks.known_samples import known_samples, unicity
from freqdp_db.evaluation.attacks.recovery import recovery_attack
from freqdp_db.evaluation.attacks.signatures import linking_attacks
from freqdp_db.evaluation.counts import measure_counts
from freqdp_db.evaluation.pair import Case, Pair, load_case, require_measurable
from freqdp_db.evaluation.series import HALF, half_exposed, measure_series, windows_around
from freqdp_db.evaluation.utility import (
    diameter_error,
    frequent_patterns,
    hotspot_correlation,
    in_trips,
    information_loss,
    mutual_information,
    plausibility,
    query_error,
    side_by_side,
    trip_error,
    usefulness,
)
from freqdp_db.methods.contract import StepContext, WorkingSet, options_of
from freqdp_db.methods.loop import Trial, run_steps
from freqdp_db.model.trajectories import Trajectories
from freqdp_db.privacy.noise import SeededSource
from freqdp_db.progress import Progress
from freqdp_db.release.approving import Exposure, approve, require_held
from freqdp_db.release.request import Request
from freqdp_db.release.verification import Replayed

LINKED = "la"
"""The largest of all linking attacks: where a released trajectory is one object's."""
EXPOSED = exposure.HEADLINE
"""The headline for every kind of release."""
PUBLISHABLE = frozenset({"unicity", "plausibility.fast", "plausibility.length_km"})
"""What is counted in the release alone: anybody who has the table can count it too."""


@dataclass(frozen=True)
class Measure:
    """How some metrics of D and D* are measured."""

    of: Callable[[Pair, np.random.Generator], dict[str, float]]
    every_kind: bool = False
    """Whether they have a meaning where released trajectories are not the objects'."""
    by_coordinates: bool = False
    """Measured where the samples of the table lie; the others compare places of D by their numbers."""


# each has a stream of random numbers of its own: leaving one out does not change the others
_MEASURES = {
    "linking attacks": Measure(lambda pair, rng: linking_attacks(pair)),
    "known samples": Measure(known_samples),
    "mutual information": Measure(lambda pair, rng: mutual_information(pair)),
    "unicity": Measure(unicity),
    "information loss": Measure(lambda pair, rng: information_loss(pair)),
    "diameters": Measure(lambda pair, rng: diameter_error(pair), by_coordinates=True),
    "trips": Measure(trip_error, every_kind=True, by_coordinates=True),
    "frequent patterns": Measure(
        lambda pair, rng: frequent_patterns(pair), every_kind=True, by_coordinates=True
    ),
    "plausibility": Measure(lambda pair, rng: plausibility(pair), every_kind=True),
    "range queries": Measure(query_error, every_kind=True, by_coordinates=True),
    "hotspots": Measure(
        lambda pair, rng: hotspot_correlation(pair), every_kind=True, by_coordinates=True
    ),
}


def measure(
    pair: Pair, seed: int, progress: Progress, only: Collection[str] | None = None
) -> dict[str, float]:
    """Metrics of D and D* over the same places; `seed` picks samples, queries and resamples.

    `only`: some of them.
    """
    found: dict[str, float] = {}
    for number, (name, measures) in enumerate(_MEASURES.items()):
        if only is None or name in only:
            with progress.stage(name):
                found |= measures.of(pair, np.random.default_rng([seed, number]))
    if only is None:
        found[LINKED] = max(found[name] for name in found if is_linking(name))
    return found


def pieces_of(kind: str) -> list[str]:
    """What a release of this kind is measured by, in pieces that need nothing of each other.

    Those that take longest come first.
    """
    # plausibility is counted at the places of the release, in the last piece
    of_pairs = [name for name in _measures_of(kind) if name != "plausibility"]
    return [*exposure.EXPOSURES, *of_pairs, "usefulness"]


def _measures_of(kind: str) -> list[str]:
    return [name for name, measures in _MEASURES.items() if kind == "edited" or measures.every_kind]


def measure_piece(case: Case, piece: str, seed: int, progress: Progress) -> dict[str, float]:
    """One of `pieces_of` a kind."""
    if piece in exposure.EXPOSURES:
        return exposure.measure_exposure(case, seed, progress, [piece])
    pair, places = case.pair, case.release.places
    as_released = replace(pair, released=case.release.trajectories)
    if piece == "usefulness":
        with progress.stage(piece):
            return {**plausibility(as_released, places), **usefulness(as_released, places)}
    if _MEASURES[piece].by_coordinates:
        pair = side_by_side(as_released, places)
        if piece == "range queries" and case.made_up:
            pair = in_trips(pair)
    return measure(pair, seed, progress, [piece])


def with_headlines(found: Mapping[str, float]) -> dict[str, float]:
    """All pieces together, with the largest of what attackers reach."""
    linked = [found[name] for name in found if is_linking(name)]
    headlines = {EXPOSED: exposure.worst_exposure(found)} | (
        {LINKED: max(linked)} if linked else {}
    )
    return {**found, **headlines}


def measure_release(
    case: Case, kind: str, seed: int, progress: Progress | None = None
) -> dict[str, float]:
    """Every metric that a release of this kind allows, measured against its originals."""
    pieces, shown = pieces_of(kind), progress or Progress()
    found: dict[str, float] = {}
    with shown.stage("metrics", len(pieces), "pieces") as stage:
        for piece in pieces:
            found |= measure_piece(case, piece, seed, shown)
            stage.advance(1)
    return with_headlines(found)


def measure_published(pair: Pair, kind: str, seed: int) -> dict[str, float]:
    """What may be published, counted in a release alone: `pair` has it on both sides."""
    names = {"unicity", "plausibility"} & set(_measures_of(kind))
    found = measure(pair, seed, Progress(), names)
    return {name: value for name, value in found.items() if name in PUBLISHABLE}


def is_linking(name: str) -> bool:
    """Whether a metric is the value of a linking attack, and not what stands beside it."""
    return name.startswith("la_") and not name.endswith(".none")


# A release of the database: read, measured, stored.


DEFAULT_SEED = 1
_RECOVERY = "recovery"


def evaluate(
    database: Database,
    release: ReleaseRow,
    progress: Progress,
    seed: int = DEFAULT_SEED,
    roads: RoadTable | None = None,
    engine: Engine = LOCAL,
    replayed: Replayed | None = None,
) -> dict[str, float]:
    """Measure a published release against the build it was made from, and store the numbers.

    With roads, the recovery attack as well. replayed: what was verified of it just now.
    """
    if release.kind == "counts":
        counted = measure_counts(database, release, progress, seed)
        store_metrics(database, release.release_id, counted, PUBLISHABLE, seed)
        return counted
    require_measurable(release)
    case = None
    if replayed is not None and not engine.remote:
        case = Case.of(replayed.build, replayed.state, Request.of(release).values)
    asked = (release.release_id, seed, roads, case)
    pieces = [*([] if roads is None else [_RECOVERY]), *pieces_of(release.kind)]
    build = find_build(database, release.build_id)
    found: dict[str, float] = {}
    with progress.stage("metrics", len(pieces), "pieces") as stage:
        for values in deal_out(engine, database, build, _read, asked, call, pieces, progress):
            found |= values
            stage.advance(1)
    if roads is not None and not any(name.startswith(_RECOVERY) for name in found):
        progress.note("The recovery attack needs a trajectory for each object: it is left out.")
    values = with_headlines(found)
    store_metrics(database, release.release_id, values, PUBLISHABLE, seed)
    return values


MeasurePiece = Callable[[str, Progress], dict[str, float]]


def _read(
    database: Database, asked: tuple[int, int, RoadTable | None, Case | None], progress: Progress
) -> MeasurePiece:
    """What measures pieces of an evaluation, with the release and the roads read from the database.

    asked: the release's id, the seed, its roads, and what it is read as, if that is here already.
    """
    release_id, seed, roads, case = asked
    release = get_release(database, release_id)
    # roads first: a wrong name is refused before the long work
    build = find_build(database, release.build_id)
    network = None if roads is None else roads.network(database, build.srid, progress)
    read = load_case(database, release, progress) if case is None else case

    def measure_piece_of(piece: str, progress: Progress) -> dict[str, float]:
        if piece != _RECOVERY:
            return measure_piece(read, piece, seed, progress)
        if network is None or len(read.pair.released) != len(read.pair.original):
            return {}
        return recovery_attack(read.pair, network, progress)

    return measure_piece_of


def check_seed(seed: int) -> None:
    if not 0 <= seed < 2**63:
        raise BadInput(
            f"[[seed]] {seed} is not a whole number from 0 to 2^63 - 1",
            remedy="for example [[seed]] 1",
        )


# Methods tried in memory, for the curator: the noise is seeded, and nothing is published or spent.


def require_possible(request: Request, original: Trajectories) -> None:
    """Refuse what makes no sense for data of this size; raises BadInput."""
    for step in request.method.steps:
        step.require_possible(options_of(step, request.values), len(original), original.samples)


def refusal(error: BadInput) -> str:
    """Why something cannot be tried, and what would help."""
    said = error.as_options()
    return f"{said['message']}; {said['remedy']}"


def run_trial(
    request: Request,
    world: StepContext,
    seed: int,
    original: Trajectories | None = None,
    progress: Progress | None = None,
) -> tuple[WorkingSet, float]:
    """What `anonymize --seed` would publish, before times are coarsened; and the seconds it took.

    `original`: other trajectories than the build's.
    """
    started = time.perf_counter()
    trial = Trial(lambda number: SeededSource(seed, number))
    shown = progress or Progress()
    state = run_steps(request.method, request.values, world, trial, shown, original)
    return state, time.perf_counter() - started


# What stands between a release that is held and analysts: how much it was found to expose.


def exposure_in(values: Mapping[str, float]) -> Exposure | None:
    """Of what was measured of a release; None: that was not measured."""
    return Exposure(values[EXPOSED], half_exposed(values)) if EXPOSED in values else None


def approve_within_limit(
    database: Database,
    release: ReleaseRow,
    progress: Progress,
    replaces: Collection[str] = (),
    engine: Engine = LOCAL,
    replayed: Replayed | None = None,
) -> tuple[ReleaseRow, Exposure | None]:
    """Grant a release that is held. If its dataset has a limit, this version has to have measured it.

    A window is measured together with the others of its series, too: both have to be within the limit.
    replaces: releases that the caller withdraws as soon as this one is granted. replayed: what was verified
    of it just now, if it was made here.
    """
    require_held(release)
    metrics = load_metrics(database, release.release_id)
    measured = exposure_in({metric.name: metric.value for metric in metrics})
    if get_dataset(database, release.dataset_id).max_exposure is not None:
        # measured by the attackers of this version, with the seed that everybody has; what this version
        # made was measured by no earlier one
        seeds = {metric.name: metric.seed for metric in metrics}
        ours = release.software == freqdp_db.__version__ and seeds.get(EXPOSED) == DEFAULT_SEED
        if measured is None or not ours:
            measured = exposure_in(
                evaluate(database, release, progress, engine=engine, replayed=replayed)
            )
        if measured is not None and release.is_in_table:
            windows = windows_around(database, release)
            number = len(windows)
            if number > 1:
                asked = (release, windows, progress, DEFAULT_SEED, [number])
                values = measure_series(database, *asked)[number]
                together = Exposure(values[EXPOSED], values[HALF], number)
                measured = max(measured, together, key=lambda exposure: exposure.largest)
    return approve(database, release, measured, replaces), measured
