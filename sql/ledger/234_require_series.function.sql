CREATE FUNCTION ${private}.require_series(series text, dataset int, time_window text, method text)
RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    own record;
    known record;
    taken text;
BEGIN
    SELECT d.name AS dataset, w.every INTO own
    FROM ${private}.dataset AS d
    LEFT JOIN LATERAL ${private}.find_window(require_series.time_window::text, d.timezone::text) AS w ON true
    WHERE d.dataset_id = require_series.dataset;
    IF ${private}.is_release_name(require_series.series::text) IS NOT TRUE OR octet_length(require_series.series) > 44 THEN
        RAISE EXCEPTION 'a series cannot be called %', quote_nullable(require_series.series)
        USING ERRCODE = 'QF001', HINT = 'give another name with "series"';
    END IF;
    SELECT s.dataset, s.every, s.method, s.relations INTO known FROM ${release}.series AS s WHERE s.name = require_series.series;
    IF FOUND THEN
        IF (known.dataset, known.every, known.method) IS DISTINCT FROM (own.dataset, own.every, require_series.method) THEN
            RAISE EXCEPTION 'series % has a window for each %, of dataset %, by method %', quote_literal(require_series.series),
                known.every, quote_literal(known.dataset), known.method
            USING ERRCODE = 'QF001', HINT = 'ask for the same, or give another name with "series"';
        END IF;
        SELECT r INTO taken FROM unnest(known.relations) AS r WHERE to_regclass(format('%I.%I', ${release:name}, r)) IS NULL LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION '%.% of series % is not there: it was dropped or renamed by hand', quote_ident(${release:name}),
                quote_ident(taken), quote_literal(require_series.series)
            USING ERRCODE = 'QF002', HINT = 'rename it back, or give another name with "series"';
        END IF;
        RETURN;
    END IF;
    SELECT d.name AS dataset, b.time_window INTO known
    FROM ${private}.release AS r
    JOIN ${private}.build AS b ON b.build_id = r.build_id
    JOIN ${private}.dataset AS d ON d.dataset_id = r.dataset_id
    WHERE r.series = require_series.series AND r.state IN ('running', 'published', 'withdrawing')
        AND (r.dataset_id <> require_series.dataset OR (b.time_window IS NULL) <> (own.every IS NULL))
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'series % is one of dataset %, of %', quote_literal(require_series.series), quote_literal(known.dataset),
            CASE WHEN known.time_window IS NULL THEN 'releases of all data' ELSE 'windows' END
        USING ERRCODE = 'QF001', HINT = 'ask for the same, or give another name with "series"';
    END IF;
    IF own.every IS NULL THEN
        IF EXISTS (SELECT FROM ${private}.dataset AS d WHERE d.name = require_series.series AND d.dropped_at IS NULL) THEN
            RAISE EXCEPTION '% is a dataset, whose releases are called after it', quote_literal(require_series.series)
            USING ERRCODE = 'QF001', HINT = 'give another name with "series"';
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
        USING ERRCODE = 'QF010', HINT = 'give another name with "series"';
    END IF;
END;
$body$;

COMMENT ON FUNCTION ${private}.require_series(text, int, text, text) IS
'Refuses (SQLSTATE class QF) a release of a window (NULL: of all data) in a series of another dataset, of windows where it has none or the other way round, or, of windows, by another method; and a series whose name is taken.';
