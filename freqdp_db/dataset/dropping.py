"""Forget a dataset: the record stays, its builds go unless a release needs them."""

from __future__ import annotations

import sqlalchemy as sa

from freqdp_db.storage.builds import sweep_builds
from freqdp_db.storage.datasets import DatasetRow, table
from freqdp_db.storage.engine import Database
from freqdp_db.storage.locks import hold


def drop_dataset(database: Database, dataset: DatasetRow) -> list[int]:
    """Mark it dropped and sweep; returns the builds that were removed."""
    rows = table(database, "dataset")
    with (
        hold(database, "dataset", dataset.dataset_id, f"dataset {dataset.name!r}"),
        database.begin() as connection,
    ):
        connection.execute(
            sa.update(rows)
            .where(rows.c.dataset_id == dataset.dataset_id)
            .values(dropped_at=sa.func.now())
        )
    return sweep_builds(database)
