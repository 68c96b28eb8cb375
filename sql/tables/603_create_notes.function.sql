CREATE FUNCTION ${private}.create_notes(kind text, number int)
RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
-- DEFINER: whoever writes notes makes no table
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    run bigint := pg_current_xact_id()::text::bigint;
    made text := CASE create_notes.kind WHEN 'build' THEN 'sample_' WHEN 'release' THEN 'staging_' END
        || create_notes.number || '_part';
BEGIN
    IF made IS NULL THEN
        RAISE EXCEPTION 'there are no notes of %', quote_nullable(create_notes.kind) USING ERRCODE = 'QF001';
    END IF;
    EXECUTE format(
        'CREATE TABLE %I.%I (part int PRIMARY KEY, run bigint NOT NULL CHECK (run = %L))', ${private:name}, made, run
    );
    PERFORM ${private}.let_runners_fill(made::text);
    RETURN run;
END;
$body$;

COMMENT ON FUNCTION ${private}.create_notes(text, int) IS
'Makes the table in which those who write a build or a release in parts note what they have written; returns the number of the run.';
