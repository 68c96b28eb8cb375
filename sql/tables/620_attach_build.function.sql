CREATE FUNCTION ${private}.attach_build(build int)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
-- DEFINER: attaching a partition needs the owner of both tables
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    part text;
BEGIN
    FOREACH part IN ARRAY ARRAY['trajectory', 'location', 'sample', 'segment', 'grid_cell'] LOOP
        EXECUTE format(
            'ALTER TABLE %I.%I ATTACH PARTITION %I.%I FOR VALUES IN (%L)',
            ${private:name}, part, ${private:name}, part || '_' || attach_build.build, attach_build.build
        );
        IF EXISTS (SELECT FROM pg_catalog.pg_roles AS r WHERE r.rolname = ${runner:name}) THEN
            EXECUTE format(
                'REVOKE INSERT ON %I.%I FROM %I', ${private:name}, part || '_' || attach_build.build, ${runner:name}
            );
        END IF;
    END LOOP;
END;
$body$;

COMMENT ON FUNCTION ${private}.attach_build(int) IS
'Makes the five tables of a build partitions; from then on nobody adds rows. The caller records the build in the same transaction.';
