CREATE FUNCTION ${private}.time_reading(build int)
RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT CASE
        WHEN b.time_unit <> 'timestamp' THEN format('%s in %s', quote_ident(d.time_column), b.time_unit)
        WHEN EXISTS (
            SELECT FROM pg_catalog.pg_class AS c
            JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
            JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attname = d.time_column AND NOT a.attisdropped
            WHERE a.atttypid IN ('pg_catalog.timestamptz'::regtype, 'pg_catalog.timestamptz[]'::regtype)
                -- as it is called now, or was when it was read
                AND ((n.nspname = d.source_schema AND c.relname = d.source_relation) OR EXISTS (
                    SELECT FROM ${private}.build_source AS s
                    WHERE s.build_id = b.build_id AND s.relation_oid::oid = c.oid AND s.database_key = ${private}.database_key()
                        AND s.source_schema = d.source_schema AND s.source_relation = d.source_relation
                ))
        ) THEN quote_ident(d.time_column)
        ELSE format('%s by the clock of %s', quote_ident(d.time_column), d.timezone)
    END
    FROM ${private}.build AS b JOIN ${private}.dataset AS d ON d.dataset_id = b.dataset_id
    WHERE b.build_id = time_reading.build;
END;

COMMENT ON FUNCTION ${private}.time_reading(int) IS
'How a build has read times: by which column, and where that is no timestamptz, by which clock or unit. Two builds that read them alike have a row in the same window.';
