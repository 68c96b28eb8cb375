CREATE FUNCTION ${private}.trajectories_within(
    build int, place ${postgis}.geometry, within_m float8, cells bigint[]
) RETURNS TABLE (trajectory_id int, seq int, loss_mm bigint, contains boolean)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT
        n.trajectory_id, n.best[2]::int, n.best[1],
        -- the nearest of all visited locations at the place is the place
        coalesce(n.visit = min(n.visit) OVER (), false)
    FROM (
        SELECT
            s.trajectory_id,
            min(ARRAY[
                -- PostGIS may differ from the service in the last bits: it decides the millimetre,
                -- unless the distance is next to half of one
                CASE
                    WHEN abs(s.distance_m * 1000 - floor(s.distance_m * 1000) - 0.5) < 0.001
                    THEN l.loss_mm
                    ELSE floor(s.distance_m * 1000 + 0.5)::bigint
                END,
                s.seq
            ]) AS best,
            least(
                min(ARRAY[e.from_m, s.from_location]) FILTER (WHERE s.distance_m < 0.001 AND e.from_m < 0.0005),
                min(ARRAY[e.to_m, s.to_location]) FILTER (WHERE s.distance_m < 0.001 AND e.to_m < 0.0005)
            ) AS visit
        FROM (
            SELECT
                t.trajectory_id, t.seq, t.from_location, t.to_location, t.geom,
                ${postgis}.ST_Distance(t.geom, place) AS distance_m
            FROM unnest(cells) AS c (cell_id)
            JOIN ${private}.segment AS t ON t.build_id = build AND t.cell_id = c.cell_id
            -- the cheap test before the distance
            WHERE within_m = 'Infinity'
                OR t.geom OPERATOR(${postgis}.&&) ${postgis}.ST_Expand(place, within_m)
            -- the distance is taken once, not wherever it is used
            OFFSET 0
        ) AS s
        CROSS JOIN LATERAL ${private}.segment_loss(
            ${postgis}.ST_X(place), ${postgis}.ST_Y(place),
            ${postgis}.ST_X(${postgis}.ST_StartPoint(s.geom)),
            ${postgis}.ST_Y(${postgis}.ST_StartPoint(s.geom)),
            ${postgis}.ST_X(${postgis}.ST_EndPoint(s.geom)),
            ${postgis}.ST_Y(${postgis}.ST_EndPoint(s.geom))
        ) AS l
        CROSS JOIN LATERAL (
            SELECT
                ${postgis}.ST_Distance(${postgis}.ST_StartPoint(s.geom), place) AS from_m,
                ${postgis}.ST_Distance(${postgis}.ST_EndPoint(s.geom), place) AS to_m
        ) AS e
        WHERE s.distance_m <= within_m
        GROUP BY s.trajectory_id
    ) AS n;
END;

COMMENT ON FUNCTION ${private}.trajectories_within(int, ${postgis}.geometry, float8, bigint[]) IS
'The trajectories with a segment within a distance of a place, in these cells of the build''s grid: their nearest segment (ties in the millimetre by seq), and whether they contain the place, that is, have a sample at the visited location nearest to it, if its distance rounds to 0 mm. Internal: called by nearest_trajectories.';
