CREATE FUNCTION ${private}.create_roads_map(name text, srid int, metric_srid int)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    EXECUTE format($view$
CREATE VIEW %1$I.%2$I AS
SELECT p.road, p.bin, r.name, r.level, b.name AS bin_name, greatest(p.value::float8, 0) AS value, p.margin, p.estimate,
    p.mean_kmh, p.mean_margin, r.geom
FROM %1$I.%3$I AS p
JOIN %1$I.%4$I AS r ON r.road = p.road
JOIN %1$I.%5$I AS b ON b.bin = p.bin
$view$, ${release:name}, create_roads_map.name || '_roads_map', create_roads_map.name || '_roads',
        create_roads_map.name || '_road', create_roads_map.name || '_bin');
END;
$body$;

COMMENT ON FUNCTION ${private}.create_roads_map(text, int, int) IS
'Makes the view of a release''s passages with the lines of roads and the names of bins; values below 0, which noise makes, are shown as 0. Internal: called by publish_tables.';
