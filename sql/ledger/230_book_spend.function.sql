CREATE FUNCTION ${private}.book_spend(release int, reason text)
RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    wanted record;
BEGIN
    -- Budget and amount follow from the record: a caller cannot book less, or on another's budget.
    PERFORM ${private}.trace_source(r.dataset_id::int, r.build_id::int)
    FROM ${private}.release AS r WHERE r.release_id = book_spend.release;
    SELECT u.account_id, s.amount, s.unit, r.dataset_id, r.build_id, r.method, r.parameters, b.time_window,
        ${private}.units_of(
            own.population_id::int, coalesce(s.unit, 'occurrence')::text, b.window_begin::timestamptz, b.window_end::timestamptz
        ) AS during INTO wanted
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
    IF wanted.unit = 'person' THEN
        PERFORM ${private}.require_unit(wanted.dataset_id::int, wanted.build_id::int);
    END IF;
    PERFORM 1 FROM ${private}.account AS a WHERE a.account_id = wanted.account_id FOR UPDATE;
    IF EXISTS (SELECT 1 FROM ${private}.spend AS s WHERE s.release_id = book_spend.release) THEN
        RAISE EXCEPTION 'release number % was booked before', book_spend.release USING ERRCODE = 'QF001';
    END IF;
    PERFORM ${private}.require_budget(
        wanted.dataset_id::int, wanted.method::text, wanted.parameters::jsonb, wanted.time_window::text
    );
    RETURN ${private}.append_entry(
        wanted.account_id::int, 'spend'::text, wanted.amount::numeric, book_spend.release::int, book_spend.reason::text,
        wanted.during::tstzrange
    );
END;
$body$;

COMMENT ON FUNCTION ${private}.book_spend(int, text) IS
'Books what a recorded release spends (0: it draws no noise) on the budget of the population that its build was read from, in the unit of its method, before noise is drawn, or refuses (SQLSTATE QF003), once. Returns the entry''s hash. Internal: called by record_release only.';
