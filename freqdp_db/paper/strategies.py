"""The strategies of K-nearest search behind one interface: all exact, all with the same answer.

`linear` defines the answer; the others find it by looking at less. `extent` is what a release
uses; the paper's grid and the uniform one are here to compare with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from freqdp_db.model.arrays import Ints
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.paper.grid_searches import (
    BOTTOM_UP,
    BOTTOM_UP_DOWN,
    TOP_DOWN,
    distinct_rows,
    file_best_fit,
    file_uniformly,
    search_best_fit,
    search_linear,
    search_uniform,
)
from freqdp_db.search.best import Nearest, Queries
from freqdp_db.search.nearest import index_segments, nearest_trajectories

DEFAULT = "extent"


@dataclass(frozen=True)
class Strategy:
    """A way to the K nearest trajectories of a point."""

    name: str
    build: Callable[[Trajectories, Locations, Ints], Any]
    """build(trajectories, locations, rank): the index, whatever it is."""
    query: Callable[[Any, Queries], Nearest]
    """query(index, queries): the answers."""


def _ranked(name: str, build: Callable[..., Any], query: Callable[..., Nearest]) -> Strategy:
    """A strategy whose index knows nothing of the rank."""
    return Strategy(
        name,
        lambda trajectories, locations, rank: (build(trajectories, locations), rank),
        lambda index, queries: query(index[0], queries, index[1]),
    )


def _best_fit(name: str, way: int) -> Strategy:
    return _ranked(
        name,
        file_best_fit,
        lambda index, queries, rank: search_best_fit(index, way, queries, rank),
    )


STRATEGIES = {
    strategy.name: strategy
    for strategy in (
        _ranked("linear", distinct_rows, search_linear),
        _ranked("uniform-grid", file_uniformly, search_uniform),
        _best_fit("hg-top-down", TOP_DOWN),
        _best_fit("hg-bottom-up", BOTTOM_UP),
        _best_fit("hg-bottom-up-down", BOTTOM_UP_DOWN),
        Strategy(DEFAULT, index_segments, nearest_trajectories),
    )
}


def index_bytes(index: Any) -> int:
    """Memory that the arrays of an index take."""
    return sum({id(array): array.nbytes for array in _arrays(index)}.values())


def _arrays(part: Any) -> Iterator[np.typing.NDArray[Any]]:
    if isinstance(part, np.ndarray):
        yield part
    elif isinstance(part, tuple):
        for member in part:
            yield from _arrays(member)
    elif is_dataclass(part):
        for field in fields(part):
            yield from _arrays(getattr(part, field.name))
