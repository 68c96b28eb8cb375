CREATE FUNCTION ${private}.leave_series(release int, detach boolean)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
-- DEFINER: detaching needs the owner
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    item record;
    grantee text;
BEGIN
    FOR item IN
        SELECT c.relname AS child, p.relname AS parent
        FROM ${private}.release AS r
        CROSS JOIN unnest(r.relations) AS s (suffix)
        JOIN pg_catalog.pg_class AS c ON c.oid = to_regclass(format('%I.%I', ${release:name}, r.name || s.suffix))
        JOIN pg_catalog.pg_inherits AS i ON i.inhrelid = c.oid
        JOIN pg_catalog.pg_class AS p ON p.oid = i.inhparent
        WHERE r.release_id = leave_series.release AND r.state = 'withdrawing'
            AND p.relname = r.series || s.suffix AND p.relnamespace = c.relnamespace
    LOOP
        IF leave_series.detach THEN
            EXECUTE format('ALTER TABLE %I.%I DETACH PARTITION %I.%I', ${release:name}, item.parent, ${release:name}, item.child);
        END IF;
        FOR grantee IN
            SELECT r.rolname FROM pg_catalog.pg_roles AS r WHERE r.rolname IN (${analyst:name}, ${runner:name})
        LOOP
            IF leave_series.detach THEN
                EXECUTE format('GRANT SELECT ON %I.%I TO %I', ${release:name}, item.parent, grantee);
            ELSE
                EXECUTE format('REVOKE SELECT ON %I.%I FROM %I', ${release:name}, item.parent, grantee);
            END IF;
        END LOOP;
    END LOOP;
END;
$body$;

COMMENT ON FUNCTION ${private}.leave_series(int, boolean) IS
'Takes the tables of a release that is being withdrawn out of its series; without detach, where somebody is reading it, takes the series from its readers until that can be done.';
