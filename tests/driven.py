"""What people and taxis of the made-up city really drove: the truth that matching is measured against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freqdp_db.loading.city import START, City
from freqdp_db.model.arrays import owners


@dataclass(frozen=True)
class DrivenRoads:
    """The roads that were driven, one row per road and passage, by object and time."""

    object_id: NDArray[np.bytes_]
    road_id: NDArray[np.int64]
    """As in the roads table: 1, 2, ..."""
    forward: NDArray[np.bool_]
    """Whether it was driven from its source to its target."""
    enter_s: NDArray[np.float64]
    leave_s: NDArray[np.float64]
    """Seconds since 1970-01-01 UTC."""


def driven_roads(city: City) -> DrivenRoads:
    """What the objects of a city's first batch drove."""
    driven: list[tuple[Any, Any]] = []
    record = city._record

    def keep(trips: Any, paths: Any, *others: Any) -> Any:
        driven.append((trips, paths))
        return record(trips, paths, *others)

    city._record = keep  # type: ignore[method-assign]
    chunk = next(iter(city.chunks()))
    names, taxi = city._names[: chunk.objects], city._taxi[: chunk.objects]
    # people are recorded before taxis, each kind if there are some of it
    whose = [part for part in (names[~taxi], names[taxi]) if len(part)]
    parts = [_roads(city, *found, own) for found, own in zip(driven, whose, strict=True)]
    return DrivenRoads(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _roads(city: City, trips: Any, paths: Any, names: NDArray[np.bytes_]) -> tuple[Any, ...]:
    trip = owners(paths.first)
    seconds = city.network.seconds[paths.road]
    clock = np.concatenate([[0.0], np.cumsum(seconds)])
    since = clock[:-1] - clock[paths.first[trip]]
    begin = START.timestamp() + trips.leave[trip]
    return (
        names[trips.object[trip]],
        paths.road.astype(np.int64) + 1,
        paths.forward,
        begin + since * trips.pace[trip],
        begin + (since + seconds) * trips.pace[trip],
    )
