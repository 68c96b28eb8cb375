CREATE FUNCTION ${private}.request_hash(build int, method text, parameters jsonb)
RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    -- the same data is the same dataset and fingerprint, whichever build of it
    SELECT encode(sha256(convert_to(
        concat_ws('|', b.dataset_id::text, b.fingerprint, method, parameters::text), 'UTF8')), 'hex')
    FROM ${private}.build AS b
    WHERE b.build_id = build;
END;

COMMENT ON FUNCTION ${private}.request_hash(int, text, jsonb) IS
'Equal for equal requests on equal data: what tells that a request was answered before.';
