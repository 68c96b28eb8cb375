"""Draws and logs as arrays that SQL can read, instead of bytes."""

from __future__ import annotations

from freqdp_db.storage.schema.revisions import run_revision

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # `bits`: each value as a whole number, from its bytes, the lowest first. `||` and OFFSET: the bytes are read once.
    run_revision(
        """
ALTER TABLE ${private}.step_column ADD COLUMN whole bigint[], ADD COLUMN number float8[];
ALTER TABLE ${private}.step_column ALTER COLUMN whole SET STORAGE EXTERNAL, ALTER COLUMN number SET STORAGE EXTERNAL;
UPDATE ${private}.step_column AS c SET whole = (
    SELECT ARRAY(
        SELECT CASE WHEN b.bits >= 0 AND substr(c.dtype, 2, 1) = 'i' AND d.width < 8
            THEN b.bits - ((b.bits & (1::bigint << (8 * d.width - 1))) << 1) ELSE b.bits END
        FROM (
        SELECT i AS place, (
            SELECT bit_or(get_byte(d.bytes, i * d.width + k)::bigint << (8 * k)) FROM generate_series(0, d.width - 1) AS k
        ) AS bits
        FROM generate_series(0, octet_length(d.bytes) / d.width - 1) AS i
        ) AS b
    )
    FROM (SELECT c.data || ''::bytea AS bytes, right(c.dtype, 1)::int AS width OFFSET 0) AS d
)
WHERE substr(c.dtype, 2, 1) <> 'f';
UPDATE ${private}.step_column AS c SET number = (
    SELECT ARRAY(
        SELECT (CASE WHEN b.bits < 0 THEN -1 ELSE 1 END)::float8 * CASE (b.bits >> 52) & 2047
            WHEN 2047 THEN CASE WHEN b.bits & 4503599627370495 = 0 THEN 'Infinity' ELSE 'NaN' END::float8
            WHEN 0 THEN (b.bits & 4503599627370495)::float8 * 4.9406564584124654e-324::float8
            ELSE (4503599627370496 | (b.bits & 4503599627370495))::float8 * power(2::float8, (((b.bits >> 52) & 2047) - 1075)::float8)
        END
        FROM (
        SELECT i AS place, (
            SELECT bit_or(get_byte(d.bytes, i * d.width + k)::bigint << (8 * k)) FROM generate_series(0, d.width - 1) AS k
        ) AS bits
        FROM generate_series(0, octet_length(d.bytes) / d.width - 1) AS i
        ) AS b
    )
    FROM (SELECT c.data || ''::bytea AS bytes, right(c.dtype, 1)::int AS width OFFSET 0) AS d
)
WHERE substr(c.dtype, 2, 1) = 'f';
ALTER TABLE ${private}.step_column DROP COLUMN data, ADD CHECK (num_nonnulls(whole, number) = 1);
COMMENT ON COLUMN ${private}.step_column.dtype IS 'Type of the elements, as NumPy writes it: what whole and number are read back as.';
"""
    )


def downgrade() -> None:
    raise RuntimeError("freqdp does not downgrade: restore a backup")
