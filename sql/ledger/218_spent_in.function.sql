CREATE FUNCTION ${private}.spent_in(account int, during tstzrange)
RETURNS numeric
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    -- The most that was spent on one moment of it. Of times that overlap pairwise and with `during`, a moment lies
    -- in all of them: what begins and ends elsewhere needs no cutting off.
    WITH entry AS (
        SELECT s.amount, s.during
        FROM ${private}.spend AS s
        WHERE s.account_id = spent_in.account AND s.kind <> 'grant'
            AND (s.during IS NULL OR spent_in.during IS NULL OR s.during && spent_in.during)
    ), change AS (
        SELECT lower(e.during) AS at, e.amount FROM entry AS e WHERE e.during IS NOT NULL
        UNION ALL
        SELECT upper(e.during), -e.amount FROM entry AS e WHERE e.during IS NOT NULL
    ), moment AS (
        SELECT sum(c.amount) OVER (ORDER BY c.at) AS amount FROM change AS c
    )
    SELECT coalesce((SELECT sum(e.amount) FROM entry AS e WHERE e.during IS NULL), 0)
        + coalesce((SELECT max(m.amount) FROM moment AS m), 0);
END;

COMMENT ON FUNCTION ${private}.spent_in(int, tstzrange) IS
'What was spent of a budget on data of one moment of this time (NULL: of any time), at most. What is spent on times that do not overlap does not add up.';
