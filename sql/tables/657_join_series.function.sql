CREATE FUNCTION ${private}.join_series(release int)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    asked record;
    part record;
    grantee text;
    parents text[] := '{}';
BEGIN
    SELECT r.name, r.series, r.method, r.kind, r.relations, d.name AS dataset, d.timezone, w.every, w.first_day INTO asked
    FROM ${private}.release AS r
    JOIN ${private}.build AS b ON b.build_id = r.build_id
    JOIN ${private}.dataset AS d ON d.dataset_id = r.dataset_id
    CROSS JOIN LATERAL ${private}.find_window(b.time_window::text, d.timezone::text) AS w
    WHERE r.release_id = join_series.release AND r.series IS NOT NULL AND b.time_window IS NOT NULL;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    -- the first two windows of a series may be published at once
    LOCK TABLE ${release}.series IN SHARE ROW EXCLUSIVE MODE;
    FOR part IN
        SELECT asked.name || s.suffix AS child, asked.series || s.suffix AS parent
        FROM unnest(asked.relations) AS s (suffix)
        JOIN pg_catalog.pg_class AS c ON c.oid = to_regclass(format('%I.%I', ${release:name}, asked.name || s.suffix))
        WHERE c.relkind = 'r'
    LOOP
        IF to_regclass(format('%I.%I', ${release:name}, part.parent)) IS NULL THEN
            EXECUTE format(
                'CREATE TABLE %I.%I (LIKE %I.%I INCLUDING COMMENTS INCLUDING INDEXES INCLUDING STORAGE) PARTITION BY LIST (window_start)',
                ${release:name}, part.parent, ${release:name}, part.child
            );
            EXECUTE format(
                'COMMENT ON TABLE %I.%I IS %L', ${release:name}, part.parent,
                format(
                    'Series %s of dataset %s by method %s: one partition for each %s (%s) that analysts may read. What holds for each is in catalog.guarantee, by its name.',
                    asked.series, asked.dataset, asked.method, asked.every, asked.timezone
                )
            );
            FOR grantee IN
                SELECT r.rolname FROM pg_catalog.pg_roles AS r WHERE r.rolname IN (${analyst:name}, ${runner:name})
            LOOP
                EXECUTE format('GRANT SELECT ON %I.%I TO %I', ${release:name}, part.parent, grantee);
            END LOOP;
        END IF;
        -- readers of the series go on meanwhile
        EXECUTE format(
            'ALTER TABLE %I.%I ATTACH PARTITION %I.%I FOR VALUES IN (%L)',
            ${release:name}, part.parent, ${release:name}, part.child, asked.first_day
        );
        parents := parents || part.parent;
    END LOOP;
    INSERT INTO ${release}.series AS s (name, dataset, every, timezone, method, kind, relations)
    VALUES (asked.series, asked.dataset, asked.every, asked.timezone, asked.method, asked.kind, parents)
    ON CONFLICT (name) DO UPDATE
    SET relations = ARRAY(SELECT DISTINCT r FROM unnest(s.relations || excluded.relations) AS r ORDER BY r);
END;
$body$;

COMMENT ON FUNCTION ${private}.join_series(int) IS
'Attaches the tables of a window to those of its series, as a partition; makes these if it is the first. Internal: called by grant_release.';
