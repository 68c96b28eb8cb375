CREATE FUNCTION ${private}.declare_unit(account int, unit text, timezone text)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
-- DEFINER: which relations share a budget, and what for, is written by functions alone
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    own record;
BEGIN
    LOCK TABLE ${private}.population_source IN SHARE ROW EXCLUSIVE MODE;
    SELECT p.population_id, p.unit, p.timezone, EXISTS (
        SELECT FROM ${private}.account AS u JOIN ${private}.spend AS s ON s.account_id = u.account_id
        WHERE u.population_id = p.population_id AND u.unit = 'person' AND s.kind <> 'grant'
    ) AS spent INTO own
    FROM ${private}.account AS a JOIN ${private}.population AS p ON p.population_id = a.population_id
    WHERE a.account_id = declare_unit.account;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no budget number %', declare_unit.account USING ERRCODE = 'QF002';
    END IF;
    IF declare_unit.unit = own.unit THEN
        RETURN;
    END IF;
    IF declare_unit.unit IS NULL OR declare_unit.unit NOT IN ('person', 'person-day', 'person-week', 'person-month') THEN
        RAISE EXCEPTION '"unit" % is not known', quote_nullable(declare_unit.unit)
        USING ERRCODE = 'QF001', HINT = 'use person, person-day, person-week or person-month';
    END IF;
    IF own.spent THEN
        RAISE EXCEPTION '"unit" %: the ledger of this source counts for the unit %, and has spent for it', declare_unit.unit, own.unit
        USING ERRCODE = 'QF001', HINT = 'a unit is said once: leave "unit" out';
    END IF;
    UPDATE ${private}.population AS p SET unit = declare_unit.unit, timezone = declare_unit.timezone
    WHERE p.population_id = own.population_id;
END;
$body$;

COMMENT ON FUNCTION ${private}.declare_unit(int, text, text) IS
'Says what guarantees for the persons of an account''s population are for: all data (person), or a day, week or month of it in a time zone. Refuses (SQLSTATE QF001) another unit once something was spent for persons.';
