"""A release is a list of relations, and remembers what of them was verified."""

from __future__ import annotations

from freqdp_db.storage.schema.revisions import run_revision

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_revision(
        """
ALTER TABLE ${private}.release ADD COLUMN relations text[];
COMMENT ON COLUMN ${private}.release.relations IS 'Its tables and views, once they are published: what follows the release''s name in theirs.';
ALTER TABLE ${private}.release ADD COLUMN digests jsonb;
COMMENT ON COLUMN ${private}.release.digests IS 'What was verified last: the number of rows and a digest of each table, and a digest of the replayed state that it was compared with.';
UPDATE ${private}.release AS r SET relations = ARRAY(
    SELECT part FROM unnest(ARRAY['', '_line', '_trip']) AS part
    WHERE part <> '_trip' OR to_regclass(format('%I.%I', ${release:name}, r.name || '_trip')) IS NOT NULL
)
WHERE r.state IN ('published', 'withdrawing');

ALTER TABLE ${release}.catalog ADD COLUMN relations text[];
COMMENT ON COLUMN ${release}.catalog.relations IS 'The tables and views of the release, in this schema.';
UPDATE ${release}.catalog AS c SET relations = (
    SELECT array_agg(r.name || part.suffix ORDER BY part.place)
    FROM ${private}.release AS r, unnest(r.relations) WITH ORDINALITY AS part (suffix, place)
    WHERE r.name = c.name AND r.state = 'published'
);
UPDATE ${release}.catalog SET relations = ARRAY[name, name || '_line'] WHERE relations IS NULL;
ALTER TABLE ${release}.catalog ALTER COLUMN relations SET NOT NULL;
"""
    )


def downgrade() -> None:
    raise RuntimeError("freqdp does not downgrade: restore a backup")
