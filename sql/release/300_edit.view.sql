-- example:
--   SELECT e.operation, count(*), avg(e.loss_m) FROM freqdp.edit AS e
--   JOIN freqdp.release AS r USING (release_id) WHERE r.name = 'city_1' GROUP BY e.operation;
CREATE VIEW ${private}.edit AS
SELECT
    r.release_id,
    r.step,
    r.operation,
    r.trajectory_id,
    r.location_id,
    e.seq,
    e.loss_m
FROM ${private}.edit_run AS r
CROSS JOIN LATERAL unnest(r.seq, r.loss_m) AS e (seq, loss_m);

COMMENT ON VIEW ${private}.edit IS
'The edit log, one row an edit. seq is the position in that mechanism''s input.';
