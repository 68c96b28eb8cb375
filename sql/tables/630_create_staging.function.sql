CREATE FUNCTION ${private}.create_staging(release int, method text, suffix text, srid int)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
-- DEFINER: whoever writes a release fills tables of the owner's, and makes none
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    relation jsonb := ${private}.find_relation(create_staging.method::text, create_staging.suffix::text);
    made text := 'staging_' || create_staging.release || create_staging.suffix;
    item record;
    first_day date := (
        SELECT w.first_day FROM ${private}.release AS r
        JOIN ${private}.build AS b ON b.build_id = r.build_id
        JOIN ${private}.dataset AS d ON d.dataset_id = r.dataset_id
        CROSS JOIN LATERAL ${private}.find_window(b.time_window::text, d.timezone::text) AS w
        WHERE r.release_id = create_staging.release AND r.series IS NOT NULL AND b.time_window IS NOT NULL
    );
BEGIN
    EXECUTE format('CREATE TABLE %I.%I ()', ${private:name}, made);
    IF first_day IS NOT NULL THEN
        -- the constraint spares the scan when it becomes a partition
        EXECUTE format(
            'ALTER TABLE %I.%I ADD COLUMN window_start date NOT NULL DEFAULT %L::date CHECK (window_start = %L::date)',
            ${private:name}, made, first_day, first_day
        );
    END IF;
    FOR item IN
        SELECT c.value ->> 0 AS name, c.value ->> 1 AS kind, substring(c.value ->> 1 FROM '^geometry[(](.*)[)]$') AS shape
        FROM jsonb_array_elements(relation -> 'columns') WITH ORDINALITY AS c (value, place) ORDER BY c.place
    LOOP
        IF item.shape IS NULL THEN
            EXECUTE format(
                'ALTER TABLE %I.%I ADD COLUMN %I pg_catalog.%I NOT NULL', ${private:name}, made, item.name, item.kind
            );
        ELSE
            EXECUTE format(
                'ALTER TABLE %I.%I ADD COLUMN %I %I.geometry(%L, %L) NOT NULL',
                ${private:name}, made, item.name, ${postgis:name}, item.shape, create_staging.srid
            );
            -- PostGIS tells everybody what the statistics of a geometry say: they are made when it is granted
            EXECUTE format('ALTER TABLE %I.%I ALTER COLUMN %I SET STATISTICS 0', ${private:name}, made, item.name);
            -- to compress them takes longer than to write them
            EXECUTE format('ALTER TABLE %I.%I ALTER COLUMN %I SET STORAGE EXTERNAL', ${private:name}, made, item.name);
        END IF;
    END LOOP;
    IF create_staging.suffix = '' AND (${private}.find_method(create_staging.method::text) ->> 'keeps_columns')::boolean THEN
        FOR item IN
            SELECT c.value ->> 0 AS name, c.value ->> 1 AS kind
            FROM ${private}.release AS r
            JOIN ${private}.build AS b ON b.build_id = r.build_id
            CROSS JOIN LATERAL jsonb_array_elements(b.kept -> 'columns') WITH ORDINALITY AS c (value, place)
            WHERE r.release_id = create_staging.release AND c.value ->> 1 IN ('text', 'bool', 'int2', 'int4', 'int8')
            ORDER BY c.place
        LOOP
            EXECUTE format('ALTER TABLE %I.%I ADD COLUMN %I pg_catalog.%I', ${private:name}, made, item.name, item.kind);
        END LOOP;
    END IF;
    PERFORM ${private}.let_runners_fill(made::text);
END;
$body$;

COMMENT ON FUNCTION ${private}.create_staging(int, text, text, int) IS
'Makes an empty table for a release that is being written, as its method declares the one of this suffix; runners may read and fill it. In a series of windows every row has the first day of its window. The table of samples has the columns that the build carries along, if the method can.';
