"""The tables that statements are made for by SQLAlchemy, and those of a build, which hold the data.

The migrations create all tables; `alembic check` compares these with them. The others are only written and
read by SQL of our own, and are declared nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from freqdp_db.db.connection import Connection, Session
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


# Kinds of columns that our tables are made of.


def column(name: str, kind: Any, *, null: bool = False, **more: Any) -> sa.Column[object]:
    return sa.Column(name, kind, nullable=null, **more)


def columns(kind: Any, *names: str, null: bool = False) -> list[sa.Column[object]]:
    return [column(name, kind, null=null) for name in names]


def key(name: str, kind: Any = sa.Integer, refers_to: str | None = None) -> sa.Column[object]:
    """A column of the primary key. refers_to: `schema.table.column`."""
    reference = [] if refers_to is None else [sa.ForeignKey(refers_to)]
    return sa.Column(name, kind, *reference, primary_key=True, autoincrement=False)


def identity(name: str) -> sa.Column[object]:
    """A primary key that the server numbers."""
    return sa.Column(name, sa.Integer, sa.Identity(always=True), primary_key=True)


def references(name: str, refers_to: str, *, null: bool = False) -> sa.Column[object]:
    """A whole number that is in another column: `schema.table.column`."""
    return sa.Column(name, sa.Integer, sa.ForeignKey(refers_to), nullable=null)


DOUBLE: sa.Double[float] = sa.Double()
AT = sa.DateTime(timezone=True)


@lru_cache
def metadata_for(names: Names, *, data: bool = False) -> sa.MetaData:
    """The tables, in the schemas of this installation; `data`: with those that hold the data of builds."""
    meta = sa.MetaData(schema=names.schema)
    _dataset_tables(meta, names.schema)
    if data:
        _data_tables(meta)
    _release_tables(meta, names.schema, names.release_schema)
    return meta


_OF_RELEASES = ("catalog", "series")
"""What lies in the schema of releases."""


def table(connection: Connection, name: str) -> sa.Table:
    """A table of this installation."""
    names = Names.of(connection.settings)
    schema = names.release_schema if name in _OF_RELEASES else names.schema
    return metadata_for(names).tables[f"{schema}.{name}"]


def insert_rows(connection: Connection, name: str, *rows: dict[str, Any]) -> None:
    """Add rows, each by the names of its columns."""
    if rows:
        connection.core.execute(sa.insert(table(connection, name)), list(rows))


def update_rows(session: Session, name: str, where: dict[str, Any], **values: Any) -> None:
    """Set columns of the rows that have these values."""
    with session.transaction() as connection:
        changed = table(connection, name)
        conditions = [changed.c[column] == value for column, value in where.items()]
        connection.core.execute(sa.update(changed).where(*conditions).values(**values))


def _dataset_tables(meta: sa.MetaData, own: str) -> None:
    """`own`: the private schema."""
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
        "account",
        meta,
        identity("account_id"),
        references("population_id", f"{own}.population.population_id"),
        *columns(sa.Text, "source_schema", "source_relation", "object_column", "unit"),
        column("created_at", AT, server_default=sa.func.now()),
        sa.UniqueConstraint("population_id", "unit", name="account_population_unit_key"),
    )
    sa.Table(
        "dataset",
        meta,
        identity("dataset_id"),
        column("name", sa.Text),
        references("account_id", f"{own}.account.account_id"),
        *columns(sa.Text, "source_schema", "source_relation", "object_column", "time_column"),
        *columns(sa.Text, "geom_column", "lon_column", "lat_column", null=True),
        column("source_srid", sa.Integer),
        column("srid", sa.Integer, null=True),
        *columns(sa.Text, "snap", "timezone"),
        *columns(sa.Text, "filter", "time_unit", "region", "period", null=True),
        column("max_exposure", DOUBLE, null=True),
        column("keep_columns", pg.ARRAY(sa.Text), null=True),
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
            "dataset_name_key", "name", unique=True, postgresql_where=sa.text("dropped_at IS NULL")
        ),
    )
    sa.Table(
        "build",
        meta,
        key("build_id"),
        references("dataset_id", f"{own}.dataset.dataset_id"),
        column("snapshot_at", AT),
        column("built_at", AT, server_default=sa.func.now()),
        *columns(sa.BigInteger, "rows", "samples", "segments", "time_step_us", "median_gap_us"),
        *columns(sa.Integer, "trajectories", "locations", "source_srid", "srid"),
        *columns(pg.JSONB, "excluded", "grid"),
        column("kept", pg.JSONB(none_as_null=True), null=True),
        *columns(sa.Text, "snap", "fingerprint", "software"),
        *columns(sa.Text, "time_unit", "time_window", null=True),
        *columns(AT, "dropped_at", "window_begin", "window_end", null=True),
    )
    sa.Table(
        "build_source",
        meta,
        key("build_id", refers_to=f"{own}.build.build_id"),
        key("database_key", sa.Text),
        key("relation_oid", sa.BigInteger),
        *columns(sa.Text, "source_schema", "source_relation"),
    )


def _data_tables(meta: sa.MetaData) -> None:
    # no statement is made for these tables: commands do not wait until it is imported
    from geoalchemy2 import Geometry

    def partitioned(name: str, *items: sa.Column[object] | sa.Index) -> None:
        sa.Table(name, meta, *items, postgresql_partition_by="LIST (build_id)")

    def geometry() -> sa.Column[object]:
        return column("geom", Geometry(geometry_type=None, spatial_index=False))

    partitioned(
        "trajectory",
        key("build_id"),
        key("trajectory_id"),
        column("object_key", sa.Text),
        *columns(sa.Integer, "samples", "places"),
    )
    partitioned(
        "location",
        key("build_id"),
        key("location_id"),
        *columns(DOUBLE, "x_m", "y_m"),
        column("tf", sa.Integer),
        geometry(),
    )
    partitioned(
        "sample",
        key("build_id"),
        key("trajectory_id"),
        key("seq"),
        column("location_id", sa.Integer),
        column("at", AT),
        column("kept", sa.SmallInteger, null=True),
    )
    partitioned(
        "segment",
        *columns(sa.Integer, "build_id", "trajectory_id", "seq"),
        column("cell_id", sa.BigInteger),
        *columns(sa.Integer, "from_location", "to_location", "occurrences"),
        geometry(),
        sa.Index("segment_cell_idx", "build_id", "cell_id"),
    )
    partitioned(
        "grid_cell",
        key("build_id"),
        key("cell_id", sa.BigInteger),
        column("level", sa.SmallInteger),
        column("parent_id", sa.BigInteger, null=True),
        *columns(DOUBLE, "x_min", "y_min", "x_max", "y_max"),
        *columns(DOUBLE, "tree_x_min", "tree_y_min", "tree_x_max", "tree_y_max"),
        *columns(sa.Integer, "segments", "tree_segments"),
    )


def _release_tables(meta: sa.MetaData, own: str, released: str) -> None:
    """`released`: the schema of the releases."""
    sa.Table(
        "release",
        meta,
        identity("release_id"),
        column("name", sa.Text),
        references("dataset_id", f"{own}.dataset.dataset_id"),
        references("build_id", f"{own}.build.build_id"),
        *columns(sa.Text, "method", "kind", "request_hash", "state", "software"),
        *columns(pg.JSONB, "parameters", "guarantee"),
        column("grantable", sa.Boolean),
        column("held", sa.Boolean, server_default=sa.false()),
        column("requested_at", AT, server_default=sa.func.clock_timestamp()),
        column("requested_by", sa.Text, server_default=sa.text("session_user")),
        column("version", sa.Integer, null=True),
        column("rows", sa.BigInteger, null=True),
        *columns(AT, "published_at", "withdrawn_at", "approved_at", null=True),
        *columns(sa.Text, "approved_by", "series", null=True),
        *columns(pg.JSONB, "user_level", "timings", "digests", null=True),
        column("relations", pg.ARRAY(sa.Text), null=True),
        sa.Index(
            "release_name_key",
            "name",
            unique=True,
            postgresql_where=sa.text("state IN ('running', 'published')"),
        ),
        sa.Index("release_request_idx", "request_hash"),
    )
    sa.Table(
        "catalog",
        meta,
        key("name", sa.Text),
        # in the order in which the catalogue is printed
        *columns(sa.Text, "dataset", "method", "kind"),
        column("parameters", pg.JSONB),
        column("published_at", AT),
        column("version", sa.Integer),
        column("guarantee", pg.JSONB),
        column("granted", sa.Boolean),
        column("rows", sa.BigInteger),
        column("ledger_head", sa.Text),
        column("relations", pg.ARRAY(sa.Text)),
        *columns(sa.Text, "time_window", "series", null=True),
        schema=released,
    )
    sa.Table(
        "series",
        meta,
        key("name", sa.Text),
        *columns(sa.Text, "dataset", "every", "timezone", "method", "kind"),
        column("relations", pg.ARRAY(sa.Text)),
        column("created_at", AT, server_default=sa.func.now()),
        schema=released,
    )
