CREATE FUNCTION ${private}.revoke_release(release int, kind text)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
-- DEFINER: revoking needs the owner
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    item record;
BEGIN
    FOR item IN
        SELECT DISTINCT c.relname, a.rolname
        FROM ${private}.release AS r
        JOIN ${private}.dataset AS d ON d.dataset_id = r.dataset_id
        CROSS JOIN unnest(r.relations) AS p (part)
        JOIN pg_catalog.pg_class AS c ON c.oid = to_regclass(format(
            '%I.%I', ${release:name},
            CASE revoke_release.kind WHEN '' THEN r.name WHEN '_current' THEN coalesce(r.series, d.name) || '_current' END || p.part
        ))
        CROSS JOIN LATERAL (
            SELECT (aclexplode(c.relacl)).grantee
            UNION
            SELECT (aclexplode(t.attacl)).grantee FROM pg_catalog.pg_attribute AS t
            WHERE t.attrelid = c.oid AND NOT t.attisdropped
        ) AS granted
        LEFT JOIN pg_catalog.pg_roles AS a ON a.oid = granted.grantee
        WHERE r.release_id = revoke_release.release AND r.state = 'withdrawing' AND granted.grantee <> c.relowner
    LOOP
        IF item.rolname IS NULL THEN
            EXECUTE format('REVOKE ALL ON %I.%I FROM PUBLIC CASCADE', ${release:name}, item.relname);
        ELSE
            EXECUTE format('REVOKE ALL ON %I.%I FROM %I CASCADE', ${release:name}, item.relname, item.rolname);
        END IF;
    END LOOP;
END;
$body$;

COMMENT ON FUNCTION ${private}.revoke_release(int, text) IS
'Takes a release that is being withdrawn from everybody but its owner; kind _current: the views over its dataset or series, which publishing grants again.';
