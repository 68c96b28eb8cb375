CREATE VIEW ${private}.job AS
SELECT
    q.job_id,
    d.name AS dataset,
    q.request ->> 'method' AS method,
    -- whatever a document holds, all jobs can be listed
    coalesce(
        CASE jsonb_typeof(q.request -> 'epsilon') WHEN 'number' THEN (q.request ->> 'epsilon')::numeric END,
        CASE jsonb_typeof(q.request -> 'epsilon_global') WHEN 'number' THEN (q.request ->> 'epsilon_global')::numeric
            ELSE 0 END
        + CASE jsonb_typeof(q.request -> 'epsilon_local') WHEN 'number' THEN (q.request ->> 'epsilon_local')::numeric
            ELSE 0 END
    ) AS epsilon,
    q.request - ARRAY['method', 'epsilon'] AS options,
    CASE WHEN q.cancel_asked_by IS NOT NULL AND q.state IN ('waiting', 'running')
        THEN 'cancelling' ELSE q.state END AS state,
    q.asked_by,
    q.asked_at,
    q.started_at,
    q.ended_at,
    q.due_at,
    q.attempts,
    q.error,
    r.name AS release,
    q.note,
    q.schedule_id,
    w.host || ' process ' || w.pid AS worker
FROM ${private}.job_queue AS q
JOIN ${private}.dataset AS d ON d.dataset_id = q.dataset_id
LEFT JOIN ${private}.release AS r ON r.release_id = q.release_id
LEFT JOIN ${private}.worker AS w ON w.worker_id = q.worker_id;

COMMENT ON VIEW ${private}.job IS
'Releases that were asked for: what, by whom, how it stands, what came of it.';
COMMENT ON COLUMN ${private}.job.state IS
'waiting, running, cancelling; at the end done, refused (cannot be, see error), failed (given up) or cancelled.';
COMMENT ON COLUMN ${private}.job.epsilon IS
'Of the unit of the method: for one occurrence, or for one object with all its data (synthetic methods). 0: it has none.';
COMMENT ON COLUMN ${private}.job.attempts IS 'How often a worker has begun it.';
COMMENT ON COLUMN ${private}.job.error IS 'Why it was refused or failed; while it waits, why the last attempt did not succeed.';
COMMENT ON COLUMN ${private}.job.release IS 'The release that it makes, or that answers the same request.';
COMMENT ON COLUMN ${private}.job.due_at IS 'When it is tried next, while it waits.';
