"""`<name>_trip`: a view beside a release's table, a line for each trip.

A trip lies between two stays, or between gaps. A stay is a place that the trajectory does not leave
for 20 minutes, a gap so long a time without a sample at another place. Both are said here, and are not
read from the data. A trip ends when the stay begins, and the next one begins there when it ends.
"""

from __future__ import annotations

from psycopg import sql

from freqdp_db.storage.connection.engine import Connection, Database, driver
from freqdp_db.storage.connection.postgis import geometry_type, postgis_schema
from freqdp_db.storage.connection.statements import comment_on
from freqdp_db.storage.schema.grants import hand_over

_PART = "_trip"
REST = "20 minutes"
_COMMENTS = {
    "trajectory_id": "The same id as in the table of samples.",
    "trip": "Number of the trip in its trajectory, from 1.",
    "start_at": "Time of its first place: when it leaves it, if it has rested there.",
    "end_at": "When it comes to its last place.",
    "length_m": "Metres along the line, on the ellipsoid.",
    "places": "How many places it passes, its ends included.",
    "start_geom": "Where it begins.",
    "end_geom": "Where it ends.",
    "geom": "The line through its places, without the time.",
}
TRIP_COLUMNS = list(_COMMENTS)

# `place`: the samples at which a trajectory comes to a place, with the time of the sample before (the
# last one at the place before). `visit`: until when it stays there. `stop`: how many stays and gaps came
# so far. `leg`: a stay is in two trips, as the arrival of one and the departure of the next. Each is read
# once, so that a condition on the trajectory reaches the table.
_VIEW = """
CREATE VIEW {view} AS
WITH place AS (
    SELECT trajectory_id, seq, at, geom, before_at, last_at FROM (
        SELECT trajectory_id, seq, at, geom, lag(at) OVER past AS before_at,
            lag(geom) OVER past AS before, last_value(at) OVER whole AS last_at
        FROM {points}
        WINDOW past AS (PARTITION BY trajectory_id ORDER BY seq),
            whole AS (PARTITION BY trajectory_id ORDER BY seq
                ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
    ) AS sample
    WHERE before IS NULL OR NOT geom OPERATOR({postgis}.=) before
), visit AS (
    SELECT trajectory_id, seq, geom, at AS begin_at,
        coalesce(lead(before_at) OVER future, last_at) AS end_at,
        coalesce(at - before_at > interval {rest}, false) AS after_gap
    FROM place
    WINDOW future AS (PARTITION BY trajectory_id ORDER BY seq)
), stop AS (
    SELECT *, end_at - begin_at >= interval {rest} AS stay,
        count(*) FILTER (WHERE after_gap) OVER past
            + count(*) FILTER (WHERE end_at - begin_at >= interval {rest}) OVER past AS passed
    FROM visit
    WINDOW past AS (PARTITION BY trajectory_id ORDER BY seq)
), leg AS (
    SELECT trajectory_id, seq, geom, passed - arrival AS number,
        CASE WHEN stay AND arrival = 0 THEN end_at ELSE begin_at END AS at
    FROM stop CROSS JOIN (VALUES (0), (1)) AS side(arrival)
    WHERE stay OR arrival = 0
), trip AS (
    SELECT trajectory_id, number, min(at) AS start_at, max(at) AS end_at, count(*) AS places,
        {make_line}(geom ORDER BY seq) AS geom
    FROM leg
    GROUP BY trajectory_id, number
    HAVING count(*) > 1
)
SELECT trajectory_id, row_number() OVER (PARTITION BY trajectory_id ORDER BY number)::int AS trip,
    start_at, end_at, {length}({geography}({transform}(geom, 4326))) AS length_m, places::int AS places,
    {start_point}(geom)::{point} AS start_geom, {end_point}(geom)::{point} AS end_geom,
    geom::{line} AS geom
FROM trip
"""


def show_trips(connection: Connection, database: Database, name: str, srid: int, what: str) -> None:
    """Make the view of a release that has just been published, in the same transaction."""
    schema = database.settings.release_schema
    view, postgis = sql.Identifier(schema, name + _PART), postgis_schema(connection)
    functions = {
        "make_line": "st_makeline", "length": "st_length", "geography": "geography",
        "transform": "st_transform", "start_point": "st_startpoint", "end_point": "st_endpoint",
    }  # fmt: skip

    driver(connection).execute(
        sql.SQL(_VIEW).format(
            view=view,
            points=sql.Identifier(schema, name),
            rest=sql.Literal(REST),
            postgis=sql.Identifier(postgis),
            point=geometry_type(postgis, "Point", srid),
            line=geometry_type(postgis, "LineString", srid),
            **{word: sql.Identifier(postgis, known) for word, known in functions.items()},
        )
    )
    hand_over(connection, database, view)
    comment = f"{what} A line for each trip, between stays or gaps of {REST}."
    comment_on(connection, "VIEW", view, comment)
    for column, text in _COMMENTS.items():
        comment_on(connection, "COLUMN", sql.Identifier(schema, name + _PART, column), text)
