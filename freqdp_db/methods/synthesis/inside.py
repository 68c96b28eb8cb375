"""A model whose trips keep to the cells that a region with an outline has a part in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from freqdp_db.columns.arrays import Metres
from freqdp_db.methods.synthesis.estimation import Model, neighbours
from freqdp_db.methods.synthesis.layout import Grids
from freqdp_db.methods.synthesis.public import Runs
from freqdp_db.methods.synthesis.sampling import SquareCentres, lattice, part_of_rows, parts_of_runs


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
    assert net.runs is not None
    whole = Runs(
        np.arange(net.rows + 1), np.zeros(net.rows, np.int64), np.full(net.rows, net.columns)
    )

    def counted(runs: Runs) -> Metres:
        _, length = parts_of_runs(runs, net.columns, grids.fine_x)
        row = part_of_rows(runs, net.rows, grids.fine_y)
        table = np.zeros((grids.fine_y, grids.fine_x))
        np.add.at(table, row, length)
        return table.ravel()

    share: Metres = counted(net.runs) / np.maximum(counted(whole), 1.0)
    return share
