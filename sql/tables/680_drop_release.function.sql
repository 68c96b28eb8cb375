-- identity: FUNCTION ${private}.drop_release(int, boolean)
CREATE FUNCTION ${private}.drop_release(release int, only_empty boolean)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
-- DEFINER: dropping a table needs its owner
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    name text;
    relation text;
BEGIN
    SELECT r.name INTO name FROM ${private}.release AS r
    WHERE r.release_id = drop_release.release AND r.state = 'withdrawing';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'release number % is not being withdrawn', drop_release.release USING ERRCODE = 'QF001';
    END IF;
    -- what was dropped or renamed by hand is not there: what is left of the release still goes
    FOREACH relation IN ARRAY ARRAY[name, name || '_line'] LOOP
        IF to_regclass(format('%I.%I', ${release:name}, relation)) IS NOT NULL THEN
            EXECUTE format('TRUNCATE %I.%I', ${release:name}, relation);
        END IF;
    END LOOP;
    IF NOT drop_release.only_empty THEN
        EXECUTE format('DROP VIEW IF EXISTS %I.%I', ${release:name}, name || '_trip');
        EXECUTE format('DROP TABLE IF EXISTS %I.%I', ${release:name}, name);
        EXECUTE format('DROP TABLE IF EXISTS %I.%I', ${release:name}, name || '_line');
    END IF;
END;
$body$;

COMMENT ON FUNCTION ${private}.drop_release(int, boolean) IS
'Empties the tables of a release that is being withdrawn, and drops them unless views of others hang on them; refuses any other (SQLSTATE QF001).';
REVOKE ALL ON FUNCTION ${private}.drop_release(int, boolean) FROM PUBLIC;
