-- identity: FUNCTION ${private}.create_staging(int, text, int)
CREATE FUNCTION ${private}.create_staging(release int, kind text, srid int)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
-- DEFINER: whoever writes a release fills tables of the owner's, and makes none
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    made text := 'staging_' || create_staging.release || CASE create_staging.kind WHEN 'lines' THEN '_line' ELSE '' END;
BEGIN
    IF create_staging.kind = 'points' THEN
        EXECUTE format(
            'CREATE TABLE %I.%I (trajectory_id bigint NOT NULL, seq int NOT NULL, at timestamptz NOT NULL, '
            'geom %I.geometry(Point, %L) NOT NULL)',
            ${private:name}, made, ${postgis:name}, create_staging.srid
        );
    ELSIF create_staging.kind = 'areas' THEN
        EXECUTE format(
            'CREATE TABLE %1$I.%2$I (trajectory_id bigint NOT NULL, seq int NOT NULL, at timestamptz NOT NULL, '
            'geom %3$I.geometry(Point, %4$L) NOT NULL, area %3$I.geometry(Polygon, %4$L) NOT NULL, '
            'during tstzrange NOT NULL)',
            ${private:name}, made, ${postgis:name}, create_staging.srid
        );
        EXECUTE format('ALTER TABLE %I.%I ALTER COLUMN area SET STATISTICS 0', ${private:name}, made);
    ELSIF create_staging.kind = 'lines' THEN
        EXECUTE format(
            'CREATE TABLE %I.%I (trajectory_id bigint NOT NULL, day date NOT NULL, '
            'geom %I.geometry(LineStringM, %L) NOT NULL)',
            ${private:name}, made, ${postgis:name}, create_staging.srid
        );
        EXECUTE format('ALTER TABLE %I.%I ALTER COLUMN geom SET STORAGE EXTERNAL', ${private:name}, made);
    ELSE
        RAISE EXCEPTION 'a release has no table of %', quote_nullable(create_staging.kind) USING ERRCODE = 'QF001';
    END IF;
    -- PostGIS tells everybody what the statistics of a geometry say: they are made when it is granted
    EXECUTE format('ALTER TABLE %I.%I ALTER COLUMN geom SET STATISTICS 0', ${private:name}, made);
    PERFORM ${private}.let_runners_fill(made::text);
END;
$body$;

COMMENT ON FUNCTION ${private}.create_staging(int, text, int) IS
'Makes an empty table for a release that is being written: points (samples), areas (samples with areas) or lines; runners may read and fill it.';
REVOKE ALL ON FUNCTION ${private}.create_staging(int, text, int) FROM PUBLIC;
