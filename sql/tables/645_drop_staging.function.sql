CREATE FUNCTION ${private}.drop_staging(release int)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
-- DEFINER: dropping a table needs its owner
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    made name;
BEGIN
    -- the notes of those who write it in parts last: they tell a worker of a dead run that it has ended
    FOR made IN
        SELECT c.relname FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = ${private:name} AND c.relkind = 'r'
            AND c.relname ~ ('^staging_' || drop_staging.release || '(_[a-z_]+)?$')
        ORDER BY c.relname LIKE '%\_part', c.relname
    LOOP
        EXECUTE format('DROP TABLE IF EXISTS %I.%I', ${private:name}, made);
    END LOOP;
END;
$body$;

COMMENT ON FUNCTION ${private}.drop_staging(int) IS
'Drops what was written of a release and not published.';
