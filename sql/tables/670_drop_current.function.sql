CREATE FUNCTION ${private}.drop_current(dataset int, series text, part text)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
-- DEFINER: the views belong to the owner
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    shown text := (
        SELECT coalesce(drop_current.series, d.name) || '_current' || drop_current.part FROM ${private}.dataset AS d
        WHERE d.dataset_id = drop_current.dataset AND EXISTS (
            SELECT FROM ${private}.method AS m, jsonb_array_elements(m.declaration -> 'relations') AS e
            WHERE e ->> 'suffix' = drop_current.part
        ) AND (drop_current.series IS NULL OR EXISTS (
            SELECT FROM ${private}.release AS r WHERE r.dataset_id = d.dataset_id AND r.series = drop_current.series
        ))
    );
BEGIN
    IF shown IS NULL OR octet_length(shown) > 63 THEN
        RAISE EXCEPTION 'there is no dataset number % with such a view', drop_current.dataset USING ERRCODE = 'QF002';
    END IF;
    EXECUTE format('DROP VIEW IF EXISTS %I.%I', ${release:name}, shown);
END;
$body$;

COMMENT ON FUNCTION ${private}.drop_current(int, text, text) IS
'Drops a _current view of a dataset, or of a series of its releases: of a part of them (_line, for example). Publishing makes it anew.';
