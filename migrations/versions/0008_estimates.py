"""Geometries of builds keep no statistics: PostGIS tells them to everybody who may connect."""

from __future__ import annotations

from freqdp_db.storage.schema.revisions import run_revision

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # a change of a column's type, to the same type, forgets the statistics of its partitions
    run_revision(
        """
        ALTER TABLE ${private}.location ALTER COLUMN geom TYPE ${postgis}.geometry;
        ALTER TABLE ${private}.segment ALTER COLUMN geom TYPE ${postgis}.geometry;
        ALTER TABLE ${private}.location ALTER COLUMN geom SET STATISTICS 0;
        ALTER TABLE ${private}.segment ALTER COLUMN geom SET STATISTICS 0;
        """
    )
