CREATE FUNCTION ${private}.check_request(dataset text, method text, epsilon numeric, options jsonb)
RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    asked jsonb := ${private}.request_document(
        check_request.method, check_request.epsilon, check_request.options
    );
    wanted jsonb := asked - ARRAY['method', 'as', 'new_draw', 'rebuild', 'keep', 'hold', 'window', 'series'];
    declared jsonb := ${private}.find_method(asked ->> 'method');
    rebuild boolean := (asked ->> 'rebuild')::boolean;
    known record;
    built record;
    wanted_window record;
    relation text;
    meant regclass;
    other record;
    named text;
    answered boolean;
BEGIN
    SELECT * INTO known FROM ${private}.dataset AS d
    WHERE d.name = check_request.dataset AND d.dropped_at IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no dataset %', quote_nullable(check_request.dataset)
        USING ERRCODE = 'QF002', HINT = '`freqdp dataset list` shows what there is';
    END IF;
    -- what `yesterday` means is settled now
    SELECT * INTO wanted_window FROM ${private}.find_window(asked ->> 'window', known.timezone);
    IF asked ? 'window' THEN
        IF NOT wanted_window.ended THEN
            RAISE EXCEPTION '"window" % has not ended yet (time zone %)', wanted_window.time_window, known.timezone
            USING ERRCODE = 'QF001', HINT = 'take one that has ended, such as yesterday or last-week';
        END IF;
        asked := asked || jsonb_build_object('window', wanted_window.time_window);
    END IF;
    -- a worker, which may read more than whoever asks, looks at this again
    FOR relation IN
        SELECT wanted ->> r.parameter FROM jsonb_array_elements_text(declared -> 'reads') AS r (parameter)
        -- zones may be those of a grid (grid:500m, h3:8)
        WHERE position(':' IN wanted ->> r.parameter) = 0
    LOOP
        -- as it was typed, if there is such, else as PostgreSQL would read it, if it is a name at all
        BEGIN
            meant := coalesce(
                CASE WHEN relation ~ '^[^.]+[.][^.]+$'
                    THEN to_regclass(format('%I.%I', split_part(relation, '.', 1), split_part(relation, '.', 2))) END,
                to_regclass(relation)
            );
        EXCEPTION WHEN invalid_name OR syntax_error OR feature_not_supported THEN
            meant := NULL;
        END;
        IF meant IS NULL THEN
            RAISE EXCEPTION 'there is no table %, which is asked for', quote_literal(relation)
            USING ERRCODE = 'QF002', HINT = 'name one as schema.table';
        END IF;
        IF NOT has_table_privilege(session_user, meant, 'SELECT') THEN
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
            RAISE EXCEPTION 'method % gives a guarantee for one object with all its data: the region and the period of the data must be declared, and be public',
                asked ->> 'method'
            USING ERRCODE = 'QF001',
            HINT = format('freqdp dataset set %s --region W,S,E,N --period BEGIN/END', known.name);
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
    IF asked ? 'series' THEN
        PERFORM ${private}.require_series(
            asked ->> 'series', known.dataset_id::int, (asked ->> 'window')::text, asked ->> 'method'
        );
    END IF;
    named := coalesce(asked ->> 'as', (asked ->> 'series') || '_' || replace(asked ->> 'window', '-', '_'));
    IF EXISTS (SELECT FROM ${private}.release AS r WHERE r.name = named AND r.state IN ('running', 'published')) THEN
        RAISE EXCEPTION 'there is a release % already', quote_literal(named)
        USING ERRCODE = 'QF010', HINT = 'choose another name';
    END IF;
    -- An equal request on equal data draws nothing and costs nothing. Whether a rebuild gives equal
    -- data is not known yet: it needs a budget that could pay.
    answered := NOT rebuild AND NOT (asked ->> 'new_draw')::boolean AND EXISTS (
        SELECT FROM ${private}.release AS r
        WHERE r.state IN ('running', 'published') AND (NOT asked ? 'series' OR r.series = asked ->> 'series')
            AND CASE WHEN asked ? 'window'
                THEN r.build_id = built.build_id AND r.method = asked ->> 'method'
                    AND r.parameters - 'period' = wanted - 'period'
                ELSE r.request_hash = ${private}.request_hash(built.build_id, asked ->> 'method', wanted) END
    );
    IF answered THEN
        RETURN asked;
    END IF;
    -- True samples join an unlinked release with an edited one, and with another unlinked one of the same times. A
    -- worker, which knows the times of a rebuild and all that `keep` withdraws, looks again.
    IF declared ->> 'kind' IN ('edited', 'unlinked') AND wanted ->> 'beside' IS NULL
        AND (declared -> 'grantable')::boolean AND NOT wanted ? 'seed' AND NOT (asked ->> 'hold')::boolean
    THEN
        SELECT r.name, r.kind INTO other
        FROM ${private}.release AS r
        JOIN ${private}.dataset AS d ON d.dataset_id = r.dataset_id
        JOIN ${private}.build AS b ON b.build_id = r.build_id
        WHERE d.account_id = known.account_id AND r.state = 'published' AND r.grantable AND NOT r.held
            AND CASE declared ->> 'kind'
                WHEN 'edited' THEN r.kind = 'unlinked' AND r.parameters ->> 'beside' IS NULL
                ELSE r.kind = 'edited' OR r.kind = 'unlinked' AND r.build_id = built.build_id AND NOT rebuild
                    -- it may answer this request: some defaults are those of the build
                    AND NOT (
                        r.method = asked ->> 'method' AND r.parameters @> jsonb_strip_nulls(wanted)
                        AND r.series IS NOT DISTINCT FROM coalesce(asked ->> 'series', r.series)
                        AND NOT (asked ->> 'new_draw')::boolean
                    )
            END
            AND coalesce(b.window_begin < wanted_window.window_end AND wanted_window.window_begin < b.window_end, true)
            AND NOT (
                asked ? 'keep' AND r.dataset_id = known.dataset_id AND r.series IS NOT DISTINCT FROM asked ->> 'series'
                AND EXISTS (SELECT FROM ${private}.job_queue AS q WHERE q.release_id = r.release_id AND q.request ? 'keep')
            )
        ORDER BY r.release_id DESC LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION '% is a published release of the same source in which %', other.name, CASE
                WHEN other.kind = 'edited' THEN 'each trajectory is one object''s: whoever has both can undo the unlinking'
                WHEN declared ->> 'kind' = 'edited'
                    THEN 'trajectories are unlinked: in this one each is one object''s, so whoever has both can undo the unlinking'
                ELSE 'trajectories are unlinked: both hold true samples of the same times, and whoever has both can undo much of the unlinking'
            END
            USING ERRCODE = 'QF001', HINT = format(
                'withdraw it (freqdp release withdraw %1$s)%2$s, or keep this one for curators with {"hold": true}', other.name,
                CASE declared ->> 'kind' WHEN 'unlinked' THEN format(', accept that with {"beside": "%s"}', other.name) END
            );
        END IF;
    END IF;
    PERFORM ${private}.require_budget(known.dataset_id, asked ->> 'method', wanted, wanted_window.time_window);
    RETURN asked;
END;
$body$;

COMMENT ON FUNCTION ${private}.check_request(text, text, numeric, jsonb) IS
'What is asked for, checked and with its defaults, if it could be served now; refuses what can be seen to be refused later (SQLSTATE class QF). Internal: called by request_release and by whoever makes a schedule.';
