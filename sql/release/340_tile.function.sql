-- example:
--   SELECT length(freqdp_release.tile(9, 262, 171, '{"table": "city_1"}')) AS bytes;
CREATE FUNCTION ${release}.tile(z int, x int, y int, query_params json DEFAULT '{}')
RETURNS bytea
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    wanted constant text := tile.query_params ->> 'table';
    envelope constant ${postgis}.geometry := ${postgis}.ST_TileEnvelope(tile.z, tile.x, tile.y);
    place record;
    made bytea;
BEGIN
    SELECT a.attname AS name, ${postgis}.postgis_typmod_srid(a.atttypmod) AS srid,
        ${postgis}.postgis_typmod_type(a.atttypmod) LIKE 'Point%' AS points
    INTO place
    FROM pg_catalog.pg_class AS c
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace AND n.nspname = ${release:name}
    JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid AND t.typname = 'geometry'
    WHERE c.relname = wanted
    -- an area says more than its middle, and the line of a trip more than its ends
    ORDER BY a.attnum DESC LIMIT 1;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no released table % with a geometry', quote_nullable(wanted)
        USING ERRCODE = 'QF002', HINT = 'name it with the parameter "table", for example ?table=vans_1_line';
    END IF;
    IF place.points THEN
        -- a pixel of 256 is counted as one: a tile of a whole city stays small
        EXECUTE format($query$
SELECT ${postgis}.ST_AsMVT(t, %1$L, 4096, 'geom') FROM (
    SELECT ${postgis}.ST_AsMVTGeom(p.pixel, $1, 4096, 0, true) AS geom, count(*) AS samples
    FROM (
        SELECT ${postgis}.ST_SnapToGrid(
            ${postgis}.ST_Transform(s.%3$I, 3857), ${postgis}.ST_XMin($1) + $2 / 2, ${postgis}.ST_YMin($1) + $2 / 2, $2, $2
        ) AS pixel
        FROM %2$I.%1$I AS s WHERE s.%3$I OPERATOR(${postgis}.&&) ${postgis}.ST_Transform($1, %4$L::int)
    ) AS p
    GROUP BY p.pixel
) AS t WHERE t.geom IS NOT NULL
$query$, wanted, ${release:name}, place.name, place.srid)
        INTO made USING envelope, (${postgis}.ST_XMax(envelope) - ${postgis}.ST_XMin(envelope)) / 256;
    ELSE
        EXECUTE format($query$
SELECT ${postgis}.ST_AsMVT(t, %1$L, 4096, 'geom') FROM (
    SELECT ${postgis}.ST_AsMVTGeom(${postgis}.ST_Transform(s.%3$I, 3857), $1, 4096, 64, true) AS geom,
        to_jsonb(s) - ARRAY[%3$L, 'geom', 'start_geom', 'end_geom'] AS properties
    FROM %2$I.%1$I AS s WHERE s.%3$I OPERATOR(${postgis}.&&) ${postgis}.ST_Transform($1, %4$L::int)
        AND NOT EXISTS (
            SELECT FROM json_each_text($2) AS f
            WHERE f.key <> 'table' AND to_jsonb(s) ->> f.key IS DISTINCT FROM f.value
        )
    LIMIT 20000
) AS t WHERE t.geom IS NOT NULL
$query$, wanted, ${release:name}, place.name, place.srid)
        INTO made USING envelope, tile.query_params;
    END IF;
    RETURN coalesce(made, '');
END;
$body$;

COMMENT ON FUNCTION ${release}.tile(int, int, int, json) IS
'A vector tile of a released table, for tile servers such as Martin and pg_tileserv. The parameter "table" names the table or '
'view; points are counted by pixel (samples), others have their columns, and further parameters choose rows (bin=8). At most '
'20,000 features that are not points. It reads with the rights of the caller.';
