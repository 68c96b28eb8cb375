CREATE FUNCTION ${private}.may_name_same_objects(relation_oid bigint, one text, other text)
RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    -- a view may give a column another name: only two columns of the relation itself are known to differ
    SELECT may_name_same_objects.one = may_name_same_objects.other OR 2 > (
        SELECT count(*) FROM pg_catalog.pg_attribute AS a
        WHERE a.attrelid = may_name_same_objects.relation_oid::oid AND NOT a.attisdropped
            AND a.attname IN (may_name_same_objects.one, may_name_same_objects.other)
    );
END;

COMMENT ON FUNCTION ${private}.may_name_same_objects(bigint, text, text) IS
'Whether two names of object columns may be one column of a relation: unless both are columns of it. Internal.';
REVOKE ALL ON FUNCTION ${private}.may_name_same_objects(bigint, text, text) FROM PUBLIC;
