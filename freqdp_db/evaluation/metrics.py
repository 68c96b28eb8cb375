"""All metrics of a release: their order, which of them may be published, and the headline."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from freqdp_db.evaluation.attacks.knowledge import known_samples, unicity
from freqdp_db.evaluation.attacks.linking import linking_attacks
from freqdp_db.evaluation.pair import Pair
from freqdp_db.evaluation.utility.divergence import mutual_information
from freqdp_db.evaluation.utility.losses import (
    diameter_error,
    hotspot_correlation,
    information_loss,
    plausibility,
    query_error,
    trip_error,
)
from freqdp_db.evaluation.utility.patterns import frequent_patterns
from freqdp_db.progress import Progress

HEADLINE = "la"
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


def measure(pair: Pair, seed: int, progress: Progress) -> dict[str, float]:
    """Every metric that needs nothing but D and D*; `seed` picks samples, queries and resamples."""
    found: dict[str, float] = {}
    with progress.stage("metrics", len(_MEASURES), "metrics") as stage:
        for number, (name, metric) in enumerate(_MEASURES.items()):
            with progress.stage(name):
                found |= metric(pair, np.random.default_rng([seed, number]))
            stage.advance(1)
    found[HEADLINE] = worst_linking(found)
    return found


def worst_linking(found: Mapping[str, float]) -> float:
    """The headline: what the best of all attackers links."""
    return max(
        value
        for name, value in found.items()
        if name.startswith("la_") and not name.endswith(".none")
    )
