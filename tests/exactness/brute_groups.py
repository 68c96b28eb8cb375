"""Check in SQL what glove, klt and w4m promise, on the released table.

Imports nothing of the product. Who became whom is read from the log as it is stored; everything
else is the build's samples against the table. As a script:

    python tests/exactness/brute_groups.py --dsn postgresql:///db --release taxi_glove
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, LiteralString

import psycopg
from psycopg import sql

_WIDEST = re.compile(r"([0-9.]+)m/([0-9.]+)s")

_SAMPLES: LiteralString = """
    CREATE TEMP TABLE original AS
    SELECT row_number() OVER (ORDER BY s.trajectory_id, s.seq) - 1 AS position, s.trajectory_id,
        s.at, l.geom
    FROM {private}.sample AS s JOIN {private}.location AS l USING (build_id, location_id)
    WHERE s.build_id = %(build_id)s
"""
# each run leads, merge by merge, to the last that it went into
_GROUPS: LiteralString = """
    CREATE TEMP TABLE grouped AS
    WITH RECURSIVE step AS (
        SELECT number AS run, number AS at FROM run
        UNION ALL
        SELECT s.run, m.made FROM step AS s JOIN merge AS m ON s.at IN (m.one, m.other)
    )
    SELECT run, max(at) AS root FROM step GROUP BY run
"""
_NAMED: LiteralString = """
    CREATE TEMP TABLE named AS
    SELECT g.root, min(r.key) AS released_id, count(DISTINCT o.trajectory_id) AS objects
    FROM grouped AS g JOIN run AS r ON r.number = g.run
    JOIN original AS o ON o.position = r.first
    GROUP BY g.root
"""
_AREAS: LiteralString = """
    CREATE TEMP TABLE area AS SELECT trajectory_id, during, area FROM {table}
"""
# of every sample of a released group: whether an area of the group holds it at its time
_HELD: LiteralString = """
    CREATE TEMP TABLE held AS
    SELECT o.position, n.released_id, n.objects, EXISTS (
        SELECT FROM pg_temp.area AS t
        WHERE t.trajectory_id = n.released_id AND t.during @> o.at AND ST_Covers(t.area, o.geom)
    ) AS inside
    FROM run AS r JOIN grouped AS g ON g.run = r.number JOIN named AS n USING (root)
    JOIN original AS o ON o.position BETWEEN r.first AND r.last
    WHERE n.objects >= %(k)s
"""
_APART: LiteralString = """
    SELECT count(*), count(*) FILTER (WHERE ST_Distance(
        ST_Transform(a.geom, %(srid)s), ST_Transform(b.geom, %(srid)s)) > %(delta)s)
    FROM cluster AS c JOIN cluster AS d ON d.number = c.number AND d.trajectory_id > c.trajectory_id
    JOIN {table} AS a ON a.trajectory_id = c.released_id
    JOIN {table} AS b ON b.trajectory_id = d.released_id AND b.seq = a.seq AND b.sampled_at = a.sampled_at
"""


@dataclass
class Promise:
    """What was counted; `wrong` must be 0 everywhere."""

    counted: dict[str, int] = field(default_factory=dict)
    wrong: dict[str, int] = field(default_factory=dict)

    def lines(self) -> list[str]:
        return [f"{name:<48} {count:>12,}" for name, count in self.counted.items()] + [
            f"{name:<48} {count:>12,} wrong" for name, count in self.wrong.items()
        ]


class _Session:
    def __init__(
        self, connection: psycopg.Connection[Any], name: str, schema: str, released: str
    ) -> None:
        self.connection = connection
        self.names = {"private": sql.Identifier(schema), "table": sql.Identifier(released, name)}
        ((gis,),) = self.run(
            "SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace "
            "WHERE e.extname = 'postgis'"
        )
        connection.execute(sql.SQL("SET search_path = pg_catalog, {}").format(sql.Identifier(gis)))
        self.run("SET work_mem = '256MB'")
        row = self.run(
            "SELECT r.release_id, r.build_id, r.parameters, r.method, b.srid "
            "FROM {private}.release r JOIN {private}.build b USING (build_id) "
            "WHERE r.name = %(name)s AND r.state = 'published'",
            name=name,
        )[0]
        self.release_id, self.build_id, self.parameters, self.method, self.srid = row

    def run(self, statement: LiteralString, **values: Any) -> list[tuple[Any, ...]]:
        cursor = self.connection.execute(sql.SQL(statement).format(**self.names), values)
        return cursor.fetchall() if cursor.description else []

    def number(self, statement: LiteralString, **values: Any) -> int:
        ((found,),) = self.run(statement, **values)
        return int(found)

    def column(self, part: str, name: str) -> list[int]:
        """Whole numbers of a draw or a log, as they are stored."""
        rows = self.run(
            "SELECT v FROM {private}.step_column, unnest(whole) WITH ORDINALITY AS u (v, place) "
            "WHERE release_id = %(id)s AND step = 1 AND part = %(part)s AND name = %(name)s "
            "ORDER BY chunk, place",
            id=self.release_id, part=part, name=name,
        )  # fmt: skip
        return [int(value) for (value,) in rows]

    def table(self, name: str, columns: list[str], rows: Any) -> None:
        """A temporary table of whole numbers."""
        relation, types = sql.Identifier("pg_temp", name), [sql.Identifier(c) for c in columns]
        self.connection.execute(
            sql.SQL("CREATE TEMP TABLE {} ({})").format(
                sql.Identifier(name),
                sql.SQL(", ").join(sql.SQL("{} bigint").format(c) for c in types),
            )
        )
        with (
            self.connection.cursor() as cursor,
            cursor.copy(sql.SQL("COPY {} FROM STDIN").format(relation)) as copy,
        ):
            for row in rows:
                copy.write_row(row)
        self.connection.execute(sql.SQL("ANALYZE {}").format(relation))


def check_promise(
    connection: psycopg.Connection[Any],
    name: str,
    *,
    schema: str = "freqdp",
    release_schema: str = "freqdp_release",
) -> Promise:
    """Count what a release promises, and where it does not hold."""
    session = _Session(connection, name, schema, release_schema)
    session.run(_SAMPLES, build_id=session.build_id)
    session.run("ALTER TABLE pg_temp.original ADD PRIMARY KEY (position)")
    session.run("ANALYZE pg_temp.original")
    return _clusters(session) if session.method == "w4m" else _groups(session)


def _groups(session: _Session) -> Promise:
    found = Promise()
    k, widest = session.parameters["k"], session.parameters.get("widest")
    first, last = session.column("log", "first"), session.column("log", "last")
    one, other = session.column("log", "merged_first"), session.column("log", "merged_second")
    key = session.column("draw", "key")
    if not key:
        key = [
            released
            for (released,) in session.run(
                "SELECT k.released_id FROM {private}.release_key AS k "
                "JOIN {private}.trajectory AS t USING (trajectory_id) "
                "WHERE k.release_id = %(id)s AND t.build_id = %(build_id)s AND t.samples > 0 "
                "ORDER BY k.trajectory_id",
                id=session.release_id, build_id=session.build_id,
            )
        ]  # fmt: skip
    session.table("run", ["number", "first", "last", "key"],
                  zip(range(len(first)), first, last, key, strict=True))  # fmt: skip
    made = range(len(first), len(first) + len(one))
    session.table("merge", ["made", "one", "other"], zip(made, one, other, strict=True))
    session.run("CREATE INDEX ON pg_temp.merge (one)")
    session.run("CREATE INDEX ON pg_temp.merge (other)")
    for statement in (_GROUPS, _NAMED, _AREAS):
        session.run(statement)
    # those of one trajectory are few; an index of places would find those of all
    session.run("CREATE INDEX ON pg_temp.area (trajectory_id)")
    for name in ("grouped", "named", "area"):
        session.connection.execute(sql.SQL("ANALYZE {}").format(sql.Identifier("pg_temp", name)))
    session.run(_HELD, k=k)
    found.counted = {
        "released trajectories": session.number(
            "SELECT count(DISTINCT trajectory_id) FROM {table}"
        ),
        "areas": session.number("SELECT count(*) FROM {table}"),
        "samples inside": session.number("SELECT count(*) FROM held WHERE inside"),
        "samples of groups left out": session.number("SELECT count(*) FROM held WHERE NOT inside"),
        "samples": session.number("SELECT count(*) FROM original"),
    }
    found.wrong = {
        "released trajectories of fewer than k objects": session.number(
            "SELECT count(DISTINCT t.trajectory_id) FROM {table} AS t WHERE NOT EXISTS ("
            "SELECT FROM named AS n WHERE n.released_id = t.trajectory_id AND n.objects >= %(k)s)",
            k=k,
        ),
        "samples in two runs": session.number(
            "SELECT count(*) FROM (SELECT position FROM held GROUP BY position "
            "HAVING count(*) > 1) AS twice"
        ),
        "middles and begins outside": session.number(
            "SELECT count(*) FROM {table} "
            "WHERE NOT ST_Covers(area, geom) OR NOT during @> sampled_at OR isempty(during)"
        ),
        "intervals that overlap": 0 if "time_step" in session.parameters else session.number(
            "SELECT count(*) FROM (SELECT sampled_at < lag(upper(during)) OVER ("
            "PARTITION BY trajectory_id ORDER BY seq) AS overlap FROM {table}) AS t WHERE overlap"
        ),
    }  # fmt: skip
    if widest is None:
        found.wrong["samples in no area"] = found.counted["samples of groups left out"]
    else:
        metres, seconds = (float(v) for v in _WIDEST.fullmatch(widest).groups())  # type: ignore[union-attr]
        # in metres the areas of the table are a little larger than what was asked for
        found.wrong["areas over the widest"] = session.number(
            "SELECT count(*) FROM (SELECT ST_Transform(area, %(srid)s) AS area, during FROM {table}"
            ") AS t WHERE least(ST_XMax(area) - ST_XMin(area), ST_YMax(area) - ST_YMin(area)) "
            "> 1.05 * %(metres)s + 10 OR (%(exact)s AND "
            "upper(during) - lower(during) > %(seconds)s * interval '1 s')",
            srid=session.srid, metres=metres, seconds=seconds,
            exact="time_step" not in session.parameters,
        )  # fmt: skip
    if session.method == "klt":
        _diverse(session, found)
    return found


def _diverse(session: _Session, found: Promise) -> None:
    """Every area holds l categories, and their shares are within t of everybody's."""
    poi = sql.SQL(session.parameters["poi"])  # type: ignore[arg-type]
    category = sql.Identifier(session.parameters["category"])
    ((checked, wrong),) = session.connection.execute(
        sql.SQL(
            "WITH point AS (SELECT ST_Transform(geom::geometry, Find_SRID({s}, {r}, 'area')) AS geom, "
            "{c}::text AS category FROM {p} WHERE {c} IS NOT NULL), "
            "city AS (SELECT category, count(*)::float8 / sum(count(*)) OVER () AS share "
            "FROM point GROUP BY category), "
            "here AS (SELECT trajectory_id, seq, category, count(*)::float8 AS points "
            "FROM {t} JOIN point ON ST_Covers(area, point.geom) GROUP BY 1, 2, 3), "
            "mixed AS (SELECT trajectory_id, seq, category, "
            "points / sum(points) OVER (PARTITION BY trajectory_id, seq) AS share FROM here), "
            "found AS (SELECT trajectory_id, seq, count(*) AS kinds, "
            "sum(m.share * ln(m.share / city.share)) AS divergence "
            "FROM mixed AS m JOIN city USING (category) GROUP BY 1, 2) "
            "SELECT count(*), count(*) FILTER (WHERE coalesce(f.kinds, 0) < %(l)s "
            "OR f.divergence > %(t)s + 1e-6) FROM {t} LEFT JOIN found AS f USING (trajectory_id, seq)"
        ).format(
            p=poi, c=category, t=session.names["table"],
            s=sql.Literal(session.names["table"]._obj[0]),  # type: ignore[attr-defined]
            r=sql.Literal(session.names["table"]._obj[1]),  # type: ignore[attr-defined]
        ),
        {"l": session.parameters["l"], "t": float(session.parameters["t"])},
    ).fetchall()  # fmt: skip
    found.counted["areas with points of interest"] = checked
    found.wrong["areas that are not diverse"] = wrong


def _clusters(session: _Session) -> Promise:
    found = Promise()
    offsets, member = session.column("log", "offsets"), session.column("log", "member")
    key = dict(
        session.run(
            "SELECT trajectory_id, released_id FROM {private}.release_key WHERE release_id = %(id)s",
            id=session.release_id,
        )
    )
    session.table(
        "cluster", ["number", "trajectory_id", "released_id"],
        (
            (number, m, key[m])
            for number, (begin, end) in enumerate(pairwise(offsets))
            for m in member[begin:end]
        ),
    )  # fmt: skip
    objects = session.number("SELECT count(DISTINCT trajectory_id) FROM original")
    ((pairs, apart),) = session.run(
        _APART, srid=session.srid, delta=float(session.parameters["delta"])
    )
    expected = session.number(
        "SELECT coalesce(sum(n * (n - 1) / 2 * rows), 0) FROM (SELECT c.number, count(*) AS n, "
        "min((SELECT count(*) FROM {table} AS t WHERE t.trajectory_id = c.released_id)) AS rows "
        "FROM cluster AS c GROUP BY c.number) AS s"
    )
    trash = objects - len(member)
    found.counted = {"clusters": len(offsets) - 1, "pairs at an instant": pairs, "trash": trash}
    found.wrong = {
        "clusters of fewer than k": session.number(
            "SELECT count(*) FROM (SELECT number FROM cluster GROUP BY number "
            "HAVING count(DISTINCT trajectory_id) < %(k)s) AS few",
            k=session.parameters["k"],
        ),
        "pairs further apart than delta": apart,
        "pairs that are not together at an instant": expected - pairs,
        "trajectories of no cluster": session.number(
            "SELECT count(DISTINCT trajectory_id) FROM {table} "
            "WHERE trajectory_id NOT IN (SELECT released_id FROM cluster)"
        ),
        "trash over its bound": max(
            0, trash - int(float(session.parameters["trash"]) * objects / 100)
        ),
    }
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--release", required=True)
    arguments = parser.parse_args()
    with psycopg.connect(arguments.dsn) as connection:
        found = check_promise(connection, arguments.release)
        connection.rollback()
    sys.stdout.write("\n".join(found.lines()) + "\n")
    return 1 if sum(found.wrong.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
