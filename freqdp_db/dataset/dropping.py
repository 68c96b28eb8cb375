"""Forget a dataset: the record stays, its builds go unless a release needs them."""

from __future__ import annotations

import shlex

from freqdp_db.errors import BadInput
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.connection.locks import hold
from freqdp_db.storage.records.builds import sweep_builds
from freqdp_db.storage.records.datasets import DatasetRow, mark_dropped
from freqdp_db.storage.records.schedules import list_schedules


def drop_dataset(database: Database, dataset: DatasetRow) -> list[int]:
    """Mark it dropped and sweep; returns the builds that were removed."""
    with hold(database, "dataset", dataset.dataset_id, f"dataset {dataset.name!r}"):
        _require_unscheduled(database, dataset)
        mark_dropped(database, dataset.dataset_id)
    return sweep_builds(database)


def _require_unscheduled(database: Database, dataset: DatasetRow) -> None:
    for row in list_schedules(database):
        if row.dataset_id == dataset.dataset_id and row.ended_at is None:
            raise BadInput(
                f"dataset {dataset.name!r} has a schedule ({row.cron}, {row.timezone}), which would "
                "find nothing to release",
                remedy=f"end it first: freqdp schedule drop {shlex.quote(dataset.name)}",
            )
