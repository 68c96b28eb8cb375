CREATE FUNCTION ${private}.create_area_view(name text, srid int, metric_srid int)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    EXECUTE format($view$
CREATE VIEW %1$I.%2$I AS
SELECT trajectory_id, seq, lower(during) AS begin_at, upper(during) AS end_at, area AS geom
FROM %1$I.%3$I
$view$, ${release:name}, create_area_view.name || '_area', create_area_view.name);
END;
$body$;

COMMENT ON FUNCTION ${private}.create_area_view(text, int, int) IS
'Makes the view of a release''s areas, with the interval as two plain times: programs that know no ranges, such as QGIS, read it. Internal: called by publish_tables.';
