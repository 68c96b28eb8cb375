CREATE FUNCTION ${private}.require_booked(release int)
RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    recorded record;
BEGIN
    SELECT r.name, s.unit, s.amount, e.amount AS booked, a.unit AS booked_unit INTO recorded
    FROM ${private}.release AS r
    CROSS JOIN LATERAL ${private}.spend_of(r.method::text, r.parameters::jsonb) AS s
    LEFT JOIN ${private}.spend AS e ON e.release_id = r.release_id AND e.kind = 'spend'
    LEFT JOIN ${private}.account AS a ON a.account_id = e.account_id
    WHERE r.release_id = require_booked.release;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no release number %', require_booked.release USING ERRCODE = 'QF002';
    END IF;
    -- rho is computed in floats and rounded up by a millionth: another machine may differ in the last digits
    IF recorded.booked_unit IS DISTINCT FROM coalesce(recorded.unit, 'occurrence')
        OR abs(recorded.booked - recorded.amount) > (CASE recorded.unit WHEN 'person' THEN recorded.amount / 1000000000 ELSE 0 END)
    THEN
        RAISE EXCEPTION 'release % may not be drawn: it costs % (%), and the ledger has booked %',
            quote_literal(recorded.name), trim_scale(recorded.amount), coalesce(recorded.unit, 'no unit'),
            coalesce(format('%s (%s)', trim_scale(recorded.booked), recorded.booked_unit), 'nothing')
        USING ERRCODE = 'QF003',
        HINT = 'give it up (`freqdp release withdraw`) and ask for it again';
    END IF;
END;
$body$;

COMMENT ON FUNCTION ${private}.require_booked(int) IS
'Refuses (SQLSTATE QF003) a release whose entry in the ledger is not what its method and parameters cost, in amount and unit. Asked before anything is drawn.';
