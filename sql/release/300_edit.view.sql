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
