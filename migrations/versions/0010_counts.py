"""A kind of release that is counts, not trajectories."""

from __future__ import annotations

from freqdp_db.db.revisions import run_revision

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_revision(
        """
ALTER TABLE ${private}.release DROP CONSTRAINT release_kind_check;
ALTER TABLE ${private}.release ADD CONSTRAINT release_kind_check
    CHECK (kind IN ('edited', 'unlinked', 'generalised', 'synthetic', 'counts'));
"""
    )


def downgrade() -> None:
    raise RuntimeError("freqdp does not downgrade: restore a backup")
