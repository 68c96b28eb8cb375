"""Columns of the source that samples carry along."""

from __future__ import annotations

from freqdp_db.db.schema import run_revision

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_revision(
        """
ALTER TABLE ${private}.dataset ADD COLUMN keep_columns text[];
COMMENT ON COLUMN ${private}.dataset.keep_columns IS 'Columns of the source that the next build carries along: coarse, and public as their owner declared. NULL: none.';

ALTER TABLE ${private}.build ADD COLUMN kept jsonb CHECK (jsonb_typeof(kept) = 'object');
COMMENT ON COLUMN ${private}.build.kept IS 'What samples carry along: name and type of each column, the values that each code stands for (0: NULL in all), and how many combinations of values were left out because too few objects have them. NULL: nothing.';

ALTER TABLE ${private}.sample ADD COLUMN kept smallint;
COMMENT ON COLUMN ${private}.sample.kept IS 'The code of the values that the sample carries along: see build.kept. NULL: the build has none.';
"""
    )


def downgrade() -> None:
    raise RuntimeError("freqdp does not downgrade: restore a backup")
