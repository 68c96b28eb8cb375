"""Targets, in SQL: the lists they are drawn for, and that the edits reach them exactly."""

from __future__ import annotations

from typing import LiteralString

from replayed_states import Findings, Replay, compare

# All places of the input by weight; |D| is the number of trajectories of the build.
_RANKED: LiteralString = """
    ranked AS (
        SELECT f.*, row_number() OVER (
            PARTITION BY trajectory_id
            ORDER BY floor(pf * ln(size / tf::float8) * 1e9 + 0.5) DESC, location_id
        ) AS rank
        FROM (
            SELECT trajectory_id, location_id, count(*)::float8 AS pf,
                count(*) OVER (PARTITION BY location_id) AS tf
            FROM input GROUP BY trajectory_id, location_id
        ) AS f, (SELECT count(*)::float8 AS size FROM key) AS d
    ),
    candidate AS (SELECT DISTINCT location_id FROM ranked WHERE rank <= %(signature)s)
"""


def check_tf_targets(replay: Replay, findings: Findings, step: int) -> None:
    count: LiteralString = """
        SELECT count(*) FROM {private}.tf_target
        WHERE release_id = %(release_id)s AND step = %(step)s
    """
    compare(
        replay, findings, f"step {step}: tf targets met", count,
        """
        SELECT t.location_id, t.tf, b.tf, t.target, a.tf FROM {private}.tf_target AS t
        LEFT JOIN (SELECT location_id, count(DISTINCT trajectory_id) AS tf
                   FROM input GROUP BY 1) AS b USING (location_id)
        LEFT JOIN (SELECT location_id, count(DISTINCT trajectory_id) AS tf
                   FROM output GROUP BY 1) AS a USING (location_id)
        WHERE t.release_id = %(release_id)s AND t.step = %(step)s
        AND (t.tf <> coalesce(b.tf, 0) OR t.target <> coalesce(a.tf, 0))
        """,
        step=step,
    )  # fmt: skip
    compare(
        replay, findings, f"step {step}: candidates are the signatures", count,
        "WITH " + _RANKED + """
        SELECT c.location_id, t.location_id FROM candidate AS c
        FULL JOIN (SELECT location_id FROM {private}.tf_target
                   WHERE release_id = %(release_id)s AND step = %(step)s) AS t USING (location_id)
        WHERE c.location_id IS NULL OR t.location_id IS NULL
        """,
        step=step,
    )  # fmt: skip


def check_pf_targets(replay: Replay, findings: Findings, step: int) -> None:
    count: LiteralString = """
        SELECT count(*) FROM {private}.pf_target
        WHERE release_id = %(release_id)s AND step = %(step)s
    """
    compare(
        replay, findings, f"step {step}: pf targets met", count,
        """
        SELECT t.trajectory_id, t.location_id, t.pf, b.pf, t.target, a.pf
        FROM {private}.pf_target AS t
        LEFT JOIN (SELECT trajectory_id, location_id, count(*) AS pf
                   FROM input GROUP BY 1, 2) AS b USING (trajectory_id, location_id)
        LEFT JOIN (SELECT trajectory_id, location_id, count(*) AS pf
                   FROM output GROUP BY 1, 2) AS a USING (trajectory_id, location_id)
        WHERE t.release_id = %(release_id)s AND t.step = %(step)s
        AND (t.pf <> coalesce(b.pf, 0) OR t.target <> coalesce(a.pf, 0))
        """,
        step=step,
    )  # fmt: skip
    # the top m, then the next-ranked candidates, then any of the others; 2m in all, or what it has
    compare(
        replay, findings, f"step {step}: point lists", count,
        "WITH " + _RANKED + """,
        listed AS (
            SELECT r.*, row_number() OVER (
                PARTITION BY trajectory_id
                ORDER BY r.rank > %(signature)s, c.location_id IS NULL, r.rank
            ) AS place, c.location_id IS NOT NULL AS known
            FROM ranked AS r LEFT JOIN candidate AS c USING (location_id)
        ),
        drawn AS (
            SELECT * FROM {private}.pf_target
            WHERE release_id = %(release_id)s AND step = %(step)s
        )
        SELECT l.trajectory_id, l.location_id, l.place, d.rank, d.stage
        FROM listed AS l FULL JOIN drawn AS d USING (trajectory_id, location_id)
        WHERE l.location_id IS NULL
        OR d.stage <> CASE WHEN l.rank <= %(signature)s THEN 1 ELSE 2 END
        OR (known AND place <= 2 * %(signature)s AND d.rank IS DISTINCT FROM place)
        OR (known AND place > 2 * %(signature)s AND d.rank IS NOT NULL)
        UNION ALL
        SELECT p.trajectory_id, NULL, p.places, l.listed, l.last
        FROM (SELECT trajectory_id, count(*) AS places FROM ranked GROUP BY 1) AS p
        LEFT JOIN (SELECT trajectory_id, count(*) AS listed, max(rank) AS last
                   FROM drawn GROUP BY 1) AS l USING (trajectory_id)
        WHERE l.listed IS DISTINCT FROM least(p.places, 2 * %(signature)s) OR l.last <> l.listed
        """,
        step=step,
    )  # fmt: skip
