"""The tables, as SQLAlchemy Core sees them. The migrations create them; `alembic check` compares."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from geoalchemy2 import Geometry
from sqlalchemy.dialects import postgresql as pg

from freqdp_db.settings import Settings


@dataclass(frozen=True)
class Names:
    """The schemas of an installation."""

    schema: str
    release_schema: str
    postgis: str = "public"

    @classmethod
    def of(cls, settings: Settings, postgis: str = "public") -> Names:
        return cls(settings.schema, settings.release_schema, postgis)


def _column(name: str, kind: Any, *, null: bool = False, **more: Any) -> sa.Column[object]:
    return sa.Column(name, kind, nullable=null, **more)


def _geometry() -> Geometry:
    return Geometry(geometry_type=None, spatial_index=False)


_DOUBLE: sa.Double[float] = sa.Double()
_AT = sa.DateTime(timezone=True)
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
        _column("path", sa.Text, unique=True),
        _column("identity", sa.Text),
        _column("kind", sa.Text),
        _column("hash", sa.Text),
    )
    sa.Table(
        "account",
        meta,
        sa.Column("account_id", sa.Integer, sa.Identity(always=True), primary_key=True),
        _column("source_schema", sa.Text),
        _column("source_relation", sa.Text),
        _column("object_column", sa.Text),
        _column("created_at", _AT, server_default=sa.func.now()),
        sa.UniqueConstraint("source_schema", "source_relation", "object_column"),
    )
    sa.Table(
        "dataset",
        meta,
        sa.Column("dataset_id", sa.Integer, sa.Identity(always=True), primary_key=True),
        _column("name", sa.Text),
        sa.Column("account_id", sa.Integer, references("account.account_id"), nullable=False),
        _column("source_schema", sa.Text),
        _column("source_relation", sa.Text),
        _column("object_column", sa.Text),
        _column("time_column", sa.Text),
        _column("geom_column", sa.Text, null=True),
        _column("lon_column", sa.Text, null=True),
        _column("lat_column", sa.Text, null=True),
        _column("source_srid", sa.Integer),
        _column("srid", sa.Integer, null=True),
        _column("snap", sa.Text),
        _column("timezone", sa.Text),
        _column("filter", sa.Text, null=True),
        sa.Column(
            "current_build",
            sa.Integer,
            # use_alter: dataset and build refer to each other
            sa.ForeignKey(
                f"{own}.build.build_id", name="dataset_current_build_fkey", use_alter=True
            ),
        ),
        _column("created_at", _AT, server_default=sa.func.now()),
        _column("created_by", sa.Text, server_default=sa.text("current_user")),
        _column("dropped_at", _AT, null=True),
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
        _column("snapshot_at", _AT),
        _column("built_at", _AT, server_default=sa.func.now()),
        _column("rows", sa.BigInteger),
        _column("excluded", pg.JSONB),
        _column("trajectories", sa.Integer),
        _column("samples", sa.BigInteger),
        _column("locations", sa.Integer),
        _column("segments", sa.BigInteger),
        _column("source_srid", sa.Integer),
        _column("srid", sa.Integer),
        _column("snap", sa.Text),
        _column("time_step_us", sa.BigInteger),
        _column("median_gap_us", sa.BigInteger),
        _column("grid", pg.JSONB),
        _column("fingerprint", sa.Text),
        _column("software", sa.Text),
        _column("dropped_at", _AT, null=True),
    )
    _data_tables(meta)
    _release_tables(meta, names)
    _job_tables(meta, names)
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
        _column("object_key", sa.Text),
        _column("samples", sa.Integer),
        _column("places", sa.Integer),
        **_PARTITIONED,
    )
    sa.Table(
        "location",
        meta,
        *_build_key("location_id"),
        _column("x_m", _DOUBLE),
        _column("y_m", _DOUBLE),
        _column("tf", sa.Integer),
        _column("geom", _geometry()),
        **_PARTITIONED,
    )
    sa.Table(
        "sample",
        meta,
        *_build_key("trajectory_id", "seq"),
        _column("location_id", sa.Integer),
        _column("at", _AT),
        **_PARTITIONED,
    )
    sa.Table(
        "segment",
        meta,
        _column("build_id", sa.Integer),
        _column("trajectory_id", sa.Integer),
        _column("seq", sa.Integer),
        _column("cell_id", sa.BigInteger),
        _column("from_location", sa.Integer),
        _column("to_location", sa.Integer),
        _column("occurrences", sa.Integer),
        _column("geom", _geometry()),
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
        _column("level", sa.SmallInteger),
        _column("parent_id", sa.BigInteger, null=True),
        *(_column(name, _DOUBLE) for name in bounds),
        _column("segments", sa.Integer),
        _column("tree_segments", sa.Integer),
        **_PARTITIONED,
    )


def _release_tables(meta: sa.MetaData, names: Names) -> None:
    own = names.schema

    def of_release() -> sa.Column[object]:
        return sa.Column(
            "release_id",
            sa.Integer,
            sa.ForeignKey(f"{own}.release.release_id"),
            primary_key=True,
            autoincrement=False,
        )

    def key(name: str, kind: type = sa.Integer) -> sa.Column[object]:
        return sa.Column(name, kind, primary_key=True, autoincrement=False)

    sa.Table(
        "release",
        meta,
        sa.Column("release_id", sa.Integer, sa.Identity(always=True), primary_key=True),
        _column("name", sa.Text),
        sa.Column(
            "dataset_id", sa.Integer, sa.ForeignKey(f"{own}.dataset.dataset_id"), nullable=False
        ),
        sa.Column("build_id", sa.Integer, sa.ForeignKey(f"{own}.build.build_id"), nullable=False),
        _column("method", sa.Text),
        _column("epsilon_global", sa.Numeric()),
        _column("epsilon_local", sa.Numeric()),
        _column("signature_size", sa.Integer),
        _column("options", pg.JSONB),
        _column("private", sa.Boolean),
        _column("request_hash", sa.Text),
        _column("state", sa.Text),
        _column("version", sa.Integer, null=True),
        _column("software", sa.Text),
        _column("requested_at", _AT, server_default=sa.func.clock_timestamp()),
        _column("requested_by", sa.Text, server_default=sa.text("current_user")),
        _column("published_at", _AT, null=True),
        _column("withdrawn_at", _AT, null=True),
        _column("rows", sa.BigInteger, null=True),
        _column("guarantee", pg.JSONB),
        _column("user_level", pg.JSONB, null=True),
        _column("timings", pg.JSONB, null=True),
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
        of_release(),
        key("step", sa.SmallInteger),
        _column("mechanism", sa.Text),
        _column("targets", sa.Integer),
        _column("software", sa.Text),
        _column("deletions", sa.BigInteger, null=True),
        _column("insertions", sa.BigInteger, null=True),
        _column("deletion_loss_m", _DOUBLE, null=True),
        _column("insertion_loss_m", _DOUBLE, null=True),
        _column("digest", sa.Text, null=True),
    )
    sa.Table(
        "release_key",
        meta,
        key("release_id"),
        key("trajectory_id"),
        _column("released_id", sa.BigInteger),
    )
    sa.Table(
        "tf_target",
        meta,
        key("release_id"),
        key("step", sa.SmallInteger),
        key("location_id"),
        _column("tf", sa.Integer),
        _column("target", sa.Integer),
    )
    sa.Table(
        "pf_target",
        meta,
        key("release_id"),
        key("step", sa.SmallInteger),
        key("trajectory_id"),
        key("location_id"),
        _column("stage", sa.SmallInteger),
        _column("rank", sa.SmallInteger),
        _column("pf", sa.Integer),
        _column("target", sa.Integer),
    )
    sa.Table(
        "edit_run",
        meta,
        key("release_id"),
        key("step", sa.SmallInteger),
        key("operation", sa.Text),
        key("trajectory_id"),
        key("location_id"),
        _column("seq", pg.ARRAY(sa.Integer)),
        _column("loss_m", pg.ARRAY(_DOUBLE)),
    )
    sa.Table(
        "spend",
        meta,
        sa.Column("spend_id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
        sa.Column(
            "account_id", sa.Integer, sa.ForeignKey(f"{own}.account.account_id"), nullable=False
        ),
        _column("entry", sa.Integer),
        _column("kind", sa.Text),
        _column("epsilon", sa.Numeric()),
        sa.Column("release_id", sa.Integer, sa.ForeignKey(f"{own}.release.release_id")),
        _column("reason", sa.Text),
        _column("actor", sa.Text),
        _column("at", _AT),
        _column("previous_hash", sa.Text),
        _column("hash", sa.Text),
        sa.UniqueConstraint("account_id", "entry"),
        sa.UniqueConstraint("release_id"),
    )
    sa.Table(
        "metric",
        meta,
        of_release(),
        key("name", sa.Text),
        _column("value", _DOUBLE),
        _column("publishable", sa.Boolean, server_default=sa.false()),
        _column("seed", sa.BigInteger, null=True),
        _column("measured_at", _AT, server_default=sa.func.now()),
    )
    sa.Table(
        "catalog",
        meta,
        key("name", sa.Text),
        _column("dataset", sa.Text),
        _column("method", sa.Text),
        _column("parameters", pg.JSONB),
        _column("published_at", _AT),
        _column("version", sa.Integer),
        _column("guarantee", pg.JSONB),
        _column("private", sa.Boolean),
        _column("rows", sa.BigInteger),
        _column("ledger_head", sa.Text),
        schema=names.release_schema,
    )


def _job_tables(meta: sa.MetaData, names: Names) -> None:
    own = names.schema

    def references(name: str, column: str, *, null: bool = False) -> sa.Column[object]:
        return sa.Column(
            name, sa.Integer, sa.ForeignKey(f"{own}.{column}"), nullable=null, autoincrement=False
        )

    sa.Table(
        "schedule",
        meta,
        sa.Column("schedule_id", sa.Integer, sa.Identity(always=True), primary_key=True),
        references("dataset_id", "dataset.dataset_id"),
        _column("request", pg.JSONB),
        _column("cron", sa.Text),
        _column("timezone", sa.Text),
        _column("next_at", _AT),
        _column("last_at", _AT, null=True),
        _column("created_at", _AT, server_default=sa.func.now()),
        _column("created_by", sa.Text, server_default=sa.text("session_user")),
        _column("ended_at", _AT, null=True),
        _column("ended_reason", sa.Text, null=True),
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
        sa.Column("job_id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
        references("dataset_id", "dataset.dataset_id"),
        references("schedule_id", "schedule.schedule_id", null=True),
        _column("request", pg.JSONB),
        _column("state", sa.Text, server_default="waiting"),
        _column("asked_at", _AT, server_default=sa.func.clock_timestamp()),
        _column("asked_by", sa.Text, server_default=sa.text("session_user")),
        _column("due_at", _AT, server_default=sa.func.clock_timestamp()),
        _column("attempts", sa.Integer, server_default="0"),
        _column("worker_id", sa.Integer, null=True),
        _column("lease_until", _AT, null=True),
        _column("cancel_asked_by", sa.Text, null=True),
        _column("started_at", _AT, null=True),
        _column("ended_at", _AT, null=True),
        references("build_id", "build.build_id", null=True),
        references("release_id", "release.release_id", null=True),
        _column("error", sa.Text, null=True),
        _column("note", sa.Text, null=True),
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
        sa.Column(
            "job_id",
            sa.BigInteger,
            sa.ForeignKey(f"{own}.job_queue.job_id"),
            primary_key=True,
            autoincrement=False,
        ),
        _column("phase", sa.Text),
        _column("done", sa.BigInteger),
        _column("total", sa.BigInteger, null=True),
        _column("unit", sa.Text),
        _column("phase_at", _AT),
        _column("updated_at", _AT),
    )
    sa.Table(
        "worker",
        meta,
        sa.Column("worker_id", sa.Integer, sa.Identity(always=True), primary_key=True),
        _column("host", sa.Text),
        _column("pid", sa.Integer),
        _column("software", sa.Text),
        _column("listening", sa.Boolean),
        _column("started_at", _AT, server_default=sa.func.clock_timestamp()),
        _column("seen_at", _AT, server_default=sa.func.clock_timestamp()),
        _column("stopped_at", _AT, null=True),
    )
