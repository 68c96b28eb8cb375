CREATE FUNCTION ${private}.show_current(release int, part text)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
-- DEFINER: the views belong to the owner
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    newest record;
    shown text;
    grantee text;
    item record;
BEGIN
    SELECT r.name || show_current.part AS relation, r.name, r.version, r.series, d.name AS dataset INTO newest
    FROM ${private}.release AS r JOIN ${private}.dataset AS d ON d.dataset_id = r.dataset_id
    WHERE r.release_id = show_current.release AND r.state = 'published' AND r.grantable AND NOT r.held
        AND show_current.part = ANY (r.relations);
    shown := coalesce(newest.series, newest.dataset) || '_current' || show_current.part;
    IF shown IS NULL OR octet_length(shown) > 63 THEN
        RAISE EXCEPTION 'release number % cannot be shown as the newest', show_current.release USING ERRCODE = 'QF001';
    END IF;
    EXECUTE format(
        'CREATE OR REPLACE VIEW %I.%I AS SELECT * FROM %I.%I', ${release:name}, shown, ${release:name}, newest.relation
    );
    FOR grantee IN
        SELECT r.rolname FROM pg_catalog.pg_roles AS r WHERE r.rolname IN (${analyst:name}, ${runner:name})
    LOOP
        EXECUTE format('GRANT SELECT ON %I.%I TO %I', ${release:name}, shown, grantee);
    END LOOP;
    -- the view's columns say what the release's say
    FOR item IN
        SELECT a.attname, col_description(a.attrelid, a.attnum) AS words FROM pg_catalog.pg_attribute AS a
        WHERE a.attrelid = to_regclass(format('%I.%I', ${release:name}, newest.relation))
            AND a.attnum > 0 AND NOT a.attisdropped
    LOOP
        EXECUTE format('COMMENT ON COLUMN %I.%I.%I IS %L', ${release:name}, shown, item.attname, item.words);
    END LOOP;
    EXECUTE format(
        'COMMENT ON VIEW %I.%I IS %L', ${release:name}, shown,
        format(
            'The newest release that analysts may read of dataset %s%s: now %s, version %s. See catalog.',
            newest.dataset, ', series ' || newest.series, newest.name, newest.version
        )
    );
END;
$body$;

COMMENT ON FUNCTION ${private}.show_current(int, text) IS
'Points a _current view of a dataset, or of the release''s series, at a part of a release (_line, for example) that is granted.';
