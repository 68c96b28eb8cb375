"""Check a release against a brute force in SQL: ST_Distance over every segment, no index of ours.

Imports nothing of the product; the states come from `replayed_states`. As a script, on a sample of
the search queries (everything else is always checked in full):

    python tests/exactness/brute_force.py --dsn postgresql:///db --release taxi_lg --sample 500

The rules are those of the product: distances in millimetres, ties by (loss, released id, seq).
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import psycopg
from brute_edits import (
    check_global_deletions,
    check_global_insertions,
    check_local_deletions,
    check_local_insertions,
)
from brute_targets import check_pf_targets, check_tf_targets
from replayed_states import Findings, Replay, compare


def check_release(
    connection: psycopg.Connection[Any],
    name: str,
    *,
    schema: str = "freqdp",
    release_schema: str = "freqdp_release",
    sample: int | None = None,
    seed: int = 1,
) -> Findings:
    """Check every step of a release. `sample`: so many search queries a step; None: all."""
    findings = Findings()
    replay = Replay(connection, schema, release_schema, name)
    for step, mechanism in replay.release.steps:
        with replay.step(step):
            _check_log(replay, findings, step)
            _check_times(replay, findings, step)
            if mechanism == "global":
                check_tf_targets(replay, findings, step)
                check_global_deletions(replay, findings, step)
                check_global_insertions(replay, findings, step, sample, seed)
            else:
                check_pf_targets(replay, findings, step)
                check_local_deletions(replay, findings, step)
                check_local_insertions(replay, findings, step, sample, seed)
    _check_table(replay, findings)
    return findings


def _check_log(replay: Replay, findings: Findings, step: int) -> None:
    """The log deletes samples that are there, once each, and inserts after samples that stay."""
    compare(
        replay, findings, f"step {step}: log deletes what is there",
        "SELECT count(*) FROM deleted",
        """
        SELECT d.* FROM deleted AS d LEFT JOIN input AS i USING (trajectory_id, seq)
        WHERE i.location_id IS DISTINCT FROM d.location_id
        UNION ALL
        SELECT trajectory_id, NULL, seq, count(*) FROM deleted
        GROUP BY trajectory_id, seq HAVING count(*) > 1
        """,
    )  # fmt: skip
    compare(
        replay, findings, f"step {step}: log inserts into segments",
        "SELECT count(*) FROM inserted",
        # 0 stands for a trajectory that has nothing left, and for nothing else
        """
        SELECT i.* FROM inserted AS i LEFT JOIN leg AS l USING (trajectory_id, seq)
        WHERE l.seq IS NULL AND (i.seq <> 0 OR EXISTS (
            SELECT FROM thinned AS t WHERE t.trajectory_id = i.trajectory_id
        ))
        """,
    )  # fmt: skip


def _check_times(replay: Replay, findings: Findings, step: int) -> None:
    """Inserted times lie between their neighbours, on the source's step where there is one."""
    compare(
        replay, findings, f"step {step}: times on the step, between",
        "SELECT count(*) FROM timed",
        """
        SELECT t.trajectory_id, t.seq, t.from_us, t.next_us, t.at_us, l.steps
        FROM timed AS t JOIN leg AS l USING (trajectory_id, seq)
        WHERE t.samples > 1 AND NOT CASE
            WHEN l.steps > 0 THEN t.at_us %% %(step_us)s = 0 AND t.at_us > from_us AND t.at_us < next_us
            WHEN t.next_us - t.from_us > 1 THEN t.at_us > t.from_us AND t.at_us < t.next_us
            ELSE t.at_us BETWEEN t.from_us AND t.next_us
        END
        """,
    )  # fmt: skip
    compare(
        replay, findings, f"step {step}: no shared instants where there are enough",
        "SELECT count(*) FROM timed",
        """
        SELECT t.trajectory_id, t.seq, count(*), count(DISTINCT at_us), min(l.steps)
        FROM timed AS t JOIN leg AS l USING (trajectory_id, seq) WHERE t.samples > 1
        GROUP BY 1, 2 HAVING count(DISTINCT at_us) < count(*) AND count(*) <= min(l.steps)
        """,
    )  # fmt: skip
    # a whole step later than a sample on the step is on the step: a fraction would stand out
    compare(
        replay, findings, f"step {step}: times of appended samples",
        "SELECT count(*) FROM timed WHERE samples = 1 OR samples IS NULL",
        """
        SELECT t.trajectory_id, t.seq, t.from_us, t.at_us, o.at_us
        FROM timed AS t JOIN origin AS o USING (trajectory_id)
        WHERE (t.samples = 1 OR t.samples IS NULL)
        AND (t.at_us - coalesce(t.from_us, o.at_us)) %% %(step_us)s <> 0
        """,
    )  # fmt: skip
    compare(
        replay, findings, f"step {step}: times do not decrease",
        "SELECT count(*) FROM output",
        """
        SELECT * FROM (
            SELECT trajectory_id, seq, at_us, lag(at_us) OVER (
                PARTITION BY trajectory_id ORDER BY seq
            ) AS before_us FROM output
        ) AS o WHERE at_us < before_us
        """,
    )  # fmt: skip


def _check_table(replay: Replay, findings: Findings) -> None:
    """The last state is the released table, row by row, its times coarsened if that was asked."""
    compare(
        replay, findings, "released rows",
        "SELECT count(*) FROM {table}",
        """
        SELECT * FROM (
            SELECT released_id AS trajectory_id, seq, shown AS geom,
                '2000-01-01 00:00:00+00'::timestamptz + interval '1 microsecond'
                    * (floor(at_us::numeric / %(coarse_us)s) * %(coarse_us)s)::float8 AS at
            FROM input JOIN key USING (trajectory_id) JOIN place USING (location_id)
        ) AS e FULL JOIN {table} AS r USING (trajectory_id, seq)
        WHERE e.at IS DISTINCT FROM r.sampled_at OR e.geom IS NULL OR r.geom IS NULL
        OR ST_AsEWKB(e.geom) <> ST_AsEWKB(r.geom)
        """,
        coarse_us=int(replay.release.parameters.get("time_step", 0) * 1_000_000) or 1,
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--release", required=True)
    parser.add_argument("--sample", type=int, help="search queries a step (default: all)")
    parser.add_argument("--seed", type=int, default=1, help="which queries are sampled")
    parser.add_argument("--schema", default="freqdp")
    parser.add_argument("--release-schema", default="freqdp_release")
    given = parser.parse_args()
    begin = time.perf_counter()
    with psycopg.connect(given.dsn) as connection:
        findings = check_release(
            connection,
            given.release,
            schema=given.schema,
            release_schema=given.release_schema,
            sample=given.sample,
            seed=given.seed,
        )
        connection.rollback()
    for line in findings.lines():
        print(line)
    print(f"{findings.wrong:,} mismatches, {time.perf_counter() - begin:.0f} s")
    return 1 if findings.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
