CREATE FUNCTION ${private}.finish_staging(release int, suffix text)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
-- DEFINER: a key needs the owner
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    made text := 'staging_' || finish_staging.release || finish_staging.suffix;
    key name;
BEGIN
    SELECT c.relname INTO STRICT key
    FROM pg_catalog.pg_index AS i JOIN pg_catalog.pg_class AS c ON c.oid = i.indexrelid
    WHERE i.indrelid = to_regclass(format('%I.%I', ${private:name}, made)) AND i.indisunique;
    EXECUTE format('ALTER TABLE %I.%I ADD PRIMARY KEY USING INDEX %I', ${private:name}, made, key);
    EXECUTE format('ANALYZE %I.%I', ${private:name}, made);
END;
$body$;

COMMENT ON FUNCTION ${private}.finish_staging(int, text) IS
'Makes the unique index of a table of a release that is being written its primary key.';
