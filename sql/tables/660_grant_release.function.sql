-- identity: FUNCTION ${private}.grant_release(int)
CREATE FUNCTION ${private}.grant_release(release int)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
-- DEFINER: granting needs the owner
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    name text;
    item record;
BEGIN
    SELECT r.name INTO name FROM ${private}.release AS r
    WHERE r.release_id = grant_release.release AND r.state = 'published' AND r.grantable AND NOT r.held;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'release number % is not for analysts: not published, held, or never to be granted', grant_release.release
        USING ERRCODE = 'QF001';
    END IF;
    IF EXISTS (SELECT FROM pg_catalog.pg_roles AS r WHERE r.rolname = ${analyst:name}) THEN
        FOR item IN
            SELECT c.relname FROM pg_catalog.pg_class AS c
            WHERE c.oid IN (
                to_regclass(format('%I.%I', ${release:name}, name)),
                to_regclass(format('%I.%I', ${release:name}, name || '_line')),
                to_regclass(format('%I.%I', ${release:name}, name || '_trip'))
            )
        LOOP
            EXECUTE format('GRANT SELECT ON %I.%I TO %I', ${release:name}, item.relname, ${analyst:name});
        END LOOP;
    END IF;
    -- who may read the table may know its statistics, and plans need them
    FOR item IN
        SELECT c.relname, a.attname
        FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid
        WHERE c.oid IN (
                to_regclass(format('%I.%I', ${release:name}, name)),
                to_regclass(format('%I.%I', ${release:name}, name || '_line'))
            )
            AND a.attname IN ('geom', 'area') AND a.attnum > 0
    LOOP
        EXECUTE format('ALTER TABLE %I.%I ALTER COLUMN %I SET STATISTICS -1', ${release:name}, item.relname, item.attname);
        EXECUTE format('ANALYZE %I.%I (%I)', ${release:name}, item.relname, item.attname);
    END LOOP;
END;
$body$;

COMMENT ON FUNCTION ${private}.grant_release(int) IS
'Lets analysts read a published release that is grantable and not held; refuses any other (SQLSTATE QF001).';
REVOKE ALL ON FUNCTION ${private}.grant_release(int) FROM PUBLIC;
