CREATE FUNCTION ${private}.create_trip_view(name text, srid int, metric_srid int)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    -- The rule of freqdp_db/trips.py, with its numbers. `whole`: the samples of a trajectory as arrays, x and y in
    -- metres, so that a condition on the trajectory reaches the table. `near`: from sample number i on, all up to
    -- number j lie within the radius of it; where they last long enough they are a stay, and the next is looked for
    -- after it. `sample`: who moves, and of stays the arrival and the departure. `numbered`: a trip begins with a
    -- departure and after a gap. OFFSET 0: what is used twice is computed once. All arguments of PostGIS's functions
    -- are given: a shorter list could be meant for a function of somebody else's.
    EXECUTE format($view$
CREATE VIEW %1$I.%2$I AS
SELECT whole.trajectory_id, trip.trip, trip.start_at, trip.end_at,
    %4$I.st_length(%4$I.geography(%4$I.st_transform(trip.geom, 4326)), true) AS length_m, trip.places,
    %4$I.st_startpoint(trip.geom)::%4$I.geometry(Point, %5$L) AS start_geom,
    %4$I.st_endpoint(trip.geom)::%4$I.geometry(Point, %5$L) AS end_geom,
    trip.geom::%4$I.geometry(LineString, %5$L) AS geom
FROM (
    SELECT trajectory_id, count(*)::int AS samples, array_agg(at ORDER BY seq) AS at, array_agg(%3$I.geom ORDER BY seq) AS geom,
        array_agg(%4$I.st_x(metric.geom) ORDER BY seq) AS x, array_agg(%4$I.st_y(metric.geom) ORDER BY seq) AS y
    FROM %1$I.%3$I
    CROSS JOIN LATERAL (SELECT %4$I.st_transform(%3$I.geom, %6$L::int) AS geom OFFSET 0) AS metric
    GROUP BY trajectory_id
) AS whole
CROSS JOIN LATERAL (
    WITH RECURSIVE near AS (
        SELECT 0 AS i, 0 AS j, false AS stay
        UNION ALL
        SELECT next.i, run.j, at[run.j] - at[next.i] >= interval '20 minutes'
        FROM near
        CROSS JOIN LATERAL (SELECT CASE WHEN near.stay THEN near.j ELSE near.i END + 1 AS i) AS next
        CROSS JOIN LATERAL (
            SELECT coalesce((
                SELECT k - 1 FROM (SELECT generate_series(next.i + 1, samples) AS k) AS later
                WHERE (x[k] - x[next.i]) * (x[k] - x[next.i]) + (y[k] - y[next.i]) * (y[k] - y[next.i]) > 150.0 * 150.0
                LIMIT 1
            ), samples) AS j
            OFFSET 0
        ) AS run
        WHERE next.i <= samples
    ), sample AS (
        SELECT s.number, at[s.number] AS at, g.geom, s.departs,
            at[s.number] - lag(at[s.number]) OVER past > interval '30 minutes' AS after_gap
        FROM near
        CROSS JOIN LATERAL (VALUES (near.i, false), (near.j, true)) AS s (number, departs)
        JOIN unnest(whole.geom) WITH ORDINALITY AS g (geom, number) ON g.number = s.number
        WHERE near.stay OR NOT s.departs
        WINDOW past AS (ORDER BY s.number)
    ), numbered AS (
        SELECT sample.number, sample.at, sample.geom, count(*) FILTER (WHERE departs OR after_gap) OVER past AS trip
        FROM sample
        WINDOW past AS (ORDER BY sample.number)
    ), placed AS (
        SELECT *, lag(numbered.geom) OVER past AS before
        FROM numbered
        WINDOW past AS (PARTITION BY numbered.trip ORDER BY numbered.number)
    )
    SELECT (row_number() OVER (ORDER BY placed.trip))::int AS trip, min(placed.at) AS start_at, max(placed.at) AS end_at,
        (count(*) FILTER (WHERE before IS NULL OR NOT placed.geom OPERATOR(%4$I.=) before))::int AS places,
        %4$I.st_makeline(placed.geom ORDER BY placed.number)
            FILTER (WHERE before IS NULL OR NOT placed.geom OPERATOR(%4$I.=) before) AS geom
    FROM placed
    GROUP BY placed.trip
    HAVING count(*) FILTER (WHERE before IS NULL OR NOT placed.geom OPERATOR(%4$I.=) before) > 1
) AS trip
$view$, ${release:name}, create_trip_view.name || '_trip', create_trip_view.name, ${postgis:name},
        create_trip_view.srid, create_trip_view.metric_srid);
END;
$body$;

COMMENT ON FUNCTION ${private}.create_trip_view(text, int, int) IS
'Makes the view of a release''s trips: between two stays, or between gaps. A stay is a run of samples within 150 m of its first one that lasts 20 minutes or longer; a gap is more than 30 minutes without a sample outside of a stay. A trip runs from the last sample of a stay to the first sample of the next. metric_srid: the reference system whose metres count. Internal: called by publish_tables.';
REVOKE ALL ON FUNCTION ${private}.create_trip_view(text, int, int) FROM PUBLIC;
