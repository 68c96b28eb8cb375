"""The frequency views give what `frequency/` computes, on a city and on tables of all shapes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import numpy as np
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from library import Point, build_city, build_points, load_city, make_points, opened
from servers import SharedServer, cloned

from freqdp_db.db.builds import BuildRow, load_locations, load_trajectories
from freqdp_db.db.connection import Database
from freqdp_db.methods.frequency.counts import count_frequencies, rank_places

_NUMBER = count()


@pytest.fixture(scope="module")
def world(shared_server: SharedServer, template_db: str) -> Iterator[Database]:
    with cloned(shared_server.get(), template_db) as url, opened(url) as database:
        yield database


def _assert_views(database: Database, build: BuildRow) -> None:
    with database.begin() as connection:
        trajectories = load_trajectories(connection, build)
        locations, _ = load_locations(connection, build)
    frequencies = count_frequencies(trajectories, len(locations))
    owner = np.repeat(np.arange(len(trajectories)), np.diff(frequencies.offsets))
    entries = range(len(owner))
    with psycopg.connect(database.conninfo) as connection:

        def view(columns: str, relation: str) -> list[tuple[float, ...]]:
            query = f"SELECT {columns} FROM freqdp.{relation} WHERE dataset_id = %s ORDER BY 1, 2"
            return connection.execute(query.encode(), [build.dataset_id]).fetchall()

        pf = [(owner[i], frequencies.location[i], frequencies.pf[i]) for i in entries]
        assert view("trajectory_id, location_id, pf", "point_frequency") == pf
        visited = np.flatnonzero(frequencies.tf)
        tf = [(place, frequencies.tf[place]) for place in visited]
        assert view("location_id, tf", "trajectory_frequency") == tf
        stored = connection.execute(
            "SELECT location_id, tf FROM freqdp.location WHERE build_id = %s ORDER BY 1",
            [build.build_id],
        ).fetchall()
        assert stored == list(enumerate(frequencies.tf.tolist()))
        # what the build has counted is what the samples say
        counted = connection.execute(
            "SELECT location_id, count(DISTINCT trajectory_id) FROM freqdp.sample "
            "WHERE build_id = %s GROUP BY location_id ORDER BY 1",
            [build.build_id],
        ).fetchall()
        assert counted == tf

        lengths = trajectories.lengths
        weight = (
            frequencies.pf / lengths[owner]
            * np.log(len(trajectories) / frequencies.tf[frequencies.location])
        )  # fmt: skip
        rows = view("trajectory_id, location_id, pf, tf, weight", "location_weight")
        assert [row[:4] for row in rows] == [
            (*pf[i], frequencies.tf[frequencies.location[i]]) for i in entries
        ]
        assert np.allclose([row[4] for row in rows], weight, rtol=1e-12, atol=0)

        order = rank_places(frequencies, 3).order
        ranked = [
            (owner[i], i - frequencies.offsets[owner[i]] + 1, frequencies.location[order[i]])
            for i in entries
        ]
        assert view("trajectory_id, rank, location_id", "signature") == ranked
        weights = view("trajectory_id, rank, weight", "signature")
        assert np.allclose([row[2] for row in weights], weight[order], rtol=1e-12, atol=0)


def test_city(database_url: str) -> None:
    load_city(database_url, objects=40, days=2)
    with opened(database_url) as database:
        _assert_views(database, build_city(database, "fine", "grid:100"))
        # a second dataset beside the first, with ties everywhere
        _assert_views(database, build_city(database, "coarse", "grid:2000"))


def test_only_the_current_build(database_url: str) -> None:
    """The views follow `dataset.current_build`; a dataset that was never built has no rows."""
    relation = make_points(database_url, "a", [("o", 0, 0, 0), ("o", 1, 100, 0), ("p", 0, 0, 0)])
    with opened(database_url) as database:
        build = build_points(database, "a", relation)
        with psycopg.connect(database_url) as connection:
            connection.execute("DELETE FROM world.a WHERE object = 'p'")
            connection.execute("UPDATE world.a SET at = at + interval '1 day'")
        _assert_views(database, build)
        from freqdp_db.dataset.building import build as rebuild
        from freqdp_db.db.datasets import find_dataset
        from freqdp_db.progress import Progress

        again = rebuild(database, find_dataset(database, "a"), Progress())
        assert again.build_id != build.build_id and again.trajectories == 1
        _assert_views(database, again)
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE freqdp.dataset SET current_build = NULL")
        for name in ("point_frequency", "trajectory_frequency", "location_weight", "signature"):
            assert connection.execute(
                f"SELECT count(*) FROM freqdp.{name}".encode()
            ).fetchall() == [(0,)]


objects = st.sampled_from(["a", "b", "c", "d", "e"])
points = st.tuples(
    objects,
    st.integers(0, 30).map(float),
    st.integers(0, 3).map(lambda n: 100.0 * n),
    st.integers(0, 2).map(lambda n: 100.0 * n),
)


@settings(derandomize=True, deadline=None, max_examples=12, database=None)
@given(st.lists(points, min_size=1, max_size=60))
def test_any_table(world: Database, rows: list[Point]) -> None:
    table = f"t{next(_NUMBER)}"
    _assert_views(world, build_points(world, table, make_points(world.conninfo, table, rows)))
