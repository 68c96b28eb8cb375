"""Rows of `metric`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from freqdp_db.db.connection import Database
from freqdp_db.db.datasets import table
from freqdp_db.db.statements import private_name


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
    family: str | None = None,
) -> None:
    """Write metrics; those of the same name are replaced, others stay.

    family: how their names begin; others that begin so go.
    """
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
        if family is not None:
            connection.execute(
                sa.delete(metrics).where(
                    metrics.c.release_id == release_id, metrics.c.name.startswith(family)
                )
            )
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


def measured_value(database: Database, release_id: int, name: str) -> float | None:
    """One number of a release; None if it was not measured, or if the login may not know."""
    metrics = table(database, "metric")
    named = private_name(database, "metric").as_string(None)
    with database.begin() as connection:
        if not connection.scalar(sa.select(sa.func.has_table_privilege(named, "SELECT"))):
            return None
        value: float | None = connection.execute(
            sa.select(metrics.c.value).where(
                metrics.c.release_id == release_id, metrics.c.name == name
            )
        ).scalar()
    return value
