"""One grain for all places: no device is known by the digits that it writes.

Where the places of a build are exact (`--snap exact`), a device that writes four decimals is told from
one that writes six. So `swap` and `cut` then move places to the centres of cells of one grid, as a build
with `--snap grid` does; other builds have such places already.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np

from freqdp_db.columns.arrays import Ids, Metres
from freqdp_db.columns.trajectories import Locations
from freqdp_db.errors import VerificationFailed
from freqdp_db.methods.contract import State

GRAIN = Decimal(20)
"""Metres: coarser than what four decimals of a degree tell."""


def grain_for(snap: str) -> Decimal | None:
    """The grain for a build with places of this kind; None: they have one."""
    return GRAIN if snap == "exact" else None


def cells_of(places: Locations, grain_m: float) -> tuple[Locations, Ids]:
    """The centres of all cells that have places, and the cell of each place."""
    column, row = (np.floor(c / grain_m) for c in (places.x, places.y))
    order = np.lexsort((row, column))
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (np.diff(column[order]) != 0) | (np.diff(row[order]) != 0)
    cell = np.empty(len(order), np.int32)
    cell[order] = np.cumsum(fresh) - 1
    first = order[fresh]
    return Locations((column[first] + 0.5) * grain_m, (row[first] + 0.5) * grain_m), cell


def in_grains(x: Metres, y: Metres, grain_m: float) -> tuple[Metres, Metres]:
    """Positions as a release of this grain shows them."""
    return (np.floor(x / grain_m) + 0.5) * grain_m, (np.floor(y / grain_m) + 0.5) * grain_m


def put_in_grains(state: State, grain: Decimal | None) -> State:
    """Places to the centres of their cells; no grain leaves all as it is."""
    if grain is None:
        return state
    places, cell = cells_of(state.places, float(grain))
    side = replace(state.trajectories, location=cell[state.trajectories.location])
    return replace(state, trajectories=side, places=places)


def check_grains(before: State, after: State, grain: Decimal | None) -> None:
    """Refuse unless every sample lies at the centre of the cell of a common grid that it was in.

    Raises:
        VerificationFailed: a place that is no centre, or half a cell away from where the sample was.
    """
    if grain is None:
        return
    side = float(grain)
    old, new = before.trajectories, after.trajectories
    if len(old.location) != len(new.location) or not np.array_equal(old.at, new.at):
        raise VerificationFailed("samples were lost or moved in time with their places")
    for was, there in ((before.places.x, after.places.x), (before.places.y, after.places.y)):
        shown = there[new.location]
        # double precision at the size of coordinates
        near = 1e-9 * np.maximum(np.abs(shown), 1.0)
        if (np.abs((shown / side - 0.5) - np.round(shown / side - 0.5)) * side > near).any():
            raise VerificationFailed("a place is not the centre of a cell")
        if (np.abs(was[old.location] - shown) > side / 2 + near).any():
            raise VerificationFailed("a place is not in the cell that it was in")
