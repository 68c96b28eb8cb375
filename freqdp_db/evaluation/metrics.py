"""All metrics of a release: their order, which of them may be published, and the headline."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

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

# A stream of random numbers for each metric: leaving one out does not change the others.
_MEASURES: dict[str, Callable[[Pair, np.random.Generator], dict[str, float]]] = {
    "linking attacks": lambda pair, rng: linking_attacks(pair),
    "known samples": known_samples,
    "mutual information": lambda pair, rng: mutual_information(pair),
    "unicity": unicity,
    "information loss": lambda pair, rng: information_loss(pair),
    "diameters": lambda pair, rng: diameter_error(pair),
    "trips": trip_error,
    "frequent patterns": lambda pair, rng: frequent_patterns(pair),
    "plausibility": lambda pair, rng: plausibility(pair),
    "range queries": query_error,
    "hotspots": lambda pair, rng: hotspot_correlation(pair),
}

_FOR_EVERY_KIND = frozenset(
    {"frequent patterns", "plausibility", "range queries", "hotspots", "trips"}
)

_BY_COORDINATES = frozenset(
    {"diameters", "trips", "frequent patterns", "range queries", "hotspots"}
)
"""Measured where the samples of the table lie; the others compare places of D by their numbers."""


def measure(
    pair: Pair, seed: int, progress: Progress, only: Collection[str] | None = None
) -> dict[str, float]:
    """Metrics of D and D* over the same places; `seed` picks samples, queries and resamples.

    `only`: those that have a meaning where released trajectories are not the objects'.
    """
    found: dict[str, float] = {}
    for number, (name, metric) in enumerate(_MEASURES.items()):
        if only is None or name in only:
            with progress.stage(name):
                found |= metric(pair, np.random.default_rng([seed, number]))
    if only is None:
        found[LINKED] = max(found[name] for name in found if is_linking(name))
    return found


def pieces_of(kind: str) -> list[str]:
    """What a release of this kind is measured by, in pieces that need nothing of each other.

    Those that take longest come first.
    """
    of_pairs = [name for name in _MEASURES if kind == "edited" or name in _FOR_EVERY_KIND]
    of_pairs.remove("plausibility")  # counted at the places of the release, in the last piece
    return [*exposure.EXPOSURES, *of_pairs, "usefulness"]


def measure_piece(case: Case, piece: str, seed: int, progress: Progress) -> dict[str, float]:
    """One of `pieces_of` a kind."""
    if piece in exposure.EXPOSURES:
        return exposure.measure_exposure(case, seed, progress, [piece])
    as_released = replace(case.pair, released=case.release.trajectories)
    if piece in _BY_COORDINATES:
        in_table = side_by_side(as_released, case.release.places)
        if piece == "range queries" and case.made_up:
            in_table = in_trips(in_table)
        return measure(in_table, seed, progress, [piece])
    if piece in _MEASURES:
        return measure(case.pair, seed, progress, [piece])
    with progress.stage(piece):
        rng = np.random.default_rng([seed, len(_MEASURES)])
        return {
            **plausibility(as_released, case.release.places),
            **usefulness(as_released, case.release.places, rng),
        }


def with_headlines(found: Mapping[str, float]) -> dict[str, float]:
    """All pieces together, with the largest of what attackers reach."""
    linked = [found[name] for name in found if is_linking(name)]
    return {
        **found,
        EXPOSED: exposure.worst_exposure(found),
        **({LINKED: max(linked)} if linked else {}),
    }


def measure_release(case: Case, kind: str, seed: int) -> dict[str, float]:
    """Every metric that a release of this kind allows, measured against its originals."""
    found: dict[str, float] = {}
    for piece in pieces_of(kind):
        found |= measure_piece(case, piece, seed, Progress())
    return with_headlines(found)


def measure_published(pair: Pair, kind: str, seed: int) -> dict[str, float]:
    """What may be published, counted in a release alone: `pair` has it on both sides."""
    names = [n for n in ("unicity", "plausibility") if kind == "edited" or n in _FOR_EVERY_KIND]
    found = measure(pair, seed, Progress(), names)
    return {name: value for name, value in found.items() if name in PUBLISHABLE}


def is_linking(name: str) -> bool:
    """Whether a metric is the value of a linking attack, and not what stands beside it."""
    return name.startswith("la_") and not name.endswith(".none")
