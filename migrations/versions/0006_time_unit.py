"""What epoch numbers count is declared, and a build records how it read its times."""

from __future__ import annotations

from freqdp_db.storage.schema.revisions import run_revision

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_revision(
        """
ALTER TABLE ${private}.dataset
    ADD COLUMN time_unit text CHECK (time_unit IN ('s', 'ms', 'us', 'ns'));
COMMENT ON COLUMN ${private}.dataset.time_unit IS 'What epoch numbers count, as the owner declared. NULL: their times are timestamps, or the unit is guessed from all rows.';

ALTER TABLE ${private}.build
    ADD COLUMN time_unit text CHECK (time_unit IN ('timestamp', 's', 'ms', 'us', 'ns', 'guessed'));
COMMENT ON COLUMN ${private}.build.time_unit IS 'How times were read: timestamp, the declared unit of epoch numbers, or guessed from all rows. NULL: made by an earlier version, which did not keep rows apart as a guarantee for persons needs it.';
"""
    )


def downgrade() -> None:
    raise RuntimeError("freqdp does not downgrade: restore a backup")
