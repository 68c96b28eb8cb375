CREATE FUNCTION ${private}.wake_workers() RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    -- The channel carries the name of this schema: two installations do not wake each other.
    SELECT pg_notify(n.nspname || '_job', '')
    FROM pg_catalog.pg_class AS c
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.oid = (
        SELECT q.tableoid FROM ${private}.job_queue AS q
        UNION ALL
        SELECT s.tableoid FROM ${private}.schedule AS s
        LIMIT 1
    );
END;

COMMENT ON FUNCTION ${private}.wake_workers() IS 'Tells workers that there may be something to do.';
