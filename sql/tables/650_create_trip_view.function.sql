-- identity: FUNCTION ${private}.create_trip_view(text, int)
CREATE FUNCTION ${private}.create_trip_view(name text, srid int)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    -- `place`: the samples at which a trajectory comes to a place, with the time of the sample before (the last
    -- one at the place before). `visit`: until when it stays there. `stop`: how many stays and gaps came so far.
    -- `leg`: a stay is in two trips, as the arrival of one and the departure of the next. Each is read once, so
    -- that a condition on the trajectory reaches the table. All arguments of PostGIS's functions are given: a
    -- shorter list could be meant for a function of somebody else's.
    EXECUTE format($view$
CREATE VIEW %1$I.%2$I AS
WITH place AS (
    SELECT trajectory_id, seq, at, geom, before_at, last_at FROM (
        SELECT trajectory_id, seq, at, geom, lag(at) OVER past AS before_at,
            lag(geom) OVER past AS before, last_value(at) OVER whole AS last_at
        FROM %1$I.%3$I
        WINDOW past AS (PARTITION BY trajectory_id ORDER BY seq),
            whole AS (PARTITION BY trajectory_id ORDER BY seq
                ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
    ) AS sample
    WHERE before IS NULL OR NOT geom OPERATOR(%4$I.=) before
), visit AS (
    SELECT trajectory_id, seq, geom, at AS begin_at,
        coalesce(lead(before_at) OVER future, last_at) AS end_at,
        coalesce(at - before_at > interval '20 minutes', false) AS after_gap
    FROM place
    WINDOW future AS (PARTITION BY trajectory_id ORDER BY seq)
), stop AS (
    SELECT *, end_at - begin_at >= interval '20 minutes' AS stay,
        count(*) FILTER (WHERE after_gap) OVER past
            + count(*) FILTER (WHERE end_at - begin_at >= interval '20 minutes') OVER past AS passed
    FROM visit
    WINDOW past AS (PARTITION BY trajectory_id ORDER BY seq)
), leg AS (
    SELECT trajectory_id, seq, geom, passed - arrival AS number,
        CASE WHEN stay AND arrival = 0 THEN end_at ELSE begin_at END AS at
    FROM stop CROSS JOIN (VALUES (0), (1)) AS side(arrival)
    WHERE stay OR arrival = 0
), trip AS (
    SELECT trajectory_id, number, min(at) AS start_at, max(at) AS end_at, count(*) AS places,
        %4$I.st_makeline(geom ORDER BY seq) AS geom
    FROM leg
    GROUP BY trajectory_id, number
    HAVING count(*) > 1
)
SELECT trajectory_id, row_number() OVER (PARTITION BY trajectory_id ORDER BY number)::int AS trip,
    start_at, end_at, %4$I.st_length(%4$I.geography(%4$I.st_transform(geom, 4326)), true) AS length_m,
    places::int AS places,
    %4$I.st_startpoint(geom)::%4$I.geometry(Point, %5$L) AS start_geom,
    %4$I.st_endpoint(geom)::%4$I.geometry(Point, %5$L) AS end_geom,
    geom::%4$I.geometry(LineString, %5$L) AS geom
FROM trip
$view$, ${release:name}, create_trip_view.name || '_trip', create_trip_view.name, ${postgis:name}, create_trip_view.srid);
END;
$body$;

COMMENT ON FUNCTION ${private}.create_trip_view(text, int) IS
'Makes the view of a release''s trips: between two stays, or between gaps. A stay is a place that the trajectory does not leave for 20 minutes, a gap so long a time without a sample at another place. A trip ends when the stay begins, and the next one begins there when it ends. Internal: called by publish_tables.';
REVOKE ALL ON FUNCTION ${private}.create_trip_view(text, int) FROM PUBLIC;
