-- identity: FUNCTION ${private}.publish_tables(int, jsonb)
CREATE FUNCTION ${private}.publish_tables(release int, comments jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
-- DEFINER: the release schema belongs to the owner, and so does what is in it
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    name text;
    part text;
    item record;
    points regclass;
    srid int;
    metric_srid int;
BEGIN
    -- the name that was asked for, and no other
    SELECT r.name, b.srid INTO name, metric_srid
    FROM ${private}.release AS r JOIN ${private}.build AS b ON b.build_id = r.build_id
    WHERE r.release_id = publish_tables.release AND r.state = 'running';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no release number % to publish', publish_tables.release USING ERRCODE = 'QF002';
    END IF;
    FOREACH part IN ARRAY ARRAY['', '_line'] LOOP
        EXECUTE format(
            'ALTER TABLE %I.%I SET SCHEMA %I', ${private:name}, 'staging_' || publish_tables.release || part, ${release:name}
        );
        EXECUTE format(
            'ALTER TABLE %I.%I RENAME TO %I', ${release:name}, 'staging_' || publish_tables.release || part, name || part
        );
        -- the names that the indexes would have had if the table had never been staged, cut off as PostgreSQL does
        FOR item IN
            SELECT c.relname, (name || part || CASE WHEN i.indisprimary THEN '_pkey' ELSE '_' || a.attname || '_idx' END)::name AS final
            FROM pg_catalog.pg_index AS i
            JOIN pg_catalog.pg_class AS c ON c.oid = i.indexrelid
            JOIN pg_catalog.pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
            WHERE i.indrelid = to_regclass(format('%I.%I', ${release:name}, name || part))
        LOOP
            EXECUTE format('ALTER INDEX %I.%I RENAME TO %I', ${release:name}, item.relname, item.final);
        END LOOP;
        IF EXISTS (SELECT FROM pg_catalog.pg_roles AS r WHERE r.rolname = ${runner:name}) THEN
            EXECUTE format('REVOKE INSERT ON %I.%I FROM %I', ${release:name}, name || part, ${runner:name});
        END IF;
    END LOOP;
    points := to_regclass(format('%I.%I', ${release:name}, name));
    -- the points of areas are only their middles: no way leads there
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_attribute AS a WHERE a.attrelid = points AND a.attname = 'area') THEN
        SELECT ${postgis}.postgis_typmod_srid(a.atttypmod::int) INTO srid
        FROM pg_catalog.pg_attribute AS a WHERE a.attrelid = points AND a.attname = 'geom';
        PERFORM ${private}.create_trip_view(name::text, srid::int, metric_srid::int, (publish_tables.comments ->> 'trip')::text);
        IF EXISTS (SELECT FROM pg_catalog.pg_roles AS r WHERE r.rolname = ${runner:name}) THEN
            EXECUTE format('GRANT SELECT ON %I.%I TO %I', ${release:name}, name || '_trip', ${runner:name});
        END IF;
    END IF;
    FOR item IN
        SELECT name || CASE WHEN split_part(c.key, '.', 1) = 'points' THEN '' ELSE '_line' END AS relation,
            nullif(split_part(c.key, '.', 2), '') AS attribute, c.value
        FROM jsonb_each_text(publish_tables.comments) AS c
        WHERE c.key <> 'trip'
    LOOP
        IF item.attribute IS NULL THEN
            EXECUTE format('COMMENT ON TABLE %I.%I IS %L', ${release:name}, item.relation, item.value);
        ELSIF EXISTS (
            SELECT FROM pg_catalog.pg_attribute AS a
            WHERE a.attrelid = to_regclass(format('%I.%I', ${release:name}, item.relation)) AND a.attname = item.attribute
        ) THEN
            EXECUTE format('COMMENT ON COLUMN %I.%I.%I IS %L', ${release:name}, item.relation, item.attribute, item.value);
        END IF;
    END LOOP;
END;
$body$;

COMMENT ON FUNCTION ${private}.publish_tables(int, jsonb) IS
'Moves the staged tables of a running release into the release schema under its name, with the view of its trips and these comments (points, points.COLUMN, line, line.COLUMN, trip). Granted to nobody yet.';
REVOKE ALL ON FUNCTION ${private}.publish_tables(int, jsonb) FROM PUBLIC;
