CREATE FUNCTION ${private}.require_budget(
    dataset int, method text, parameters jsonb, window_begin timestamptz, window_end timestamptz
)
RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    wanted record;
    money record;
    protected text;
BEGIN
    SELECT * INTO wanted FROM ${private}.spend_of(require_budget.method, require_budget.parameters);
    IF wanted.unit IS NULL THEN
        RETURN;
    END IF;
    SELECT b.granted, t.spent, b.granted - t.spent AS remaining, (SELECT max(s.at) FROM ${private}.spend AS s
        WHERE s.account_id = b.account_id AND s.kind = 'spend') AS last_at
    INTO money
    FROM ${private}.budget AS b
    JOIN ${private}.dataset AS d ON d.dataset_id = require_budget.dataset
    JOIN ${private}.account AS own ON own.account_id = d.account_id
    CROSS JOIN LATERAL (
        SELECT ${private}.spent_in(
            b.account_id,
            ${private}.units_of(own.population_id, wanted.unit, require_budget.window_begin, require_budget.window_end)
        ) AS spent
    ) AS t
    WHERE b.population_id = own.population_id AND b.unit = wanted.unit;
    IF coalesce(money.remaining, 0) < wanted.amount THEN
        SELECT ${private}.protected_unit(d.account_id, wanted.unit) INTO protected
        FROM ${private}.dataset AS d WHERE d.dataset_id = require_budget.dataset;
        RAISE EXCEPTION 'the budget for % does not allow this (%): requested %, spent % of %, remaining %, last spent at %',
            protected, CASE wanted.unit WHEN 'person' THEN 'rho' ELSE 'epsilon' END,
            trim_scale(wanted.amount), trim_scale(coalesce(money.spent, 0)), trim_scale(coalesce(money.granted, 0)),
            trim_scale(coalesce(money.remaining, 0)),
            coalesce(to_char(money.last_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"'), '-')
        USING ERRCODE = 'QF003',
        HINT = format(
            'an administrator can raise it by what is missing, which is given as epsilon for %s: %s', protected,
            ${private}.raise_command(
                (SELECT d.name FROM ${private}.dataset AS d WHERE d.dataset_id = require_budget.dataset),
                wanted.unit, wanted.amount - coalesce(money.remaining, 0)
            )
        );
    END IF;
END;
$body$;

COMMENT ON FUNCTION ${private}.require_budget(int, text, jsonb, timestamptz, timestamptz) IS
'Refuses (SQLSTATE QF003) what the budget of a dataset''s population cannot pay for, in the unit of the method and for this window (NULL: all data). The booking itself decides again.';
REVOKE ALL ON FUNCTION ${private}.require_budget(int, text, jsonb, timestamptz, timestamptz) FROM PUBLIC;
