CREATE FUNCTION ${private}.require_budget(dataset int, method text, parameters jsonb, time_window text)
RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    wanted record;
    own record;
    money record;
    missing numeric;
    spenders text;
BEGIN
    SELECT * INTO wanted FROM ${private}.spend_of(require_budget.method::text, require_budget.parameters::jsonb);
    IF wanted.unit IS NULL THEN
        RETURN;
    END IF;
    IF wanted.unit = 'person' THEN
        PERFORM ${private}.require_unit(require_budget.dataset::int, NULL::int);
    END IF;
    SELECT d.name, a.population_id, ${private}.protected_unit(d.account_id::int, wanted.unit::text) AS protected,
        ${private}.units_of(a.population_id::int, wanted.unit::text, w.window_begin::timestamptz, w.window_end::timestamptz) AS during
    INTO own
    FROM ${private}.dataset AS d
    JOIN ${private}.account AS a ON a.account_id = d.account_id
    CROSS JOIN LATERAL ${private}.find_window(require_budget.time_window::text, d.timezone::text) AS w
    WHERE d.dataset_id = require_budget.dataset;
    SELECT b.account_id, b.granted, ${private}.spent_in(b.account_id::int, own.during::tstzrange) AS spent INTO money
    FROM ${private}.budget AS b
    WHERE b.population_id = own.population_id AND b.unit = wanted.unit;
    missing := wanted.amount - coalesce(money.granted - money.spent, 0);
    IF missing > 0 THEN
        SELECT string_agg(format('%s (%s)', l.name, trim_scale(l.amount)), ', ' ORDER BY l.entry DESC)
            || CASE WHEN max(l.spends) > 8 THEN format(' and %s before', max(l.spends) - 8) ELSE '' END
        INTO spenders
        FROM (
            SELECT s.entry, s.amount, coalesce(r.name, 'a budget that was merged with it') AS name,
                count(*) OVER () AS spends
            FROM ${private}.spend AS s LEFT JOIN ${private}.release AS r USING (release_id)
            WHERE s.account_id = money.account_id AND s.kind <> 'grant'
                AND (s.during IS NULL OR own.during IS NULL OR s.during && own.during)
            ORDER BY s.entry DESC
            LIMIT 8
        ) AS l;
        RAISE EXCEPTION 'the budget for % does not allow this (%): requested %, spent % of %, remaining %, short by %; spent by %',
            concat(own.protected, ' in ' || require_budget.time_window), CASE wanted.unit WHEN 'person' THEN 'rho' ELSE 'epsilon' END,
            trim_scale(wanted.amount), trim_scale(coalesce(money.spent, 0)), trim_scale(coalesce(money.granted, 0)),
            trim_scale(wanted.amount - missing), trim_scale(missing), coalesce(spenders, 'no release yet')
        USING ERRCODE = 'QF003',
        HINT = format(
            'an administrator can raise it by what is missing, which is given as epsilon for %s: %s', own.protected,
            ${private}.raise_command(own.name::text, wanted.unit::text, missing::numeric)
        );
    END IF;
END;
$body$;

COMMENT ON FUNCTION ${private}.require_budget(int, text, jsonb, text) IS
'Refuses (SQLSTATE class QF) what the budget of a dataset''s population does not count, or cannot pay for, in the unit of the method and for this window (NULL: all data). A request is checked by it, and the booking, which has locked the account.';
