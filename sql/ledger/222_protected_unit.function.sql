CREATE FUNCTION ${private}.protected_unit(account int, unit text)
RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT CASE protected_unit.unit
        WHEN 'person' THEN format(
            'one %s%s (column %s of %s.%s%s)', coalesce('person of ' || p.name, quote_ident(a.object_column)),
            ' and ' || stretch.name, quote_ident(a.object_column), quote_ident(a.source_schema),
            quote_ident(a.source_relation), '; ' || stretch.name || 's in ' || p.timezone
        )
        ELSE 'one ' || protected_unit.unit
    END
    FROM ${private}.account AS a
    JOIN ${private}.population AS p ON p.population_id = a.population_id
    LEFT JOIN LATERAL (SELECT substring(p.unit FROM '^person-(.*)$') AS name) AS stretch ON stretch.name IS NOT NULL
    WHERE a.account_id = protected_unit.account;
END;

COMMENT ON FUNCTION ${private}.protected_unit(int, text) IS
'What a budget of an account''s source is for, in words: one occurrence, or one object with all its data (or what of it lies in one day, week or month), by the column that tells objects apart.';
