-- example:
--   SELECT w.location_id, w.pf, w.tf, w.weight FROM freqdp.location_weight AS w
--   JOIN freqdp.dataset AS d USING (dataset_id)
--   WHERE d.name = 'city' AND d.dropped_at IS NULL AND w.trajectory_id = 0 ORDER BY w.score DESC LIMIT 10;
CREATE VIEW ${private}.location_weight AS
SELECT
    d.dataset_id,
    w.trajectory_id,
    w.location_id,
    w.pf,
    w.tf,
    w.weight,
    w.score
FROM ${private}.dataset AS d
CROSS JOIN LATERAL (
    SELECT
        f.trajectory_id,
        f.location_id,
        f.pf,
        l.tf,
        f.pf::float8 / t.samples * ln(b.trajectories::float8 / l.tf) AS weight,
        -- |tau| is the same for all places of a trajectory; rounded, so that equal weights are ties
        floor(f.pf::float8 * ln(b.trajectories::float8 / l.tf) * 1e9 + 0.5)::bigint AS score
    FROM (
        SELECT s.trajectory_id, s.location_id, count(*)::int AS pf
        FROM ${private}.sample AS s
        WHERE s.build_id = d.current_build
        GROUP BY s.trajectory_id, s.location_id
    ) AS f
    JOIN ${private}.trajectory AS t ON t.build_id = d.current_build AND t.trajectory_id = f.trajectory_id
    JOIN ${private}.location AS l ON l.build_id = d.current_build AND l.location_id = f.location_id
    JOIN ${private}.build AS b ON b.build_id = d.current_build
) AS w;

COMMENT ON VIEW ${private}.location_weight IS
'How much each location says about each trajectory: pf/|tau| * ln(|D|/tf).';
COMMENT ON COLUMN ${private}.location_weight.weight IS 'pf / samples of the trajectory * ln(trajectories / tf).';
COMMENT ON COLUMN ${private}.location_weight.score IS 'pf * ln(trajectories / tf) in units of 1e-9: orders the locations of one trajectory.';
