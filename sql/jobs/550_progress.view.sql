CREATE VIEW ${private}.progress AS
SELECT
    p.job_id,
    d.name AS dataset,
    p.phase,
    p.done,
    p.total,
    p.unit,
    round(p.done / s.seconds, 1) AS rate,
    CASE WHEN p.done > 0 AND p.total >= p.done
        THEN make_interval(secs => round((p.total - p.done) * s.seconds / p.done, 1)::float8)
    END AS time_left,
    p.phase_at,
    p.updated_at
FROM ${private}.job_progress AS p
JOIN ${private}.job_queue AS q ON q.job_id = p.job_id
JOIN ${private}.dataset AS d ON d.dataset_id = q.dataset_id
CROSS JOIN LATERAL (
    SELECT greatest(extract(EPOCH FROM p.updated_at - p.phase_at), 0.001) AS seconds
) AS s
WHERE q.state = 'running';

COMMENT ON VIEW ${private}.progress IS
'How far the running jobs are. Live: it is written beside the transactions of the work.';
COMMENT ON COLUMN ${private}.progress.total IS 'NULL: not known.';
COMMENT ON COLUMN ${private}.progress.rate IS 'Done per second in this phase.';
COMMENT ON COLUMN ${private}.progress.time_left IS 'Of this phase, at this rate.';
