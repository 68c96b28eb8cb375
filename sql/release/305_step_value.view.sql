CREATE VIEW ${private}.step_value AS
SELECT
    c.release_id,
    c.step,
    c.part,
    c.name,
    row_number() OVER (PARTITION BY c.release_id, c.step, c.part, c.name ORDER BY c.chunk, v.place) AS place,
    coalesce(v.whole::numeric, v.number::numeric) AS value
FROM ${private}.step_column AS c
CROSS JOIN LATERAL unnest(c.whole, c.number) WITH ORDINALITY AS v (whole, number, place);

COMMENT ON VIEW ${private}.step_value IS
'Draws and logs of all steps but those of frequencies: one row a value. place counts from 1 in its column.';
