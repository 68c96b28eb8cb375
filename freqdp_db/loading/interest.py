"""Points of interest of a made-up city: what there is at its places, by category.

Each category is partly where many go, near the hotspots, and partly where people live: offices and
hotels are nearly all where many go, schools and clinics everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from freqdp_db.loading.agenda import Places
from freqdp_db.loading.network import Floats, StreetNetwork, to_degrees

_FOR_EACH_JUNCTION = 1.2
_FROM_HOTSPOT_M, _FROM_JUNCTION_M = 220.0, 45.0
# category: share of all points, and how much of it is near hotspots
_CATEGORIES = {
    "shop": (0.26, 0.5),
    "restaurant": (0.19, 0.6),
    "office": (0.17, 0.8),
    "school": (0.10, 0.15),
    "clinic": (0.08, 0.25),
    "sport": (0.08, 0.2),
    "culture": (0.07, 0.7),
    "hotel": (0.05, 0.85),
}


@dataclass(frozen=True)
class Interest:
    """Points in degrees with a category each, in no order that tells anything."""

    lon: Floats
    lat: Floats
    category: NDArray[np.bytes_]


def make_interest(network: StreetNetwork, places: Places, rng: np.random.Generator) -> Interest:
    count = round(_FOR_EACH_JUNCTION * len(network.x))
    shares = np.array([share for share, _ in _CATEGORIES.values()])
    category = rng.choice(len(shares), count, p=shares)
    crowded = rng.random(count) < np.array([near for _, near in _CATEGORIES.values()])[category]
    hotspot = rng.choice(places.hotspots, count, p=places.popularity)
    at = np.where(crowded, hotspot, rng.choice(len(network.x), count, p=places.homes))
    spread = np.where(crowded, _FROM_HOTSPOT_M, _FROM_JUNCTION_M)
    x, y = (side[at] + rng.normal(0, spread) for side in (network.x, network.y))
    lon, lat = to_degrees(x, y)
    names = np.array(list(_CATEGORIES), dtype="S")
    return Interest(np.round(lon, 7), np.round(lat, 7), names[category])
