"""The tables, as SQLAlchemy Core sees them. The migrations create them; `alembic check` compares."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from freqdp_db.settings import Settings
from freqdp_db.storage.schema.column_kinds import AT, DOUBLE, column, geometry
from freqdp_db.storage.schema.job_tables import job_tables
from freqdp_db.storage.schema.release_tables import release_tables


@dataclass(frozen=True)
class Names:
    """The schemas of an installation."""

    schema: str
    release_schema: str
    postgis: str = "public"

    @classmethod
    def of(cls, settings: Settings, postgis: str = "public") -> Names:
        return cls(settings.schema, settings.release_schema, postgis)


_PARTITIONED: dict[str, Any] = {"postgresql_partition_by": "LIST (build_id)"}


@lru_cache
def metadata_for(names: Names) -> sa.MetaData:
    """All tables, in the schemas of this installation."""
    meta = sa.MetaData(schema=names.schema)
    own = names.schema

    def references(column: str) -> sa.ForeignKey:
        return sa.ForeignKey(f"{own}.{column}")

    sa.Table(
        "sql_object",
        meta,
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        column("path", sa.Text, unique=True),
        column("identity", sa.Text),
        column("kind", sa.Text),
        column("hash", sa.Text),
    )
    sa.Table(
        "method",
        meta,
        sa.Column("name", sa.Text, primary_key=True),
        column("position", sa.Integer),
        column("declaration", pg.JSONB),
    )
    sa.Table(
        "population",
        meta,
        sa.Column("population_id", sa.Integer, sa.Identity(always=True), primary_key=True),
        column("name", sa.Text, null=True, unique=True),
        column("created_at", AT, server_default=sa.func.now()),
        sa.Column("merged_into", sa.Integer, references("population.population_id")),
    )
    sa.Table(
        "population_source",
        meta,
        sa.Column(
            "population_id", sa.Integer, references("population.population_id"), primary_key=True
        ),
        sa.Column("database_key", sa.Text, primary_key=True),
        sa.Column("relation_oid", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("source_schema", sa.Text, primary_key=True),
        sa.Column("source_relation", sa.Text, primary_key=True),
        sa.Column("object_column", sa.Text, primary_key=True),
        column("met_at", AT, server_default=sa.func.now()),
    )
    sa.Table(
        "account",
        meta,
        sa.Column("account_id", sa.Integer, sa.Identity(always=True), primary_key=True),
        sa.Column(
            "population_id", sa.Integer, references("population.population_id"), nullable=False
        ),
        column("source_schema", sa.Text),
        column("source_relation", sa.Text),
        column("object_column", sa.Text),
        column("unit", sa.Text),
        column("created_at", AT, server_default=sa.func.now()),
        sa.UniqueConstraint("population_id", "unit", name="account_population_unit_key"),
    )
    sa.Table(
        "dataset",
        meta,
        sa.Column("dataset_id", sa.Integer, sa.Identity(always=True), primary_key=True),
        column("name", sa.Text),
        sa.Column("account_id", sa.Integer, references("account.account_id"), nullable=False),
        column("source_schema", sa.Text),
        column("source_relation", sa.Text),
        column("object_column", sa.Text),
        column("time_column", sa.Text),
        column("geom_column", sa.Text, null=True),
        column("lon_column", sa.Text, null=True),
        column("lat_column", sa.Text, null=True),
        column("source_srid", sa.Integer),
        column("srid", sa.Integer, null=True),
        column("snap", sa.Text),
        column("timezone", sa.Text),
        column("filter", sa.Text, null=True),
        column("time_unit", sa.Text, null=True),
        column("region", sa.Text, null=True),
        column("period", sa.Text, null=True),
        column("max_exposure", DOUBLE, null=True),
        sa.Column(
            "current_build",
            sa.Integer,
            # use_alter: dataset and build refer to each other
            sa.ForeignKey(
                f"{own}.build.build_id", name="dataset_current_build_fkey", use_alter=True
            ),
        ),
        column("created_at", AT, server_default=sa.func.now()),
        column("created_by", sa.Text, server_default=sa.text("current_user")),
        column("dropped_at", AT, null=True),
        sa.Index(
            "dataset_name_key",
            "name",
            unique=True,
            postgresql_where=sa.text("dropped_at IS NULL"),
        ),
    )
    sa.Table(
        "build",
        meta,
        sa.Column("build_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("dataset_id", sa.Integer, references("dataset.dataset_id"), nullable=False),
        column("snapshot_at", AT),
        column("built_at", AT, server_default=sa.func.now()),
        column("rows", sa.BigInteger),
        column("excluded", pg.JSONB),
        column("trajectories", sa.Integer),
        column("samples", sa.BigInteger),
        column("locations", sa.Integer),
        column("segments", sa.BigInteger),
        column("source_srid", sa.Integer),
        column("srid", sa.Integer),
        column("snap", sa.Text),
        column("time_unit", sa.Text, null=True),
        column("time_step_us", sa.BigInteger),
        column("median_gap_us", sa.BigInteger),
        column("grid", pg.JSONB),
        column("fingerprint", sa.Text),
        column("software", sa.Text),
        column("dropped_at", AT, null=True),
    )
    sa.Table(
        "build_source",
        meta,
        sa.Column("build_id", sa.Integer, references("build.build_id"), primary_key=True),
        sa.Column("database_key", sa.Text, primary_key=True),
        sa.Column("relation_oid", sa.BigInteger, primary_key=True, autoincrement=False),
        column("source_schema", sa.Text),
        column("source_relation", sa.Text),
    )
    sa.Table(
        "lock",
        meta,
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    )
    _data_tables(meta)
    release_tables(meta, names.schema, names.release_schema)
    job_tables(meta, names.schema)
    return meta


def _build_key(*others: str) -> list[sa.Column[object]]:
    return [
        sa.Column(name, sa.Integer, primary_key=True, autoincrement=False)
        for name in ("build_id", *others)
    ]


def _data_tables(meta: sa.MetaData) -> None:
    sa.Table(
        "trajectory",
        meta,
        *_build_key("trajectory_id"),
        column("object_key", sa.Text),
        column("samples", sa.Integer),
        column("places", sa.Integer),
        **_PARTITIONED,
    )
    sa.Table(
        "location",
        meta,
        *_build_key("location_id"),
        column("x_m", DOUBLE),
        column("y_m", DOUBLE),
        column("tf", sa.Integer),
        column("geom", geometry()),
        **_PARTITIONED,
    )
    sa.Table(
        "sample",
        meta,
        *_build_key("trajectory_id", "seq"),
        column("location_id", sa.Integer),
        column("at", AT),
        **_PARTITIONED,
    )
    sa.Table(
        "segment",
        meta,
        column("build_id", sa.Integer),
        column("trajectory_id", sa.Integer),
        column("seq", sa.Integer),
        column("cell_id", sa.BigInteger),
        column("from_location", sa.Integer),
        column("to_location", sa.Integer),
        column("occurrences", sa.Integer),
        column("geom", geometry()),
        sa.Index("segment_cell_idx", "build_id", "cell_id"),
        **_PARTITIONED,
    )
    bounds = [
        f"{tree}{axis}_{end}" for tree in ("", "tree_") for end in ("min", "max") for axis in "xy"
    ]
    sa.Table(
        "grid_cell",
        meta,
        *_build_key(),
        sa.Column("cell_id", sa.BigInteger, primary_key=True, autoincrement=False),
        column("level", sa.SmallInteger),
        column("parent_id", sa.BigInteger, null=True),
        *(column(name, DOUBLE) for name in bounds),
        column("segments", sa.Integer),
        column("tree_segments", sa.Integer),
        **_PARTITIONED,
    )
