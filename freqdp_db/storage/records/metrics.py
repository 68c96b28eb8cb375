"""Rows of `metric`, and a released table read back."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from psycopg import sql
from sqlalchemy.dialects import postgresql as pg

from freqdp_db.columns.arrays import Ids, Ints, Metres
from freqdp_db.columns.ragged import offsets_of
from freqdp_db.columns.trajectories import Trajectories
from freqdp_db.errors import VerificationFailed
from freqdp_db.storage.connection.engine import Connection, Database, driver
from freqdp_db.storage.copy.layout import point_coordinates, read_arrays
from freqdp_db.storage.published.staging import POINTS
from freqdp_db.storage.records.datasets import table


@dataclass(frozen=True)
class MetricRow:
    """One measured number."""

    release_id: int
    name: str
    value: float
    publishable: bool
    seed: int | None
    measured_at: datetime


def store_metrics(
    database: Database,
    release_id: int,
    values: Mapping[str, float],
    publishable: Collection[str],
    seed: int,
) -> None:
    """Write metrics; those of the same name are replaced, others stay."""
    metrics = table(database, "metric")
    rows = [
        {
            "release_id": release_id,
            "name": name,
            "value": value,
            "publishable": name in publishable,
            "seed": seed,
        }
        for name, value in values.items()
    ]
    insert = pg.insert(metrics).values(rows)
    with database.begin() as connection:
        connection.execute(
            insert.on_conflict_do_update(
                index_elements=["release_id", "name"],
                set_={
                    **{c: insert.excluded[c] for c in ("value", "publishable", "seed")},
                    "measured_at": sa.func.now(),
                },
            )
        )


def load_metrics(database: Database, release_id: int) -> list[MetricRow]:
    metrics = table(database, "metric")
    with database.begin() as connection:
        rows = connection.execute(
            sa.select(metrics).where(metrics.c.release_id == release_id).order_by(metrics.c.name)
        )
        return [MetricRow(**row._mapping) for row in rows]


def load_released(
    connection: Connection,
    database: Database,
    name: str,
    key: Ints,
    geometry: NDArray[np.void],
    start: Ints,
) -> Trajectories:
    """The rows of a released table, in the numbers of the build: trajectories by the private key,
    locations by their points. `start`: of each trajectory, for those that were emptied."""
    relation = sql.Identifier(database.settings.release_schema, name)
    query = sql.SQL("SELECT {} FROM {} ORDER BY trajectory_id, seq").format(
        sql.SQL(", ").join(map(sql.Identifier, POINTS.names)), relation
    )
    rows = read_arrays(driver(connection), query, POINTS)
    by_id = np.argsort(key)
    found = np.minimum(np.searchsorted(key[by_id], rows["trajectory_id"]), max(len(key) - 1, 0))
    owner = by_id[found] if len(key) else found
    location = _locate(rows["geom"], geometry)
    if not (np.array_equal(key[owner], rows["trajectory_id"]) and (location >= 0).all()):
        raise VerificationFailed(
            f"the released table {name!r} holds ids or points that the release never had",
            remedy=f"freqdp release verify {name}",
        )
    order = np.argsort(owner, kind="stable")
    at = rows["at"][order]
    offsets = offsets_of(owner[order], len(key))
    filled = np.diff(offsets) > 0
    begin = start.copy()
    begin[filled] = at[offsets[:-1][filled]]
    return Trajectories(offsets, location[order], at, begin)


def _locate(points: NDArray[np.void], geometry: NDArray[np.void]) -> Ids:
    """The location that each point is, by its exact coordinates; -1 if it is none."""
    if not len(geometry):
        return np.full(len(points), -1, np.int32)
    x, y = point_coordinates(points)
    place_x, place_y = point_coordinates(geometry)
    known = _mix(place_x, place_y)
    order = np.argsort(known, kind="stable")
    at = order[np.minimum(np.searchsorted(known[order], _mix(x, y)), len(order) - 1)]
    same = (place_x[at] == x) & (place_y[at] == y)
    return np.where(same, at, -1).astype(np.int32)


def _mix(x: Metres, y: Metres) -> NDArray[np.uint64]:
    """One number for two coordinates; those of different points hardly ever meet."""
    # + 0.0: minus zero is zero
    bits = ((x + 0.0).view(np.uint64), (y + 0.0).view(np.uint64))
    return bits[0] * np.uint64(0x9E3779B97F4A7C15) ^ bits[1] * np.uint64(0xC2B2AE3D27D4EB4F)
