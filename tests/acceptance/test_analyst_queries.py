"""The queries that docs/ shows to analysts, as they stand, on sources of other reference systems."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from servers import SharedServer, cloned
from test_readme import QUERY, SOURCE
from world import freqdp, query

_SQL = re.compile(r"^```sql\n(.*?)^```$", re.MULTILINE | re.DOTALL)
(HOURS,) = (q for q in _SQL.findall(QUERY) if "vans_1" in q and "ST_Buffer" in q)
(LENGTHS,) = (q for q in _SQL.findall(QUERY) if "vans_1_line" in q and "ST_Length" in q)
(FLOWS,) = (q for q in _SQL.findall(QUERY) if "vans_1_trip" in q and "destination" in q)
SRIDS = (4326, 3857, 32633)


@pytest.fixture(params=SRIDS)
def vans(request: pytest.FixtureRequest, shared_server: SharedServer) -> Iterator[str]:
    """The quickstart's vans in one of the systems, released."""
    with cloned(shared_server.get(), shared_server.template(schema=True)) as url:
        query(url, SOURCE)
        query(
            url,
            "CREATE TABLE fleet.place AS SELECT van, ts, "
            f"ST_Transform(ST_SetSRID(ST_MakePoint(lon, lat), 4326), {request.param})"
            f"::geometry(Point, {request.param}) AS geom FROM fleet.ping",
        )
        add = ("dataset", "add", "vans", "--from", "fleet.place", "--object", "van")
        freqdp(url, *add, "--time", "ts", "--geom", "geom").succeeded()
        freqdp(url, "dataset", "build", "vans").succeeded()
        freqdp(url, "anonymize", "vans", "--method", "swap").succeeded()
        yield url


def _ask(url: str, statement: str) -> list[tuple[Any, ...]]:
    """As an analyst."""
    options = "-c role=freqdp_analyst -c search_path=public"
    with psycopg.connect(url, options=options) as connection:
        return connection.execute(statement.encode()).fetchall()


def test_queries_work_in_any_system(vans: str) -> None:
    hours = dict(_ask(vans, HOURS))
    within = """
        SELECT date_trunc('hour', at), count(DISTINCT trajectory_id) FROM freqdp_release.vans_1
        WHERE ST_Distance(ST_Transform(geom, 4326)::geography,
                          ST_SetSRID(ST_MakePoint(4.35, 50.85), 4326)::geography) < {}
        GROUP BY 1"""
    # a circle drawn as a polygon is a little smaller than a circle
    fewest, most = (dict(_ask(vans, within.format(metres))) for metres in (990, 1001))
    assert hours
    assert all(fewest.get(hour, 0) <= n <= most.get(hour, 0) for hour, n in hours.items())
    assert set(fewest) <= set(hours)

    longest = _ask(vans, LENGTHS)
    assert len(longest) == 10
    assert all(20 < km < 2_000 for *_, km in longest)


def test_the_first_uses_the_index_on_places(vans: str) -> None:
    ((plan,),) = _ask(vans, "EXPLAIN (FORMAT JSON, VERBOSE) " + HOURS)
    assert '"vans_1_geom_idx"' in json.dumps(plan), plan
    # the circle is made once, not for every row that is looked at
    conditions = re.findall(r'"(?:Filter|Index Cond|Recheck Cond)": "([^"]*)"', json.dumps(plan))
    assert conditions
    assert not re.search("find_srid|st_buffer|st_transform", "; ".join(conditions).lower()), plan


def test_flows_lead_from_one_cell_to_another(vans: str) -> None:
    flows = _ask(vans, FLOWS)
    assert flows
    assert all(origin != destination for origin, destination, *_ in flows)
