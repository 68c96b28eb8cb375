-- identity: FUNCTION ${private}.index_staging(int, text)
CREATE FUNCTION ${private}.index_staging(release int, what text)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
-- DEFINER: an index needs the owner
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    made text := 'staging_' || index_staging.release;
BEGIN
    IF index_staging.what = 'key' THEN
        EXECUTE format('CREATE UNIQUE INDEX ON %I.%I (trajectory_id, seq)', ${private:name}, made);
    ELSIF index_staging.what = 'at' THEN
        EXECUTE format('CREATE INDEX ON %I.%I (at)', ${private:name}, made);
    ELSIF index_staging.what IN ('geom', 'area', 'during') THEN
        EXECUTE format('CREATE INDEX ON %I.%I USING gist (%I)', ${private:name}, made, index_staging.what);
    ELSIF index_staging.what = 'lines' THEN
        EXECUTE format('ALTER TABLE %I.%I ADD PRIMARY KEY (trajectory_id, day)', ${private:name}, made || '_line');
        EXECUTE format('CREATE INDEX ON %I.%I USING gist (geom)', ${private:name}, made || '_line');
        EXECUTE format('ANALYZE %I.%I', ${private:name}, made || '_line');
    ELSE
        RAISE EXCEPTION 'a release has no index of %', quote_nullable(index_staging.what) USING ERRCODE = 'QF001';
    END IF;
END;
$body$;

COMMENT ON FUNCTION ${private}.index_staging(int, text) IS
'Makes an index of a release that is being written: key, at, geom, area or during of its samples, or all that its lines need.';
REVOKE ALL ON FUNCTION ${private}.index_staging(int, text) FROM PUBLIC;
