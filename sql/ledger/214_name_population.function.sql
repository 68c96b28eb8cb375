CREATE FUNCTION ${private}.name_population(dataset int, persons text)
RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
-- DEFINER: which relations share a budget is written by functions alone
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    own int;
    known int;
BEGIN
    LOCK TABLE ${private}.population_source IN SHARE ROW EXCLUSIVE MODE;
    SELECT a.population_id INTO own
    FROM ${private}.dataset AS d JOIN ${private}.account AS a ON a.account_id = d.account_id
    WHERE d.dataset_id = name_population.dataset;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no dataset number %', name_population.dataset USING ERRCODE = 'QF002';
    END IF;
    SELECT coalesce(p.merged_into, p.population_id) INTO known
    FROM ${private}.population AS p WHERE p.name = name_population.persons;
    IF known = own THEN
        RETURN false;
    ELSIF known IS NOT NULL THEN
        PERFORM ${private}.merge_populations(own::int, known::int);
        RETURN true;
    END IF;
    UPDATE ${private}.population AS p SET name = name_population.persons WHERE p.population_id = own;
    RETURN false;
END;
$body$;

COMMENT ON FUNCTION ${private}.name_population(int, text) IS
'Names the population that a dataset is read from. Where there is one of that name, the two become one, and what both have spent counts. True: two were merged.';
