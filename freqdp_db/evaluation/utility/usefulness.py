"""Utility for every kind of release: on samples, and on trips that both sides are cut into."""

from __future__ import annotations

import numpy as np

from freqdp_db.columns.trajectories import Locations
from freqdp_db.evaluation.pair import Pair
from freqdp_db.evaluation.utility.crowding import density_error, speed_error, transition_error
from freqdp_db.evaluation.utility.journeys import in_trips, side_by_side
from freqdp_db.evaluation.utility.travel import as_published, extent_errors, flow_error


def usefulness(
    pair: Pair, released_places: Locations, rng: np.random.Generator
) -> dict[str, float]:
    """Every metric of this kind. `pair.released` counts its places in `released_places`."""
    both = side_by_side(pair, released_places)
    trips = in_trips(both)
    return {
        **density_error(both),
        **flow_error(trips),
        **extent_errors(trips),
        **speed_error(trips),
        **transition_error(trips),
        **as_published(trips, rng),
    }
