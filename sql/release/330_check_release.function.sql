CREATE FUNCTION ${private}.check_release(release text)
RETURNS TABLE (number int, what text, expected bigint, found bigint, ok boolean)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
-- DEFINER: auditors may run it, and read neither the originals nor the targets; it gives them counts alone
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    asked record;
    counted bigint;
BEGIN
    SELECT r.release_id, r.name, r.build_id, r.rows, r.relations INTO asked
    FROM ${private}.release AS r WHERE r.name = check_release.release AND r.state = 'published';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no published release %', quote_nullable(check_release.release) USING ERRCODE = 'QF002';
    END IF;
    EXECUTE format('SELECT count(*) FROM %I.%I', ${release:name}, asked.name || asked.relations[1]) INTO counted;
    RETURN QUERY SELECT 1, 'rows of ' || asked.name || asked.relations[1], asked.rows, counted, counted = asked.rows;
    -- frequencies are those of objects only where no other step has cut, joined or made up trajectories
    IF EXISTS (
        SELECT FROM ${private}.release_step AS s
        WHERE s.release_id = asked.release_id AND s.mechanism NOT IN ('local', 'global')
    ) THEN
        RETURN;
    END IF;
    -- `released`: PF of the released table. `undone`: what undoing a step's edits changes in it. `reached`: PF after each
    -- step, from 0, the build, which is the released PF with all later steps undone. All arguments are literals.
    RETURN QUERY EXECUTE format($query$
WITH released AS MATERIALIZED (
    SELECT k.trajectory_id, l.location_id, count(*) AS pf
    FROM %1$I.%2$I AS s
    LEFT JOIN %3$I.release_key AS k ON k.release_id = %5$L AND k.released_id = s.trajectory_id
    LEFT JOIN %3$I.location AS l ON l.build_id = %6$L AND l.geom OPERATOR(%4$I.=) s.geom
    GROUP BY k.trajectory_id, l.location_id
), undone AS MATERIALIZED (
    SELECT e.step, e.trajectory_id, e.location_id,
        sum(CASE e.operation WHEN 'd' THEN cardinality(e.seq) ELSE -cardinality(e.seq) END) AS pf
    FROM %3$I.edit_run AS e WHERE e.release_id = %5$L
    GROUP BY e.step, e.trajectory_id, e.location_id
), step AS (
    SELECT s.step::int AS step, s.mechanism FROM %3$I.release_step AS s WHERE s.release_id = %5$L
    UNION ALL SELECT 0, NULL
), reached AS MATERIALIZED (
    SELECT p.step, p.trajectory_id, p.location_id, sum(p.pf) AS pf
    FROM (
        SELECT s.step, r.trajectory_id, r.location_id, r.pf FROM step AS s CROSS JOIN released AS r
        UNION ALL
        SELECT s.step, u.trajectory_id, u.location_id, u.pf FROM step AS s JOIN undone AS u ON u.step > s.step
    ) AS p
    GROUP BY p.step, p.trajectory_id, p.location_id
    HAVING sum(p.pf) <> 0
), visited AS MATERIALIZED (
    SELECT p.step, p.location_id, count(*) AS tf FROM reached AS p GROUP BY p.step, p.location_id
), built AS MATERIALIZED (
    SELECT s.trajectory_id, s.location_id, count(*) AS pf FROM %3$I.sample AS s WHERE s.build_id = %6$L
    GROUP BY s.trajectory_id, s.location_id
), around (later, what) AS (
    -- what holds before a step, and after it
    VALUES (0, 'targets were drawn from'), (1, 'are the targets')
), checked AS (
    SELECT 2 AS number, 'rows of ids or at places that the build does not have' AS what, 0 AS expected,
        coalesce(sum(r.pf), 0) AS found
    FROM released AS r WHERE r.trajectory_id IS NULL OR r.location_id IS NULL
    UNION ALL
    SELECT 3, 'frequencies that are not those of the build when the edits are undone', 0, count(*)
    FROM (SELECT p.trajectory_id, p.location_id, p.pf FROM reached AS p WHERE p.step = 0) AS p
    FULL JOIN built AS b ON b.trajectory_id = p.trajectory_id AND b.location_id = p.location_id
    WHERE b.pf IS DISTINCT FROM p.pf
    UNION ALL
    -- what trajectory_frequency shows was counted by the build: here it is counted from the samples
    SELECT 3, 'locations whose trajectory frequency is not that of the build''s samples', 0, count(*)
    FROM (SELECT l.location_id, l.tf FROM %3$I.location AS l WHERE l.build_id = %6$L AND l.tf <> 0) AS l
    FULL JOIN (SELECT b.location_id, count(*) AS tf FROM built AS b GROUP BY b.location_id) AS c
        ON c.location_id = l.location_id
    WHERE c.tf IS DISTINCT FROM l.tf
    UNION ALL
    SELECT 4 * s.step + w.later, format('step %%s, local: point frequencies that %%s', s.step, w.what), count(*),
        count(*) FILTER (WHERE CASE w.later WHEN 0 THEN t.pf ELSE t.target END = coalesce(p.pf, 0))
    FROM step AS s JOIN %3$I.pf_target AS t ON t.release_id = %5$L AND t.step = s.step
    CROSS JOIN around AS w
    LEFT JOIN reached AS p ON p.step = s.step - 1 + w.later AND p.trajectory_id = t.trajectory_id AND p.location_id = t.location_id
    GROUP BY s.step, w.later, w.what
    UNION ALL
    SELECT 4 * s.step + w.later, format('step %%s, global: trajectory frequencies that %%s', s.step, w.what), count(*),
        count(*) FILTER (WHERE CASE w.later WHEN 0 THEN t.tf ELSE t.target END = coalesce(v.tf, 0))
    FROM step AS s JOIN %3$I.tf_target AS t ON t.release_id = %5$L AND t.step = s.step
    CROSS JOIN around AS w
    LEFT JOIN visited AS v ON v.step = s.step - 1 + w.later AND v.location_id = t.location_id
    GROUP BY s.step, w.later, w.what
)
SELECT (1 + row_number() OVER (ORDER BY c.number, c.what))::int, c.what::text, c.expected::bigint, c.found::bigint, c.expected = c.found
FROM checked AS c ORDER BY c.number, c.what
$query$, ${release:name}, asked.name || asked.relations[1], ${private:name}, ${postgis:name}, asked.release_id, asked.build_id);
END;
$body$;

COMMENT ON FUNCTION ${private}.check_release(text) IS
'Checks a published release on the server, from its table, the stored targets and the edit log alone: one row for each check, ok or not. Of releases by lg, gl, pure-l and pure-g it checks that frequencies are the targets after each step, and the build''s when all edits are undone, and that the trajectory frequencies of the build are those of its samples; of others, the number of rows.';
