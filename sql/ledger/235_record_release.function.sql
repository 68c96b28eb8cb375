CREATE FUNCTION ${private}.record_release(
    name text, build int, method text, parameters jsonb, grantable boolean, held boolean,
    software text, guarantee jsonb, series text DEFAULT NULL
) RETURNS int
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
-- DEFINER: releases are recorded, and the ledger written, through here and nowhere else
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    declared jsonb := ${private}.find_method(record_release.method::text);
    complete jsonb := ${private}.request_parameters(record_release.method::text, record_release.parameters::jsonb);
    source record;
    release int;
BEGIN
    -- a transaction that sees an older state would check an older ledger
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'a release is recorded in a transaction that is READ COMMITTED, not %', current_setting('transaction_isolation')
        USING ERRCODE = 'QF001', HINT = 'SET default_transaction_isolation TO ''read committed'' for this login';
    END IF;
    IF ${private}.is_release_name(record_release.name::text) IS NOT TRUE THEN
        RAISE EXCEPTION 'a release cannot be called %', quote_nullable(record_release.name)
        USING ERRCODE = 'QF001', HINT = 'choose another name';
    END IF;
    -- compared as text, as the hash of the request is made: 1 and 1.0 would be two requests
    IF complete::text <> record_release.parameters::text THEN
        RAISE EXCEPTION 'the parameters of a release by % are not complete, or not written as they are stored', record_release.method
        USING ERRCODE = 'QF001', HINT = 'record them as request_parameters returns them';
    END IF;
    SELECT b.dataset_id, b.time_window, b.window_begin, b.window_end, d.timezone, d.max_exposure INTO source
    FROM ${private}.build AS b JOIN ${private}.dataset AS d ON d.dataset_id = b.dataset_id
    WHERE b.build_id = record_release.build AND b.dropped_at IS NULL AND d.dropped_at IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no build %', quote_nullable(record_release.build)
        USING ERRCODE = 'QF002', HINT = '`freqdp dataset build` makes one';
    END IF;
    -- the window that is booked is the one whose rows are drawn from
    IF source.time_window IS NOT NULL AND (
        (SELECT (w.window_begin, w.window_end) FROM ${private}.find_window(source.time_window::text, source.timezone::text) AS w)
            IS DISTINCT FROM (source.window_begin, source.window_end)
        OR EXISTS (
            SELECT FROM ${private}.sample AS s
            WHERE s.build_id = record_release.build AND (s.at < source.window_begin OR s.at > source.window_end)
        )
    ) THEN
        RAISE EXCEPTION 'build % is not of window %', record_release.build, source.time_window
        USING ERRCODE = 'QF001', HINT = 'read the window again: freqdp dataset build DATASET --window WINDOW';
    END IF;
    IF record_release.series IS NOT NULL THEN
        PERFORM ${private}.require_series(
            record_release.series::text, source.dataset_id::int, source.time_window::text, record_release.method::text
        );
        IF record_release.name <> concat(record_release.series, '_', coalesce(
            replace(source.time_window, '-', '_'),
            substring(substr(record_release.name, length(record_release.series) + 2) FROM '^[1-9][0-9]*$')
        )) THEN
            RAISE EXCEPTION 'a release of series % is called after it, with its window or a number', quote_literal(record_release.series)
            USING ERRCODE = 'QF001', HINT = 'give no other name';
        END IF;
    END IF;
    INSERT INTO ${private}.release (
        name, dataset_id, build_id, method, kind, parameters, grantable, held, request_hash, state,
        software, guarantee, requested_by, series
    ) VALUES (
        record_release.name, source.dataset_id, record_release.build, record_release.method,
        declared ->> 'kind', complete, record_release.grantable AND NOT complete ? 'seed',
        record_release.grantable AND NOT complete ? 'seed'
        AND (record_release.held OR source.max_exposure IS NOT NULL),
        ${private}.request_hash(record_release.build::int, record_release.method::text, complete::jsonb),
        'running', record_release.software, record_release.guarantee, session_user::text,
        record_release.series
    )
    RETURNING release_id INTO release;
    PERFORM ${private}.book_spend(
        release::int, concat('release ', record_release.name, ', method ', record_release.method)::text
    );
    RETURN release;
END;
$body$;

COMMENT ON FUNCTION ${private}.record_release(text, int, text, jsonb, boolean, boolean, text, jsonb, text) IS
'Records a release of a build and books what it spends, or refuses both (SQLSTATE class QF). All parameters must be there, as request_parameters returns them. series: the one that it belongs to. Returns the number of the release.';
