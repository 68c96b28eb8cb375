-- identity: FUNCTION ${private}.book_spend(int, numeric, int, text)
CREATE FUNCTION ${private}.book_spend(account int, epsilon numeric, release int, reason text)
RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
-- DEFINER: the ledger can be written through here and nowhere else
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    state record;
BEGIN
    -- 'NaN' compares greater than every number, so it has to be named
    IF epsilon IS NULL OR epsilon <= 0 OR epsilon = 'NaN' OR epsilon = 'Infinity' THEN
        RAISE EXCEPTION 'epsilon must be a number above 0' USING ERRCODE = 'QF001';
    END IF;
    PERFORM 1 FROM ${private}.account AS a WHERE a.account_id = book_spend.account FOR UPDATE;
    SELECT b.granted, b.spent, b.remaining INTO state
    FROM ${private}.budget AS b WHERE b.account_id = book_spend.account;
    IF state.remaining < book_spend.epsilon THEN
        RAISE EXCEPTION 'the budget does not allow this: requested %, spent % of %, remaining %, short by %',
            trim_scale(book_spend.epsilon), trim_scale(state.spent), trim_scale(state.granted),
            trim_scale(state.remaining), trim_scale(book_spend.epsilon - state.remaining)
            USING ERRCODE = 'QF003', HINT = 'an administrator can raise it: freqdp budget DATASET --raise EPSILON --reason TEXT';
    END IF;
    RETURN ${private}.append_entry(account, 'spend', epsilon, release, reason);
END;
$body$;

COMMENT ON FUNCTION ${private}.book_spend(int, numeric, int, text) IS
'Books the epsilon of a release before its noise is drawn, or refuses (SQLSTATE QF003). Returns the entry''s hash.';
REVOKE ALL ON FUNCTION ${private}.book_spend(int, numeric, int, text) FROM PUBLIC;
