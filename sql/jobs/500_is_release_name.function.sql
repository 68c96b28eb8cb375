CREATE FUNCTION ${private}.is_release_name(name text)
RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    controls text := (SELECT string_agg(chr(code), '') FROM generate_series(1, 127) AS code WHERE code NOT BETWEEN 32 AND 126);
    blanks text := E' \t\n\r\f\v\x1C\x1D\x1E\x1F';
BEGIN
    -- the blanks of Unicode can be written in an encoding that has them
    IF getdatabaseencoding() = 'UTF8' THEN
        blanks := blanks || (
            SELECT string_agg(chr(code), '')
            FROM unnest(ARRAY[133, 160, 5760, 8232, 8233, 8239, 8287, 12288]
                || ARRAY(SELECT generate_series(8192, 8202))) AS code
        );
    END IF;
    -- and a file can be called so
    RETURN name = translate(name, controls || '/\', '') AND NOT starts_with(name, '.')
        AND btrim(name, blanks) <> '' AND octet_length(convert_to(name, 'UTF8')) <= 55
        AND name NOT IN ('catalog', 'series') AND name NOT LIKE '%\_current'
        AND NOT EXISTS (
            SELECT FROM ${private}.method AS m, jsonb_array_elements(m.declaration -> 'relations') AS r
            WHERE r ->> 'suffix' <> '' AND right(is_release_name.name, length(r ->> 'suffix')) = r ->> 'suffix'
        );
END;
$body$;

COMMENT ON FUNCTION ${private}.is_release_name(text) IS
'Whether a release can be called so: up to 55 bytes, a name that a file can have, and not one of our own names.';
