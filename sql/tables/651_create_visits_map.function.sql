CREATE FUNCTION ${private}.create_visits_map(name text, srid int, metric_srid int)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    EXECUTE format($view$
CREATE VIEW %1$I.%2$I AS
SELECT v.zone, v.bin, z.name, z.level, b.name AS bin_name, greatest(v.value::float8, 0) AS value, v.margin, v.estimate, z.geom
FROM %1$I.%3$I AS v
JOIN %1$I.%4$I AS z ON z.zone = v.zone
JOIN %1$I.%5$I AS b ON b.bin = v.bin
$view$, ${release:name}, create_visits_map.name || '_visits_map', create_visits_map.name || '_visits',
        create_visits_map.name || '_zone', create_visits_map.name || '_bin');
END;
$body$;

COMMENT ON FUNCTION ${private}.create_visits_map(text, int, int) IS
'Makes the view of a release''s visits with the shapes of zones and the names of bins; values below 0, which noise makes, are shown as 0. Internal: called by publish_tables.';
