CREATE FUNCTION ${private}.require_source(named_schema text, named_relation text)
RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    made text;
BEGIN
    SELECT min(format('%I.%I', l.source_schema, l.source_relation)) INTO made
    FROM ${private}.source_lineage(require_source.named_schema::text, require_source.named_relation::text) AS l
    WHERE l.source_schema IN (${private:name}, ${release:name});
    IF made IS NOT NULL THEN
        RAISE EXCEPTION '"source" %.% reads %, which freqdp has made of a source that has a budget',
            quote_ident(require_source.named_schema), quote_ident(require_source.named_relation), made
        USING ERRCODE = 'QF001', HINT = 'name the table or view that it was made of';
    END IF;
END;
$body$;

COMMENT ON FUNCTION ${private}.require_source(text, text) IS
'Refuses (SQLSTATE QF001) a source that reads builds or releases: the same rows would have another budget. Internal.';
