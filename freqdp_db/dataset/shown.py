"""Areas and points in the coordinates of a release, which may be others than the metres of its build."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from freqdp_db.columns.areas import Areas
from freqdp_db.columns.arrays import Metres
from freqdp_db.columns.build import Build
from freqdp_db.dataset.projection import source_limits, to_source

_ROUNDING = 1e-9
"""In the unit of the source's SRID: more than transforming there and back is off by."""
_WIDE_M = 100_000.0
"""From here on the sides of a box are no simple curves."""
_MESH = 9
"""Points along each side of such a box; one is its middle."""


@dataclass(frozen=True)
class InSource:
    """As the source's SRID has them."""

    build: Build

    def points(self, x: Metres, y: Metres) -> tuple[Metres, Metres]:
        return to_source(self.build, x, y)

    def areas(self, areas: Areas) -> Areas:
        """Boxes that hold what the boxes in metres become."""
        if self.build.srid == self.build.source_srid:
            return areas
        sides_m = np.maximum(areas.x_max - areas.x_min, areas.y_max - areas.y_min)
        narrow = sides_m <= _WIDE_M
        found = np.empty((4, len(sides_m)))
        bounds = np.stack([areas.x_min, areas.y_min, areas.x_max, areas.y_max])
        found[:, narrow] = _narrow_in_source(self.build, *bounds[:, narrow])
        for n in np.flatnonzero(~narrow):
            found[:, n] = _wide_in_source(self.build, *bounds[:, n].tolist())
        x_min, y_min, x_max, y_max = found
        return Areas(x_min, y_min, x_max, y_max, areas.until)


def _narrow_in_source(
    build: Build, west: Metres, south: Metres, east: Metres, north: Metres
) -> tuple[Metres, Metres, Metres, Metres]:
    """Boxes whose sides are curves, of the same bend all along."""
    x, y = (west, (west + east) / 2, east), (south, (south + north) / 2, north)
    # west, south, east, north: the ends and the middle of each side
    sides = ((x[:1] * 3, y), (x, y[:1] * 3), (x[2:] * 3, y), (x, y[2:] * 3))
    found = []
    for number, (xs, ys) in enumerate(sides):
        ends = np.stack([to_source(build, a, b)[number % 2] for a, b in zip(xs, ys, strict=True)])
        # a curve leaves the three by less than its middle leaves the straight line
        beyond = np.abs(ends[1] - (ends[0] + ends[2]) / 2) + _ROUNDING
        found.append(ends.min(axis=0) - beyond if number < 2 else ends.max(axis=0) + beyond)
    west, south, east, north = found
    return west, south, east, north


def _wide_in_source(
    build: Build, west: float, south: float, east: float, north: float
) -> tuple[float, float, float, float]:
    """A box round all that a wide box holds: far from its middle no projection is nearly straight.

    It may not even lead back to where a place came from, so places are taken as the source has them.
    """
    places = build.locations
    inside = (places.x >= west) & (places.x <= east) & (places.y >= south) & (places.y <= north)
    x, y = np.meshgrid(np.linspace(west, east, _MESH), np.linspace(south, north, _MESH))
    found = []
    meshes = to_source(build, x.ravel(), y.ravel())
    for mesh, own, limit in zip(meshes, places.in_source(), source_limits(build), strict=True):
        known = mesh[np.isfinite(mesh)]
        grid = np.where(np.isfinite(mesh), mesh, np.nan).reshape(x.shape)
        steps = np.concatenate([np.abs(np.diff(grid, axis=axis)).ravel() for axis in (0, 1)])
        beyond = np.nanmax(steps, initial=0.0)
        around = np.clip(np.concatenate([known - beyond, known + beyond]), -limit, limit)
        held = np.concatenate([own[inside], around])
        found.append((float(held.min()), float(held.max())))
    return found[0][0], found[1][0], found[0][1], found[1][1]
