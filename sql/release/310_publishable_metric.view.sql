-- example:
--   SELECT m.name, m.value FROM freqdp.publishable_metric AS m WHERE m.release = 'city_1' ORDER BY m.name;
CREATE VIEW ${private}.publishable_metric AS
SELECT
    r.name AS release,
    m.name,
    m.value,
    m.measured_at
FROM ${private}.metric AS m
INNER JOIN ${private}.release AS r USING (release_id)
WHERE m.publishable AND r.state = 'published';

COMMENT ON VIEW ${private}.publishable_metric IS
'Metrics that may be published: counted in the released tables alone. All others read original data.';
