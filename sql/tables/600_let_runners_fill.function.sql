CREATE FUNCTION ${private}.let_runners_fill(made text)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    -- without the roles, the owner alone works here
    IF EXISTS (SELECT FROM pg_catalog.pg_roles AS r WHERE r.rolname = ${runner:name}) THEN
        EXECUTE format('GRANT SELECT, INSERT ON %I.%I TO %I', ${private:name}, made, ${runner:name});
    END IF;
END;
$body$;

COMMENT ON FUNCTION ${private}.let_runners_fill(text) IS
'Lets runners read a table of the private schema and add rows. Internal: called by the functions that make such tables.';
