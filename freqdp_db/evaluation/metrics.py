"""All metrics of a release: their order, which of them may be published, and the headline."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from freqdp_db.evaluation.attacks import exposure
from freqdp_db.evaluation.attacks.known_samples import known_samples, unicity
from freqdp_db.evaluation.attacks.signatures import linking_attacks
from freqdp_db.evaluation.pair import Case, Pair
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
from freqdp_db.progress import Progress

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
    as_released = replace(case.pair, released=case.release.trajectories)
    if piece in _MEASURES and _MEASURES[piece].by_coordinates:
        in_table = side_by_side(as_released, case.release.places)
        if piece == "range queries" and case.made_up:
            in_table = in_trips(in_table)
        return measure(in_table, seed, progress, [piece])
    if piece in _MEASURES:
        return measure(case.pair, seed, progress, [piece])
    with progress.stage(piece):
        places = case.release.places
        return {**plausibility(as_released, places), **usefulness(as_released, places)}


def with_headlines(found: Mapping[str, float]) -> dict[str, float]:
    """All pieces together, with the largest of what attackers reach."""
    linked = [found[name] for name in found if is_linking(name)]
    return {
        **found,
        EXPOSED: exposure.worst_exposure(found),
        **({LINKED: max(linked)} if linked else {}),
    }


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
