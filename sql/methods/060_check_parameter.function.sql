CREATE FUNCTION ${private}.check_parameter(name text, declared jsonb, given jsonb)
RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    kind text := declared ->> 'kind';
    text_given text := given #>> '{}';
    number numeric := CASE WHEN jsonb_typeof(given) = 'number' THEN (given #>> '{}')::numeric END;
    words text[];
    answer jsonb;
BEGIN
    IF kind = 'number' THEN
        IF jsonb_typeof(given) = 'string' AND declared -> 'words' ? text_given THEN
            answer := given;
        ELSIF number > 0 AND number BETWEEN (declared ->> 'low')::numeric AND (declared ->> 'high')::numeric
            AND scale(number) <= (declared ->> 'decimals')::int THEN
            answer := to_jsonb(trim_scale(number));
        END IF;
    ELSIF kind = 'whole' THEN
        IF scale(number) = 0 AND number BETWEEN (declared ->> 'low')::numeric AND (declared ->> 'high')::numeric THEN
            answer := given;
        END IF;
    ELSIF kind = 'duration' THEN
        IF jsonb_typeof(given) = 'string' AND text_given ~ '^[0-9a-z. ]{1,20}$' THEN
            words := regexp_match(text_given, '^ *([0-9]+\.?[0-9]*|\.[0-9]+) *(us|ms|s|min|m|h|d)? *$');
            number := words[1]::numeric * CASE coalesce(words[2], 's')
                WHEN 'us' THEN 0.000001 WHEN 'ms' THEN 0.001 WHEN 's' THEN 1 WHEN 'min' THEN 60
                WHEN 'm' THEN 60 WHEN 'h' THEN 3600 WHEN 'd' THEN 86400 END;
        END IF;
        IF (number > 0 OR (number = 0 AND (declared ->> 'zero')::boolean)) AND number <= 366 * 86400 AND scale(trim_scale(number)) <= 6 THEN
            answer := to_jsonb(trim_scale(number));
        END IF;
    ELSIF kind = 'meeting' THEN
        words := regexp_match(CASE WHEN jsonb_typeof(given) = 'string' THEN text_given END,
            '^ *([0-9]{1,20}\.?[0-9]{0,20}) *(k?)m */(.*)$');
        IF words IS NOT NULL THEN
            answer := ${private}.check_parameter(
                check_parameter.name::text, (declared -> 'time')::jsonb, to_jsonb(words[3])::jsonb
            );
            number := words[1]::numeric * CASE WHEN words[2] = 'k' THEN 1000 ELSE 1 END;
            IF number >= 1 AND number <= (declared -> 'place' ->> 'high')::numeric
                AND scale(number) <= (declared -> 'place' ->> 'decimals')::int
                AND (answer #>> '{}')::numeric BETWEEN 1 AND 86400 THEN
                answer := to_jsonb(concat(trim_scale(number), 'm/', answer #>> '{}', 's'));
            ELSE
                answer := NULL;
            END IF;
        END IF;
    ELSIF kind = 'flag' THEN
        IF jsonb_typeof(given) = 'boolean' THEN
            answer := given;
        END IF;
    ELSIF kind = 'choice' THEN
        IF jsonb_typeof(given) = 'string' AND declared -> 'words' ? text_given THEN
            answer := given;
        END IF;
    ELSIF kind = 'words' THEN
        words := regexp_split_to_array(CASE WHEN jsonb_typeof(given) = 'string' THEN text_given END, ',');
        words := ARRAY(SELECT btrim(w) FROM unnest(words) AS w);
        IF cardinality(words) > 0 AND declared -> 'words' ?& words
            AND cardinality(words) = (SELECT count(DISTINCT w) FROM unnest(words) AS w) THEN
            answer := to_jsonb((
                SELECT string_agg(w.word, ',' ORDER BY w.place)
                FROM jsonb_array_elements_text(declared -> 'words') WITH ORDINALITY AS w (word, place)
                WHERE w.word = ANY (words)
            ));
        END IF;
    ELSIF kind = 'zones' THEN
        IF jsonb_typeof(given) = 'string' AND length(text_given) <= 200 AND btrim(text_given) <> '' THEN
            words := regexp_match(btrim(text_given), '^grid: *([0-9]{1,6}(\.[0-9]{1,3})?) *(k?)m$');
            number := words[1]::numeric * CASE WHEN words[3] = 'k' THEN 1000 ELSE 1 END;
            IF number BETWEEN 10 AND 100000 THEN
                answer := to_jsonb(concat('grid:', trim_scale(number), 'm'));
            END IF;
            words := regexp_match(btrim(text_given), '^h3: *([0-9]{1,2})$');
            IF words[1]::int <= 12 THEN
                answer := to_jsonb(concat('h3:', words[1]::int));
            ELSIF position(':' IN text_given) = 0 THEN
                answer := to_jsonb(btrim(text_given));
            END IF;
        END IF;
    ELSIF kind IN ('name', 'box', 'stretch') THEN
        -- a box (or the outline of an area) and a stretch of time are looked at by whoever serves the request
        IF jsonb_typeof(given) = 'string' AND length(text_given) <= (CASE WHEN kind = 'box' THEN 100000 ELSE 200 END) AND btrim(text_given) <> '' THEN
            answer := to_jsonb(btrim(text_given));
        END IF;
    END IF;
    IF answer IS NULL THEN
        RAISE EXCEPTION '% % is not acceptable', check_parameter.name, given
        USING ERRCODE = 'QF001', HINT = concat(
            declared ->> 'help', ' For example ', declared ->> 'example',
            CASE WHEN kind = 'whole' THEN concat(' (a whole number from ', declared ->> 'low', ' to ', declared ->> 'high', ')')
                WHEN kind = 'number' THEN concat(' (above 0, at most ', declared ->> 'high', ', with up to ', declared ->> 'decimals', ' decimals)')
            END
        );
    END IF;
    RETURN answer;
END;
$body$;

COMMENT ON FUNCTION ${private}.check_parameter(text, jsonb, jsonb) IS
'A value of a parameter as it is stored, or a refusal (SQLSTATE QF001). The declaration is the one that `freqdp` itself parses by.';
