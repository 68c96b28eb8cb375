CREATE FUNCTION ${private}.find_relation(method text, suffix text)
RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    relation jsonb := (
        SELECT e FROM jsonb_array_elements(${private}.find_method(find_relation.method::text) -> 'relations') AS e
        WHERE e ->> 'suffix' = find_relation.suffix AND e ->> 'view' IS NULL
    );
BEGIN
    IF relation IS NULL THEN
        RAISE EXCEPTION 'a release by method % has no table %', quote_nullable(find_relation.method), quote_nullable(find_relation.suffix)
        USING ERRCODE = 'QF001';
    END IF;
    RETURN relation;
END;
$body$;

COMMENT ON FUNCTION ${private}.find_relation(text, text) IS
'What a method declares of a table of its releases: its columns, key and indexes. Internal: called by the functions that make such tables.';
