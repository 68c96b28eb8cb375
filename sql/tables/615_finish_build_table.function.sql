CREATE FUNCTION ${private}.finish_build_table(build int, part text)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
-- DEFINER: an index needs the owner
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    made text := finish_build_table.part || '_' || finish_build_table.build;
BEGIN
    IF finish_build_table.part = 'trajectory' THEN
        EXECUTE format('ALTER TABLE %I.%I ADD PRIMARY KEY (build_id, trajectory_id)', ${private:name}, made);
    ELSIF finish_build_table.part = 'location' THEN
        EXECUTE format('ALTER TABLE %I.%I ADD PRIMARY KEY (build_id, location_id)', ${private:name}, made);
    ELSIF finish_build_table.part = 'sample' THEN
        EXECUTE format('ALTER TABLE %I.%I ADD PRIMARY KEY (build_id, trajectory_id, seq)', ${private:name}, made);
    ELSIF finish_build_table.part = 'grid_cell' THEN
        EXECUTE format('ALTER TABLE %I.%I ADD PRIMARY KEY (build_id, cell_id)', ${private:name}, made);
    ELSIF finish_build_table.part = 'segment' THEN
        EXECUTE format('CREATE INDEX ON %I.%I (build_id, cell_id)', ${private:name}, made);
    ELSE
        RAISE EXCEPTION 'a build has no table %', quote_nullable(made) USING ERRCODE = 'QF001';
    END IF;
    EXECUTE format('ANALYZE %I.%I', ${private:name}, made);
END;
$body$;

COMMENT ON FUNCTION ${private}.finish_build_table(int, text) IS
'Gives a filled table of a build its key and its statistics.';
