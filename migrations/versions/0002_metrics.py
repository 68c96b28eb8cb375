"""Metrics: when and how each was taken, and whether it may be published; methods without noise."""

from __future__ import annotations

from freqdp_db.storage.schema.revisions import run_revision

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_revision(
        """
ALTER TABLE ${private}.metric
    ADD COLUMN publishable boolean NOT NULL DEFAULT false,
    ADD COLUMN seed bigint,
    ADD COLUMN measured_at timestamptz NOT NULL DEFAULT now();
COMMENT ON TABLE ${private}.metric IS 'What freqdp evaluate measured of a release. Most of it is counted in the original data: for the curator only.';
COMMENT ON COLUMN ${private}.metric.publishable IS 'Counted in the released table alone: whoever has it can count the same.';
COMMENT ON COLUMN ${release}.catalog.private IS 'False: no noise was drawn, or it was seeded and can be subtracted. For comparisons and tests only.';
COMMENT ON COLUMN ${private}.metric.seed IS 'What picked the samples, queries and resamples.';
"""
    )


def downgrade() -> None:
    raise RuntimeError("freqdp does not downgrade: restore a backup")
