CREATE FUNCTION ${private}.cancel_job(id bigint) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
-- DEFINER: who cancelled is written by this function, not by whoever calls it
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    was text;
BEGIN
    SELECT q.state INTO was FROM ${private}.job_queue AS q WHERE q.job_id = cancel_job.id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no job %', coalesce(cancel_job.id::text, 'NULL')
        USING ERRCODE = 'QF002', HINT = '`freqdp jobs` shows what there is';
    END IF;
    IF was NOT IN ('waiting', 'running') THEN
        RAISE EXCEPTION 'job % is % already', cancel_job.id, was
        USING ERRCODE = 'QF001', HINT = 'a release is taken back with `freqdp release withdraw`';
    END IF;
    -- A job that has begun is ended by a worker: its release is given up, its tables are dropped.
    UPDATE ${private}.job_queue AS q
    SET
        cancel_asked_by = session_user::text,
        state = CASE WHEN was = 'waiting' AND q.release_id IS NULL THEN 'cancelled' ELSE q.state END,
        ended_at = CASE WHEN was = 'waiting' AND q.release_id IS NULL THEN clock_timestamp() END,
        due_at = clock_timestamp()
    WHERE q.job_id = cancel_job.id
    RETURNING q.state INTO was;
    PERFORM ${private}.wake_workers();
    RETURN CASE was WHEN 'cancelled' THEN was ELSE 'cancelling' END;
END;
$body$;

COMMENT ON FUNCTION ${private}.cancel_job(bigint) IS
'Cancels a job: at once while it waits (cancelled), soon if a worker is at it (cancelling). What it has spent stays spent.';
