CREATE FUNCTION ${private}.search_reach(
    build int, place ${postgis}.geometry, k bigint, beyond_m float8,
    OUT within_m float8, OUT cells bigint[]
)
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
-- PostGIS states high costs, for which the compiler would be started in vain
SET jit = off
-- with the build and the cells known, the planner reads one partition, by its index
SET plan_cache_mode = force_custom_plan
AS $body$
DECLARE
    whole record;
    -- NULL: all cells
    breadth int := 16;
    enough bigint := 256 + 16 * k;
    near record;
    kth_m float8;
BEGIN
    SELECT g.tree_segments AS segments, b.trajectories INTO whole
    FROM ${private}.build AS b
    JOIN ${private}.grid_cell AS g ON g.build_id = b.build_id AND g.cell_id = 1
    WHERE b.build_id = search_reach.build AND g.build_id = search_reach.build;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'build % was replaced while the search began', search_reach.build
            USING ERRCODE = 'QF004', HINT = 'search again: there is a newer build';
    END IF;
    IF search_reach.k >= whole.trajectories THEN
        breadth := NULL;
    END IF;
    within_m := 'Infinity';
    LOOP
        -- until there is a bound, some of the nearest cells; then all within it
        SELECT
            array_agg(n.cell_id) AS all_cells,
            array_agg(n.cell_id) FILTER (WHERE n.before < enough) AS first_cells,
            sum(n.segments) AS segments
        INTO near
        FROM (
            SELECT
                c.cell_id, c.segments,
                sum(c.segments) OVER (ORDER BY c.mindist_m, c.cell_id DESC) - c.segments AS before
            FROM ${private}.cells_near(
                search_reach.build, ${postgis}.ST_X(place), ${postgis}.ST_Y(place), within_m,
                CASE WHEN within_m = 'Infinity' THEN breadth END
            ) AS c
        ) AS n;
        cells := near.all_cells;
        EXIT WHEN breadth IS NULL
            OR near.segments <= 8 * enough AND (within_m < 'Infinity' OR near.segments >= whole.segments);
        SELECT d.distance_m INTO kth_m
        FROM (
            SELECT min(${postgis}.ST_Distance(s.geom, place)) AS distance_m
            FROM unnest(near.first_cells) AS c (cell_id)
            JOIN ${private}.segment AS s ON s.build_id = search_reach.build AND s.cell_id = c.cell_id
            GROUP BY s.trajectory_id
        ) AS d
        WHERE d.distance_m >= beyond_m
        ORDER BY d.distance_m
        OFFSET search_reach.k - 1
        LIMIT 1;
        -- 2 mm more: all that rounds to the same loss is inside
        within_m := least(within_m, kth_m + 0.002);
        breadth := 4 * breadth;
        enough := 4 * enough;
    END LOOP;
END;
$body$;

COMMENT ON FUNCTION ${private}.search_reach(int, ${postgis}.geometry, bigint, float8) IS
'How far a search for k trajectories must look (infinitely far, if the build has fewer), and the cells to read for it. The distance is that to the k-th trajectory, leaving out those nearer than beyond_m, among the segments of some near cells: the nearest and finest first, and more of them while they are a small part of all within that distance. Internal: called by nearest_trajectories.';
