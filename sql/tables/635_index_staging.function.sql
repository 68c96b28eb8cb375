CREATE FUNCTION ${private}.index_staging(release int, method text, suffix text, attribute text)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
-- DEFINER: an index needs the owner
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    relation jsonb := ${private}.find_relation(index_staging.method::text, index_staging.suffix::text);
    made text := 'staging_' || index_staging.release || index_staging.suffix;
    key text[] := ARRAY(
        SELECT 'window_start' FROM ${private}.release AS r JOIN ${private}.build AS b ON b.build_id = r.build_id
        WHERE r.release_id = index_staging.release AND r.series IS NOT NULL AND b.time_window IS NOT NULL
        UNION ALL
        SELECT jsonb_array_elements_text(relation -> 'key')
    );
    kind text := (
        SELECT c ->> 1 FROM jsonb_array_elements(relation -> 'columns') AS c
        WHERE c ->> 0 = index_staging.attribute AND relation -> 'indexes' ? index_staging.attribute
    );
BEGIN
    IF index_staging.attribute IS NULL AND cardinality(key) = 1 THEN
        EXECUTE format('CREATE UNIQUE INDEX ON %I.%I (%I)', ${private:name}, made, key[1]);
    ELSIF index_staging.attribute IS NULL AND cardinality(key) = 2 THEN
        EXECUTE format('CREATE UNIQUE INDEX ON %I.%I (%I, %I)', ${private:name}, made, key[1], key[2]);
    ELSIF index_staging.attribute IS NULL AND cardinality(key) = 3 THEN
        EXECUTE format('CREATE UNIQUE INDEX ON %I.%I (%I, %I, %I)', ${private:name}, made, key[1], key[2], key[3]);
    ELSIF index_staging.attribute IS NULL AND cardinality(key) = 4 THEN
        EXECUTE format('CREATE UNIQUE INDEX ON %I.%I (%I, %I, %I, %I)', ${private:name}, made, key[1], key[2], key[3], key[4]);
    ELSIF kind LIKE 'geometry%' OR kind LIKE '%range' THEN
        EXECUTE format('CREATE INDEX ON %I.%I USING gist (%I)', ${private:name}, made, index_staging.attribute);
    ELSIF kind IS NOT NULL THEN
        EXECUTE format('CREATE INDEX ON %I.%I (%I)', ${private:name}, made, index_staging.attribute);
    ELSE
        RAISE EXCEPTION 'table % of a release has no index of %', quote_nullable(index_staging.suffix), quote_nullable(index_staging.attribute)
        USING ERRCODE = 'QF001';
    END IF;
END;
$body$;

COMMENT ON FUNCTION ${private}.index_staging(int, text, text, text) IS
'Makes an index of a release that is being written, as its method declares it: of an attribute, or without one of the key, of one to three columns, in a series of windows after the window''s first day.';
