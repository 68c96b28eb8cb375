"""A throwaway installation for benchmarks: the product itself, in schemas of its own.

They are dropped at the end. Nothing is published, no budget of anybody's is touched, and the source
of a dataset is read only.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from freqdp_db.dataset.building import build
from freqdp_db.dataset.registration import DEFAULT_SNAP, Registration, register
from freqdp_db.errors import BadInput
from freqdp_db.progress import Progress
from freqdp_db.storage.bench import floor
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.connection.names import format_relation
from freqdp_db.storage.records.datasets import DatasetRow, find_dataset
from freqdp_db.storage.schema import upgrade as schema
from freqdp_db.storage.source.relations import Mapping

Fill = Callable[[Database, tuple[str, str], int], None]
"""fill(database, relation, objects): make a table of so many objects up."""
CITY = Mapping("object_id", "at", "geom", lon=None, lat=None, timezone="UTC", filter=None)


@dataclass(frozen=True)
class Workbench:
    """An empty installation, and where its data comes from."""

    database: Database
    dataset: DatasetRow | None
    """None: `make` makes a table up."""
    make: Fill

    def register(self, objects: int, seed: int) -> DatasetRow:
        """A dataset of so many objects: a random part of the dataset, or a made-up city."""
        name = f"size_{objects}"
        relation = (source_schema(self.database), name)
        if self.dataset is None:
            mapping, srid, snap = CITY, None, DEFAULT_SNAP
            self.make(self.database, relation, objects)
        else:
            mapping, srid, snap = self.dataset.mapping, self.dataset.srid, self.dataset.snap
            source = (self.dataset.source_schema, self.dataset.source_relation)
            floor.copy_objects(self.database, source, mapping.object, relation, objects, seed)
        x = y = None
        if self.dataset is not None and mapping.geom is None and self.dataset.source_srid != 4326:
            x, y, srid = mapping.lon, mapping.lat, self.dataset.source_srid
        register(
            self.database,
            Registration(
                name=name,
                source=format_relation(*relation),
                object=mapping.object,
                time=mapping.time,
                geom=mapping.geom,
                lon=None if x else mapping.lon,
                lat=None if y else mapping.lat,
                x=x,
                y=y,
                snap=snap,
                srid=srid,
                timezone=mapping.timezone,
                filter=mapping.filter,
                budget="1000",
            ),
        )
        return find_dataset(self.database, name)


def source_schema(database: Database) -> str:
    return f"{database.settings.schema}_source"


@contextmanager
def workbench(database: Database, dataset: DatasetRow | None, make: Fill) -> Iterator[Workbench]:
    """Create the schemas, and drop them in the end."""
    settings = replace(
        database.settings,
        schema=f"freqdp_bench_{os.getpid()}",
        release_schema=f"freqdp_bench_{os.getpid()}_release",
    )
    bench = Database(database.conninfo, settings, "bench")
    try:
        schema.upgrade(bench, create_roles=False)
        yield Workbench(bench, dataset, make)
    finally:
        floor.drop_schemas(bench, source_schema(bench))
        bench.close()


@contextmanager
def some_build(
    database: Database, dataset: DatasetRow | None, make: Fill, objects: int, progress: Progress
) -> Iterator[tuple[Database, int]]:
    """A build to read: the dataset's, or one of a made-up city; and the database it is in."""
    if dataset is not None:
        yield database, dataset.require_build()
        return
    with workbench(database, None, make) as bench:
        yield bench.database, build(bench.database, bench.register(objects, 0), progress).build_id


def parse_sizes(text: str) -> list[int]:
    """`1000,2000,5000`: numbers of objects, in ascending order."""
    try:
        sizes = sorted({int(part) for part in text.split(",")})
    except ValueError:
        sizes = []
    if not sizes or sizes[0] < 1:
        raise BadInput(
            f"[[sizes]] {text!r} is not a list of numbers from 1 on",
            remedy="write [[sizes]] 1000,2000",
        )
    return sizes
