-- identity: FUNCTION ${private}.cell_path(int, bigint)
CREATE FUNCTION ${private}.cell_path(build int, cell bigint)
RETURNS TABLE (
    cell_id bigint, level smallint, segments int, tree_segments int,
    x_min float8, y_min float8, x_max float8, y_max float8,
    tree_x_min float8, tree_y_min float8, tree_x_max float8, tree_y_max float8
)
LANGUAGE sql STABLE PARALLEL SAFE ROWS 16
BEGIN ATOMIC
    SELECT
        g.cell_id, g.level, g.segments, g.tree_segments, g.x_min, g.y_min, g.x_max, g.y_max,
        g.tree_x_min, g.tree_y_min, g.tree_x_max, g.tree_y_max
    -- the parent of c is c / 4, and ids have 63 bits
    FROM generate_series(0, 31) AS up (levels)
    JOIN ${private}.grid_cell AS g ON g.cell_id = cell >> (2 * up.levels)
    WHERE g.build_id = build
    ORDER BY g.cell_id DESC;
END;

COMMENT ON FUNCTION ${private}.cell_path(int, bigint) IS
'A cell of a build''s grid and its ancestors up to the root (1), finest first, with their tight boxes and counts. Cells without any segment in or below them do not exist and are left out.';
REVOKE ALL ON FUNCTION ${private}.cell_path(int, bigint) FROM PUBLIC;
