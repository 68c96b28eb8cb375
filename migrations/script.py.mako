"""${message}"""

from __future__ import annotations

from freqdp_db.storage.schema import run_revision

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_revision(
        """
        """
    )


def downgrade() -> None:
    raise RuntimeError("freqdp does not downgrade: restore a backup")
