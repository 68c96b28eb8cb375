"""What is loaded becomes a table of samples: its columns, its rows, and how it becomes a dataset."""

from __future__ import annotations

import re
import shlex

import numpy as np

from freqdp_db.loading.rows import SourceSamples
from freqdp_db.storage.connection.names import format_relation
from freqdp_db.storage.source.plain_tables import Chunk, Column, Kind, PlainTable


def samples_table(
    relation: tuple[str, str],
    kind: Kind,
    comment: str,
    *more: Column,
    key: str = "object_id",
    srid: int = 4326,
) -> PlainTable:
    """Samples with these columns besides who, when and where."""
    columns = (
        Column(key, kind, "Who or what moved."),
        Column("at", "timestamptz", "When it was there."),
        Column("geom", "point", f"Where it was, as reported (SRID {srid})."),
        *more,
    )
    return PlainTable(relation, columns, comment, srid)


def sample_columns(samples: SourceSamples, key: str) -> Chunk:
    """Rows of such a table; key: the column that says who."""
    point = np.column_stack([samples.x, samples.y])
    return {key: samples.object_id, "at": samples.at_us, "geom": point, **samples.extra}


def dataset_add(table: PlainTable) -> str:
    """The command that registers it."""
    key = table.columns[0].name
    name = re.sub(r"[^a-z0-9]+", "_", table.relation[1].lower()).strip("_") or "mine"
    relation = shlex.quote(format_relation(*table.relation))
    return f"freqdp dataset add {name} --from {relation} --object {key} --time at --geom geom"
