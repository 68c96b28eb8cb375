CREATE FUNCTION ${private}.database_key() RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT concat(s.system_identifier, '.', d.oid)
    FROM pg_catalog.pg_control_system() AS s
    JOIN pg_catalog.pg_database AS d ON d.datname = current_database();
END;

COMMENT ON FUNCTION ${private}.database_key() IS
'Which database OIDs are of: a database that was restored from a dump has others for the same tables.';
