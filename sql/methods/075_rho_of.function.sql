CREATE FUNCTION ${private}.rho_of(epsilon numeric, delta numeric)
RETURNS numeric
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    -- the order minus 1, as a logarithm
    low float8;
    high float8;
    third float8;
    rho float8 := 0;
    step float8 := 64;
    best float8;
    here float8;
    there float8;
BEGIN
    -- the largest rho whose zCDP gives (epsilon, delta): bits from the top, kept while they fit
    FOR bit IN 1 .. 70 LOOP
        step := step / 2;
        low := -20;
        high := 30;
        FOR round IN 1 .. 60 LOOP
            third := (high - low) / 3;
            here := (rho + step) * (1 + exp(low + third)) - ln(delta::float8 * (1 + exp(low + third))) / exp(low + third)
                + ln(exp(low + third) / (1 + exp(low + third)));
            there := (rho + step) * (1 + exp(high - third)) - ln(delta::float8 * (1 + exp(high - third))) / exp(high - third)
                + ln(exp(high - third) / (1 + exp(high - third)));
            IF here < there THEN
                high := high - third;
            ELSE
                low := low + third;
            END IF;
            best := least(here, there);
        END LOOP;
        IF best <= epsilon::float8 THEN
            rho := rho + step;
        END IF;
    END LOOP;
    -- rounded up, beyond what floats can be wrong by: what is booked is never less than what is spent
    RETURN trim_scale(ceil(rho::numeric * 1.000001 * 1000000000000) / 1000000000000);
END;
$body$;

COMMENT ON FUNCTION ${private}.rho_of(numeric, numeric) IS
'The rho of zero-concentrated differential privacy that stands for (epsilon, delta), by the tight conversion, rounded up.';
