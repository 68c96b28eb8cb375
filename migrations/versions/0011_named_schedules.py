"""Schedules have names, so that a dataset may have several; series of releases of all data."""

from __future__ import annotations

from freqdp_db.db.schema import run_revision

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_revision(
        """
ALTER TABLE ${private}.schedule ADD COLUMN name text;
UPDATE ${private}.schedule AS s SET name = d.name FROM ${private}.dataset AS d WHERE d.dataset_id = s.dataset_id;
ALTER TABLE ${private}.schedule ALTER COLUMN name SET NOT NULL;
DROP INDEX ${private}.schedule_dataset_key;
CREATE UNIQUE INDEX schedule_name_key ON ${private}.schedule (name) WHERE ended_at IS NULL;
COMMENT ON COLUMN ${private}.schedule.name IS 'Its name: that of its dataset, or one of its own, which its series has, too.';

COMMENT ON COLUMN ${private}.release.series IS 'The series that it belongs to: as a window of the table of that name, or, if it is of all data, as what NAME_current shows while it is the newest. NULL: none.';
COMMENT ON COLUMN ${release}.catalog.series IS 'The series that it belongs to: a window of the table of that name (see the table series), or a release of all data, which NAME_current shows while it is the newest. NULL: none.';
"""
    )


def downgrade() -> None:
    raise RuntimeError("freqdp does not downgrade: restore a backup")
