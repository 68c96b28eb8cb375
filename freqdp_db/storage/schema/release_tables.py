"""The tables of releases, of what they draw and do, of the ledger and the catalogue: see `tables`."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from freqdp_db.storage.schema.column_kinds import AT, DOUBLE, column


def release_tables(meta: sa.MetaData, own: str, released: str) -> None:
    """`own`: the private schema; `released`: that of the releases."""

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
        column("name", sa.Text),
        sa.Column(
            "dataset_id", sa.Integer, sa.ForeignKey(f"{own}.dataset.dataset_id"), nullable=False
        ),
        sa.Column("build_id", sa.Integer, sa.ForeignKey(f"{own}.build.build_id"), nullable=False),
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
        sa.Column("spend_id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
        sa.Column(
            "account_id", sa.Integer, sa.ForeignKey(f"{own}.account.account_id"), nullable=False
        ),
        column("entry", sa.Integer),
        column("kind", sa.Text),
        column("amount", sa.Numeric()),
        sa.Column("release_id", sa.Integer, sa.ForeignKey(f"{own}.release.release_id")),
        column("reason", sa.Text),
        column("actor", sa.Text),
        column("at", AT),
        column("previous_hash", sa.Text),
        column("hash", sa.Text),
        sa.UniqueConstraint("account_id", "entry"),
        sa.UniqueConstraint("release_id"),
    )
    sa.Table(
        "metric",
        meta,
        of_release(),
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
        schema=released,
    )
