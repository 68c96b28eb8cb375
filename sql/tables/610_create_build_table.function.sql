CREATE FUNCTION ${private}.create_build_table(build int, part text)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
-- DEFINER: whoever builds fills tables of the owner's, and makes none
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    made text := create_build_table.part || '_' || create_build_table.build;
BEGIN
    IF create_build_table.part IS NULL OR create_build_table.build IS NULL OR create_build_table.build < 1
        OR create_build_table.part NOT IN ('trajectory', 'location', 'sample', 'segment', 'grid_cell') THEN
        RAISE EXCEPTION 'a build has no table %', quote_nullable(made) USING ERRCODE = 'QF001';
    END IF;
    EXECUTE format(
        'CREATE TABLE %I.%I (LIKE %I.%I INCLUDING DEFAULTS INCLUDING STORAGE, CHECK (build_id = %L))',
        ${private:name}, made, ${private:name}, create_build_table.part, create_build_table.build
    );
    -- PostGIS tells everybody what the statistics of a geometry say, and nothing here is searched by them
    IF create_build_table.part IN ('location', 'segment') THEN
        EXECUTE format('ALTER TABLE %I.%I ALTER COLUMN geom SET STATISTICS 0', ${private:name}, made);
    END IF;
    EXECUTE format(
        'COMMENT ON TABLE %I.%I IS %L', ${private:name}, made,
        format('Build %s: %s rows.', create_build_table.build, create_build_table.part)
    );
    PERFORM ${private}.let_runners_fill(made::text);
END;
$body$;

COMMENT ON FUNCTION ${private}.create_build_table(int, text) IS
'Makes an empty table for a part of a build; runners may read and fill it.';
