CREATE FUNCTION ${private}.book_spend(release int, reason text)
RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    account int;
    wanted record;
    state record;
    spenders text;
BEGIN
    -- Budget and amount follow from the record: a caller cannot book less, or on another's budget.
    PERFORM ${private}.trace_source(r.dataset_id::int, r.build_id::int)
    FROM ${private}.release AS r WHERE r.release_id = book_spend.release;
    SELECT u.account_id, s.amount, s.unit, d.name AS dataset, b.time_window,
        ${private}.units_of(
            own.population_id::int, coalesce(s.unit, 'occurrence')::text, b.window_begin::timestamptz, b.window_end::timestamptz
        ) AS during,
        ${private}.protected_unit(own.account_id::int, s.unit::text) AS protected INTO wanted
    FROM ${private}.release AS r
    JOIN ${private}.build AS b ON b.build_id = r.build_id AND b.dataset_id = r.dataset_id
    JOIN ${private}.dataset AS d ON d.dataset_id = r.dataset_id
    JOIN ${private}.account AS own ON own.account_id = d.account_id
    CROSS JOIN LATERAL ${private}.spend_of(r.method::text, r.parameters::jsonb) AS s
    LEFT JOIN ${private}.account AS u ON u.population_id = own.population_id
        AND u.unit = coalesce(s.unit, 'occurrence')
    WHERE r.release_id = book_spend.release;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no release number %', book_spend.release USING ERRCODE = 'QF002';
    END IF;
    -- 'NaN' compares greater than every number, so it has to be named
    IF wanted.amount < 0 OR wanted.amount = 'NaN' OR wanted.amount = 'Infinity' THEN
        RAISE EXCEPTION 'what is spent must be a number, 0 or more' USING ERRCODE = 'QF001';
    END IF;
    IF wanted.account_id IS NULL THEN
        RAISE EXCEPTION 'the source has no budget for %', wanted.protected
        USING ERRCODE = 'QF003',
        HINT = 'an administrator can open one: ' || ${private}.raise_command(wanted.dataset::text, wanted.unit::text, wanted.amount::numeric);
    END IF;
    account := wanted.account_id;
    PERFORM 1 FROM ${private}.account AS a WHERE a.account_id = account FOR UPDATE;
    IF EXISTS (SELECT 1 FROM ${private}.spend AS s WHERE s.release_id = book_spend.release) THEN
        RAISE EXCEPTION 'release number % was booked before', book_spend.release USING ERRCODE = 'QF001';
    END IF;
    SELECT b.granted, t.spent, b.granted - t.spent AS remaining INTO state
    FROM ${private}.budget AS b
    CROSS JOIN LATERAL (SELECT ${private}.spent_in(b.account_id::int, wanted.during::tstzrange) AS spent) AS t
    WHERE b.account_id = account;
    IF state.remaining < wanted.amount THEN
        SELECT string_agg(format('%s (%s)', l.name, trim_scale(l.amount)), ', ' ORDER BY l.entry DESC)
            || CASE WHEN max(l.spends) > 8 THEN format(' and %s before', max(l.spends) - 8) ELSE '' END
        INTO spenders
        FROM (
            SELECT s.entry, s.amount, coalesce(r.name, 'a budget that was merged with it') AS name,
                count(*) OVER () AS spends
            FROM ${private}.spend AS s LEFT JOIN ${private}.release AS r USING (release_id)
            WHERE s.account_id = account AND s.kind <> 'grant'
                AND (s.during IS NULL OR wanted.during IS NULL OR s.during && wanted.during)
            ORDER BY s.entry DESC
            LIMIT 8
        ) AS l;
        RAISE EXCEPTION 'the budget for % does not allow this (%): requested %, spent % of %, remaining %, short by %; spent by %',
            concat(wanted.protected, ' in ' || wanted.time_window), CASE wanted.unit WHEN 'person' THEN 'rho' ELSE 'epsilon' END,
            trim_scale(wanted.amount), trim_scale(state.spent), trim_scale(state.granted),
            trim_scale(state.remaining), trim_scale(wanted.amount - state.remaining),
            coalesce(spenders, 'no release yet')
            USING ERRCODE = 'QF003',
            HINT = format(
                'an administrator can raise it by what is missing, which is given as epsilon for %s: %s', wanted.protected,
                ${private}.raise_command(
                    wanted.dataset::text, wanted.unit::text, (wanted.amount - state.remaining)::numeric
                )
            );
    END IF;
    RETURN ${private}.append_entry(
        account::int, 'spend'::text, wanted.amount::numeric, book_spend.release::int, book_spend.reason::text,
        wanted.during::tstzrange
    );
END;
$body$;

COMMENT ON FUNCTION ${private}.book_spend(int, text) IS
'Books what a recorded release spends (0: it draws no noise) on the budget of the population that its build was read from, in the unit of its method, before noise is drawn, or refuses (SQLSTATE QF003), once. Returns the entry''s hash. Internal: called by record_release only.';
REVOKE ALL ON FUNCTION ${private}.book_spend(int, text) FROM PUBLIC;
