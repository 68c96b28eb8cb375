"""Deletions and insertions, in SQL: that no cheaper ones were left, ties included."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, LiteralString

from replayed_states import Findings, Replay, compare

_FIRST_RADIUS_M = 250.0
_EVERYTHING_M = 1e9

# What must fall: places, or places of a trajectory.
_TF_FALLING: LiteralString = """
    CREATE TEMP TABLE falling AS SELECT location_id FROM {private}.tf_target
    WHERE release_id = %(release_id)s AND step = %(step)s AND target < tf
"""
_PF_FALLING: LiteralString = """
    CREATE TEMP TABLE falling AS SELECT trajectory_id, location_id FROM {private}.pf_target
    WHERE release_id = %(release_id)s AND step = %(step)s AND target < pf
"""
# Every stay (run of equal consecutive samples) there, with the loss of each of its samples: to the
# segment that joins its outer neighbours, or to the one that it has.
_STAYS: LiteralString = """
    CREATE TEMP TABLE stay AS
    SELECT s.trajectory_id, s.location_id, s.first, s.last, floor(1000 * CASE
            WHEN a.point IS NOT NULL AND b.point IS NOT NULL
                THEN ST_Distance(q.point, ST_MakeLine(a.point, b.point))
            ELSE coalesce(ST_Distance(q.point, coalesce(a.point, b.point)), 0)
        END + 0.5)::bigint AS loss_mm
    FROM (
        SELECT trajectory_id, location_id, min(seq) AS first, max(seq) AS last
        FROM (
            SELECT trajectory_id, location_id, seq, seq - row_number() OVER (
                PARTITION BY trajectory_id, location_id ORDER BY seq
            ) AS island FROM input NATURAL JOIN falling
        ) AS i
        GROUP BY trajectory_id, location_id, island
    ) AS s
    JOIN place AS q ON q.location_id = s.location_id
    LEFT JOIN input AS ia ON ia.trajectory_id = s.trajectory_id AND ia.seq = s.first - 1
    LEFT JOIN input AS ib ON ib.trajectory_id = s.trajectory_id AND ib.seq = s.last + 1
    LEFT JOIN place AS a ON a.location_id = ia.location_id
    LEFT JOIN place AS b ON b.location_id = ib.location_id
"""
_WRONG_DELETIONS: LiteralString = """
    SELECT e.trajectory_id, e.location_id, e.seq, e.loss_mm, d.seq, d.loss_mm
    FROM expected AS e FULL JOIN deleted AS d USING (trajectory_id, location_id, seq)
    WHERE e.loss_mm IS NULL OR d.loss_mm IS NULL OR abs(e.loss_mm - d.loss_mm) > 1
"""


def _make_stays(replay: Replay, falling: LiteralString, step: int) -> None:
    replay.run(falling, step=step)
    replay.run("ANALYZE pg_temp.falling")
    replay.run(_STAYS)
    replay.run("DROP TABLE pg_temp.falling")
    replay.run("ANALYZE pg_temp.stay")


def check_global_deletions(replay: Replay, findings: Findings, step: int) -> None:
    """Every occurrence, from the trajectories with the least (total loss, released id)."""
    _make_stays(replay, _TF_FALLING, step)
    compare(
        replay, findings, f"step {step}: global deletions",
        "SELECT count(*) FROM deleted",
        """
        WITH chosen AS (
            SELECT trajectory_id, location_id, row_number() OVER (
                PARTITION BY location_id
                ORDER BY sum(loss_mm * (last - first + 1)), released_id
            ) AS place
            FROM stay JOIN key USING (trajectory_id)
            GROUP BY trajectory_id, location_id, released_id
        ), expected AS (
            SELECT trajectory_id, location_id, seq, loss_mm
            FROM chosen JOIN stay USING (trajectory_id, location_id)
            JOIN {private}.tf_target AS t USING (location_id)
            CROSS JOIN generate_series(first, last) AS seq
            WHERE t.release_id = %(release_id)s AND t.step = %(step)s AND place <= t.tf - t.target
        )""" + _WRONG_DELETIONS,
        step=step,
    )  # fmt: skip
    replay.run("DROP TABLE pg_temp.stay")


def check_local_deletions(replay: Replay, findings: Findings, step: int) -> None:
    """The cheapest occurrences, ties by position."""
    _make_stays(replay, _PF_FALLING, step)
    compare(
        replay, findings, f"step {step}: local deletions",
        "SELECT count(*) FROM deleted",
        """
        WITH expected AS (
            SELECT trajectory_id, location_id, seq, loss_mm FROM (
                SELECT trajectory_id, location_id, seq, loss_mm, row_number() OVER (
                    PARTITION BY trajectory_id, location_id ORDER BY loss_mm, seq
                ) AS place
                FROM stay CROSS JOIN generate_series(first, last) AS seq
            ) AS o
            JOIN {private}.pf_target AS t USING (trajectory_id, location_id)
            WHERE t.release_id = %(release_id)s AND t.step = %(step)s AND place <= t.pf - t.target
        )""" + _WRONG_DELETIONS,
        step=step,
    )  # fmt: skip
    replay.run("DROP TABLE pg_temp.stay")


def check_global_insertions(
    replay: Replay, findings: Findings, step: int, sample: int | None, seed: int
) -> None:
    """One insertion into each of the K nearest trajectories that lack the place."""
    compare(
        replay, findings, f"step {step}: global insertions by target",
        "SELECT count(DISTINCT location_id) FROM inserted",
        """
        SELECT location_id, t.k, i.k FROM (
            SELECT location_id, greatest(target - tf, 0) AS k FROM {private}.tf_target
            WHERE release_id = %(release_id)s AND step = %(step)s
        ) AS t
        FULL JOIN (SELECT location_id, count(*) AS k FROM inserted GROUP BY 1) AS i
            USING (location_id)
        WHERE coalesce(t.k, 0) <> coalesce(i.k, 0)
        """,
        step=step,
    )  # fmt: skip
    make_ways(replay)
    queries = replay.run(
        """
        SELECT location_id, target - tf FROM {private}.tf_target
        WHERE release_id = %(release_id)s AND step = %(step)s AND target > tf
        ORDER BY md5(location_id::text || ' ' || %(seed)s) LIMIT %(sample)s
        """,
        step=step,
        seed=str(seed),
        sample=sample,
    )
    wrong = []
    for place, k in queries:
        expected = [
            with_room(replay, place, *one) for one in nearest_trajectories(replay, place, k)
        ]
        logged = replay.run(
            "SELECT trajectory_id, seq, loss_mm FROM inserted WHERE location_id = %(place)s",
            place=place,
        )
        if not _same(expected, logged):
            wrong.append({"place": place, "k": k, "expected": expected, "logged": sorted(logged)})
    findings.add(f"step {step}: global insertion queries", len(queries), wrong)
    replay.run("DROP TABLE pg_temp.way")


def with_room(
    replay: Replay, place: int, trajectory: int, seq: int, loss_mm: int
) -> tuple[int, int, int]:
    """The same, or the nearest leg with a free step if lower places have taken all that it had."""
    found = replay.run(
        """
        SELECT seq, loss_mm FROM (
            SELECT l.seq, floor(ST_Distance(l.geom, q.point) * 1000 + 0.5)::bigint AS loss_mm
            FROM leg AS l, place AS q
            WHERE l.trajectory_id = %(trajectory)s AND q.location_id = %(place)s
            AND l.steps > (SELECT count(*) FROM inserted AS i WHERE i.seq = l.seq
                AND i.trajectory_id = l.trajectory_id AND i.location_id < %(place)s)
        ) AS l
        WHERE loss_mm <= %(farthest)s OR 2 * %(step_us)s <= (
            SELECT coalesce((array_agg(next_us - at_us ORDER BY next_us - at_us))[
                count(*) / 2 + 1
            ], %(gap_us)s) FROM thinned WHERE next_us > at_us AND trajectory_id = %(trajectory)s
        )
        ORDER BY seq <> %(seq)s, loss_mm, seq LIMIT 1
        """,
        trajectory=trajectory,
        place=place,
        farthest=loss_mm + 500_000,
        seq=seq,
    )
    return (trajectory, *found[0]) if found else (trajectory, seq, loss_mm)


def make_ways(replay: Replay) -> None:
    """The table that `nearest_trajectories` scans."""
    # equal segments of a trajectory are as far away: the first one stands for all
    replay.run(
        """
        CREATE TEMP TABLE way AS
        SELECT DISTINCT ON (trajectory_id, tail, head) trajectory_id, seq, geom, released_id
        FROM leg JOIN key USING (trajectory_id) ORDER BY trajectory_id, tail, head, seq
        """
    )
    replay.run("CREATE INDEX ON pg_temp.way USING gist (geom)")
    replay.run("ANALYZE pg_temp.way")


def nearest_trajectories(
    replay: Replay, place: int, k: int, radius: float = _FIRST_RADIUS_M
) -> list[tuple[int, int, int]]:
    """The K nearest as (trajectory, seq, loss in mm), by a full scan of an ever wider circle.

    A trajectory outside the circle is farther than those inside by less than a rounding only if
    the last one found is within a millimetre of the rim; then the circle is widened too.
    """
    found: list[tuple[int, int, int]] = []
    while True:
        found = [
            (t, s, loss)
            for t, s, loss in replay.run(
                """
                SELECT trajectory_id, seq, loss_mm FROM (
                    SELECT DISTINCT ON (w.trajectory_id)
                        w.trajectory_id, w.seq, w.released_id, d.loss_mm
                    FROM place AS q JOIN way AS w ON ST_DWithin(w.geom, q.point, %(radius)s)
                    CROSS JOIN LATERAL (
                        SELECT floor(ST_Distance(w.geom, q.point) * 1000 + 0.5)::bigint AS loss_mm
                    ) AS d
                    WHERE q.location_id = %(place)s AND NOT EXISTS (
                        SELECT FROM thinned AS t WHERE t.location_id = %(place)s
                        AND t.trajectory_id = w.trajectory_id
                    )
                    ORDER BY w.trajectory_id, d.loss_mm, w.seq
                ) AS n
                ORDER BY loss_mm, released_id LIMIT %(k)s
                """,
                place=place,
                k=k,
                radius=radius,
            )
        ]
        if len(found) == k and found[-1][2] < radius * 1000 - 1:
            return found
        if radius >= _EVERYTHING_M:
            break
        radius = min(radius * 4, _EVERYTHING_M)
    # what is left goes to the empty ones
    empty = replay.run(
        """
        SELECT trajectory_id FROM key AS k
        WHERE NOT EXISTS (SELECT FROM thinned AS t WHERE t.trajectory_id = k.trajectory_id)
        ORDER BY released_id LIMIT %(left)s
        """,
        left=k - len(found),
    )
    return found + [(trajectory, 0, 0) for (trajectory,) in empty]


def _same(expected: list[tuple[int, int, int]], logged: list[Any]) -> bool:
    left, right = sorted(expected), sorted(logged)
    return len(left) == len(right) and all(
        a[:2] == b[:2] and abs(a[2] - b[2]) <= 1 for a, b in zip(left, right, strict=True)
    )


_USABLE: dict[str, LiteralString] = {
    # within the spread, at least the nearest; and farther until there are enough free steps, but
    # not much where a usual gap has none
    "metres": """
        SELECT * FROM (
            SELECT c.*, least(steps, floor(spare_us / usual_us)::bigint - 1) AS room,
                greatest(%(spread_mm)s, min(loss_mm) OVER run) AS reach_mm,
                coalesce(sum(greatest(steps - taken, 0)) OVER (
                    PARTITION BY trajectory_id, location_id ORDER BY loss_mm, seq
                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                ), 0) AS steps_before
            FROM cost AS c WINDOW run AS (PARTITION BY trajectory_id, location_id)
        ) AS c
        WHERE loss_mm <= reach_mm OR steps_before < k
            AND (usual_us >= 2 * %(step_us)s OR loss_mm <= 4 * reach_mm)
    """,
    "paper": "SELECT c.*, steps AS room FROM cost AS c",
}


def check_local_insertions(
    replay: Replay, findings: Findings, step: int, sample: int | None, seed: int
) -> None:
    """Rounds over the usable segments, nearest first, while there is room; then the least crowded."""
    compare(
        replay, findings, f"step {step}: local insertions by target",
        "SELECT count(*) FROM (SELECT FROM inserted GROUP BY trajectory_id, location_id) AS r",
        """
        SELECT trajectory_id, location_id, t.k, i.k FROM (
            SELECT trajectory_id, location_id, greatest(target - pf, 0) AS k
            FROM {private}.pf_target WHERE release_id = %(release_id)s AND step = %(step)s
        ) AS t
        FULL JOIN (SELECT trajectory_id, location_id, count(*) AS k FROM inserted GROUP BY 1, 2)
            AS i USING (trajectory_id, location_id)
        WHERE coalesce(t.k, 0) <> coalesce(i.k, 0)
        """,
        step=step,
    )  # fmt: skip
    spread = replay.release.parameters.get("spread", "paper")
    replay.run(
        """
        CREATE TEMP TABLE query AS
        SELECT trajectory_id, location_id, (target - pf)::bigint AS k FROM {private}.pf_target
        WHERE release_id = %(release_id)s AND step = %(step)s AND target > pf
        ORDER BY md5(trajectory_id || ' ' || location_id || ' ' || %(seed)s) LIMIT %(sample)s
        """,
        step=step,
        seed=str(seed),
        sample=sample,
    )
    replay.run("ANALYZE pg_temp.query")
    compare(
        replay, findings, f"step {step}: local insertion queries",
        "SELECT count(*) FROM query",
        """
        WITH usual AS (
            SELECT trajectory_id, (array_agg(next_us - at_us ORDER BY next_us - at_us))[
                count(*) / 2 + 1
            ] AS usual_us
            FROM thinned WHERE next_us > at_us GROUP BY trajectory_id
        ), cost AS MATERIALIZED (
            SELECT w.trajectory_id, w.location_id, w.k, l.seq, l.steps,
                coalesce(u.usual_us, %(gap_us)s)::numeric AS usual_us,
                floor(ST_Distance(q.point, l.geom) * 1000 + 0.5)::bigint AS loss_mm,
                l.length_us - floor((
                    floor(ST_Distance(q.point, a.point) * 1000 + 0.5)
                    + floor(ST_Distance(q.point, b.point) * 1000 + 0.5)
                )::numeric * 1000 / 15) AS spare_us,
                (SELECT count(*) FROM inserted AS i WHERE i.trajectory_id = w.trajectory_id
                    AND i.seq = l.seq AND i.location_id < w.location_id) AS taken
            FROM query AS w JOIN place AS q USING (location_id) JOIN leg AS l USING (trajectory_id)
            JOIN place AS a ON a.location_id = l.tail JOIN place AS b ON b.location_id = l.head
            LEFT JOIN usual AS u USING (trajectory_id)
        ), usable AS (""" + _USABLE["paper" if spread == "paper" else "metres"] + """
        ), slot AS (
            SELECT u.*, row_number() OVER (
                PARTITION BY trajectory_id, location_id ORDER BY
                    there >= room, CASE WHEN there < room THEN there - taken END,
                    there >= room AND there >= steps,
                    CASE WHEN there < room THEN 0 WHEN there >= steps THEN there
                        WHEN spare_us > 0 THEN - floor(spare_us / (there + 2))
                        ELSE - spare_us * (there + 2) END,
                    loss_mm, seq, there
            ) AS place
            FROM (
                SELECT u.*, taken + n AS there
                FROM usable AS u, generate_series(0, k - 1) AS n
            ) AS u
        ), expected AS (
            SELECT trajectory_id, location_id, seq, min(loss_mm) AS loss_mm, count(*) AS times
            FROM slot WHERE place <= k GROUP BY 1, 2, 3
            UNION ALL
            SELECT trajectory_id, location_id, 0, 0, k FROM query AS w
            WHERE NOT EXISTS (SELECT FROM leg AS l WHERE l.trajectory_id = w.trajectory_id)
        ), logged AS (
            SELECT i.trajectory_id, i.location_id, i.seq, count(*) AS times,
                min(i.loss_mm) AS low_mm, max(i.loss_mm) AS high_mm
            FROM inserted AS i JOIN query USING (trajectory_id, location_id) GROUP BY 1, 2, 3
        )
        SELECT trajectory_id, location_id, seq, e.times, l.times, e.loss_mm, l.low_mm, l.high_mm
        FROM (SELECT * FROM expected WHERE times > 0) AS e
        FULL JOIN logged AS l USING (trajectory_id, location_id, seq)
        WHERE e.times IS DISTINCT FROM l.times
        OR abs(e.loss_mm - l.low_mm) > 1 OR abs(e.loss_mm - l.high_mm) > 1
        """,
        spread_mm=None if spread == "paper" else int(Decimal(str(spread)) * 1000),
    )  # fmt: skip
    replay.run("DROP TABLE pg_temp.query")
