-- identity: FUNCTION ${private}.drop_staging(int)
CREATE FUNCTION ${private}.drop_staging(release int)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
-- DEFINER: dropping a table needs its owner
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    EXECUTE format('DROP TABLE IF EXISTS %I.%I', ${private:name}, 'staging_' || drop_staging.release);
    EXECUTE format('DROP TABLE IF EXISTS %I.%I', ${private:name}, 'staging_' || drop_staging.release || '_line');
    PERFORM ${private}.drop_notes('release'::text, drop_staging.release::int);
END;
$body$;

COMMENT ON FUNCTION ${private}.drop_staging(int) IS
'Drops what was written of a release and not published.';
REVOKE ALL ON FUNCTION ${private}.drop_staging(int) FROM PUBLIC;
