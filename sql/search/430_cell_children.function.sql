-- identity: FUNCTION ${private}.cell_children(int, bigint[], float8, float8)
CREATE FUNCTION ${private}.cell_children(build int, cells bigint[], x_m float8, y_m float8)
RETURNS TABLE (
    cell_id bigint, parent_id bigint, segments int, tree_segments int,
    mindist_m float8, tree_mindist_m float8
)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT
        g.cell_id, g.parent_id, g.segments, g.tree_segments,
        ${private}.box_distance(x_m, y_m, g.x_min, g.y_min, g.x_max, g.y_max),
        ${private}.box_distance(x_m, y_m, g.tree_x_min, g.tree_y_min, g.tree_x_max, g.tree_y_max)
    FROM (SELECT DISTINCT u.cell_id FROM unnest(cells) AS u (cell_id)) AS c
    JOIN ${private}.grid_cell AS g ON g.cell_id BETWEEN 4 * c.cell_id AND 4 * c.cell_id + 3
    WHERE g.build_id = build
    ORDER BY c.cell_id, g.cell_id;
END;

COMMENT ON FUNCTION ${private}.cell_children(int, bigint[], float8, float8) IS
'The occupied children of some cells of a build''s grid, in order of their ids. tree_mindist_m is the MINdist from the point (metres in the build''s SRID) to the tight box of all segments in or below the child; mindist_m is that of its own segments only, infinite if it has none.';
REVOKE ALL ON FUNCTION ${private}.cell_children(int, bigint[], float8, float8) FROM PUBLIC;
