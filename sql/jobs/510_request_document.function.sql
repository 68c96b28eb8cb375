-- identity: FUNCTION ${private}.request_document(text, numeric, jsonb)
CREATE FUNCTION ${private}.request_document(method text, epsilon numeric, options jsonb)
RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    -- an option that is null is left out
    given jsonb := jsonb_strip_nulls(coalesce(request_document.options, '{}'));
    steps text[];
    key text;
    kind text;
    number numeric;
    words text[];
    microseconds numeric;
    example text := 'for example {"signature": 10, "spread": 500, "time_step": "60s"}';
BEGIN
    IF jsonb_typeof(coalesce(request_document.options, '{}')) <> 'object' THEN
        RAISE EXCEPTION 'options must be a JSON object' USING ERRCODE = 'QF001', HINT = example;
    END IF;
    steps := CASE coalesce(request_document.method, 'lg')
        WHEN 'lg' THEN ARRAY['local', 'global']
        WHEN 'gl' THEN ARRAY['global', 'local']
        WHEN 'pure-g' THEN ARRAY['global']
        WHEN 'pure-l' THEN ARRAY['local']
    END;
    IF steps IS NULL THEN
        RAISE EXCEPTION 'method % is not known', quote_literal(request_document.method)
        USING ERRCODE = 'QF001', HINT = 'use one of lg, gl, pure-g, pure-l';
    END IF;
    IF request_document.epsilon IS NOT NULL THEN
        IF given ? 'epsilon' THEN
            RAISE EXCEPTION 'epsilon is given twice' USING ERRCODE = 'QF001',
            HINT = 'give it as the third argument, not in the options';
        END IF;
        -- as text: jsonb has no NaN and would make a string of it
        IF request_document.epsilon IN ('NaN', 'Infinity', '-Infinity') THEN
            RAISE EXCEPTION 'epsilon % is not a number above 0', request_document.epsilon
            USING ERRCODE = 'QF001', HINT = 'for example 1.0';
        END IF;
        given := given || jsonb_build_object('epsilon', request_document.epsilon);
    END IF;
    FOR key, kind IN SELECT k, jsonb_typeof(given -> k) FROM jsonb_object_keys(given) AS k LOOP
        IF key NOT IN (
            'epsilon', 'epsilon_global', 'epsilon_local', 'signature', 'spread', 'time_step', 'seed',
            'as', 'new_draw', 'rebuild', 'keep'
        ) THEN
            RAISE EXCEPTION 'option % is not known', quote_literal(key) USING ERRCODE = 'QF001',
            HINT = 'use epsilon_global, epsilon_local, signature, spread, time_step, seed, as, new_draw, rebuild, keep';
        END IF;
        IF (kind <> CASE
            WHEN key IN ('new_draw', 'rebuild') THEN 'boolean'
            WHEN key IN ('as', 'time_step') THEN 'string'
            WHEN key = 'spread' AND given ->> key = 'paper' THEN 'string'
            ELSE 'number'
        END) THEN
            RAISE EXCEPTION 'option %: % is not acceptable', key, given -> key USING ERRCODE = 'QF001',
            HINT = CASE key WHEN 'spread' THEN 'metres, or "paper"' ELSE example END;
        END IF;
        number := CASE kind WHEN 'number' THEN (given ->> key)::numeric END;
        IF key LIKE 'epsilon%' AND (number <= 0 OR number > 1000 OR scale(number) > 9) THEN
            RAISE EXCEPTION '% % is not between 0.000000001 and 1,000, with up to 9 decimals', key, number
            USING ERRCODE = 'QF001', HINT = 'for example 1.0';
        END IF;
        IF key = 'spread' AND (number <= 0 OR number > 10000000 OR scale(number) > 9) THEN
            RAISE EXCEPTION 'spread % is not a number of metres above 0, nor "paper"', number
            USING ERRCODE = 'QF001', HINT = 'for example 500';
        END IF;
        IF key IN ('signature', 'seed', 'keep') AND (
            scale(number) > 0 OR NOT number BETWEEN CASE key WHEN 'seed' THEN 0 ELSE 1 END
            AND CASE key WHEN 'signature' THEN 10000 WHEN 'keep' THEN 10000 ELSE 9223372036854775807 END
        ) THEN
            RAISE EXCEPTION '% % is not a whole number in its range', key, number USING ERRCODE = 'QF001',
            HINT = 'signature: 1 to 10000; keep: 1 to 10000; seed: 0 to 2^63 - 1';
        END IF;
        IF key = 'as' AND NOT ${private}.is_release_name(given ->> key) THEN
            RAISE EXCEPTION 'as %: not a usable name for a release', given -> key USING ERRCODE = 'QF001',
            HINT = 'up to 55 bytes, not `catalog`, and not ending in _line or _current';
        END IF;
        IF key = 'time_step' THEN
            words := CASE WHEN given ->> key ~ '^[0-9a-z. ]{1,20}$' THEN
                regexp_match(given ->> key, '^ *([0-9]+\.?[0-9]*|\.[0-9]+) *(us|ms|s|min|m|h|d)? *$') END;
            microseconds := words[1]::numeric * CASE coalesce(words[2], 's')
                WHEN 'us' THEN 1 WHEN 'ms' THEN 1000 WHEN 's' THEN 1000000 WHEN 'min' THEN 60000000
                WHEN 'm' THEN 60000000 WHEN 'h' THEN 3600000000 WHEN 'd' THEN 86400000000 END;
            IF microseconds IS NULL OR microseconds <= 0 OR microseconds <> trunc(microseconds)
                OR microseconds > 366 * 86400000000 THEN
                RAISE EXCEPTION 'time_step %: not a whole number of microseconds up to a year', given -> key
                USING ERRCODE = 'QF001', HINT = 'for example 60s, 5min or 1h';
            END IF;
            given := given || jsonb_build_object(key, trunc(microseconds) || 'us');
        END IF;
    END LOOP;
    FOREACH key IN ARRAY ARRAY['global', 'local'] LOOP
        IF given ? ('epsilon_' || key) AND NOT key = ANY (steps) THEN
            RAISE EXCEPTION 'epsilon_%: % has no % mechanism', key, request_document.method, key
            USING ERRCODE = 'QF001', HINT = 'leave it out';
        END IF;
    END LOOP;
    IF given ?| ARRAY['epsilon_global', 'epsilon_local'] THEN
        IF given ? 'epsilon' THEN
            RAISE EXCEPTION 'epsilon and epsilon_global/epsilon_local are given' USING ERRCODE = 'QF001',
            HINT = 'give the total, or the two parts';
        END IF;
        IF EXISTS (SELECT FROM unnest(steps) AS s WHERE NOT given ? ('epsilon_' || s)) THEN
            RAISE EXCEPTION '% needs both epsilon_global and epsilon_local',
                coalesce(request_document.method, 'lg')
            USING ERRCODE = 'QF001', HINT = 'give both, or the total';
        END IF;
    ELSIF NOT given ? 'epsilon' THEN
        given := given || '{"epsilon": 1}';
    END IF;
    RETURN '{"signature": 10, "spread": 500, "new_draw": false, "rebuild": false}'::jsonb || given
        || jsonb_build_object('method', coalesce(request_document.method, 'lg'));
END;
$body$;

COMMENT ON FUNCTION ${private}.request_document(text, numeric, jsonb) IS
'What is asked for, checked and with its defaults; refuses what `freqdp anonymize` would refuse (SQLSTATE QF001).';
REVOKE ALL ON FUNCTION ${private}.request_document(text, numeric, jsonb) FROM PUBLIC;
