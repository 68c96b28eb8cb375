CREATE FUNCTION ${private}.require_series(series text, build int, method text)
RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    own record;
    known record;
    taken text;
BEGIN
    SELECT d.name AS dataset, w.every, w.time_window INTO own
    FROM ${private}.build AS b
    JOIN ${private}.dataset AS d ON d.dataset_id = b.dataset_id
    CROSS JOIN LATERAL ${private}.find_window(b.time_window::text, d.timezone::text) AS w
    WHERE b.build_id = require_series.build;
    IF own.time_window IS NULL OR ${private}.is_release_name(require_series.series::text) IS NOT TRUE THEN
        RAISE EXCEPTION 'series % needs a window', quote_nullable(require_series.series)
        USING ERRCODE = 'QF001', HINT = 'for example [[window]] yesterday';
    END IF;
    SELECT s.dataset, s.every, s.method INTO known FROM ${release}.series AS s WHERE s.name = require_series.series;
    IF FOUND THEN
        IF (known.dataset, known.every, known.method) <> (own.dataset, own.every, require_series.method) THEN
            RAISE EXCEPTION 'series % has a window for each %, of dataset %, by method %', quote_literal(require_series.series),
                known.every, quote_literal(known.dataset), known.method
            USING ERRCODE = 'QF001', HINT = 'ask for the same, or give another name with [[series]]';
        END IF;
        RETURN;
    END IF;
    SELECT c.relname INTO taken
    FROM jsonb_array_elements(${private}.find_method(require_series.method::text) -> 'relations') AS e
    JOIN pg_catalog.pg_class AS c ON c.relname = require_series.series || (e ->> 'suffix')
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace AND n.nspname = ${release:name}
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION '% has a relation % already, which is no series', quote_ident(${release:name}), quote_literal(taken)
        USING ERRCODE = 'QF010', HINT = 'give another name with [[series]]';
    END IF;
END;
$body$;

COMMENT ON FUNCTION ${private}.require_series(text, int, text) IS
'Refuses (SQLSTATE class QF) a release of a window in a series of another dataset, method or kind of window, and a series whose name is taken. Internal: called by record_release.';
REVOKE ALL ON FUNCTION ${private}.require_series(text, int, text) FROM PUBLIC;
