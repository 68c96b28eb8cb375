"""Forget a dataset: the record stays, its builds go unless a release needs them."""

from __future__ import annotations

from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.connection.locks import hold
from freqdp_db.storage.records.builds import sweep_builds
from freqdp_db.storage.records.datasets import DatasetRow, mark_dropped


def drop_dataset(database: Database, dataset: DatasetRow) -> list[int]:
    """Mark it dropped and sweep; returns the builds that were removed."""
    with hold(database, "dataset", dataset.dataset_id, f"dataset {dataset.name!r}"):
        mark_dropped(database, dataset.dataset_id)
    return sweep_builds(database)
