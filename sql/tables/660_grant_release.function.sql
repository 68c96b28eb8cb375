CREATE FUNCTION ${private}.grant_release(release int)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
-- DEFINER: granting needs the owner
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    asked record;
    item record;
BEGIN
    SELECT r.name, r.relations INTO asked FROM ${private}.release AS r
    WHERE r.release_id = grant_release.release AND r.state = 'published' AND r.grantable AND NOT r.held;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'release number % is not for analysts: not published, held, or never to be granted', grant_release.release
        USING ERRCODE = 'QF001';
    END IF;
    IF EXISTS (SELECT FROM pg_catalog.pg_roles AS r WHERE r.rolname = ${analyst:name}) THEN
        FOR item IN
            SELECT c.relname FROM pg_catalog.pg_class AS c
            WHERE c.oid IN (
                SELECT to_regclass(format('%I.%I', ${release:name}, asked.name || part)) FROM unnest(asked.relations) AS part
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
                SELECT to_regclass(format('%I.%I', ${release:name}, asked.name || part)) FROM unnest(asked.relations) AS part
            )
            AND c.relkind = 'r' AND a.attnum > 0 AND a.attstattarget = 0
    LOOP
        EXECUTE format('ALTER TABLE %I.%I ALTER COLUMN %I SET STATISTICS -1', ${release:name}, item.relname, item.attname);
        EXECUTE format('ANALYZE %I.%I (%I)', ${release:name}, item.relname, item.attname);
    END LOOP;
    PERFORM ${private}.join_series(grant_release.release::int);
END;
$body$;

COMMENT ON FUNCTION ${private}.grant_release(int) IS
'Lets analysts read a published release that is grantable and not held, also as a part of its series; refuses any other (SQLSTATE QF001).';
