-- example:
--   SELECT s.rank, s.location_id, s.weight FROM freqdp.signature AS s
--   JOIN freqdp.dataset AS d USING (dataset_id)
--   WHERE d.name = 'city' AND d.dropped_at IS NULL AND s.trajectory_id = 0 AND s.rank <= 10 ORDER BY s.rank;
CREATE VIEW ${private}.signature AS
SELECT
    w.dataset_id,
    w.trajectory_id,
    w.location_id,
    (row_number() OVER (
        PARTITION BY w.dataset_id, w.trajectory_id
        ORDER BY w.score DESC, w.location_id
    ))::int AS rank,
    w.weight
FROM ${private}.location_weight AS w;

COMMENT ON VIEW ${private}.signature IS
'Locations of each trajectory in order of weight: rank <= m is its signature of size m.';
COMMENT ON COLUMN ${private}.signature.rank IS '1 is the most telling location; ties by location_id.';
