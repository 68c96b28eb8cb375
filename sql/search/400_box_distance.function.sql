CREATE FUNCTION ${private}.box_distance(
    x_m float8, y_m float8, x_min float8, y_min float8, x_max float8, y_max float8
) RETURNS float8
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT sqrt(
        greatest(x_min - x_m, x_m - x_max, 0) * greatest(x_min - x_m, x_m - x_max, 0)
        + greatest(y_min - y_m, y_m - y_max, 0) * greatest(y_min - y_m, y_m - y_max, 0)
    );
END;

COMMENT ON FUNCTION ${private}.box_distance(float8, float8, float8, float8, float8, float8) IS
'MINdist: metres from a point to a box, 0 inside it; infinite for an empty box (min > max).';
