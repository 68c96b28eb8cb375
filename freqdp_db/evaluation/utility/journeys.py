"""Dataset and release cut into trips alike, so that weeks, pieces and synthetic trips compare."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from freqdp_db.columns.arrays import Ints, Metres
from freqdp_db.columns.trajectories import Locations, Trajectories
from freqdp_db.evaluation.pair import Pair
from freqdp_db.trips import TripRule, find_trips, samples_of


def side_by_side(pair: Pair, released_places: Locations) -> Pair:
    """The same pair over one list of places, where the release has places of its own."""
    if released_places is pair.locations:
        return pair
    both = Locations(
        np.concatenate([pair.locations.x, released_places.x]),
        np.concatenate([pair.locations.y, released_places.y]),
    )
    moved = pair.released.location + np.int32(len(pair.locations))
    return replace(pair, released=replace(pair.released, location=moved), locations=both)


def in_trips(pair: Pair) -> Pair:
    """Both sides as trips of at least two samples, each a trajectory of its own."""
    return replace(
        pair,
        original=cut_into_trips(pair.original, pair.locations),
        released=cut_into_trips(pair.released, pair.locations),
    )


def cut_into_trips(side: Trajectories, places: Locations) -> Trajectories:
    """Trips of at least two samples."""
    trips = find_trips(side, places, TripRule())
    moves = trips.last > trips.first
    offsets, rows = samples_of(trips.first[moves], trips.last[moves])
    return Trajectories(offsets, side.location[rows], side.at[rows], side.at[trips.first[moves]])


def inside(side: Trajectories) -> Ints:
    """Samples that another one of the same trajectory follows."""
    return np.flatnonzero(~side.ends)


def step_lengths(side: Trajectories, places: Locations, step: Ints) -> Metres:
    """Metres from each of these samples to the next."""
    a, b = side.location[step], side.location[step + 1]
    return np.hypot(places.x[b] - places.x[a], places.y[b] - places.y[a])
