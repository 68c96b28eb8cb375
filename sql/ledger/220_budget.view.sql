CREATE VIEW ${private}.budget AS
SELECT
    a.account_id,
    a.population_id,
    p.name AS population,
    a.source_schema,
    a.source_relation,
    a.object_column,
    a.unit,
    CASE a.unit WHEN 'person' THEN substring(p.unit FROM '^person-(.*)$') END AS stretch,
    p.timezone,
    m.granted,
    m.spent,
    m.granted - m.spent AS remaining,
    m.together,
    m.windows,
    m.entries,
    m.head
FROM ${private}.account AS a
JOIN ${private}.population AS p ON p.population_id = a.population_id
CROSS JOIN LATERAL (
    SELECT
        coalesce(sum(s.amount) FILTER (WHERE s.kind = 'grant'), 0) AS granted,
        ${private}.spent_in(a.account_id, NULL) AS spent,
        coalesce(sum(s.amount) FILTER (WHERE s.kind <> 'grant'), 0) AS together,
        count(DISTINCT s.during)::int AS windows,
        count(s.entry)::int AS entries,
        (array_agg(s.hash ORDER BY s.entry DESC))[1] AS head
    FROM ${private}.spend AS s
    WHERE s.account_id = a.account_id
) AS m;

COMMENT ON VIEW ${private}.budget IS
'What each population may spend, has spent and has left, for each unit: epsilon for occurrences, rho for objects (unit person). These are different currencies and never add up. What is spent on different windows of time does not add up for occurrences, and for objects only where the unit is longer than the window. For occurrences the ledger limits draws; it does not bound what the tables reveal.';
COMMENT ON COLUMN ${private}.budget.stretch IS 'Of unit person: the day, week or month that is protected at a time. NULL: all data of an object.';
COMMENT ON COLUMN ${private}.budget.spent IS 'On the unit of time that most was spent on.';
COMMENT ON COLUMN ${private}.budget.remaining IS 'The same: of other times more may be left.';
COMMENT ON COLUMN ${private}.budget.together IS 'Spent on all times together.';
COMMENT ON COLUMN ${private}.budget.windows IS 'On how many different times something was spent.';
