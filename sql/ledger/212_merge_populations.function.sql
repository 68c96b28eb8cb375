CREATE FUNCTION ${private}.merge_populations(gone int, kept int)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    old record;
    target int;
    different text;
BEGIN
    SELECT format('%s (%s) and %s (%s)', g.unit, g.timezone, k.unit, k.timezone) INTO different
    FROM ${private}.population AS g JOIN ${private}.population AS k ON k.population_id = merge_populations.kept
    WHERE g.population_id = merge_populations.gone AND (g.unit, g.timezone) <> (k.unit, k.timezone)
        AND (g.unit <> 'person' OR k.unit <> 'person')
        AND EXISTS (
            SELECT FROM ${private}.account AS a JOIN ${private}.spend AS s ON s.account_id = a.account_id
            WHERE a.population_id IN (g.population_id, k.population_id) AND a.unit = 'person' AND s.kind <> 'grant'
        );
    IF FOUND THEN
        RAISE EXCEPTION 'the two budgets cannot become one: they are for different units, %', different
        USING ERRCODE = 'QF001', HINT = 'what was spent for one unit says nothing of another: keep both names';
    END IF;
    -- whoever calls this, and whoever books, has locked population_source
    FOR old IN
        SELECT a.account_id, a.unit, a.source_schema, a.source_relation, a.object_column
        FROM ${private}.account AS a
        WHERE a.population_id = merge_populations.gone
        ORDER BY a.account_id FOR UPDATE
    LOOP
        SELECT a.account_id INTO target FROM ${private}.account AS a
        WHERE a.population_id = merge_populations.kept AND a.unit = old.unit;
        IF NOT FOUND THEN
            UPDATE ${private}.account AS a SET population_id = merge_populations.kept
            WHERE a.account_id = old.account_id;
            CONTINUE;
        END IF;
        -- what was granted does not add up: it is for the same persons. Each entry keeps the time that it was for
        PERFORM ${private}.append_entry(
            target::int, 'merge'::text, s.amount::numeric, NULL::int,
            format(
                'entry %s of budget %s, of %I.%I (objects: %s), which is merged into this one',
                s.entry, old.account_id, old.source_schema, old.source_relation, old.object_column
            )::text, s.during::tstzrange
        )
        FROM ${private}.spend AS s
        WHERE s.account_id = old.account_id AND s.kind <> 'grant'
        ORDER BY s.entry;
        UPDATE ${private}.dataset AS d SET account_id = target WHERE d.account_id = old.account_id;
    END LOOP;
    INSERT INTO ${private}.population_source
        (population_id, database_key, relation_oid, source_schema, source_relation, object_column, met_at)
    SELECT merge_populations.kept, s.database_key, s.relation_oid, s.source_schema, s.source_relation,
        s.object_column, s.met_at
    FROM ${private}.population_source AS s
    WHERE s.population_id = merge_populations.gone
    ON CONFLICT DO NOTHING;
    DELETE FROM ${private}.population_source AS s WHERE s.population_id = merge_populations.gone;
    UPDATE ${private}.population AS p SET merged_into = merge_populations.kept
    WHERE p.population_id = merge_populations.gone OR p.merged_into = merge_populations.gone;
END;
$body$;

COMMENT ON FUNCTION ${private}.merge_populations(int, int) IS
'Lets one population count for another: what both have spent adds up, what was granted is that of the one that stays. Internal.';
