CREATE FUNCTION ${private}.drop_build(build int)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
-- DEFINER: dropping a table needs its owner
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    part text;
BEGIN
    IF EXISTS (
        SELECT FROM ${private}.build AS b
        JOIN ${private}.dataset AS d ON d.dataset_id = b.dataset_id
        WHERE b.build_id = drop_build.build AND (
            (b.build_id = d.current_build AND d.dropped_at IS NULL)
            -- the newest window, which somebody may be about to release
            OR (b.time_window IS NOT NULL AND b.dropped_at IS NULL AND d.dropped_at IS NULL AND NOT EXISTS (
                SELECT FROM ${private}.build AS n
                WHERE n.dataset_id = b.dataset_id AND n.time_window IS NOT NULL AND n.dropped_at IS NULL
                    AND n.build_id > b.build_id
            ))
            OR EXISTS (
                SELECT FROM ${private}.release AS r
                WHERE r.build_id = b.build_id AND r.state IN ('running', 'published')
            )
        )
    ) THEN
        RAISE EXCEPTION 'build % is in use', drop_build.build
        USING ERRCODE = 'QF004', HINT = 'its dataset serves it, or a release was made from it';
    END IF;
    FOREACH part IN ARRAY ARRAY['trajectory', 'location', 'sample', 'segment', 'grid_cell'] LOOP
        EXECUTE format('DROP TABLE IF EXISTS %I.%I', ${private:name}, part || '_' || drop_build.build);
    END LOOP;
    PERFORM ${private}.drop_notes('build'::text, drop_build.build::int);
END;
$body$;

COMMENT ON FUNCTION ${private}.drop_build(int) IS
'Drops the tables of a build, attached or not, that no dataset serves and no release needs; refuses any other (SQLSTATE QF004).';
