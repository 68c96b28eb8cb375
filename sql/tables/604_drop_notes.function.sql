CREATE FUNCTION ${private}.drop_notes(kind text, number int)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
-- DEFINER: dropping a table needs its owner
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    IF drop_notes.kind NOT IN ('build', 'release') THEN
        RAISE EXCEPTION 'there are no notes of %', quote_nullable(drop_notes.kind) USING ERRCODE = 'QF001';
    END IF;
    EXECUTE format(
        'DROP TABLE IF EXISTS %I.%I', ${private:name},
        CASE drop_notes.kind WHEN 'build' THEN 'sample_' ELSE 'staging_' END || drop_notes.number || '_part'
    );
END;
$body$;

COMMENT ON FUNCTION ${private}.drop_notes(text, int) IS
'Drops the notes of a build or a release that was written in parts.';
