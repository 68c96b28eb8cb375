-- example:
--   SELECT t.object_key, n.seq, n.loss_m
--   FROM freqdp.nearest_trajectories('city', ST_SetSRID(ST_MakePoint(4.35, 50.85), 4326), 5) AS n
--   JOIN freqdp.dataset AS d ON d.name = 'city' AND d.dropped_at IS NULL
--   JOIN freqdp.trajectory AS t ON t.build_id = d.current_build AND t.trajectory_id = n.trajectory_id;
CREATE FUNCTION ${private}.nearest_trajectories(
    dataset text, point ${postgis}.geometry, k int, skip_containing boolean DEFAULT true
) RETURNS TABLE (trajectory_id int, seq int, loss_m float8)
-- UNSAFE as search_place is
LANGUAGE plpgsql STABLE PARALLEL UNSAFE ROWS 10
SET search_path = pg_catalog, pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
AS $body$
DECLARE
    skipping constant boolean := skip_containing IS NOT FALSE;
    search record;
    reach record;
    found record;
BEGIN
    SELECT * INTO search FROM ${private}.search_place(
        nearest_trajectories.dataset, nearest_trajectories.point, nearest_trajectories.k
    );
    -- Who contains the point is not known yet: whoever touches it might.
    SELECT * INTO reach FROM ${private}.search_reach(
        search.build_id, search.place, nearest_trajectories.k,
        CASE WHEN skipping THEN 0.0005 ELSE 0 END
    );
    LOOP
        WITH near AS MATERIALIZED (
            SELECT w.trajectory_id, w.seq, w.loss_mm, skipping AND w.contains AS skip
            FROM ${private}.trajectories_within(
                search.build_id, search.place, reach.within_m, reach.cells
            ) AS w
        ), best AS (
            SELECT n.trajectory_id, n.seq, n.loss_mm
            FROM near AS n
            WHERE NOT n.skip
            ORDER BY n.loss_mm, n.trajectory_id
            LIMIT nearest_trajectories.k
        )
        SELECT
            array_agg(b.trajectory_id ORDER BY b.loss_mm, b.trajectory_id) AS trajectories,
            array_agg(b.seq ORDER BY b.loss_mm, b.trajectory_id) AS seqs,
            array_agg(b.loss_mm ORDER BY b.loss_mm, b.trajectory_id) AS losses,
            count(*) AS answers,
            (SELECT count(*) FROM near AS n WHERE n.skip) AS skipped
        INTO found
        FROM best AS b;
        EXIT WHEN found.answers = nearest_trajectories.k OR reach.within_m = 'Infinity';
        -- Too many of those seen contain the point: now that their number is known, count with them.
        SELECT * INTO reach FROM ${private}.search_reach(
            search.build_id, search.place, nearest_trajectories.k + found.skipped, 0
        );
    END LOOP;
    RETURN QUERY
    SELECT a.trajectory_id, a.seq, a.loss_mm / 1000.0::float8
    FROM unnest(found.trajectories, found.seqs, found.losses) AS a (trajectory_id, seq, loss_mm);
END;
$body$;

COMMENT ON FUNCTION ${private}.nearest_trajectories(text, ${postgis}.geometry, int, boolean) IS
'The k trajectories of a dataset''s current build that are nearest to a point (in any SRID), nearest first, ties in the millimetre by trajectory_id; each with its nearest segment, ties by seq (the first sample of the segment''s first occurrence). Fewer than k: there are no others. loss_m: metres in the build''s SRID, rounded to 1 mm. skip_containing leaves out the trajectories that contain the point: those with a sample at the visited location nearest to it, if that location is the point itself (its distance rounds to 0 mm).';
