CREATE FUNCTION ${private}.entry_hash(
    account int, entry int, kind text, amount numeric, release int,
    reason text, actor text, at timestamptz, previous_hash text, during tstzrange DEFAULT NULL
) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    -- Lengths go in with the texts, so that no two entries can be written the same way.
    SELECT encode(sha256(convert_to(
        concat_ws(
            '|', account::text, entry::text, kind, trim_scale(amount)::text, coalesce(release::text, '-'),
            length(reason)::text, reason, length(actor)::text, actor,
            (extract(epoch FROM at) * 1000000)::bigint::text, previous_hash,
            -- nothing where it is NULL, as before there were windows
            (extract(epoch FROM lower(during)) * 1000000)::bigint::text,
            (extract(epoch FROM upper(during)) * 1000000)::bigint::text
        ), 'UTF8')), 'hex');
END;

COMMENT ON FUNCTION ${private}.entry_hash(int, int, text, numeric, int, text, text, timestamptz, text, tstzrange) IS
'SHA-256 of a ledger entry and of the entry before it.';
