CREATE FUNCTION ${private}.open_account(account int, unit text, OUT opened int, OUT is_new boolean)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
-- DEFINER: which relations share a budget is written by functions alone
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    own record;
BEGIN
    SELECT * INTO own FROM ${private}.account AS a WHERE a.account_id = open_account.account;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no budget number %', open_account.account USING ERRCODE = 'QF002';
    END IF;
    -- who opens it at the same moment waits for the commit, and is told that it is not new
    INSERT INTO ${private}.account (population_id, source_schema, source_relation, object_column, unit)
    VALUES (own.population_id, own.source_schema, own.source_relation, own.object_column, open_account.unit)
    ON CONFLICT DO NOTHING
    RETURNING account_id INTO opened;
    is_new := opened IS NOT NULL;
    IF NOT is_new THEN
        SELECT a.account_id INTO opened FROM ${private}.account AS a
        WHERE a.population_id = own.population_id AND a.unit = open_account.unit;
    END IF;
END;
$body$;

COMMENT ON FUNCTION ${private}.open_account(int, text) IS
'The account for a unit of the population that an account belongs to; made, without a budget, if there is none.';
