CREATE FUNCTION ${private}.drop_release(release int, only_empty boolean)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
-- DEFINER: dropping a table needs its owner
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    item record;
BEGIN
    IF NOT EXISTS (
        SELECT FROM ${private}.release AS r WHERE r.release_id = drop_release.release AND r.state = 'withdrawing'
    ) THEN
        RAISE EXCEPTION 'release number % is not being withdrawn', drop_release.release USING ERRCODE = 'QF001';
    END IF;
    -- views before the tables that they show. What was dropped or renamed by hand is not there: what is left still goes
    FOR item IN
        SELECT c.relname, c.relkind
        FROM ${private}.release AS r
        CROSS JOIN unnest(r.relations) AS part
        JOIN pg_catalog.pg_class AS c ON c.oid = to_regclass(format('%I.%I', ${release:name}, r.name || part))
        WHERE r.release_id = drop_release.release
        ORDER BY c.relkind DESC, c.relname
    LOOP
        IF item.relkind = 'r' THEN
            EXECUTE format('TRUNCATE %I.%I', ${release:name}, item.relname);
        END IF;
        IF NOT drop_release.only_empty AND item.relkind = 'r' THEN
            EXECUTE format('DROP TABLE %I.%I', ${release:name}, item.relname);
        ELSIF NOT drop_release.only_empty THEN
            EXECUTE format('DROP VIEW %I.%I', ${release:name}, item.relname);
        END IF;
    END LOOP;
END;
$body$;

COMMENT ON FUNCTION ${private}.drop_release(int, boolean) IS
'Empties the tables of a release that is being withdrawn, and drops them unless views of others hang on them; refuses any other (SQLSTATE QF001).';
