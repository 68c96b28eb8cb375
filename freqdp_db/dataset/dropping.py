"""Forget a dataset: the record stays, its builds go unless a release needs them."""

from __future__ import annotations

from freqdp_db.storage.builds import sweep_builds
from freqdp_db.storage.datasets import DatasetRow, mark_dropped
from freqdp_db.storage.engine import Database
from freqdp_db.storage.locks import hold


def drop_dataset(database: Database, dataset: DatasetRow) -> list[int]:
    """Mark it dropped and sweep; returns the builds that were removed."""
    with hold(database, "dataset", dataset.dataset_id, f"dataset {dataset.name!r}"):
        mark_dropped(database, dataset.dataset_id)
    return sweep_builds(database)
