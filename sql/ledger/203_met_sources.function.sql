CREATE FUNCTION ${private}.met_sources(named_schema text, named_relation text, build int)
RETURNS TABLE (
    database_key text, relation_oid bigint, source_schema text, source_relation text,
    population_id int, object_column text
)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    WITH behind AS (
        SELECT l.database_key, l.relation_oid, l.source_schema, l.source_relation
        FROM ${private}.source_lineage(named_schema, named_relation) AS l
        UNION
        SELECT b.database_key, b.relation_oid, b.source_schema, b.source_relation
        FROM ${private}.build_source AS b
        WHERE b.build_id = build
    )
    SELECT r.database_key, r.relation_oid, r.source_schema, r.source_relation, s.population_id, s.object_column
    FROM behind AS r
    JOIN ${private}.population_source AS s ON s.relation_oid = r.relation_oid AND s.database_key = r.database_key
    UNION
    SELECT r.database_key, r.relation_oid, r.source_schema, r.source_relation, s.population_id, s.object_column
    FROM behind AS r
    JOIN ${private}.population_source AS s
        ON s.source_schema = r.source_schema AND s.source_relation = r.source_relation
    UNION
    SELECT r.database_key, r.relation_oid, r.source_schema, r.source_relation, NULL::int, NULL::text
    FROM behind AS r;
END;

COMMENT ON FUNCTION ${private}.met_sources(text, text, int) IS
'The relations behind a source, and behind a build of it, once by itself and once with every population that has met it, by OID or by name.';
