"""The tables, as SQLAlchemy Core sees them. The migrations create them; `alembic check` compares."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from geoalchemy2 import Geometry
from sqlalchemy.dialects import postgresql as pg

from freqdp_db.settings import Settings

# Kinds of columns that our tables are made of.


def column(name: str, kind: Any, *, null: bool = False, **more: Any) -> sa.Column[object]:
    return sa.Column(name, kind, nullable=null, **more)


def key(name: str, kind: Any = sa.Integer, refers_to: str | None = None) -> sa.Column[object]:
    """A column of the primary key. refers_to: `schema.table.column`."""
    return sa.Column(name, kind, *_reference(refers_to), primary_key=True, autoincrement=False)


def identity(name: str, kind: Any = sa.Integer) -> sa.Column[object]:
    """A primary key that the server numbers."""
    return sa.Column(name, kind, sa.Identity(always=True), primary_key=True)


def references(name: str, refers_to: str, *, null: bool = False) -> sa.Column[object]:
    """A whole number that is in another column: `schema.table.column`."""
    return sa.Column(name, sa.Integer, *_reference(refers_to), nullable=null)


def _reference(column: str | None) -> list[sa.ForeignKey]:
    return [] if column is None else [sa.ForeignKey(column)]


def geometry() -> Geometry:
    return Geometry(geometry_type=None, spatial_index=False)


DOUBLE: sa.Double[float] = sa.Double()
AT = sa.DateTime(timezone=True)


# The tables of releases, of what they draw and do, of the ledger and the catalogue: see `tables`.


def release_tables(meta: sa.MetaData, own: str, released: str) -> None:
    """`own`: the private schema; `released`: that of the releases."""

    sa.Table(
        "release",
        meta,
        identity("release_id"),
        column("name", sa.Text),
        references("dataset_id", f"{own}.dataset.dataset_id"),
        references("build_id", f"{own}.build.build_id"),
        column("method", sa.Text),
        column("kind", sa.Text),
        column("parameters", pg.JSONB),
        column("grantable", sa.Boolean),
        column("request_hash", sa.Text),
        column("state", sa.Text),
        column("version", sa.Integer, null=True),
        column("software", sa.Text),
        column("requested_at", AT, server_default=sa.func.clock_timestamp()),
        column("requested_by", sa.Text, server_default=sa.text("session_user")),
        column("published_at", AT, null=True),
        column("withdrawn_at", AT, null=True),
        column("rows", sa.BigInteger, null=True),
        column("guarantee", pg.JSONB),
        column("user_level", pg.JSONB, null=True),
        column("timings", pg.JSONB, null=True),
        column("held", sa.Boolean, server_default=sa.false()),
        column("approved_at", AT, null=True),
        column("approved_by", sa.Text, null=True),
        column("relations", pg.ARRAY(sa.Text), null=True),
        column("digests", pg.JSONB, null=True),
        column("series", sa.Text, null=True),
        sa.Index(
            "release_name_key",
            "name",
            unique=True,
            postgresql_where=sa.text("state IN ('running', 'published')"),
        ),
        sa.Index("release_request_idx", "request_hash"),
    )
    sa.Table(
        "release_step",
        meta,
        key("release_id", refers_to=f"{own}.release.release_id"),
        key("step", sa.SmallInteger),
        column("mechanism", sa.Text),
        column("drawn", sa.Integer),
        column("software", sa.Text),
        column("counts", pg.JSONB, null=True),
        column("digest", sa.Text, null=True),
    )
    sa.Table(
        "step_column",
        meta,
        key("release_id"),
        key("step", sa.SmallInteger),
        key("part", sa.Text),
        key("name", sa.Text),
        key("chunk"),
        column("dtype", sa.Text),
        column("whole", pg.ARRAY(sa.BigInteger), null=True),
        column("number", pg.ARRAY(DOUBLE), null=True),
    )
    sa.Table(
        "release_key",
        meta,
        key("release_id"),
        key("trajectory_id"),
        column("released_id", sa.BigInteger),
    )
    sa.Table(
        "tf_target",
        meta,
        key("release_id"),
        key("step", sa.SmallInteger),
        key("location_id"),
        column("tf", sa.Integer),
        column("target", sa.Integer),
    )
    sa.Table(
        "pf_target",
        meta,
        key("release_id"),
        key("step", sa.SmallInteger),
        key("trajectory_id"),
        key("location_id"),
        column("stage", sa.SmallInteger),
        column("rank", sa.SmallInteger),
        column("pf", sa.Integer),
        column("target", sa.Integer),
    )
    sa.Table(
        "edit_run",
        meta,
        key("release_id"),
        key("step", sa.SmallInteger),
        key("operation", sa.Text),
        key("trajectory_id"),
        key("location_id"),
        column("seq", pg.ARRAY(sa.Integer)),
        column("loss_m", pg.ARRAY(DOUBLE)),
    )
    sa.Table(
        "spend",
        meta,
        identity("spend_id", sa.BigInteger),
        references("account_id", f"{own}.account.account_id"),
        column("entry", sa.Integer),
        column("kind", sa.Text),
        column("amount", sa.Numeric()),
        references("release_id", f"{own}.release.release_id", null=True),
        column("reason", sa.Text),
        column("actor", sa.Text),
        column("at", AT),
        column("previous_hash", sa.Text),
        column("hash", sa.Text),
        column("during", pg.TSTZRANGE, null=True),
        sa.UniqueConstraint("account_id", "entry"),
        sa.UniqueConstraint("release_id"),
    )
    sa.Table(
        "metric",
        meta,
        key("release_id", refers_to=f"{own}.release.release_id"),
        key("name", sa.Text),
        column("value", DOUBLE),
        column("publishable", sa.Boolean, server_default=sa.false()),
        column("seed", sa.BigInteger, null=True),
        column("measured_at", AT, server_default=sa.func.now()),
    )
    sa.Table(
        "catalog",
        meta,
        key("name", sa.Text),
        column("dataset", sa.Text),
        column("method", sa.Text),
        column("kind", sa.Text),
        column("parameters", pg.JSONB),
        column("published_at", AT),
        column("version", sa.Integer),
        column("guarantee", pg.JSONB),
        column("granted", sa.Boolean),
        column("rows", sa.BigInteger),
        column("ledger_head", sa.Text),
        column("relations", pg.ARRAY(sa.Text)),
        column("time_window", sa.Text, null=True),
        column("series", sa.Text, null=True),
        schema=released,
    )
    sa.Table(
        "series",
        meta,
        key("name", sa.Text),
        column("dataset", sa.Text),
        column("every", sa.Text),
        column("timezone", sa.Text),
        column("method", sa.Text),
        column("kind", sa.Text),
        column("relations", pg.ARRAY(sa.Text)),
        column("created_at", AT, server_default=sa.func.now()),
        schema=released,
    )


# The tables of jobs, workers and schedules: see `tables`.


def job_tables(meta: sa.MetaData, own: str) -> None:
    """`own`: the private schema."""

    sa.Table(
        "schedule",
        meta,
        identity("schedule_id"),
        references("dataset_id", f"{own}.dataset.dataset_id"),
        column("request", pg.JSONB),
        column("cron", sa.Text),
        column("timezone", sa.Text),
        column("next_at", AT),
        column("last_at", AT, null=True),
        column("created_at", AT, server_default=sa.func.now()),
        column("created_by", sa.Text, server_default=sa.text("session_user")),
        column("ended_at", AT, null=True),
        column("ended_reason", sa.Text, null=True),
        column("next_window", sa.Text, null=True),
        sa.Index(
            "schedule_dataset_key",
            "dataset_id",
            unique=True,
            postgresql_where=sa.text("ended_at IS NULL"),
        ),
    )
    sa.Table(
        "job_queue",
        meta,
        identity("job_id", sa.BigInteger),
        references("dataset_id", f"{own}.dataset.dataset_id"),
        references("schedule_id", f"{own}.schedule.schedule_id", null=True),
        column("request", pg.JSONB),
        column("state", sa.Text, server_default="waiting"),
        column("asked_at", AT, server_default=sa.func.clock_timestamp()),
        column("asked_by", sa.Text, server_default=sa.text("session_user")),
        column("due_at", AT, server_default=sa.func.clock_timestamp()),
        column("attempts", sa.Integer, server_default="0"),
        column("worker_id", sa.Integer, null=True),
        column("lease_until", AT, null=True),
        column("cancel_asked_by", sa.Text, null=True),
        column("started_at", AT, null=True),
        column("ended_at", AT, null=True),
        references("build_id", f"{own}.build.build_id", null=True),
        references("release_id", f"{own}.release.release_id", null=True),
        column("error", sa.Text, null=True),
        column("note", sa.Text, null=True),
        sa.Index(
            "job_queue_open_idx",
            "due_at",
            postgresql_where=sa.text("state IN ('waiting', 'running')"),
        ),
        sa.Index("job_queue_dataset_idx", "dataset_id"),
    )
    sa.Table(
        "job_progress",
        meta,
        key("job_id", sa.BigInteger, f"{own}.job_queue.job_id"),
        column("phase", sa.Text),
        column("done", sa.BigInteger),
        column("total", sa.BigInteger, null=True),
        column("unit", sa.Text),
        column("phase_at", AT),
        column("updated_at", AT),
    )
    sa.Table(
        "worker",
        meta,
        identity("worker_id"),
        column("host", sa.Text),
        column("pid", sa.Integer),
        column("software", sa.Text),
        column("listening", sa.Boolean),
        column("started_at", AT, server_default=sa.func.clock_timestamp()),
        column("seen_at", AT, server_default=sa.func.clock_timestamp()),
        column("stopped_at", AT, null=True),
    )


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

    sa.Table(
        "sql_object",
        meta,
        key("position"),
        column("path", sa.Text, unique=True),
        column("identity", sa.Text),
        column("kind", sa.Text),
        column("hash", sa.Text),
    )
    sa.Table(
        "method",
        meta,
        key("name", sa.Text),
        column("position", sa.Integer),
        column("declaration", pg.JSONB),
    )
    sa.Table(
        "population",
        meta,
        identity("population_id"),
        column("name", sa.Text, null=True, unique=True),
        column("created_at", AT, server_default=sa.func.now()),
        references("merged_into", f"{own}.population.population_id", null=True),
        column("unit", sa.Text, server_default="person"),
        column("timezone", sa.Text, server_default="UTC"),
    )
    sa.Table(
        "population_source",
        meta,
        key("population_id", refers_to=f"{own}.population.population_id"),
        key("database_key", sa.Text),
        key("relation_oid", sa.BigInteger),
        key("source_schema", sa.Text),
        key("source_relation", sa.Text),
        key("object_column", sa.Text),
        column("met_at", AT, server_default=sa.func.now()),
    )
    sa.Table(
        "account",
        meta,
        identity("account_id"),
        references("population_id", f"{own}.population.population_id"),
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
        identity("dataset_id"),
        column("name", sa.Text),
        references("account_id", f"{own}.account.account_id"),
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
        key("build_id"),
        references("dataset_id", f"{own}.dataset.dataset_id"),
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
        column("time_window", sa.Text, null=True),
        column("window_begin", AT, null=True),
        column("window_end", AT, null=True),
    )
    sa.Table(
        "build_source",
        meta,
        key("build_id", refers_to=f"{own}.build.build_id"),
        key("database_key", sa.Text),
        key("relation_oid", sa.BigInteger),
        column("source_schema", sa.Text),
        column("source_relation", sa.Text),
    )
    sa.Table(
        "lock",
        meta,
        key("kind", sa.Text),
        key("number"),
    )
    _data_tables(meta)
    release_tables(meta, names.schema, names.release_schema)
    job_tables(meta, names.schema)
    return meta


def _data_tables(meta: sa.MetaData) -> None:
    sa.Table(
        "trajectory",
        meta,
        key("build_id"),
        key("trajectory_id"),
        column("object_key", sa.Text),
        column("samples", sa.Integer),
        column("places", sa.Integer),
        **_PARTITIONED,
    )
    sa.Table(
        "location",
        meta,
        key("build_id"),
        key("location_id"),
        column("x_m", DOUBLE),
        column("y_m", DOUBLE),
        column("tf", sa.Integer),
        column("geom", geometry()),
        **_PARTITIONED,
    )
    sa.Table(
        "sample",
        meta,
        key("build_id"),
        key("trajectory_id"),
        key("seq"),
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
        key("build_id"),
        key("cell_id", sa.BigInteger),
        column("level", sa.SmallInteger),
        column("parent_id", sa.BigInteger, null=True),
        *(column(name, DOUBLE) for name in bounds),
        column("segments", sa.Integer),
        column("tree_segments", sa.Integer),
        **_PARTITIONED,
    )
