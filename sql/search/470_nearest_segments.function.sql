-- example:
--   SELECT n.seq, n.occurrences, n.loss_m
--   FROM freqdp.nearest_segments('city', 0, ST_SetSRID(ST_MakePoint(4.35, 50.85), 4326), 5) AS n;
CREATE FUNCTION ${private}.nearest_segments(
    dataset text, trajectory int, point ${postgis}.geometry, k int
) RETURNS TABLE (seq int, from_location int, to_location int, occurrences int, loss_m float8)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE ROWS 10
SET search_path = pg_catalog, pg_temp
-- PostGIS states high costs, for which the compiler would be started in vain
SET jit = off
-- with the build's number known, the other partitions are not even looked at
SET plan_cache_mode = force_custom_plan
AS $body$
DECLARE
    search record;
    x float8;
    y float8;
BEGIN
    SELECT * INTO search FROM ${private}.search_place(
        nearest_segments.dataset, nearest_segments.point, nearest_segments.k
    );
    x := ${postgis}.ST_X(search.place);
    y := ${postgis}.ST_Y(search.place);
    PERFORM 1 FROM ${private}.trajectory AS t
    WHERE t.build_id = search.build_id AND t.trajectory_id = nearest_segments.trajectory;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'dataset % has no trajectory %', quote_literal(nearest_segments.dataset),
            coalesce(nearest_segments.trajectory::text, 'NULL')
            USING ERRCODE = 'QF002',
            HINT = 'the table trajectory beside this function has the ids: build_id '
                || search.build_id || ', trajectory_id, object_key';
    END IF;
    -- A search within one trajectory reads its samples: they lie together, its segments do not.
    -- Each part by itself: a plan for all of it, with its order and limit, may begin by pairing all locations.
    RETURN QUERY
    WITH grouped AS MATERIALIZED (
        SELECT min(step.seq) AS first_seq, step.tail, step.head, count(*)::int AS times
        FROM (
            SELECT
                p.seq, p.location_id AS tail,
                -- one sample alone is a segment of length 0
                coalesce(
                    lead(p.location_id) OVER (ORDER BY p.seq),
                    CASE WHEN count(*) OVER () = 1 THEN p.location_id END
                ) AS head
            FROM ${private}.sample AS p
            WHERE p.build_id = search.build_id AND p.trajectory_id = nearest_segments.trajectory
        ) AS step
        WHERE step.head IS NOT NULL
        GROUP BY step.tail, step.head
    ), measured AS MATERIALIZED (
        SELECT g.first_seq, g.tail, g.head, g.times, l.loss_mm
        FROM grouped AS g
        JOIN ${private}.location AS a ON a.build_id = search.build_id AND a.location_id = g.tail
        JOIN ${private}.location AS b ON b.build_id = search.build_id AND b.location_id = g.head
        CROSS JOIN LATERAL ${private}.segment_loss(x, y, a.x_m, a.y_m, b.x_m, b.y_m) AS l
    )
    SELECT m.first_seq, m.tail, m.head, m.times, m.loss_mm / 1000.0::float8
    FROM measured AS m
    ORDER BY m.loss_mm, m.first_seq
    LIMIT nearest_segments.k;
END;
$body$;

COMMENT ON FUNCTION ${private}.nearest_segments(text, int, ${postgis}.geometry, int) IS
'The k segments of one trajectory of a dataset''s current build that are nearest to a point (in any SRID), nearest first; ties in the millimetre by seq. Equal segments count once: seq is the first sample of the first occurrence. A trajectory of one sample has one segment, of length 0. loss_m: metres in the build''s SRID, rounded to 1 mm.';
