CREATE FUNCTION ${private}.claim_population(
    named_schema text, named_relation text, object_column text, persons text,
    OUT account int, OUT is_new boolean, OUT notes text[]
)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
-- DEFINER: which relations share a budget is written by functions alone
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    chosen int;
    met record;
    several text;
BEGIN
    notes := '{}';
    -- two sources of the same rows that are registered at once must not open two budgets
    LOCK TABLE ${private}.population_source IN SHARE ROW EXCLUSIVE MODE;
    PERFORM ${private}.require_source(claim_population.named_schema::text, claim_population.named_relation::text);
    IF claim_population.persons IS NULL THEN
        SELECT min(m.population_id),
            CASE WHEN count(DISTINCT m.population_id) > 1 THEN string_agg(DISTINCT format(
                '%s (%I.%I)', coalesce(p.name, 'budget ' || (
                    SELECT min(a.account_id) FROM ${private}.account AS a WHERE a.population_id = p.population_id
                )), m.source_schema, m.source_relation), ', ') END
        INTO chosen, several
        FROM ${private}.met_sources(
            claim_population.named_schema::text, claim_population.named_relation::text, NULL::int
        ) AS m
        JOIN ${private}.population AS p ON p.population_id = m.population_id;
        IF several IS NOT NULL THEN
            RAISE EXCEPTION '"source" %.% reads what has several budgets: %',
                quote_ident(claim_population.named_schema), quote_ident(claim_population.named_relation), several
            USING ERRCODE = 'QF001',
            HINT = 'say whose data it is: "persons" NAME. Budgets without a name that it meets become one of that name, and what each has spent counts';
        END IF;
    ELSE
        SELECT coalesce(p.merged_into, p.population_id) INTO chosen
        FROM ${private}.population AS p WHERE p.name = claim_population.persons;
        FOR met IN
            SELECT p.population_id, p.name, min(format('%I.%I', m.source_schema, m.source_relation)) AS relation,
                min(format('%I.%I', m.source_schema, m.source_relation)) FILTER (
                    WHERE m.object_column = claim_population.object_column
                ) AS same_objects
            FROM ${private}.met_sources(
                claim_population.named_schema::text, claim_population.named_relation::text, NULL::int
            ) AS m
            JOIN ${private}.population AS p ON p.population_id = m.population_id
            GROUP BY p.population_id
            ORDER BY p.population_id
        LOOP
            IF met.population_id = chosen THEN
                CONTINUE;
            ELSIF met.name IS NULL AND chosen IS NULL THEN
                chosen := met.population_id;
                UPDATE ${private}.population AS p SET name = claim_population.persons
                WHERE p.population_id = chosen;
            ELSIF met.name IS NULL THEN
                PERFORM ${private}.merge_populations(met.population_id::int, chosen::int);
                notes := notes || format('the budget of %s is merged into it: what both have spent counts', met.relation);
            ELSIF met.same_objects IS NOT NULL THEN
                RAISE EXCEPTION '"persons" %: column % of % counts for the population %',
                    quote_literal(claim_population.persons), quote_literal(claim_population.object_column),
                    met.same_objects, quote_literal(met.name)
                USING ERRCODE = 'QF001', HINT = format(
                    'give "persons" %L; to call that population otherwise: `freqdp dataset set DATASET --persons NAME`', met.name
                );
            ELSE
                notes := notes || format(
                    'population %L is read from %s too and has a budget of its own: if one person is in both, what is spent for both adds up and no budget knows of it',
                    met.name, met.relation
                );
            END IF;
        END LOOP;
    END IF;
    is_new := chosen IS NULL;
    IF is_new THEN
        INSERT INTO ${private}.population (name) VALUES (claim_population.persons)
        RETURNING population_id INTO chosen;
        INSERT INTO ${private}.account (population_id, source_schema, source_relation, object_column, unit)
        VALUES (
            chosen, claim_population.named_schema, claim_population.named_relation,
            claim_population.object_column, 'occurrence'
        );
    END IF;
    SELECT a.account_id INTO STRICT account FROM ${private}.account AS a
    WHERE a.population_id = chosen AND a.unit = 'occurrence';
    PERFORM ${private}.meet_sources(
        chosen::int, claim_population.named_schema::text, claim_population.named_relation::text,
        claim_population.object_column::text, NULL::int
    );
END;
$body$;

COMMENT ON FUNCTION ${private}.claim_population(text, text, text, text) IS
'The budget (for occurrences) that a source spends from: that of the population named, else of the one that was read from the same relations, by OID or by name; a new one if there is none. Refuses (SQLSTATE QF001) a source that meets several, and a second name for the same objects.';
