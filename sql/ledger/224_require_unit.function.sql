CREATE FUNCTION ${private}.require_unit(dataset int, build int)
RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    own record;
    other record;
BEGIN
    SELECT d.name, d.object_column, a.population_id, a.object_column AS counted,
        format('%I.%I', a.source_schema, a.source_relation) AS opened_for, p.name AS population, p.unit,
        ${private}.time_reading(require_unit.build::int) AS reading
    INTO own
    FROM ${private}.dataset AS d
    JOIN ${private}.account AS a ON a.account_id = d.account_id
    JOIN ${private}.population AS p ON p.population_id = a.population_id
    WHERE d.dataset_id = require_unit.dataset;
    -- of a driver with a hundred trips, what was spent for one trip says nothing
    IF own.population IS NULL AND own.counted <> own.object_column THEN
        RAISE EXCEPTION 'a guarantee for a person would be for one %, and the budget of % is for one %',
            quote_ident(own.object_column), own.opened_for, quote_ident(own.counted)
        USING ERRCODE = 'QF001', HINT = format(
            'if both columns name the same persons, say so: `freqdp dataset set %s --persons NAME`; if not, register its objects by %s',
            own.name, quote_ident(own.counted)
        );
    END IF;
    -- Costs of different windows do not add up as long as a row lies in one window. Of times that are read in two ways, it
    -- lies in two.
    IF own.unit = 'person' OR own.reading IS NULL THEN
        RETURN;
    END IF;
    SELECT r.name, ${private}.time_reading(r.build_id::int) AS reading INTO other
    FROM ${private}.spend AS s
    JOIN ${private}.account AS a ON a.account_id = s.account_id AND a.unit = 'person'
    JOIN ${private}.population AS p ON p.population_id = a.population_id
    JOIN ${private}.release AS r ON r.release_id = s.release_id
    WHERE s.kind = 'spend' AND coalesce(p.merged_into, p.population_id) = own.population_id
        AND ${private}.time_reading(r.build_id::int) <> own.reading
        AND EXISTS (
            SELECT FROM ${private}.build_source AS theirs
            JOIN ${private}.build_source AS mine ON mine.build_id = require_unit.build AND (
                (mine.relation_oid = theirs.relation_oid AND mine.database_key = theirs.database_key)
                OR (mine.source_schema = theirs.source_schema AND mine.source_relation = theirs.source_relation)
            )
            WHERE theirs.build_id = r.build_id
        )
    ORDER BY s.at LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'dataset % reads times as %, and release %, of the same rows, as %: a row would lie in two windows, each with a budget of its own',
            quote_literal(own.name), own.reading, quote_literal(other.name), other.reading
        USING ERRCODE = 'QF001', HINT = 'release windows of these rows from a dataset that reads their times as that one does';
    END IF;
END;
$body$;

COMMENT ON FUNCTION ${private}.require_unit(int, int) IS
'Refuses (SQLSTATE QF001) a dataset, and a build of it (NULL: none yet), whose releases for persons would be for another unit than their budget counts: for objects of another column, or for windows of times that are read in another way.';
