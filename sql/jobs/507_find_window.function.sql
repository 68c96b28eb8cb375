-- example:
--   SELECT * FROM freqdp.find_window('yesterday', 'Europe/Brussels');
CREATE FUNCTION ${private}.find_window(
    word text, timezone text,
    OUT time_window text, OUT every text, OUT first_day date, OUT window_begin timestamptz, OUT window_end timestamptz,
    OUT following text, OUT ended boolean
)
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    today timestamp := (now() AT TIME ZONE find_window.timezone)::date;
    begins timestamp;
    ends timestamp;
    -- how a window is written
    written text;
BEGIN
    -- no window: all data
    IF find_window.word IS NULL THEN
        RETURN;
    END IF;
    every := CASE
        WHEN find_window.word = 'yesterday' OR find_window.word ~ '^\d{4}-\d\d-\d\d$' THEN 'day'
        WHEN find_window.word = 'last-week' OR find_window.word ~ '^\d{4}-W\d\d$' THEN 'week'
        WHEN find_window.word = 'last-month' OR find_window.word ~ '^\d{4}-\d\d$' THEN 'month'
    END;
    written := CASE every WHEN 'day' THEN 'YYYY-MM-DD' WHEN 'week' THEN 'IYYY-"W"IW' WHEN 'month' THEN 'YYYY-MM' END;
    BEGIN
        begins := CASE
            WHEN find_window.word IN ('yesterday', 'last-week', 'last-month') THEN date_trunc(every, today) - ('1 ' || every)::interval
            WHEN every = 'day' THEN find_window.word::date
            WHEN every = 'week' THEN to_date(find_window.word, 'IYYY-"W"IW')
            WHEN every = 'month' THEN (find_window.word || '-01')::date
        END;
    EXCEPTION WHEN datetime_field_overflow OR invalid_datetime_format THEN
        begins := NULL;
    END;
    -- to_date takes a week 54 for one of the next year
    IF begins IS NULL OR (find_window.word ~ '\d' AND to_char(begins, written) <> find_window.word)
        OR extract(year FROM begins) NOT BETWEEN 1900 AND 2200 THEN
        RAISE EXCEPTION '"window" % is not a window', quote_literal(find_window.word) USING ERRCODE = 'QF001',
        HINT = 'for example "window" 2024-05-06 (a day), 2024-W19 (a week), 2024-05 (a month), yesterday, last-week or last-month';
    END IF;
    ends := begins + ('1 ' || every)::interval;
    time_window := to_char(begins, written);
    first_day := begins::date;
    window_begin := begins AT TIME ZONE find_window.timezone;
    window_end := ends AT TIME ZONE find_window.timezone;
    -- whoever moves to the other side of the date line leaves out a day
    IF window_begin = window_end THEN
        RAISE EXCEPTION '"window" %: there was no such % in %', time_window, every, find_window.timezone
        USING ERRCODE = 'QF001', HINT = 'take the one before or after it';
    END IF;
    IF window_end = (ends + ('1 ' || every)::interval) AT TIME ZONE find_window.timezone THEN
        ends := ends + ('1 ' || every)::interval;
    END IF;
    following := to_char(ends, written);
    ended := window_end <= now();
END;
$body$;

COMMENT ON FUNCTION ${private}.find_window(text, text) IS
'A window of the calendar in a time zone: a day (2024-05-06), a week from Monday (2024-W19), a month (2024-05), yesterday, last-week or last-month; where it begins and ends, what the next one is called, and whether it is over. Nothing where there is no word. Refuses any other word (SQLSTATE QF001).';
