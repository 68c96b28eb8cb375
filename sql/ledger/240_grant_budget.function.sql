CREATE FUNCTION ${private}.grant_budget(account int, amount numeric, reason text)
RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
-- DEFINER: the ledger can be written through here and nowhere else
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    IF amount IS NULL OR amount <= 0 OR amount = 'NaN' OR amount = 'Infinity' THEN
        RAISE EXCEPTION 'a budget can only be raised by a number above 0' USING ERRCODE = 'QF001';
    END IF;
    IF coalesce(btrim(reason), '') = '' THEN
        RAISE EXCEPTION 'raising a budget needs a reason' USING ERRCODE = 'QF001';
    END IF;
    RETURN ${private}.append_entry(
        grant_budget.account::int, 'grant'::text, grant_budget.amount::numeric, NULL::int, grant_budget.reason::text,
        NULL::tstzrange
    );
END;
$body$;

COMMENT ON FUNCTION ${private}.grant_budget(int, numeric, text) IS
'Raises a budget: an entry in the ledger, with who and why. Returns the entry''s hash.';
