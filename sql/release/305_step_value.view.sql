-- example:
--   SELECT count(*) AS drawn, min(v.value), max(v.value) FROM freqdp.step_value AS v
--   JOIN freqdp.release AS r USING (release_id) WHERE r.name = 'city_1' AND v.part = 'draw';
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
