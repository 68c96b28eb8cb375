"""From the source's coordinates to metres and back.

Done here and not with ST_Transform, because one row outside a projection's domain would abort the
whole COPY there; pyproj marks it instead, and the build counts it.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyproj

from freqdp_db.engines.ranges import cores
from freqdp_db.errors import BadData, BadInput
from freqdp_db.model.arrays import Ints, Metres
from freqdp_db.model.trajectories import Areas, Build

# No reference system puts a place on Earth so far from its origin: the equator is 4e7 m long, and
# zones that are numbered in the coordinates (zone 60: 60,500,000) stay below. A constant, so that
# whether a row is kept depends on that row alone.
_FARTHEST_M = 1e8
# Within so many degrees of a zone's middle, distances are at most 14% too long.
MEASURED_DEGREES = 30.0
_FAR_SHARE = 0.05
_CHUNK = 1 << 19
WGS84 = 4326


@dataclass(frozen=True)
class ReferenceSystem:
    """An entry of spatial_ref_sys."""

    srid: int
    crs: pyproj.CRS

    @classmethod
    def parse(cls, srid: int, definition: str) -> ReferenceSystem:
        try:
            return cls(srid, pyproj.CRS.from_user_input(definition))
        except pyproj.exceptions.CRSError:
            raise BadInput(
                f"the definition of SRID {srid} in spatial_ref_sys cannot be used",
                remedy="give another SRID with [[srid]]",
            ) from None

    @property
    def geographic(self) -> bool:
        return bool(self.crs.is_geographic)

    @property
    def limits(self) -> tuple[float, float]:
        """How far from 0 coordinates can be, on each axis."""
        if self.geographic:
            return 180.0, 90.0
        axes = self.crs.axis_info
        farthest = _FARTHEST_M / (axes[0].unit_conversion_factor if axes else 1.0)
        return farthest, farthest

    @property
    def metric(self) -> bool:
        """Whether plane distances in it are metres on the ground, near enough."""
        if not self.crs.is_projected:
            return False
        if any(abs(axis.unit_conversion_factor - 1.0) > 1e-9 for axis in self.crs.axis_info[:2]):
            return False
        operation = self.crs.coordinate_operation
        # Mercator stretches metres by 1/cos(latitude)
        return (
            operation is None
            or "Mercator" not in operation.method_name
            or ("Transverse" in operation.method_name)
        )


def utm_srid(seen: Ints) -> int:
    """The UTM zone (WGS 84) of the middle of the data; refuses data too wide for one zone.

    `seen`: as `seen_degrees` counts; parts of the data add up.
    """
    rows = int(seen.sum())
    if not rows:
        raise BadData("no position can be told in degrees", remedy="give [[srid]]")
    by_degree = seen.sum(axis=0)
    zone = int(np.searchsorted(np.cumsum(by_degree), (rows + 1) // 2)) // 6 + 1
    utm = (32700 if 2 * int(seen[0].sum()) > rows else 32600) + zone
    middles: Metres = np.linspace(-179.5, 179.5, 360)
    far = int(by_degree[degrees_from_meridian(middles, utm) > MEASURED_DEGREES].sum())
    if far >= _FAR_SHARE * rows:
        raise BadData(
            f"{far / rows:.0%} of the rows lie more than {MEASURED_DEGREES:.0f} degrees of longitude "
            "from the middle of the data: one UTM zone cannot hold them",
            remedy="give a projected SRID in metres that covers the data with [[srid]], or build a part "
            "of the data with [[where]]",
        )
    return utm


def seen_degrees(lon: Metres, lat: Metres) -> Ints:
    """How many positions are in each whole degree of longitude: south of the equator, and north."""
    known = np.isfinite(lon) & np.isfinite(lat)
    degree = np.clip(np.floor(lon[known]) + 180, 0, 359).astype(np.int64)
    return np.bincount(degree + 360 * (lat[known] >= 0), minlength=720).reshape(2, 360)


def degrees_from_meridian(lon: Metres, utm: int) -> Metres:
    """How far longitudes are from the middle of a UTM zone (its SRID), the short way round."""
    meridian = utm % 100 * 6.0 - 183.0
    apart: Metres = np.abs((lon - meridian + 180.0) % 360.0 - 180.0)
    return apart


def transform(
    source: ReferenceSystem, target: ReferenceSystem, x: Metres, y: Metres
) -> tuple[Metres, Metres]:
    """Transform coordinates on all cores; what cannot be transformed becomes infinite."""
    if source.srid == target.srid or source.crs == target.crs:
        return x, y

    def part(begin: int) -> tuple[Metres, Metres]:
        # a transformer belongs to one thread
        transformer = pyproj.Transformer.from_crs(source.crs, target.crs, always_xy=True)
        moved = transformer.transform(x[begin : begin + _CHUNK], y[begin : begin + _CHUNK])
        return np.asarray(moved[0]), np.asarray(moved[1])

    with ThreadPoolExecutor(cores()) as pool:
        parts = list(pool.map(part, range(0, len(x), _CHUNK)))
    if not parts:
        return x.copy(), y.copy()
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def from_lon_lat(plane: ReferenceSystem, lon: Metres, lat: Metres) -> tuple[Metres, Metres]:
    """Positions in degrees as places in metres of the plane."""
    return transform(ReferenceSystem(WGS84, pyproj.CRS.from_epsg(WGS84)), plane, lon, lat)


def to_lon_lat(plane: ReferenceSystem, x: Metres, y: Metres) -> tuple[Metres, Metres]:
    """Places in metres of the plane as positions in degrees."""
    return transform(plane, ReferenceSystem(WGS84, pyproj.CRS.from_epsg(WGS84)), x, y)


def to_source(build: Build, x: Metres, y: Metres) -> tuple[Metres, Metres]:
    """Places in metres as coordinates of the source's SRID."""
    assert build.systems is not None, "the build was read without its reference systems"
    plane, source = (
        ReferenceSystem.parse(srid, definition)
        for srid, definition in zip((build.srid, build.source_srid), build.systems, strict=True)
    )
    return transform(plane, source, x, y)


def source_limits(build: Build) -> tuple[float, float]:
    """How far from 0 coordinates of the source's SRID can be."""
    assert build.systems is not None, "the build was read without its reference systems"
    return ReferenceSystem.parse(build.source_srid, build.systems[1]).limits


# Areas and points in the coordinates of a release, which may be others than the metres of its build.


_ROUNDING = 1e-9
"""In the unit of the source's SRID: more than transforming there and back is off by."""
_WIDE_M = 100_000.0
"""From here on the sides of a box are no simple curves."""
_MESH = 9
"""Points along each side of such a box; one is its middle."""


@dataclass(frozen=True)
class SourceCoordinates:
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
