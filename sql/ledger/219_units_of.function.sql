CREATE FUNCTION ${private}.units_of(population int, unit text, begins timestamptz, ends timestamptz)
RETURNS tstzrange
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    stretch text;
    zone text;
    unit_begin timestamp;
    unit_end timestamp;
BEGIN
    -- an occurrence is at one moment: no window but its own holds it
    IF units_of.unit = 'occurrence' THEN
        RETURN CASE WHEN units_of.begins IS NOT NULL THEN tstzrange(units_of.begins, units_of.ends) END;
    END IF;
    SELECT substring(p.unit FROM '^person-(.*)$'), p.timezone INTO stretch, zone
    FROM ${private}.population AS p WHERE p.population_id = units_of.population;
    IF stretch IS NULL THEN
        RETURN NULL;
    END IF;
    IF units_of.begins IS NULL THEN
        RAISE EXCEPTION 'guarantees here are for a person and %, and a release of all data is of many', stretch
        USING ERRCODE = 'QF001', HINT = 'give a window of one of them with "window", such as yesterday, last-week or last-month';
    END IF;
    unit_begin := date_trunc(stretch, units_of.begins AT TIME ZONE zone);
    unit_end := unit_begin + ('1 ' || stretch)::interval;
    -- Without a part of its rows somebody is still there. To guarantee that would cost more than to guarantee that
    -- somebody is not there at all, which is what a release is booked for.
    -- The clock may show midnight twice: what lies between is the day before.
    IF units_of.begins < unit_begin AT TIME ZONE zone OR units_of.ends > unit_end AT TIME ZONE zone THEN
        RAISE EXCEPTION 'guarantees here are for a person and % (in %), and this window does not lie in one of them', stretch, zone
        USING ERRCODE = 'QF001', HINT = format('give a window within one %s', stretch);
    END IF;
    RETURN tstzrange(unit_begin AT TIME ZONE zone, unit_end AT TIME ZONE zone);
END;
$body$;

COMMENT ON FUNCTION ${private}.units_of(int, text, timestamptz, timestamptz) IS
'The time that what is released of a window is booked for: the window itself for occurrences, the day, week or month that it lies in for persons; NULL: all time. Refuses (SQLSTATE QF001) a window that does not lie in one unit.';
