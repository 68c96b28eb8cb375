"""What there is, by name: for shells that complete a command line."""

from __future__ import annotations

from freqdp_db.interface.connecting import Connection, reached
from freqdp_db.storage.published.reading import read_catalog
from freqdp_db.storage.records.datasets import list_datasets
from freqdp_db.storage.records.releases import list_releases
from freqdp_db.storage.schema.upgrade import reads_private


def dataset_names(connection: Connection = None) -> list[str]:
    """Names of all datasets; none for analysts, who use no command that takes one."""
    with reached(connection) as database:
        if not reads_private(database):
            return []
        return [row.name for row in list_datasets(database)]


def release_names(connection: Connection = None, *states: str) -> list[str]:
    """Names of releases in one of these states, `held` among them; of the catalogue for analysts."""
    with reached(connection) as database:
        if not reads_private(database):
            return [row["name"] for row in read_catalog(database)] if "published" in states else []
        return [
            row.name
            for row in list_releases(database)
            if row.state in states or ("held" in states and row.held and row.state == "published")
        ]
