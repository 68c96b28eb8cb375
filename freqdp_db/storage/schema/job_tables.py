"""The tables of jobs, workers and schedules: see `tables`."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from freqdp_db.storage.schema.column_kinds import AT, column


def job_tables(meta: sa.MetaData, own: str) -> None:
    """`own`: the private schema."""

    def references(name: str, column: str, *, null: bool = False) -> sa.Column[object]:
        return sa.Column(
            name, sa.Integer, sa.ForeignKey(f"{own}.{column}"), nullable=null, autoincrement=False
        )

    sa.Table(
        "schedule",
        meta,
        sa.Column("schedule_id", sa.Integer, sa.Identity(always=True), primary_key=True),
        references("dataset_id", "dataset.dataset_id"),
        column("request", pg.JSONB),
        column("cron", sa.Text),
        column("timezone", sa.Text),
        column("next_at", AT),
        column("last_at", AT, null=True),
        column("created_at", AT, server_default=sa.func.now()),
        column("created_by", sa.Text, server_default=sa.text("session_user")),
        column("ended_at", AT, null=True),
        column("ended_reason", sa.Text, null=True),
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
        references("build_id", "build.build_id", null=True),
        references("release_id", "release.release_id", null=True),
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
        sa.Column(
            "job_id",
            sa.BigInteger,
            sa.ForeignKey(f"{own}.job_queue.job_id"),
            primary_key=True,
            autoincrement=False,
        ),
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
        sa.Column("worker_id", sa.Integer, sa.Identity(always=True), primary_key=True),
        column("host", sa.Text),
        column("pid", sa.Integer),
        column("software", sa.Text),
        column("listening", sa.Boolean),
        column("started_at", AT, server_default=sa.func.clock_timestamp()),
        column("seen_at", AT, server_default=sa.func.clock_timestamp()),
        column("stopped_at", AT, null=True),
    )
