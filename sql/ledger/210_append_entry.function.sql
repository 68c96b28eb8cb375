CREATE FUNCTION ${private}.append_entry(
    account int, kind text, amount numeric, release int, reason text, during tstzrange DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    entry_number int;
    before_hash text;
    entry_at timestamptz := clock_timestamp();
    entry_hash text;
BEGIN
    -- The account's row is the lock: entries of one account are written one after the other.
    PERFORM 1 FROM ${private}.account AS a WHERE a.account_id = append_entry.account FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no budget number %', append_entry.account USING ERRCODE = 'QF002';
    END IF;
    SELECT s.entry, s.hash INTO entry_number, before_hash
    FROM ${private}.spend AS s
    WHERE s.account_id = append_entry.account
    ORDER BY s.entry DESC
    LIMIT 1;
    entry_number := coalesce(entry_number, 0) + 1;
    before_hash := coalesce(before_hash, '');
    entry_hash := ${private}.entry_hash(
        append_entry.account::int, entry_number::int, append_entry.kind::text, append_entry.amount::numeric,
        append_entry.release::int, append_entry.reason::text, session_user::text, entry_at::timestamptz,
        before_hash::text, append_entry.during::tstzrange
    );
    INSERT INTO ${private}.spend
        (account_id, entry, kind, amount, release_id, reason, actor, at, previous_hash, hash, during)
    VALUES (
        append_entry.account, entry_number, append_entry.kind, append_entry.amount,
        append_entry.release, append_entry.reason, session_user::text, entry_at, before_hash, entry_hash,
        append_entry.during
    );
    RETURN entry_hash;
END;
$body$;

COMMENT ON FUNCTION ${private}.append_entry(int, text, numeric, int, text, tstzrange) IS
'Appends one entry to a budget''s ledger. Internal: called by book_spend, grant_budget and merge_populations only.';
