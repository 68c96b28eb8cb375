-- A set of one row, because the planner inlines those with their steps; a scalar function with steps
-- would be called a row at a time.
CREATE FUNCTION ${private}.segment_loss(
    x_m float8, y_m float8, from_x_m float8, from_y_m float8, to_x_m float8, to_y_m float8
) RETURNS TABLE (loss_mm bigint)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 1
BEGIN ATOMIC
    -- Step by step as freqdp_db/search/distance.py, so that both round to the same millimetre.
    SELECT floor(sqrt(e.x * e.x + e.y * e.y) * 1000.0 + 0.5)::bigint
    FROM (SELECT to_x_m - from_x_m AS x, to_y_m - from_y_m AS y) AS d
    CROSS JOIN LATERAL (SELECT d.x * d.x + d.y * d.y AS length2) AS l
    CROSS JOIN LATERAL (
        SELECT CASE
            WHEN l.length2 > 0
            THEN least(greatest(((x_m - from_x_m) * d.x + (y_m - from_y_m) * d.y) / l.length2, 0), 1)
            ELSE 0
        END AS share
    ) AS t
    CROSS JOIN LATERAL (
        SELECT x_m - (from_x_m + t.share * d.x) AS x, y_m - (from_y_m + t.share * d.y) AS y
    ) AS e;
END;

COMMENT ON FUNCTION ${private}.segment_loss(float8, float8, float8, float8, float8, float8) IS
'Loss: distance from a point to the segment between two others, in whole millimetres, to the bit as the service computes it.';
