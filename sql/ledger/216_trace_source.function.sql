CREATE FUNCTION ${private}.trace_source(dataset int, build int)
RETURNS int
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
-- DEFINER: which relations share a budget is written by functions alone
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    own record;
    foreign_one record;
BEGIN
    -- held to the end of the transaction: nobody merges, registers or books meanwhile
    LOCK TABLE ${private}.population_source IN SHARE ROW EXCLUSIVE MODE;
    SELECT d.name, d.source_schema, d.source_relation, d.object_column, a.population_id, p.name AS population
    INTO own
    FROM ${private}.dataset AS d
    JOIN ${private}.account AS a ON a.account_id = d.account_id
    JOIN ${private}.population AS p ON p.population_id = a.population_id
    WHERE d.dataset_id = trace_source.dataset;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no dataset number %', trace_source.dataset USING ERRCODE = 'QF002';
    END IF;
    PERFORM ${private}.require_source(own.source_schema::text, own.source_relation::text);
    -- Two populations may share a relation if the owner has named both, it was there when they did, and
    -- other columns of it name their objects.
    SELECT format('%I.%I', m.source_schema, m.source_relation) AS relation, p.name,
        (
            SELECT min(a.account_id) FROM ${private}.account AS a WHERE a.population_id = m.population_id
        ) AS account
    INTO foreign_one
    FROM ${private}.met_sources(
        own.source_schema::text, own.source_relation::text, trace_source.build::int
    ) AS m
    JOIN ${private}.population AS p ON p.population_id = m.population_id
    WHERE m.population_id <> own.population_id AND (
        own.population IS NULL OR p.name IS NULL OR m.object_column = own.object_column OR NOT EXISTS (
            SELECT FROM ${private}.population_source AS s
            WHERE s.population_id = own.population_id AND (
                (s.relation_oid = m.relation_oid AND s.database_key = m.database_key)
                OR (s.source_schema = m.source_schema AND s.source_relation = m.source_relation)
            )
        )
    )
    ORDER BY 1 LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'dataset %: %.% reads %, which is counted on another budget (%)',
            quote_literal(own.name), quote_ident(own.source_schema), quote_ident(own.source_relation),
            foreign_one.relation, coalesce('population ' || quote_literal(foreign_one.name), 'number ' || foreign_one.account)
        USING ERRCODE = 'QF001',
        HINT = format(
            'let both count on one budget: `freqdp dataset set %s --persons NAME`, and with the same NAME for a dataset of the other', quote_literal(own.name)
        );
    END IF;
    PERFORM ${private}.meet_sources(
        own.population_id::int, own.source_schema::text, own.source_relation::text, own.object_column::text, trace_source.build::int
    );
    RETURN own.population_id;
END;
$body$;

COMMENT ON FUNCTION ${private}.trace_source(int, int) IS
'Looks where the rows of a dataset, and of a build of it, come from now: refuses (SQLSTATE QF001) relations that another population has met, records the rest, and returns the population.';
