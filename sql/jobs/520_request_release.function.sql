CREATE FUNCTION ${private}.request_release(
    dataset text, method text DEFAULT NULL, epsilon numeric DEFAULT NULL, options jsonb DEFAULT '{}'
) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    asked jsonb := ${private}.request_document(
        request_release.method, request_release.epsilon, request_release.options
    );
    wanted jsonb := asked - ARRAY['method', 'as', 'new_draw', 'rebuild', 'keep', 'hold', 'window', 'series'];
    declared jsonb := ${private}.find_method(asked ->> 'method');
    rebuild boolean := (asked ->> 'rebuild')::boolean;
    known record;
    built record;
    wanted_window record;
    relation text;
    edited text;
    job bigint;
BEGIN
    SELECT * INTO known FROM ${private}.dataset AS d
    WHERE d.name = request_release.dataset AND d.dropped_at IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no dataset %', quote_nullable(request_release.dataset)
        USING ERRCODE = 'QF002', HINT = '`freqdp dataset list` shows what there is';
    END IF;
    -- what `yesterday` means is settled now
    SELECT * INTO wanted_window FROM ${private}.find_window(asked ->> 'window', known.timezone);
    IF asked ? 'window' THEN
        IF NOT wanted_window.ended THEN
            RAISE EXCEPTION '[[window]] % has not ended in %: a release closes it', wanted_window.time_window, known.timezone
            USING ERRCODE = 'QF001', HINT = 'take one that is over, such as yesterday or last-week';
        END IF;
        asked := asked || jsonb_build_object('window', wanted_window.time_window);
    END IF;
    -- a worker, which may read more than whoever asks, looks at this again
    FOR relation IN
        SELECT wanted ->> r.parameter FROM jsonb_array_elements_text(declared -> 'reads') AS r (parameter)
        -- zones may be those of a grid (grid:500m, h3:8)
        WHERE position(':' IN wanted ->> r.parameter) = 0
    LOOP
        IF NOT has_table_privilege(session_user, to_regclass(relation), 'SELECT') THEN
            RAISE EXCEPTION '% may not read %, which is asked for', session_user, quote_literal(relation)
            USING ERRCODE = '42501', HINT = 'ask its owner: GRANT SELECT ON it';
        END IF;
    END LOOP;
    -- what is public of the dataset belongs to the request, as whoever serves it will fill it in
    IF declared ->> 'unit' = 'person' AND declared -> 'parameters' ? 'region' THEN
        wanted := jsonb_strip_nulls(jsonb_build_object(
            'region', known.region,
            'period', CASE WHEN asked ? 'window' THEN wanted_window.time_window ELSE known.period END
        )) || wanted;
        IF NOT wanted ?& ARRAY['region', 'period'] THEN
            RAISE EXCEPTION 'method % guarantees something for one object with all its data: the region and the period must be public, and not be read from the data',
                asked ->> 'method'
            USING ERRCODE = 'QF001',
            HINT = format('say them once: freqdp dataset set %s --region W,S,E,N --period BEGIN/END', known.name);
        END IF;
    END IF;
    SELECT * INTO built FROM ${private}.build AS b
    WHERE CASE WHEN asked ? 'window'
        THEN b.dataset_id = known.dataset_id AND b.time_window = wanted_window.time_window AND b.dropped_at IS NULL
        ELSE b.build_id = known.current_build END
    ORDER BY b.build_id DESC LIMIT 1;
    IF NOT FOUND AND NOT rebuild AND NOT asked ? 'window' THEN
        RAISE EXCEPTION 'dataset % has not been built', quote_literal(known.name)
        USING ERRCODE = 'QF002', HINT = 'ask with {"rebuild": true}, or run `freqdp dataset build`';
    END IF;
    IF EXISTS (
        SELECT FROM ${private}.release AS r
        WHERE r.name = coalesce(asked ->> 'as', concat(asked ->> 'series', '_', replace(asked ->> 'window', '-', '_')))
            AND r.state IN ('running', 'published')
    ) THEN
        RAISE EXCEPTION 'there is a release % already', quote_literal(coalesce(asked ->> 'as', concat(asked ->> 'series', '_', replace(asked ->> 'window', '-', '_'))))
        USING ERRCODE = 'QF010', HINT = 'choose another name';
    END IF;
    -- True samples join an edited release with an unlinked one. A worker, which knows what `keep` withdraws, looks at
    -- all other pairs.
    IF declared ->> 'kind' = 'unlinked' AND wanted ->> 'beside' IS NULL AND asked ->> 'keep' IS NULL
        AND NOT asked ? 'window' AND NOT coalesce((asked ->> 'hold')::boolean, false)
    THEN
        SELECT r.name INTO edited
        FROM ${private}.release AS r JOIN ${private}.dataset AS d ON d.dataset_id = r.dataset_id
        WHERE d.account_id = known.account_id AND r.kind = 'edited' AND r.state = 'published'
            AND r.grantable AND NOT r.held
        ORDER BY r.release_id DESC LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION '% is a published release of the same source in which a trajectory is one object''s: whoever has it undoes the unlinking', edited
            USING ERRCODE = 'QF001',
            HINT = format('withdraw it (freqdp release withdraw %1$s), accept that with {"beside": "%1$s"}, or keep this one for curators with {"hold": true}', edited);
        END IF;
    END IF;
    -- An equal request on equal data draws nothing and costs nothing. Whether a rebuild gives equal
    -- data is not known yet: it needs a budget that could pay.
    IF rebuild OR (asked ->> 'new_draw')::boolean OR NOT EXISTS (
        SELECT FROM ${private}.release AS r
        WHERE r.state IN ('running', 'published')
            AND CASE WHEN asked ? 'window'
                THEN r.build_id = built.build_id AND r.method = asked ->> 'method'
                    AND r.parameters - 'period' = wanted - 'period'
                ELSE r.request_hash = ${private}.request_hash(built.build_id, asked ->> 'method', wanted) END
    ) THEN
        PERFORM ${private}.require_budget(
            known.dataset_id, asked ->> 'method', wanted, wanted_window.window_begin, wanted_window.window_end
        );
    END IF;
    INSERT INTO ${private}.job_queue (dataset_id, request)
    VALUES (known.dataset_id, asked)
    RETURNING job_id INTO job;
    PERFORM ${private}.wake_workers();
    RETURN job;
END;
$body$;

COMMENT ON FUNCTION ${private}.request_release(text, text, numeric, jsonb) IS
'Asks for a release by a method (required) and returns the number of its job at once; a worker does it. Options: the parameters of the method (the table `method` has them; all as in `freqdp anonymize`), as, new_draw, rebuild (make a new build first), keep (withdraw all but so many of the releases that were asked for with keep), hold (for curators only, until it is approved), window (a day, week or month: 2024-05-06, yesterday, last-week), series (the table that the window becomes a part of). Bad requests are refused here (SQLSTATE class QF).';
REVOKE ALL ON FUNCTION ${private}.request_release(text, text, numeric, jsonb) FROM PUBLIC;
