"""Tables of samples for `freqdp load`: which columns they have, and the rows of a made-up city."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from freqdp_db.loading.city import City
from freqdp_db.loading.rows import SourceSamples
from freqdp_db.progress import Progress
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.source.plain_tables import Chunk, Column, Kind, PlainTable, load_table


def make_city(
    database: Database,
    relation: tuple[str, str],
    objects: int,
    days: int,
    seed: int,
    progress: Progress,
) -> None:
    """A table like that of `load demo`, for a benchmark."""
    city = City(objects, days, np.random.default_rng(seed))
    with (
        database.begin() as connection,
        progress.stage("make and load", objects, "objects") as stage,
    ):
        load_table(
            connection,
            database.settings,
            city_table(relation, objects, days, seed),
            "create",
            city_rows(city, {}, stage.advance),
        )


def city_table(relation: tuple[str, str], objects: int, days: int, seed: int) -> PlainTable:
    return samples_table(
        relation,
        "text",
        f"Made-up trajectories of {objects:,} objects over {days} days (freqdp load demo, "
        f"seed {seed}). Nobody's data.",
        Column("speed_kmh", "float8", "Speed as the device reports it."),
    )


def city_rows(city: City, dirt: dict[str, int], advance: Callable[[int], None]) -> Iterator[Chunk]:
    """The samples; counts what was soiled on purpose."""
    for chunk in city.chunks():
        for reason, count in chunk.dirt.items():
            dirt[reason] = dirt.get(reason, 0) + count
        yield sample_columns(chunk.samples, "object_id")
        advance(chunk.objects)


def samples_table(
    relation: tuple[str, str],
    kind: Kind,
    comment: str,
    *more: Column,
    key: str = "object_id",
    srid: int = 4326,
) -> PlainTable:

    columns = (
        Column(key, kind, "Who or what moved."),
        Column("at", "timestamptz", "When it was there."),
        Column("geom", "point", f"Where it was, as reported (SRID {srid})."),
        *more,
    )
    return PlainTable(relation, columns, comment, srid)


def sample_columns(samples: SourceSamples, key: str) -> Chunk:

    point = np.column_stack([samples.x, samples.y])
    return {key: samples.object_id, "at": samples.at_us, "geom": point, **samples.extra}
