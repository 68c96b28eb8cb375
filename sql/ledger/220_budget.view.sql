CREATE VIEW ${private}.budget AS
SELECT
    a.account_id,
    a.population_id,
    p.name AS population,
    a.source_schema,
    a.source_relation,
    a.object_column,
    a.unit,
    coalesce(sum(s.amount) FILTER (WHERE s.kind = 'grant'), 0) AS granted,
    coalesce(sum(s.amount) FILTER (WHERE s.kind <> 'grant'), 0) AS spent,
    coalesce(sum(s.amount) FILTER (WHERE s.kind = 'grant'), 0)
    - coalesce(sum(s.amount) FILTER (WHERE s.kind <> 'grant'), 0) AS remaining,
    count(s.entry)::int AS entries,
    (array_agg(s.hash ORDER BY s.entry DESC))[1] AS head
FROM ${private}.account AS a
JOIN ${private}.population AS p ON p.population_id = a.population_id
LEFT JOIN ${private}.spend AS s ON s.account_id = a.account_id
GROUP BY a.account_id, p.population_id;

COMMENT ON VIEW ${private}.budget IS
'What each population may spend, has spent and has left, for each unit: epsilon for occurrences, rho for objects with all their data (unit person). These are different currencies and never add up. For occurrences the ledger limits draws; it does not bound what the tables reveal.';
