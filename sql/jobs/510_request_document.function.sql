CREATE FUNCTION ${private}.request_document(method text, epsilon numeric, options jsonb)
RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    -- an option that is null is left out
    given jsonb := jsonb_strip_nulls(coalesce(request_document.options, '{}'));
    job jsonb := '{"new_draw": false, "rebuild": false, "hold": false}';
    -- what belongs to the job and not to the method
    declared jsonb := '{
        "new_draw": {"kind": "flag", "example": "true", "help": "Draw afresh."},
        "rebuild": {"kind": "flag", "example": "true", "help": "Make a new build first."},
        "hold": {"kind": "flag", "example": "true", "help": "For curators only, until it is approved."},
        "keep": {"kind": "whole", "low": 1, "high": 10000, "example": "7", "help": "How many releases to keep."}
    }';
    key text;
BEGIN
    IF request_document.method IS NULL THEN
        RAISE EXCEPTION 'method is missing: which one is right depends on the data' USING ERRCODE = 'QF001',
        HINT = '`freqdp recommend DATASET` says which; lg is the paper''s';
    END IF;
    -- nothing that is asked for is so large or nested, and whoever reads it must be able to
    IF octet_length(request_document.options::text) > 500000
        OR jsonb_path_exists(request_document.options, '$.**{3}') THEN
        RAISE EXCEPTION 'options are too large, or nested' USING ERRCODE = 'QF001',
        HINT = 'give each option one value: at most 500 kB in all';
    END IF;
    IF jsonb_typeof(coalesce(request_document.options, '{}')) <> 'object' THEN
        RAISE EXCEPTION 'options must be a JSON object' USING ERRCODE = 'QF001',
        HINT = 'for example {"signature": 10, "spread": 500, "time_step": "60s"}';
    END IF;
    IF request_document.epsilon IS NOT NULL THEN
        IF given ? 'epsilon' THEN
            RAISE EXCEPTION 'epsilon is given twice' USING ERRCODE = 'QF001',
            HINT = 'give it as the third argument, not in the options';
        END IF;
        -- jsonb has no NaN and would make a string of it
        IF request_document.epsilon IN ('NaN', 'Infinity', '-Infinity') THEN
            RAISE EXCEPTION 'epsilon % is not a number above 0', request_document.epsilon
            USING ERRCODE = 'QF001', HINT = 'for example 1.0';
        END IF;
        given := given || jsonb_build_object('epsilon', request_document.epsilon);
    END IF;
    FOREACH key IN ARRAY ARRAY['new_draw', 'rebuild', 'keep', 'hold'] LOOP
        IF given ? key THEN
            job := job || jsonb_build_object(key, ${private}.check_parameter(key, declared -> key, given -> key));
        END IF;
    END LOOP;
    IF given ? 'as' THEN
        IF jsonb_typeof(given -> 'as') <> 'string' OR NOT ${private}.is_release_name(given ->> 'as') THEN
            RAISE EXCEPTION 'as %: not a usable name for a release', given -> 'as' USING ERRCODE = 'QF001',
            HINT = 'up to 55 bytes, without /, \ and control characters, not beginning with a dot, not `catalog`, and not ending in _line, _trip or _current';
        END IF;
        job := job || jsonb_build_object('as', given -> 'as');
    END IF;
    IF given ? 'window' THEN
        IF jsonb_typeof(given -> 'window') <> 'string' THEN
            RAISE EXCEPTION 'window %: not a window', given -> 'window' USING ERRCODE = 'QF001',
            HINT = 'for example yesterday, last-week or 2024-05-06';
        END IF;
        IF given ? 'period' THEN
            RAISE EXCEPTION 'period and window are both given' USING ERRCODE = 'QF001',
            HINT = 'the window is the period: leave period out';
        END IF;
        job := job || jsonb_build_object('window', given -> 'window');
    END IF;
    IF given ? 'series' THEN
        IF jsonb_typeof(given -> 'series') <> 'string' OR NOT ${private}.is_release_name(given ->> 'series')
            OR octet_length(given ->> 'series') > 44 THEN
            RAISE EXCEPTION 'series %: not a usable name for a series', given -> 'series' USING ERRCODE = 'QF001',
            HINT = 'up to 44 bytes, as releases are called: a number or the window follows it in the names of its releases';
        END IF;
        IF given ? 'as' THEN
            RAISE EXCEPTION 'series and as are both given' USING ERRCODE = 'QF001',
            HINT = 'releases of a series are called after it: leave as out';
        END IF;
        job := job || jsonb_build_object('series', given -> 'series');
    END IF;
    RETURN job || jsonb_build_object('method', request_document.method)
        || ${private}.request_parameters(
            request_document.method, given - ARRAY['new_draw', 'rebuild', 'keep', 'hold', 'as', 'window', 'series']
        );
END;
$body$;

COMMENT ON FUNCTION ${private}.request_document(text, numeric, jsonb) IS
'What is asked for, checked and with its defaults; refuses what `freqdp anonymize` would refuse (SQLSTATE QF001).';
