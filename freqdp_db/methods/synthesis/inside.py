"""A model whose trips keep to the cells that a region with an outline has a part in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from freqdp_db.columns.arrays import Metres
from freqdp_db.methods.synthesis.estimation import Model, neighbours
from freqdp_db.methods.synthesis.layout import Grids
from freqdp_db.methods.synthesis.sampling import SquareCentres, lattice


def kept_inside(model: Model, grids: Grids, every_us: int) -> Model:
    """Nothing where the region is not; less in fine cells that lie in it only in part."""
    if grids.region.outline is None:
        return model
    share = _open_share(grids, lattice(grids, every_us))
    cell_of, zone_of = grids.cell_of_fine(), grids.zone_of_cell()
    opened = np.bincount(cell_of, share, minlength=grids.cells) > 0
    zones = np.bincount(zone_of, opened, minlength=grids.zones) > 0
    ahead = neighbours(grids)
    passable = opened[:, None] & (ahead >= 0) & opened[np.maximum(ahead, 0)]
    starts = np.where(opened, model.starts, 0.0)
    whole = np.bincount(zone_of, starts, minlength=grids.zones)
    starts = starts / np.maximum(whole, 1e-300)[zone_of]
    return replace(
        model,
        flows=model.flows * np.outer(zones, zones).ravel(),
        starts=starts,
        ends=starts.copy(),
        moves=np.where(passable, model.moves, 0.0),
        visits=np.where(opened, model.visits, 0.0),
        fine=model.fine * share,
    )


def _open_share(grids: Grids, net: SquareCentres) -> Metres:
    """The part of each fine cell's places that lie in the region."""
    row, column = np.divmod(np.arange(net.columns * net.rows), net.columns)
    x = ((column + 0.5) / net.columns * grids.fine_x).astype(np.int64)
    y = ((row + 0.5) / net.rows * grids.fine_y).astype(np.int64)
    fine = y * grids.fine_x + x
    every = np.bincount(fine, minlength=grids.fine)
    inside = np.bincount(fine, net.open, minlength=grids.fine)
    share: Metres = inside / np.maximum(every, 1)
    return share
