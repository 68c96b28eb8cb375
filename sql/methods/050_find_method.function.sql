CREATE FUNCTION ${private}.find_method(name text)
RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    part text;
    next jsonb;
    chosen jsonb;
    coarseness text[] := ARRAY['edited', 'unlinked', 'generalised', 'synthetic', 'counts'];
BEGIN
    FOREACH part IN ARRAY string_to_array(find_method.name, '+') LOOP
        SELECT m.declaration INTO next FROM ${private}.method AS m WHERE m.name = part;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'method % is not known', quote_literal(find_method.name)
            USING ERRCODE = 'QF001', HINT = (
                SELECT 'use one of ' || string_agg(m.name, ', ' ORDER BY m.position) FROM ${private}.method AS m
            );
        END IF;
        IF chosen IS NULL THEN
            chosen := next;
        ELSIF NOT next -> 'after' ? (chosen ->> 'kind') THEN
            RAISE EXCEPTION 'method %: % cannot follow what comes before it', quote_literal(find_method.name), part
            USING ERRCODE = 'QF001', HINT = 'leave out one of them';
        ELSE
            chosen := jsonb_build_object(
                'kind', CASE WHEN array_position(coarseness, next ->> 'kind') > array_position(coarseness, chosen ->> 'kind')
                    THEN next ->> 'kind' ELSE chosen ->> 'kind' END,
                'unit', coalesce(chosen ->> 'unit', next ->> 'unit'),
                'grantable', (chosen -> 'grantable')::boolean AND (next -> 'grantable')::boolean,
                'spends', (chosen -> 'spends') || (next -> 'spends'),
                'reads', (chosen -> 'reads') || (next -> 'reads'),
                'parameters', (next -> 'parameters') || (chosen -> 'parameters'),
                'relations', next -> 'relations',
                'keeps_columns', (chosen -> 'keeps_columns')::boolean AND (next -> 'keeps_columns')::boolean
            );
        END IF;
    END LOOP;
    IF chosen IS NULL THEN
        RAISE EXCEPTION 'method % is not known', quote_nullable(find_method.name)
        USING ERRCODE = 'QF001', HINT = 'for example lg';
    END IF;
    RETURN chosen;
END;
$body$;

COMMENT ON FUNCTION ${private}.find_method(text) IS
'What a method, or several that follow each other (`lg+swap`), declare: kind, unit, whether analysts may ever have its releases, what is spent, which parameters name relations that are read, parameters, the relations of its releases, and whether their samples carry along what the build keeps.';
