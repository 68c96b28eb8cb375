CREATE FUNCTION ${private}.search_place(
    dataset text, point ${postgis}.geometry, k int,
    OUT build_id int, OUT place ${postgis}.geometry
)
-- UNSAFE: a block with a handler cannot run beside parallel workers
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    known record;
BEGIN
    IF search_place.k IS NULL OR search_place.k < 1 THEN
        RAISE EXCEPTION 'k is %, but at least 1 must be asked for', coalesce(search_place.k::text, 'NULL')
            USING ERRCODE = 'QF001', HINT = 'give a whole number above 0';
    END IF;
    SELECT d.current_build, b.srid INTO known
    FROM ${private}.dataset AS d
    LEFT JOIN ${private}.build AS b ON b.build_id = d.current_build
    WHERE d.name = search_place.dataset AND d.dropped_at IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no dataset %', coalesce(quote_literal(search_place.dataset), 'NULL')
            USING ERRCODE = 'QF002', HINT = '`freqdp dataset list` shows what there is';
    END IF;
    IF known.current_build IS NULL THEN
        RAISE EXCEPTION 'dataset % has no build yet', quote_literal(search_place.dataset)
            USING ERRCODE = 'QF002', HINT = format('freqdp dataset build %s', search_place.dataset);
    END IF;
    IF search_place.point IS NULL
        OR ${postgis}.GeometryType(search_place.point) NOT LIKE 'POINT%'
        OR ${postgis}.ST_IsEmpty(search_place.point) THEN
        RAISE EXCEPTION 'the place to search from must be one point, not %',
            coalesce(
                CASE WHEN ${postgis}.ST_IsEmpty(search_place.point) THEN 'an empty one' END,
                ${postgis}.GeometryType(search_place.point), 'NULL'
            )
            USING ERRCODE = 'QF001', HINT = 'ST_SetSRID(ST_MakePoint(lon, lat), 4326), for instance';
    END IF;
    IF ${postgis}.ST_SRID(search_place.point) = 0 THEN
        RAISE EXCEPTION 'the point has no SRID'
            USING ERRCODE = 'QF001',
            HINT = format('ST_SetSRID(point, %s), if it is in the metres of the dataset', known.srid);
    END IF;
    build_id := known.current_build;
    BEGIN
        place := ${postgis}.ST_Transform(${postgis}.ST_Force2D(search_place.point), known.srid);
    EXCEPTION WHEN OTHERS THEN
        -- PostGIS has no SQLSTATE of its own for this
        place := NULL;
    END;
    -- what cannot be projected comes back as an error or as infinity, by version
    IF place IS NULL OR NOT (
        abs(${postgis}.ST_X(place)) < 1e9 AND abs(${postgis}.ST_Y(place)) < 1e9
    ) THEN
        RAISE EXCEPTION 'the point cannot be expressed in the metres of the dataset (SRID % in SRID %)',
            ${postgis}.ST_SRID(search_place.point), known.srid
            USING ERRCODE = 'QF001',
            HINT = 'check its SRID, and the order of its coordinates (longitude first)';
    END IF;
END;
$body$;

COMMENT ON FUNCTION ${private}.search_place(text, ${postgis}.geometry, int) IS
'What a search begins with: the current build of a dataset, and the point in its metres. Refuses what cannot be searched for (QF001) or does not exist (QF002). Internal: called by nearest_segments and nearest_trajectories.';
