CREATE FUNCTION ${private}.approve_release(release int)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
-- DEFINER: who approved is written by this function, not by whoever calls it
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    UPDATE ${private}.release AS r
    SET held = false, approved_at = now(), approved_by = session_user::text
    WHERE r.release_id = approve_release.release AND r.held AND r.state = 'published';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'release number % is not held', approve_release.release
        USING ERRCODE = 'QF001', HINT = '`freqdp release list` shows what is held';
    END IF;
END;
$body$;

COMMENT ON FUNCTION ${private}.approve_release(int) IS
'Records that a release that was held is approved, and by whom. `freqdp release approve` grants it in the same transaction.';
