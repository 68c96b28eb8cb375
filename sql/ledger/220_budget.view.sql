CREATE VIEW ${private}.budget AS
SELECT
    a.account_id,
    a.source_schema,
    a.source_relation,
    a.object_column,
    a.unit,
    coalesce(sum(s.amount) FILTER (WHERE s.kind = 'grant'), 0) AS granted,
    coalesce(sum(s.amount) FILTER (WHERE s.kind = 'spend'), 0) AS spent,
    coalesce(sum(s.amount) FILTER (WHERE s.kind = 'grant'), 0)
    - coalesce(sum(s.amount) FILTER (WHERE s.kind = 'spend'), 0) AS remaining,
    count(s.entry)::int AS entries,
    (array_agg(s.hash ORDER BY s.entry DESC))[1] AS head
FROM ${private}.account AS a
LEFT JOIN ${private}.spend AS s ON s.account_id = a.account_id
GROUP BY a.account_id;

COMMENT ON VIEW ${private}.budget IS
'What each source may spend, has spent and has left, for each unit: epsilon for occurrences, rho for persons. These are different currencies and never add up. For occurrences the ledger limits draws; it does not bound what the tables reveal.';
