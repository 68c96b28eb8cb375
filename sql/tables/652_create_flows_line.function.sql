CREATE FUNCTION ${private}.create_flows_line(name text, srid int, metric_srid int)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    -- what stays in its zone has no line
    EXECUTE format($view$
CREATE VIEW %1$I.%2$I AS
SELECT f.origin, f.destination, f.bin, o.name AS origin_name, d.name AS destination_name, o.level, b.name AS bin_name,
    greatest(f.value::float8, 0) AS value, f.margin, f.estimate,
    %6$I.st_makeline(%6$I.st_centroid(o.geom), %6$I.st_centroid(d.geom))::%6$I.geometry(LineString, %7$L) AS geom
FROM %1$I.%3$I AS f
JOIN %1$I.%4$I AS o ON o.zone = f.origin
JOIN %1$I.%4$I AS d ON d.zone = f.destination AND d.level = o.level
JOIN %1$I.%5$I AS b ON b.bin = f.bin
WHERE f.origin <> f.destination
$view$, ${release:name}, create_flows_line.name || '_flows_line', create_flows_line.name || '_flows',
        create_flows_line.name || '_zone', create_flows_line.name || '_bin', ${postgis:name}, create_flows_line.srid);
END;
$body$;

COMMENT ON FUNCTION ${private}.create_flows_line(text, int, int) IS
'Makes the view of a release''s flows as lines between the middles of zones of the same level; what stays in its zone has none. Internal: called by publish_tables.';
