CREATE FUNCTION ${private}.request_parameters(method text, given jsonb)
RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    declared jsonb := ${private}.find_method(request_parameters.method::text) -> 'parameters';
    total jsonb := '{"kind": "number", "low": 0, "high": 1000, "decimals": 9, "words": [], "example": "1.0", "help": "The total."}';
    answer jsonb := '{}';
    shares text[];
    named text[];
    key text;
BEGIN
    FOR key IN SELECT k FROM jsonb_object_keys(given) AS k LOOP
        IF declared ? key THEN
            answer := answer || jsonb_build_object(key, ${private}.check_parameter(key::text, (declared -> key)::jsonb, (given -> key)::jsonb));
        ELSIF key <> 'epsilon' THEN
            RAISE EXCEPTION 'option %: % has no such option', quote_literal(key), request_parameters.method
            USING ERRCODE = 'QF001', HINT = (
                SELECT 'use ' || string_agg(k, ', ') || '; and of every method as, new_draw, rebuild, keep, hold, window, series'
                FROM jsonb_object_keys(declared) AS k
            );
        END IF;
    END LOOP;
    IF NOT declared ? 'epsilon' THEN
        -- a total is split evenly among its shares
        SELECT coalesce(array_agg(d.key), '{}'), coalesce(array_agg(d.key) FILTER (WHERE given ? d.key), '{}')
        INTO shares, named
        FROM jsonb_each(declared) AS d
        WHERE d.value ->> 'share_of' = 'epsilon';
        IF given ? 'epsilon' AND cardinality(shares) = 0 THEN
            RAISE EXCEPTION 'epsilon: % draws no noise, so it takes no epsilon', request_parameters.method
            USING ERRCODE = 'QF001', HINT = 'leave it out';
        ELSIF given ? 'epsilon' AND cardinality(named) > 0 THEN
            RAISE EXCEPTION 'epsilon and % are given', array_to_string(named, '/')
            USING ERRCODE = 'QF001', HINT = 'give the total, or the parts';
        ELSIF cardinality(named) > 0 AND cardinality(named) < cardinality(shares) THEN
            RAISE EXCEPTION '% needs %', request_parameters.method, array_to_string(shares, ' and ')
            USING ERRCODE = 'QF001', HINT = 'give all of them, or the total';
        ELSIF cardinality(named) = 0 AND cardinality(shares) > 0 THEN
            total := ${private}.check_parameter('epsilon'::text, total::jsonb, coalesce(given -> 'epsilon', '1')::jsonb);
            answer := answer || coalesce((
                SELECT jsonb_object_agg(s, trim_scale(round((total #>> '{}')::numeric / cardinality(shares), 20)))
                FROM unnest(shares) AS s
            ), '{}');
        END IF;
    END IF;
    RETURN coalesce((
        SELECT jsonb_object_agg(d.key, d.value -> 'default') FROM jsonb_each(declared) AS d
        WHERE d.value -> 'default' <> 'null'
    ), '{}') || answer;
END;
$body$;

COMMENT ON FUNCTION ${private}.request_parameters(text, jsonb) IS
'All parameters of a request as they are stored: as given, else shares of a total, else defaults.';
