CREATE FUNCTION ${private}.publish_tables(release int, comments jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
-- DEFINER: the release schema belongs to the owner, and so does what is in it
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    asked record;
    part record;
    item record;
    named text;
    published text[] := '{}';
    runner boolean := EXISTS (SELECT FROM pg_catalog.pg_roles AS r WHERE r.rolname = ${runner:name});
BEGIN
    -- the name that was asked for, and no other
    SELECT r.name, r.method, string_to_array(r.parameters ->> 'tables', ',') || array(SELECT jsonb_object_keys(r.parameters)) AS wanted, b.source_srid, b.srid AS metric_srid INTO asked
    FROM ${private}.release AS r JOIN ${private}.build AS b ON b.build_id = r.build_id
    WHERE r.release_id = publish_tables.release AND r.state = 'running';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no release number % to publish', publish_tables.release USING ERRCODE = 'QF002';
    END IF;
    FOR part IN
        SELECT e.value ->> 'suffix' AS suffix, e.value ->> 'view' AS view, 'staging_' || publish_tables.release || (e.value ->> 'suffix') AS staged
        FROM jsonb_array_elements(${private}.find_method(asked.method::text) -> 'relations') WITH ORDINALITY AS e (value, place)
        WHERE e.value ->> 'chosen_by' = '' OR e.value ->> 'chosen_by' = ANY (asked.wanted)
        ORDER BY e.place
    LOOP
        named := asked.name || part.suffix;
        IF part.view IS NOT NULL THEN
            EXECUTE format(
                'SELECT %I.%I(%L::text, %L::int, %L::int)',
                ${private:name}, part.view, asked.name, asked.source_srid, asked.metric_srid
            );
            IF runner THEN
                EXECUTE format('GRANT SELECT ON %I.%I TO %I', ${release:name}, named, ${runner:name});
            END IF;
        ELSE
            EXECUTE format('ALTER TABLE %I.%I SET SCHEMA %I', ${private:name}, part.staged, ${release:name});
            EXECUTE format('ALTER TABLE %I.%I RENAME TO %I', ${release:name}, part.staged, named);
            -- the names that the indexes would have had if the table had never been staged, cut off as PostgreSQL does
            FOR item IN
                SELECT c.relname, (named || CASE WHEN i.indisprimary THEN '_pkey' ELSE '_' || a.attname || '_idx' END)::name AS final
                FROM pg_catalog.pg_index AS i
                JOIN pg_catalog.pg_class AS c ON c.oid = i.indexrelid
                JOIN pg_catalog.pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
                WHERE i.indrelid = to_regclass(format('%I.%I', ${release:name}, named))
            LOOP
                EXECUTE format('ALTER INDEX %I.%I RENAME TO %I', ${release:name}, item.relname, item.final);
            END LOOP;
            IF runner THEN
                EXECUTE format('REVOKE INSERT ON %I.%I FROM %I', ${release:name}, named, ${runner:name});
            END IF;
        END IF;
        published := published || part.suffix;
        FOR item IN
            SELECT c.key, c.value FROM jsonb_each_text(publish_tables.comments -> part.suffix) AS c
        LOOP
            IF item.key <> '' THEN
                EXECUTE format('COMMENT ON COLUMN %I.%I.%I IS %L', ${release:name}, named, item.key, item.value);
            ELSIF part.view IS NULL THEN
                EXECUTE format('COMMENT ON TABLE %I.%I IS %L', ${release:name}, named, item.value);
            ELSE
                EXECUTE format('COMMENT ON VIEW %I.%I IS %L', ${release:name}, named, item.value);
            END IF;
        END LOOP;
    END LOOP;
    UPDATE ${private}.release AS r SET relations = published WHERE r.release_id = publish_tables.release;
END;
$body$;

COMMENT ON FUNCTION ${private}.publish_tables(int, jsonb) IS
'Moves the staged tables of a running release into the release schema under its name, and makes its views, as its method declares them: those that are always made, those that its parameter tables asks for, and those that are named as a parameter that it has. Comments: of each suffix, of the relation (no name) and of its columns. Granted to nobody yet.';
