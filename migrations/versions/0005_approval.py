"""Releases that are held until somebody approves them, and a limit on what they may expose."""

from __future__ import annotations

from freqdp_db.storage.schema.revisions import run_revision

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_revision(
        """
ALTER TABLE ${private}.dataset
    ADD COLUMN max_exposure float8 CHECK (max_exposure > 0 AND max_exposure <= 1);
COMMENT ON COLUMN ${private}.dataset.max_exposure IS 'The largest exposure, as measured by freqdp evaluate, with which a release of it is granted to analysts. NULL: any. A measured limit, not a guarantee.';

ALTER TABLE ${private}.release
    ADD COLUMN held boolean NOT NULL DEFAULT false,
    ADD COLUMN approved_at timestamptz,
    ADD COLUMN approved_by text;
COMMENT ON COLUMN ${private}.release.held IS 'Published for curators only, until freqdp release approve grants it to analysts.';
COMMENT ON COLUMN ${private}.release.approved_at IS 'When a release that was held was granted to analysts.';
COMMENT ON COLUMN ${private}.release.approved_by IS 'The login that approved it.';

COMMENT ON COLUMN ${release}.catalog.granted IS 'Whether analysts may read it. False: it is held until a curator approves it, the noise was seeded, or the method guarantees nothing. True says nothing about how much a table exposes: see guarantee.';
"""
    )


def downgrade() -> None:
    raise RuntimeError("freqdp does not downgrade: restore a backup")
