CREATE FUNCTION ${private}.source_lineage(named_schema text, named_relation text)
RETURNS TABLE (database_key text, relation_oid bigint, source_schema text, source_relation text, relation_kind text)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    -- Views lead to what they read, partitions and children to their parents, and these to all of
    -- theirs. What belongs to an extension, such as spatial_ref_sys, is nobody's data.
    WITH RECURSIVE behind (oid) AS (
        SELECT c.oid
        FROM pg_catalog.pg_class AS c
        JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = named_schema AND c.relname = named_relation
        UNION
        SELECT next.oid
        FROM behind AS b
        -- an array, and OFFSET 0 below: of the thousands of partitions of a series, no plan reads more than are asked for
        CROSS JOIN LATERAL unnest(ARRAY(
            SELECT d.refobjid
            FROM pg_catalog.pg_class AS v
            JOIN pg_catalog.pg_rewrite AS w ON w.ev_class = v.oid
            JOIN pg_catalog.pg_depend AS d ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.objid = w.oid
                AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid <> v.oid
            WHERE v.oid = b.oid AND v.relkind IN ('v', 'm')
            UNION ALL
            SELECT i.inhparent FROM pg_catalog.pg_inherits AS i WHERE i.inhrelid = b.oid
            UNION ALL
            SELECT i.inhrelid FROM pg_catalog.pg_inherits AS i WHERE i.inhparent = b.oid
        )) AS next (oid)
    )
    SELECT ${private}.database_key(), c.oid::bigint, c.nspname::text, c.relname::text, c.relkind::text
    FROM behind AS b
    CROSS JOIN LATERAL (
        SELECT k.oid, n.nspname, k.relname, k.relkind
        FROM pg_catalog.pg_class AS k
        JOIN pg_catalog.pg_namespace AS n ON n.oid = k.relnamespace
        WHERE k.oid = b.oid AND k.relkind IN ('r', 'p', 'f', 'v', 'm')
            AND n.nspname NOT IN ('pg_catalog', 'information_schema')
            AND NOT EXISTS (
                SELECT FROM pg_catalog.pg_depend AS e
                WHERE e.classid = 'pg_catalog.pg_class'::regclass AND e.objid = b.oid AND e.deptype = 'e'
            )
        OFFSET 0
    ) AS c;
END;

COMMENT ON FUNCTION ${private}.source_lineage(text, text) IS
'All relations that a relation''s rows come from or through: itself, what views read, partitions, parents and children. PostgreSQL does not record what a foreign table, a function or a copy was made from.';
