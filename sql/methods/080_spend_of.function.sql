CREATE FUNCTION ${private}.spend_of(method text, parameters jsonb, OUT unit text, OUT amount numeric)
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    declared jsonb := ${private}.find_method(spend_of.method::text);
BEGIN
    unit := declared ->> 'unit';
    -- what is missing would be drawn at its default, and must not be booked as 0
    IF unit IS NOT NULL AND EXISTS (
        SELECT FROM jsonb_array_elements_text(
            CASE unit WHEN 'person' THEN '["epsilon"]' ELSE declared -> 'spends' END
        ) AS s
        WHERE jsonb_typeof(spend_of.parameters -> s) IS DISTINCT FROM 'number'
            OR (spend_of.parameters ->> s)::numeric <= 0
    ) OR (spend_of.parameters ->> 'accounting' = 'zcdp' AND spend_of.parameters ->> 'delta' IS NULL) THEN
        RAISE EXCEPTION 'method % without its epsilon has no price', spend_of.method
        USING ERRCODE = 'QF001', HINT = 'give all its parameters, as request_parameters returns them';
    END IF;
    IF unit = 'person' THEN
        -- in rho, which adds up over releases; a pure epsilon counts half its square
        amount := CASE WHEN spend_of.parameters ->> 'accounting' = 'zcdp'
            THEN ${private}.rho_of((spend_of.parameters ->> 'epsilon')::numeric, (spend_of.parameters ->> 'delta')::numeric)
            -- products are exact; powers and quotients are not
            ELSE trim_scale((spend_of.parameters ->> 'epsilon')::numeric * (spend_of.parameters ->> 'epsilon')::numeric * 0.5) END;
        RETURN;
    END IF;
    SELECT coalesce(sum((spend_of.parameters ->> s)::numeric), 0) INTO amount
    FROM jsonb_array_elements_text(declared -> 'spends') AS s;
END;
$body$;

COMMENT ON FUNCTION ${private}.spend_of(text, jsonb) IS
'What a release by this method with these parameters books, and in which unit. Null: it draws no noise that anything is claimed for.';
