"""The states of a release, rebuilt in SQL from the build and the edit log alone.

Nothing of the product is imported: every rule is written down here a second time, as SQL over
temporary tables. For each mechanism there is `input`, `thinned` (after its deletions), `leg` (the
segments of that) and `output`; the output of one is the input of the next. Times are microseconds
since 2000-01-01 UTC, `seq` is the position in the mechanism's input, losses are millimetres.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, LiteralString

import psycopg
from drawn_times import key_of, times_between
from psycopg import sql
from psycopg.rows import namedtuple_row

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Release:
    """What the record says about a release and its build."""

    release_id: int
    build_id: int
    signature: int
    parameters: dict[str, Any]
    step_us: int
    gap_us: int
    steps: list[tuple[int, str]]


class Replay:
    """A session with the temporary tables of one release."""

    def __init__(
        self, connection: psycopg.Connection[Any], schema: str, release_schema: str, name: str
    ) -> None:
        self.connection = connection
        self.name = name
        self._names = {
            "private": sql.Identifier(schema),
            "table": sql.Identifier(release_schema, name),
        }
        self._find_postgis()
        self.release = self._record(name)
        self._load()

    def run(self, statement: LiteralString, **values: Any) -> Rows:
        """Run a statement; {private} is the private schema, %(name)s a value."""
        given = {**vars(self.release), **values} if hasattr(self, "release") else values
        cursor = self.connection.execute(sql.SQL(statement).format(**self._names), given)
        return cursor.fetchall() if cursor.description else []

    def _find_postgis(self) -> None:
        ((schema,),) = self.run(
            "SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace "
            "WHERE e.extname = 'postgis'"
        )
        self.connection.execute(
            sql.SQL("SET search_path = pg_catalog, {}").format(sql.Identifier(schema))
        )
        self.run("SET work_mem = '256MB'")
        self.run("SET jit = off")

    def _record(self, name: str) -> Release:
        with self.connection.cursor(row_factory=namedtuple_row) as cursor:
            row: Any = cursor.execute(
                sql.SQL(
                    "SELECT r.*, b.time_step_us, b.median_gap_us FROM {private}.release r "
                    "JOIN {private}.build b USING (build_id) "
                    "WHERE r.name = %s AND r.state = 'published'"
                ).format(**self._names),
                [name],
            ).fetchone()
        if row is None:
            raise LookupError(f"there is no published release {name!r}")
        steps = self.run(
            "SELECT step, mechanism FROM {private}.release_step WHERE release_id = %(id)s "
            "ORDER BY step",
            id=row.release_id,
        )
        return Release(
            row.release_id,
            row.build_id,
            row.parameters["signature"],
            row.parameters,
            row.time_step_us,
            row.median_gap_us,
            [(step, mechanism) for step, mechanism in steps],
        )

    def _load(self) -> None:
        """The build, the key, and the first input."""
        for statement in _LOAD:
            self.run(statement)

    @contextmanager
    def step(self, step: int) -> Iterator[None]:
        """Make the tables of one mechanism; afterwards its output is the input."""
        for statement in _STEP:
            self.run(statement, step=step)
        self._time(step)
        for statement in _OUTPUT:
            self.run(statement)
        yield
        for statement in _NEXT:
            self.run(statement)

    def _time(self, step: int) -> None:
        """Fill `timed`: the insertions with their times."""
        drawn: list[Any] = []
        for columns in _DRAWN:
            drawn = drawn or self.run(columns, step=step)
        key = key_of([list(column) for column in zip(*drawn, strict=True)])
        own: dict[Any, Any] = dict(self.run(_OWN_GAPS))
        gap_us, step_us = self.release.gap_us, self.release.step_us
        done: list[tuple[int, int, int, int]] = []
        for trajectory, seq, count, start, a, b, samples, way_x, way_y, stream in self.run(_WAYS):
            if a is None:
                times = [start + n * gap_us for n in range(count)]
            elif samples == 1 or b is None:  # None: only if tampered with
                times = [a + (n + 1) * gap_us for n in range(count)]
            else:
                gaps = own.get(trajectory, [gap_us])
                way = list(zip(way_x, way_y, strict=True))
                times = times_between(a, b, way, gaps, step_us, key, stream)
            done += [(trajectory, seq, n, at) for n, at in enumerate(times, start=1)]
        with self.connection.cursor().copy("COPY pg_temp.instant FROM STDIN") as copy:
            for row in done:
                copy.write_row(row)


_DRAWN: list[LiteralString] = [
    "SELECT trajectory_id, location_id, stage, rank, pf, target FROM {private}.pf_target "
    "WHERE release_id = %(release_id)s AND step = %(step)s ORDER BY trajectory_id, rank",
    "SELECT location_id, tf, target FROM {private}.tf_target "
    "WHERE release_id = %(release_id)s AND step = %(step)s ORDER BY location_id",
]
_OWN_GAPS: LiteralString = """
    SELECT trajectory_id, array_agg(next_us - at_us ORDER BY next_us - at_us) FROM thinned
    WHERE next_us > at_us GROUP BY trajectory_id
"""

# every segment with insertions: how many, between which times, and the way through all of them
_WAYS: LiteralString = """
    SELECT p.trajectory_id, p.seq, count(*), min(o.at_us), min(p.from_us), min(p.next_us),
        min(p.samples),
        array[min(a.x)] || array_agg(q.x ORDER BY p.number) || array[min(b.x)],
        array[min(a.y)] || array_agg(q.y ORDER BY p.number) || array[min(b.y)], min(t.stream)
    FROM placed AS p
    JOIN origin AS o USING (trajectory_id)
    JOIN place AS q USING (location_id)
    LEFT JOIN thinned AS t ON t.trajectory_id = p.trajectory_id AND t.seq = p.seq
    LEFT JOIN place AS a ON a.location_id = t.location_id
    LEFT JOIN place AS b ON b.location_id = t.next_location
    GROUP BY p.trajectory_id, p.seq
"""

_LOAD: list[LiteralString] = [
    """
    CREATE TEMP TABLE place AS
    SELECT location_id, x_m AS x, y_m AS y, ST_MakePoint(x_m, y_m) AS point, geom AS shown
    FROM {private}.location WHERE build_id = %(build_id)s
    """,
    "ALTER TABLE pg_temp.place ADD PRIMARY KEY (location_id)",
    """
    CREATE TEMP TABLE key AS
    SELECT trajectory_id, released_id FROM {private}.release_key
    WHERE release_id = %(release_id)s
    """,
    "ALTER TABLE pg_temp.key ADD PRIMARY KEY (trajectory_id)",
    """
    CREATE TEMP TABLE input AS
    SELECT trajectory_id, seq, location_id,
        (extract(epoch FROM at - '2000-01-01 00:00:00+00') * 1000000)::bigint AS at_us
    FROM {private}.sample WHERE build_id = %(build_id)s
    """,
    "ALTER TABLE pg_temp.input ADD PRIMARY KEY (trajectory_id, seq)",
    # the time of the first sample; of a trajectory that was emptied, that of the first it had
    "CREATE TEMP TABLE origin AS SELECT trajectory_id, at_us FROM input WHERE seq = 1",
    "ALTER TABLE pg_temp.origin ADD PRIMARY KEY (trajectory_id)",
    "ANALYZE pg_temp.place, pg_temp.key, pg_temp.input",
]

_EDITS: LiteralString = """
    SELECT r.trajectory_id, r.location_id, e.seq, floor(e.loss_m * 1000 + 0.5)::bigint AS loss_mm
    FROM {private}.edit_run AS r, unnest(r.seq, r.loss_m) AS e (seq, loss_m)
    WHERE r.release_id = %(release_id)s AND r.step = %(step)s
"""

_STEP: list[LiteralString] = [
    "CREATE TEMP TABLE deleted AS" + _EDITS + "AND r.operation = 'd'",
    "CREATE TEMP TABLE inserted AS" + _EDITS + "AND r.operation = 'i'",
    "CREATE INDEX ON pg_temp.deleted (trajectory_id, seq)",
    "CREATE INDEX ON pg_temp.inserted (location_id, trajectory_id)",
    """
    CREATE TEMP TABLE thinned AS
    SELECT trajectory_id, seq, location_id, at_us,
        lead(location_id) OVER following AS next_location,
        lead(at_us) OVER following AS next_us,
        count(*) OVER (PARTITION BY trajectory_id) AS samples,
        (trajectory_id::bigint << 32)
            + row_number() OVER (PARTITION BY trajectory_id ORDER BY seq) - 1 AS stream
    FROM input AS i
    WHERE NOT EXISTS (
        SELECT FROM deleted AS d WHERE d.trajectory_id = i.trajectory_id AND d.seq = i.seq
    )
    WINDOW following AS (PARTITION BY trajectory_id ORDER BY seq)
    """,
    "ALTER TABLE pg_temp.thinned ADD PRIMARY KEY (trajectory_id, seq)",
    "CREATE INDEX ON pg_temp.thinned (location_id, trajectory_id)",
    # a trajectory of one sample is a segment of length 0; steps: so many are inside
    """
    CREATE TEMP TABLE leg AS
    SELECT t.trajectory_id, t.seq, t.location_id AS tail, b.location_id AS head,
        greatest(coalesce(floor((t.next_us - 1)::numeric / %(step_us)s)
            - floor(t.at_us::numeric / %(step_us)s), 0), 0)::bigint AS steps,
        coalesce(t.next_us - t.at_us, 0) AS length_us,
        ST_MakeLine(a.point, b.point) AS geom
    FROM thinned AS t
    JOIN place AS a ON a.location_id = t.location_id
    JOIN place AS b ON b.location_id = coalesce(t.next_location, t.location_id)
    WHERE t.next_location IS NOT NULL OR t.samples = 1
    """,
    "ALTER TABLE pg_temp.leg ADD PRIMARY KEY (trajectory_id, seq)",
    "ANALYZE pg_temp.deleted, pg_temp.inserted, pg_temp.thinned, pg_temp.leg",
    # where on its segment each insertion falls, and the how many-eth it is there
    """
    CREATE TEMP TABLE placed AS
    SELECT n.*,
        row_number() OVER (
            PARTITION BY trajectory_id, seq ORDER BY share, location_id
        ) AS number
    FROM (
        SELECT i.trajectory_id, i.seq, i.location_id, t.at_us AS from_us, t.next_us, t.samples,
            CASE WHEN (b.x - a.x) ^ 2 + (b.y - a.y) ^ 2 > 0 THEN
                greatest(0, least(1, (
                    (q.x - a.x) * (b.x - a.x) + (q.y - a.y) * (b.y - a.y)
                ) / ((b.x - a.x) * (b.x - a.x) + (b.y - a.y) * (b.y - a.y))))
            ELSE 0.5::float8 END AS share
        FROM inserted AS i
        JOIN place AS q ON q.location_id = i.location_id
        LEFT JOIN thinned AS t ON t.trajectory_id = i.trajectory_id AND t.seq = i.seq
        LEFT JOIN place AS a ON a.location_id = t.location_id
        LEFT JOIN place AS b ON b.location_id = coalesce(t.next_location, t.location_id)
    ) AS n
    """,
    "CREATE TEMP TABLE instant (trajectory_id int, seq int, number bigint, at_us bigint)",
]
_OUTPUT: list[LiteralString] = [
    """
    CREATE TEMP TABLE timed AS
    SELECT p.*, i.at_us FROM placed AS p JOIN instant AS i USING (trajectory_id, seq, number)
    """,
    """
    CREATE TEMP TABLE output AS
    SELECT trajectory_id,
        (row_number() OVER (PARTITION BY trajectory_id ORDER BY seq, number))::int AS seq,
        location_id, at_us, number > 0 AS fresh
    FROM (
        SELECT trajectory_id, seq, 0 AS number, location_id, at_us FROM thinned
        UNION ALL
        SELECT trajectory_id, seq, number, location_id, at_us FROM timed
    ) AS s
    """,
    "ALTER TABLE pg_temp.output ADD PRIMARY KEY (trajectory_id, seq)",
    "ANALYZE pg_temp.output",
]

_NEXT: list[LiteralString] = [
    "DROP TABLE pg_temp.input, pg_temp.deleted, pg_temp.inserted, pg_temp.thinned, pg_temp.leg",
    "DROP TABLE pg_temp.placed, pg_temp.instant, pg_temp.timed",
    "ALTER TABLE pg_temp.output RENAME TO input",
    """
    UPDATE pg_temp.origin AS o SET at_us = i.at_us
    FROM input AS i WHERE i.trajectory_id = o.trajectory_id AND i.seq = 1
    """,
]


# --- What was checked, and what was found wrong ---

_SHOWN = 5


@dataclass
class Findings:
    """How much was checked, by kind, and what was found wrong."""

    checked: dict[str, int] = field(default_factory=dict)
    mismatches: dict[str, list[Any]] = field(default_factory=dict)

    def add(self, what: str, checked: int, wrong: list[Any]) -> None:
        self.checked[what] = self.checked.get(what, 0) + checked
        self.mismatches.setdefault(what, []).extend(wrong)

    @property
    def wrong(self) -> int:
        return sum(map(len, self.mismatches.values()))

    def lines(self) -> list[str]:
        result = []
        for what, count in self.checked.items():
            bad = self.mismatches[what]
            result.append(f"{what:<44} {count:>10,} checked  {len(bad):>6,} wrong")
            result += [f"    {row}" for row in bad[:_SHOWN]]
        return result


def compare(
    replay: Replay, findings: Findings, what: str, count: LiteralString, wrong: LiteralString,
    **values: Any,
) -> None:  # fmt: skip
    ((checked,),) = replay.run(count, **values)
    findings.add(what, checked, replay.run(wrong, **values))
