CREATE FUNCTION ${private}.meet_sources(
    population int, named_schema text, named_relation text, object_column text, build int
) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    INSERT INTO ${private}.population_source
        (population_id, database_key, relation_oid, source_schema, source_relation, object_column)
    SELECT DISTINCT population, m.database_key, m.relation_oid, m.source_schema, m.source_relation,
        CASE WHEN EXISTS (
            SELECT FROM pg_catalog.pg_attribute AS a
            WHERE a.attrelid = m.relation_oid::oid AND a.attname = meet_sources.object_column AND NOT a.attisdropped
        ) THEN meet_sources.object_column ELSE '' END
    FROM ${private}.met_sources(named_schema, named_relation, build) AS m
    ON CONFLICT DO NOTHING;
END;

COMMENT ON FUNCTION ${private}.meet_sources(int, text, text, text, int) IS
'Records that a population was read from the relations behind a source, and behind a build of it. Internal.';
