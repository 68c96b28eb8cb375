CREATE FUNCTION ${private}.cells_near(build int, x_m float8, y_m float8, within_m float8, breadth int)
RETURNS TABLE (cell_id bigint, segments int, mindist_m float8)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    WITH RECURSIVE subtree (cell_id, segments, mindist_m) AS (
        SELECT
            g.cell_id, g.segments,
            ${private}.box_distance(x_m, y_m, g.x_min, g.y_min, g.x_max, g.y_max)
        FROM ${private}.grid_cell AS g
        WHERE g.build_id = build AND g.cell_id = 1
        UNION ALL
        -- each round of the recursion is one level of the grid
        SELECT n.cell_id, n.segments, n.mindist_m
        FROM (
            SELECT
                c.cell_id, c.segments, c.mindist_m, c.tree_mindist_m,
                row_number() OVER (ORDER BY c.tree_mindist_m, c.cell_id) AS nth
            FROM (
                SELECT
                    g.cell_id, g.segments,
                    ${private}.box_distance(x_m, y_m, g.x_min, g.y_min, g.x_max, g.y_max) AS mindist_m,
                    ${private}.box_distance(
                        x_m, y_m, g.tree_x_min, g.tree_y_min, g.tree_x_max, g.tree_y_max
                    ) AS tree_mindist_m
                FROM subtree AS s
                JOIN ${private}.grid_cell AS g
                    ON g.build_id = build AND g.cell_id BETWEEN 4 * s.cell_id AND 4 * s.cell_id + 3
            ) AS c
            WHERE c.tree_mindist_m <= within_m
        ) AS n
        WHERE breadth IS NULL OR n.nth <= breadth
    )
    SELECT s.cell_id, s.segments, s.mindist_m
    FROM subtree AS s
    WHERE s.segments > 0 AND s.mindist_m <= within_m
    -- of the cells around the point (all 0) the finest first: they give the tightest bound
    ORDER BY s.mindist_m, s.cell_id DESC;
END;

COMMENT ON FUNCTION ${private}.cells_near(int, float8, float8, float8, int) IS
'The cells of a build''s grid whose own segments may be within a distance of a point, nearest first. Of each level only the nearest subtrees are opened, at most breadth (NULL: all).';
