"""Releases as the catalogue shows them: for whoever may read the release schema and nothing else."""

from __future__ import annotations

from typing import Any

from freqdp_db.errors import NotFound
from freqdp_db.methods.contract import KINDS
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.connection.names import format_relation
from freqdp_db.storage.published.reading import read_catalog


def published(database: Database) -> list[dict[str, Any]]:
    """All rows of the catalogue, oldest first."""
    return read_catalog(database)


def find_published(database: Database, name: str) -> dict[str, Any]:
    for row in read_catalog(database):
        if row["name"] == name:
            return row
    raise NotFound(
        f"the catalogue has no release {name!r}",
        remedy="`freqdp release list` shows what there is",
    )


def describe_published(database: Database, row: dict[str, Any]) -> list[str]:
    """One release in words."""
    table = format_relation(database.settings.release_schema, row["name"])
    parameters = ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in row["parameters"].items())
    return [
        f"{table}, version {row['version']}: {row['rows']:,} rows of dataset {row['dataset']}, "
        f"published {row['published_at']:%Y-%m-%d %H:%M}.",
        f"Method {row['method']}" + (f": {parameters}." if parameters else "."),
        f"What it is: {KINDS[row['kind']]}",
        f"Guarantee: {row['guarantee']['plain']}",
    ]
