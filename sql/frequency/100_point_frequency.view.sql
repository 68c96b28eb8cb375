-- example:
--   SELECT f.location_id, f.pf FROM freqdp.point_frequency AS f
--   JOIN freqdp.dataset AS d USING (dataset_id)
--   WHERE d.name = 'city' AND d.dropped_at IS NULL AND f.trajectory_id = 0 ORDER BY f.pf DESC LIMIT 10;
CREATE VIEW ${private}.point_frequency AS
SELECT d.dataset_id, f.trajectory_id, f.location_id, f.pf
FROM ${private}.dataset AS d
-- LATERAL, so that the one current build is known before its partition is read
CROSS JOIN LATERAL (
    SELECT s.trajectory_id, s.location_id, count(*)::int AS pf
    FROM ${private}.sample AS s
    WHERE s.build_id = d.current_build
    GROUP BY s.trajectory_id, s.location_id
) AS f;

COMMENT ON VIEW ${private}.point_frequency IS
'PF: how often each trajectory of a dataset''s current build visits each location.';
COMMENT ON COLUMN ${private}.point_frequency.pf IS 'Number of samples of the trajectory at the location.';
