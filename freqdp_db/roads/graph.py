"""The road graph: junctions, the roads between them, and the arcs along which roads may be driven.

One type for all roads: those of a table (`network.py`), those of the generated city, and those that
synthetic trips drive on. It is a named tuple because compiled kernels take it as it is. Their caches name
this module: whoever moves it breaks the caches of an installation that is upgraded.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from freqdp_db.model.arrays import Flags, Ids, Ints, Metres, offsets_of


class RoadGraph(NamedTuple):
    """Junctions and roads are numbered from 0. Arcs lie in order of the junctions that they leave."""

    x: Metres
    y: Metres
    """Where the junctions are."""
    source: Ids
    target: Ids
    oneway: Flags
    length: Metres
    """Of each road; never less than the straight way between its ends."""
    arc_offsets: Ints
    """Arcs that leave junction n are arc_offsets[n] to arc_offsets[n + 1] - 1."""
    arc_from: Ids
    arc_to: Ids
    arc_road: Ids
    forward: Flags
    """Whether an arc follows its road from source to target."""


def make_graph(
    x: Metres, y: Metres, source: Ints | Ids, target: Ints | Ids, oneway: Flags, length: Metres
) -> RoadGraph:
    """The graph of these roads: an arc along each, and one back unless it is one-way."""
    number, back = np.arange(len(source)), np.flatnonzero(~oneway)
    leaves = np.concatenate([source, target[back]])
    order = np.argsort(leaves, kind="stable")
    return RoadGraph(
        x,
        y,
        source.astype(np.int32),
        target.astype(np.int32),
        oneway,
        length,
        offsets_of(leaves[order], len(x)),
        leaves[order].astype(np.int32),
        np.concatenate([target, source[back]])[order].astype(np.int32),
        np.concatenate([number, back])[order].astype(np.int32),
        order < len(source),
    )


def reverse(graph: RoadGraph) -> RoadGraph:
    """The same with every road turned round: ways from a junction become ways to it."""
    return make_graph(graph.x, graph.y, graph.target, graph.source, graph.oneway, graph.length)


def largest_part(source: Ints | Ids, target: Ints | Ids, oneway: Flags, junctions: int) -> Flags:
    """The junctions of the largest part in which each can be reached from every other."""
    begin = np.concatenate([source, target[~oneway]])
    end = np.concatenate([target, source[~oneway]])
    matrix = coo_array((np.ones(len(begin)), (begin, end)), shape=(junctions, junctions))
    _, part = connected_components(matrix, directed=True, connection="strong")
    largest: Flags = part == np.bincount(part).argmax()
    return largest
