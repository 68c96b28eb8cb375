CREATE FUNCTION ${private}.raise_command(dataset text, unit text, short numeric)
RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    epsilon numeric := trim_scale(raise_command.short);
    low int := 0;
    high int := 100000;
    middle int;
BEGIN
    IF raise_command.unit = 'person' THEN
        -- hundredths of the epsilon whose rho covers what is missing
        WHILE high - low > 1 LOOP
            middle := (low + high) / 2;
            IF ${private}.rho_of((middle / 100.0)::numeric, 0.000001::numeric) >= raise_command.short THEN
                high := middle;
            ELSE
                low := middle;
            END IF;
        END LOOP;
        epsilon := trim_scale(high / 100.0);
    END IF;
    RETURN format(
        '`freqdp budget %s --unit %s --raise %s --reason TEXT`',
        -- as a shell reads it
        CASE WHEN raise_command.dataset ~ '^[A-Za-z0-9_.]+$' THEN raise_command.dataset
            ELSE '''' || replace(raise_command.dataset, '''', '''"''"''') || '''' END,
        raise_command.unit, epsilon
    );
END;
$body$;

COMMENT ON FUNCTION ${private}.raise_command(text, text, numeric) IS
'The command that raises a budget by what is missing: --raise takes epsilon, also where the ledger keeps rho (for one object with all its data, at delta 0.000001).';
