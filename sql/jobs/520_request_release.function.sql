-- identity: FUNCTION ${private}.request_release(text, text, numeric, jsonb)
CREATE FUNCTION ${private}.request_release(
    dataset text, method text DEFAULT 'lg', epsilon numeric DEFAULT NULL, options jsonb DEFAULT '{}'
) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    asked jsonb := ${private}.request_document(
        request_release.method, request_release.epsilon, request_release.options
    );
    rebuild boolean := (asked ->> 'rebuild')::boolean;
    share numeric := CASE WHEN asked ->> 'method' IN ('lg', 'gl') THEN 0.5 ELSE 1 END;
    for_global numeric;
    for_local numeric;
    known record;
    built record;
    money record;
    listed numeric;
    job bigint;
BEGIN
    for_global := coalesce((asked ->> 'epsilon_global')::numeric,
        CASE WHEN asked ->> 'method' <> 'pure-l' THEN share * (asked ->> 'epsilon')::numeric END, 0);
    for_local := coalesce((asked ->> 'epsilon_local')::numeric,
        CASE WHEN asked ->> 'method' <> 'pure-g' THEN share * (asked ->> 'epsilon')::numeric END, 0);
    SELECT * INTO known FROM ${private}.dataset AS d
    WHERE d.name = request_release.dataset AND d.dropped_at IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no dataset %', quote_nullable(request_release.dataset)
        USING ERRCODE = 'QF002', HINT = '`freqdp dataset list` shows what there is';
    END IF;
    SELECT * INTO built FROM ${private}.build AS b WHERE b.build_id = known.current_build;
    IF NOT FOUND AND NOT rebuild THEN
        RAISE EXCEPTION 'dataset % has not been built', quote_literal(known.name)
        USING ERRCODE = 'QF002', HINT = 'ask with {"rebuild": true}, or run `freqdp dataset build`';
    END IF;
    IF EXISTS (
        SELECT FROM ${private}.release AS r
        WHERE r.name = asked ->> 'as' AND r.state IN ('running', 'published')
    ) THEN
        RAISE EXCEPTION 'there is a release % already', quote_literal(asked ->> 'as')
        USING ERRCODE = 'QF010', HINT = 'choose another name';
    END IF;
    IF NOT rebuild AND for_local > 0 THEN
        -- what `anonymize` refuses too: max(0, Laplace(1/eps)) is 1/(2 eps) on average
        listed := least(2 * (asked ->> 'signature')::numeric * built.trajectories, built.samples);
        IF listed / (2 * for_local) > 10000000 + 50 * built.samples::numeric THEN
            RAISE EXCEPTION 'epsilon_local (or its share of epsilon) of % would insert about % samples into %',
                for_local, round(listed / (2 * for_local)), built.samples
            USING ERRCODE = 'QF001', HINT = 'ask for a larger epsilon, or a smaller signature';
        END IF;
    END IF;
    -- An equal request on equal data draws nothing and costs nothing. Whether a rebuild gives equal
    -- data is not known yet: it needs a budget that could pay.
    SELECT b.granted, b.spent, b.remaining, (SELECT max(s.at) FROM ${private}.spend AS s
        WHERE s.account_id = b.account_id AND s.kind = 'spend') AS last_at
    INTO money
    FROM ${private}.budget AS b WHERE b.account_id = known.account_id;
    IF money.remaining < for_global + for_local AND (
        rebuild OR (asked ->> 'new_draw')::boolean OR NOT EXISTS (
            SELECT FROM ${private}.release AS r
            JOIN ${private}.build AS b ON b.build_id = r.build_id
            WHERE r.dataset_id = known.dataset_id AND r.state IN ('running', 'published')
                AND b.fingerprint = built.fingerprint AND r.method = asked ->> 'method'
                AND r.epsilon_global = for_global AND r.epsilon_local = for_local
                AND r.signature_size = (asked ->> 'signature')::int
                AND (r.options ->> 'time_step_us') || 'us' IS NOT DISTINCT FROM asked ->> 'time_step'
                AND r.options ->> 'seed' IS NOT DISTINCT FROM asked ->> 'seed'
                AND CASE WHEN 'paper' IN (r.options ->> 'spread', asked ->> 'spread')
                    THEN r.options ->> 'spread' = asked ->> 'spread'
                    ELSE (r.options ->> 'spread')::numeric = (asked ->> 'spread')::numeric END
        )
    ) THEN
        RAISE EXCEPTION 'the budget does not allow this: requested %, spent % of %, remaining %, last spent at %',
            trim_scale(for_global + for_local), trim_scale(money.spent), trim_scale(money.granted),
            trim_scale(money.remaining),
            coalesce(to_char(money.last_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"'), '-')
        USING ERRCODE = 'QF003',
        HINT = 'an administrator can raise it: freqdp budget DATASET --raise EPSILON --reason TEXT';
    END IF;
    INSERT INTO ${private}.job_queue (dataset_id, request)
    VALUES (known.dataset_id, asked)
    RETURNING job_id INTO job;
    PERFORM ${private}.wake_workers();
    RETURN job;
END;
$body$;

COMMENT ON FUNCTION ${private}.request_release(text, text, numeric, jsonb) IS
'Asks for a release and returns the number of its job at once; a worker does it. Options: epsilon_global, epsilon_local, signature, spread, time_step, seed, as, new_draw (all as in `freqdp anonymize`), rebuild (make a new build first), keep (withdraw all but so many of the releases that were asked for with keep). Bad requests are refused here (SQLSTATE class QF).';
REVOKE ALL ON FUNCTION ${private}.request_release(text, text, numeric, jsonb) FROM PUBLIC;
