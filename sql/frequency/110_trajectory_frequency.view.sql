-- example:
--   SELECT f.location_id, f.tf FROM freqdp.trajectory_frequency AS f
--   JOIN freqdp.dataset AS d USING (dataset_id)
--   WHERE d.name = 'city' AND d.dropped_at IS NULL ORDER BY f.tf DESC LIMIT 10;
CREATE VIEW ${private}.trajectory_frequency AS
SELECT d.dataset_id, l.location_id, l.tf
FROM ${private}.dataset AS d
-- counted once, by the build
JOIN ${private}.location AS l ON l.build_id = d.current_build
WHERE l.tf > 0;

COMMENT ON VIEW ${private}.trajectory_frequency IS
'TF: how many trajectories of a dataset''s current build visit each location.';
COMMENT ON COLUMN ${private}.trajectory_frequency.tf IS 'Number of trajectories with at least one sample at the location.';
