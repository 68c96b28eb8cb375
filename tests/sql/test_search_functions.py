"""The stored functions of the search: they give what the service computes, and refuse what it would."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import psycopg
import pytest
from library import METRIC_SRID, ORIGIN_M, Point, build_city, build_points, load_city, make_points
from library import opened as open_database
from psycopg import sql
from servers import clone_of, filled_once

from freqdp_db import errors
from freqdp_db.db import builds as cells
from freqdp_db.db.builds import BuildRow, find_build, load_locations, load_trajectories
from freqdp_db.db.connection import Connection, Database
from freqdp_db.db.copy import point_bytes
from freqdp_db.model.arrays import Ids, Metres, offsets_from
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.search.grid import Filed, Segments, cells_of, distinct_segments, file_trajectories
from freqdp_db.search.nearest import Queries, index_segments, nearest_trajectories

NOBODY = np.zeros(0, np.int32)


@dataclass(frozen=True)
class Built:
    """A dataset's build in the database, and what the service makes of it in memory."""

    database: Database
    dataset: str
    row: BuildRow
    trajectories: Trajectories
    locations: Locations
    segments: Segments

    @property
    def ends(self) -> tuple[Metres, Metres, Metres, Metres]:
        at, s = self.locations, self.segments
        return at.x[s.tail], at.y[s.tail], at.x[s.head], at.y[s.head]

    def containing(self, location: int) -> Ids:
        owner = np.repeat(
            np.arange(len(self.trajectories), dtype=np.int32), self.trajectories.lengths
        )
        return np.unique(owner[self.trajectories.location == location])


def _load(database: Database, dataset: str, row: BuildRow) -> Built:
    with database.begin() as connection:
        trajectories = load_trajectories(connection, row)
        locations, _ = load_locations(connection, row)
    segments = distinct_segments(trajectories)
    return Built(database, dataset, row, trajectories, locations, segments)


def _losses(built: Built, x: float, y: float) -> np.typing.NDArray[np.int64]:
    """Every segment's loss, by the formula of `search.distance`."""
    ax, ay, bx, by = built.ends
    dx, dy = bx - ax, by - ay
    length2 = dx * dx + dy * dy
    along = (x - ax) * dx + (y - ay) * dy
    share = np.clip(along / np.where(length2 > 0, length2, 1.0), 0.0, 1.0)
    share[length2 == 0] = 0.0
    ex, ey = x - (ax + share * dx), y - (ay + share * dy)
    return np.floor(np.sqrt(ex * ex + ey * ey) * 1000.0 + 0.5).astype(np.int64)


Answer = tuple[int, int, int]
"""Trajectory, position, loss in millimetres."""


def _scan(built: Built, x: float, y: float, k: int, skip: Ids) -> list[Answer]:
    """The K nearest trajectories by brute force, ties by id."""
    owner, position = built.segments.trajectory, built.segments.position
    loss = _losses(built, x, y)
    order = np.lexsort((position, loss, owner))
    first = order[np.diff(owner[order], prepend=-1) > 0]
    first = first[~np.isin(owner[first], skip)]
    best = first[np.lexsort((owner[first], loss[first]))][:k]
    columns = (owner[best], position[best], loss[best])
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _service(
    built: Built, x: Metres, y: Metres, k: int, skips: list[Ids]
) -> Iterator[list[Answer]]:
    """The same by the search that releases use."""
    found = nearest_trajectories(
        index_segments(
            built.trajectories, built.locations, np.arange(len(built.trajectories), dtype=np.int64)
        ),
        Queries(
            x,
            y,
            np.full(len(x), k, np.int64),
            offsets_from(np.array([len(s) for s in skips])),
            np.concatenate([NOBODY, *skips]),
        ),
    )
    for i in range(len(x)):
        part = slice(found.offsets[i], found.offsets[i + 1])
        columns = (found.trajectory[part], found.position[part], found.loss_mm[part])
        rows = zip(*(column.tolist() for column in columns), strict=True)
        yield [row for row in rows if row[0] >= 0]


def _point(x: float, y: float, srid: int) -> str:
    return point_bytes(np.array([x]), np.array([y]), srid).tobytes().hex()


def _rows(connection: Connection, routine: str, *arguments: Any) -> list[dict[str, Any]]:
    """What one of the stored functions gives."""
    cursor = connection.driver.execute(
        sql.SQL("SELECT * FROM freqdp.{}({})").format(
            sql.Identifier(routine), sql.SQL(", ").join(map(sql.Literal, arguments))
        )
    )
    names = [column.name for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def _stored(
    built: Built, x: float, y: float, k: int, *, srid: int | None = None, skip: bool = True
) -> list[Answer]:
    with built.database.begin() as connection:
        return [
            (row["trajectory_id"], row["seq"] - 1, round(row["loss_m"] * 1000))
            for row in _rows(
                connection, "nearest_trajectories",
                built.dataset, _point(x, y, srid or built.row.srid), k, skip,
            )
        ]  # fmt: skip


def _stored_segments(built: Built, trajectory: int, x: float, y: float, k: int) -> list[Any]:
    with built.database.begin() as connection:
        return [
            (
                row["seq"] - 1, row["from_location"], row["to_location"], row["occurrences"],
                round(row["loss_m"] * 1000),
            )
            for row in _rows(
                connection, "nearest_segments",
                built.dataset, trajectory, _point(x, y, built.row.srid), k,
            )
        ]  # fmt: skip


# --- whole queries on a city --------------------------------------------------------------------


# exact: no two distances are alike; 1,000 m: nearly all are
SNAPS = ("grid:100", "grid:1000", "exact")


def _build(url: str) -> None:
    """The city in three discretisations, side by side in one database."""
    load_city(url, objects=100, days=3)
    with open_database(url) as database:
        for i, snap in enumerate(SNAPS):
            build_city(database, f"city{i}", snap)


cities_db = filled_once("cities", _build)
city_url = clone_of("cities_db", scope="module")


@pytest.fixture(scope="module")
def cities(city_url: str) -> Iterator[dict[str, Built]]:
    with open_database(city_url) as database:
        rows = {snap: find_build(database, i) for i, snap in enumerate(SNAPS, 1)}
        yield {snap: _load(database, f"city{i}", rows[snap]) for i, snap in enumerate(SNAPS)}


@pytest.fixture(params=SNAPS)
def city(request: pytest.FixtureRequest, cities: dict[str, Built]) -> Built:
    return cities[request.param]


def _queries(built: Built, count: int, seed: int) -> tuple[Metres, Metres, list[Ids]]:
    """Visited places, points near some, midpoints (ties), and points far outside; whom to skip."""
    rng = np.random.default_rng(seed)
    at = built.locations
    place = built.trajectories.location[rng.integers(0, built.trajectories.samples, count)]
    x, y = at.x[place].copy(), at.y[place].copy()
    skips = [NOBODY] * count
    for i in range(count):
        match i % 5:
            case 0 | 1:
                skips[i] = built.containing(int(place[i]))
            case 2:
                x[i], y[i] = x[i] + rng.normal(0, 300), y[i] + rng.normal(0, 300)
            case 3:
                other = rng.integers(0, len(at))
                x[i], y[i] = (x[i] + at.x[other]) / 2, (y[i] + at.y[other]) / 2
                same = np.flatnonzero((at.x == x[i]) & (at.y == y[i]))
                skips[i] = built.containing(int(same[0])) if len(same) else NOBODY
            case _:
                x[i], y[i] = x[i] + rng.normal(0, 1e5), y[i] + rng.normal(0, 1e5)
    return x, y, skips


@pytest.mark.parametrize("k", [1, 3, 10])
def test_trajectories_are_those_of_the_service(city: Built, k: int) -> None:
    x, y, skips = _queries(city, 100, seed=k)
    for i, expected in enumerate(_service(city, x, y, k, skips)):
        assert len(expected) == k
        assert expected == _scan(city, x[i], y[i], k, skips[i])
        assert _stored(city, x[i], y[i], k) == expected, (i, x[i], y[i])


def test_cities_are_large_enough_to_prune(city: Built) -> None:
    """Otherwise the search reads everything at once, and the tests above prove little."""
    assert len(city.segments) > 6_000


def test_containing_trajectories_on_demand(city: Built) -> None:
    x, y, _ = _queries(city, 30, seed=7)
    for i in range(len(x)):
        assert _stored(city, x[i], y[i], 4, skip=False) == _scan(city, x[i], y[i], 4, NOBODY)


def test_more_than_there_are(city: Built) -> None:
    x, y, skips = _queries(city, 3, seed=8)
    for i in range(len(x)):
        for k in (len(city.trajectories) - 1, len(city.trajectories), 2**31 - 1):
            assert _stored(city, x[i], y[i], k) == _scan(city, x[i], y[i], k, skips[i])


def test_segments_of_one_trajectory(city: Built) -> None:
    x, y, _ = _queries(city, 60, seed=9)
    rng = np.random.default_rng(9)
    s = city.segments
    for i, k in enumerate(rng.choice([1, 3, 10, 10**6], len(x)).tolist()):
        trajectory = int(rng.integers(0, len(city.trajectories)))
        mine = np.flatnonzero(s.trajectory == trajectory)
        loss = _losses(city, x[i], y[i])
        best = mine[np.lexsort((s.position[mine], loss[mine]))][:k]
        columns = (s.position, s.tail, s.head, s.occurrences, loss)
        expected = list(zip(*(column[best].tolist() for column in columns), strict=True))
        assert _stored_segments(city, trajectory, x[i], y[i], k) == expected


def test_point_of_any_srid(city: Built, city_url: str) -> None:
    """A location's own point is in the SRID of the source: it is recognised after the transform."""
    rng = np.random.default_rng(10)
    with psycopg.connect(city_url) as connection:
        for place in rng.integers(0, len(city.locations), 25).tolist():
            x, y = float(city.locations.x[place]), float(city.locations.y[place])
            rows = connection.execute(
                "SELECT n.* FROM freqdp.location l, freqdp.nearest_trajectories(%s, l.geom, 3) n "
                "WHERE l.build_id = %s AND l.location_id = %s",
                [city.dataset, city.row.build_id, place],
            ).fetchall()
            expected = _scan(city, x, y, 3, city.containing(place))
            # the way there and back may cost a nanometre: enough to round a half the other way
            assert [row[2] for row in rows] == pytest.approx(
                [loss / 1000 for *_, loss in expected], abs=0.0011
            )
            if city.row.snap == "grid:100":
                assert [(t, seq - 1) for t, seq, _ in rows] == [(t, p) for t, p, _ in expected]


# --- whole queries by hand ----------------------------------------------------------------------


@pytest.fixture
def small(database_url: str) -> Iterator[Any]:
    """Makes a dataset of points, given in metres from the origin."""
    with open_database(database_url) as database:

        def make(points: list[Point], name: str = "small", snap: str = "exact") -> Built:
            relation = make_points(database_url, name, points)
            return _load(database, name, build_points(database, name, relation, snap))

        yield make


def _near(built: Built, east: float, north: float, k: int, **options: Any) -> list[Answer]:
    return _stored(built, east + ORIGIN_M[0], north + ORIGIN_M[1], k, **options)


def test_single_samples_and_ties(small: Any) -> None:
    world = small(
        [
            ("a", 0, 0, 30),  # one sample: a segment of length 0
            ("b", 0, 0, -30),
            ("c", 0, -100, 30), ("c", 1, 100, 30),
            ("d", 0, 30, 100), ("d", 1, 30, -100), ("d", 2, -30, -100), ("d", 3, -30, 100),
            ("e", 0, 0, 0),
        ]
    )  # fmt: skip
    assert world.row.trajectories == 5
    assert _near(world, 0, 0, 3) == [(0, 0, 30_000), (1, 0, 30_000), (2, 0, 30_000)]
    # d passes at 30 m on both sides: its first segment counts
    assert _near(world, 0, 0, 9)[3:] == [(3, 0, 30_000)]
    assert _near(world, 0, 0, 9, skip=False)[0] == (4, 0, 0)
    assert _near(world, 0, 30, 9)[0] == (2, 0, 0), "c passes through a's place, and is not at it"
    assert _near(world, 0, 300_000, 1) == [(3, 0, 299_900_002)], "far outside, two ends are nearest"
    assert _stored_segments(world, 0, *ORIGIN_M, 5) == [(0, *[_place(world, 0, 30)] * 2, 1, 30_000)]


def _place(built: Built, east: float, north: float) -> int:
    x, y = east + ORIGIN_M[0], north + ORIGIN_M[1]
    (found,) = np.flatnonzero((built.locations.x == x) & (built.locations.y == y))
    return int(found)


def test_equal_segments_count_once(small: Any) -> None:
    there, back = (0.0, 0.0), (100.0, 0.0)
    world = small([("a", t, *(there, back)[t % 2]) for t in range(7)])
    one, two = _place(world, *there), _place(world, *back)
    assert _stored_segments(world, 0, ORIGIN_M[0] + 50, ORIGIN_M[1] + 1, 9) == [
        (0, one, two, 3, 1_000),
        (1, two, one, 3, 1_000),
    ]


def test_place_is_what_rounds_to_nothing(small: Any) -> None:
    """Half a millimetre away is another place; of two places within it, the nearer is meant."""
    world = small([("a", 0, 0, 0), ("b", 0, 0.0003, 0), ("c", 0, 50, 0), ("d", 0, 0.0008, 0)])
    ids = [t for t, _, _ in _near(world, 0, 0, 9)]
    assert ids == [1, 3, 2]
    assert [t for t, _, _ in _near(world, 0.0002, 0, 9)] == [0, 3, 2]
    assert [t for t, _, _ in _near(world, -0.0006, 0, 9)] == [0, 1, 3, 2]


def test_halves_round_as_in_the_service(small: Any) -> None:
    """Distances next to half a millimetre, where the last bit decides."""
    rng = np.random.default_rng(3)
    points: list[Point] = []
    for i in range(300):
        x, y = rng.uniform(-200, 200, 2)
        dx, dy = rng.uniform(-40, 40, 2)
        points += [(f"o{i:03}", 0, x, y), (f"o{i:03}", 1, x + dx, y + dy)]
    world = small(points)
    ax, ay, bx, by = world.ends
    checked = 0
    for i in range(0, len(ax), 5):
        # beside the segment, at a right angle to it, by a whole number of millimetres and a half
        length = np.hypot(bx[i] - ax[i], by[i] - ay[i])
        off = (int(rng.integers(0, 300)) + 0.5) / 1000 / length
        x = (ax[i] + bx[i]) / 2 - off * (by[i] - ay[i])
        y = (ay[i] + by[i]) / 2 + off * (bx[i] - ax[i])
        assert _stored(world, x, y, 4) == _scan(world, x, y, 4, NOBODY)
        checked += 1
    assert checked == 60


def test_those_seen_first_all_contain_the_place(small: Any) -> None:
    """What is near at first sight has all been there once: the search has to reach further."""
    rng = np.random.default_rng(4)
    points: list[Point] = []
    for i in range(30):
        # at the place once, coming from far away, and then for long in its neighbourhood
        points += [
            (f"a{i:02}", 0, 40_000 + i, 0),
            (f"a{i:02}", 1, 0, 0),
            (f"a{i:02}", 2, 40_000, i),
        ]
        around = rng.uniform(-9, 9, (400, 2))
        points += [(f"a{i:02}", 3 + j, x, y) for j, (x, y) in enumerate(around.tolist())]
    for i in range(5):
        points += [(f"b{i}", j, 2_000 + 10 * i + j % 7, 2_000) for j in range(40)]
    world = small(points)
    skip = world.containing(_place(world, 0, 0))
    assert len(skip) == 30 and len(world.segments) > 8 * (256 + 16 * 9)
    with world.database.begin() as connection:
        search = "SELECT within_m FROM freqdp.search_reach(%s, %s, 3, 0.0005)"
        origin = _point(*ORIGIN_M, METRIC_SRID)
        ((within,),) = connection.driver.execute(search, [world.row.build_id, origin]).fetchall()
    assert within < 20, "the first reach is too short: it ends among those to skip"
    assert _near(world, 0, 0, 3) == _scan(world, *ORIGIN_M, 3, skip)
    assert _near(world, 0, 0, 9) == _scan(world, *ORIGIN_M, 9, skip)
    assert len(_near(world, 0, 0, 9)) == 5


def test_only_the_current_build(small: Any, database_url: str) -> None:
    from freqdp_db.dataset.building import build
    from freqdp_db.db.datasets import find_dataset
    from freqdp_db.progress import Progress

    world = small([("a", 0, 0, 0), ("b", 0, 10, 0)])
    with psycopg.connect(database_url) as connection:
        connection.execute("DELETE FROM world.small WHERE object = 'a'")
    assert [t for t, _, _ in _near(world, 5, 0, 9)] == [0, 1]
    build(world.database, find_dataset(world.database, "small"), Progress())
    assert _near(world, 5, 0, 9) == [(0, 0, 5_000)]


# --- refusals -----------------------------------------------------------------------------------

METRES = f"public.ST_SetSRID(public.ST_MakePoint(500000, 4000000), {METRIC_SRID})"


def test_refused_in_our_words(small: Any) -> None:
    """`db.connection` makes the errors ours."""
    world, origin = small([("a", 0, 0, 0)]), _point(*ORIGIN_M, METRIC_SRID)
    for trajectory, k, kind in ((0, 0, errors.BadInput), (7, 1, errors.NotFound)):
        with pytest.raises(kind) as caught, world.database.begin() as connection:
            _rows(connection, "nearest_segments", "small", trajectory, origin, k)
        assert caught.value.remedy
    assert "no trajectory 7" in caught.value.message
    with world.database.begin(snapshot=True) as connection:
        (found,) = _rows(connection, "nearest_segments", "small", 0, origin, 1)
    assert found["loss_m"] == 0, "and a read-only snapshot can be searched"


def test_the_segments_of_a_long_trajectory(database_url: str) -> None:
    """Work that grows with its samples: a plan that joins all locations with each other needs
    gigabytes of temporary files."""
    samples = 60_000
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA world")
        connection.execute(
            "CREATE TABLE world.long AS SELECT 'a'::text AS object, "
            "timestamptz '2024-01-01Z' + n * interval '1 s' AS at, public.ST_SetSRID(public.ST_MakePoint("
            "500000 + n * 7919::bigint %% 50021, 4000000 + n * 104729::bigint %% 50023), 32631)"
            "::public.geometry(Point, 32631) AS geom FROM generate_series(0, %s) AS n",
            [samples - 1],
        )
    with open_database(database_url) as database:
        world = _load(database, "long", build_points(database, "long", "world.long"))
        x, y = ORIGIN_M[0] + 2004.0, ORIGIN_M[1] + 1503.0
        with database.begin() as connection:
            connection.execute("SET LOCAL temp_file_limit = '20MB'")
            found = _rows(connection, "nearest_segments", "long", 0, _point(x, y, METRIC_SRID), 3)
    loss = _losses(world, x, y)
    expected = np.lexsort((world.segments.position, loss))[:3]
    assert [row["seq"] - 1 for row in found] == world.segments.position[expected].tolist()
    assert [round(row["loss_m"] * 1000) for row in found] == loss[expected].tolist()


def test_a_build_that_went_away(small: Any) -> None:
    """Dropped between the look at the dataset and the search: said so, and not answered with none."""
    world = small([("a", 0, 0, 0)])
    with world.database.begin() as connection:
        connection.execute("DELETE FROM freqdp.grid_cell")
    with pytest.raises(errors.Busy):
        _near(world, 0, 0, 1)


# --- cells --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def filed(cities: dict[str, Built]) -> Filed:
    city = cities["grid:100"]
    return file_trajectories(city.trajectories, city.locations, cut=False)


@pytest.fixture(scope="module")
def fine(cities: dict[str, Built]) -> Built:
    return cities["grid:100"]


def _mindist(box: Metres, x: float, y: float) -> Metres:
    dx = np.maximum(np.maximum(box[:, 0] - x, x - box[:, 2]), 0.0)
    dy = np.maximum(np.maximum(box[:, 1] - y, y - box[:, 3]), 0.0)
    return np.sqrt(dx * dx + dy * dy)


def test_segments_of_cells(fine: Built, filed: Filed) -> None:
    rng = np.random.default_rng(6)
    segments, cell = filed.segments, cells_of(filed)
    for asked in (None, *(rng.choice(filed.grid.cell, size) for size in (0, 1, 20, 500))):
        with fine.database.begin() as connection:
            found = cells.cell_segments(connection, fine.row.build_id, asked)
        rows = filed.row[np.isin(cell, asked)] if asked is not None else filed.row
        expected = (segments.trajectory[rows], segments.position[rows])
        assert sorted(zip(*found, strict=True)) == sorted(zip(*expected, strict=True))
        if asked is None:
            assert found[0].tolist() == expected[0].tolist(), "as filed"


def test_cells_of_a_build(fine: Built, filed: Filed) -> None:
    with fine.database.begin() as connection:
        cell, filed_here, box = cells.all_cells(connection, fine.row.build_id)
    assert cell.tolist() == filed.grid.cell.tolist()
    assert filed_here.tolist() == np.diff(filed.grid.segment_offsets).tolist()
    assert box.tolist() == filed.grid.box.tolist()


def test_cells_near_leaves_out_nothing(fine: Built, filed: Filed, city_url: str) -> None:
    grid = filed.grid
    own = np.diff(grid.segment_offsets) > 0
    rng = np.random.default_rng(11)
    with psycopg.connect(city_url) as connection:
        for within in (0.0, 0.0005, 150.0, 3_000.0, np.inf):
            x, y = float(rng.choice(fine.locations.x)), float(rng.choice(fine.locations.y))

            def near(breadth: int | None, x: float = x, y: float = y, w: float = within) -> Any:
                return connection.execute(
                    "SELECT * FROM freqdp.cells_near(%s, %s, %s, %s, %s)",
                    [fine.row.build_id, x, y, w, breadth],
                ).fetchall()

            distance = _mindist(grid.box, x, y)
            expected = np.flatnonzero(own & (distance <= within))
            rows = near(None)
            assert sorted(row[0] for row in rows) == grid.cell[expected].tolist()
            assert rows == sorted(rows, key=lambda row: (row[2], -row[0]))
            assert near(10**6) == rows
            some = near(4)
            assert set(some) <= set(rows) and len(some) <= 4 * grid.frame.levels + 1


CALLS = {
    "cell_segments": ("segment", "freqdp.cell_segments({build}, '{{1,4,5,21}}')"),
    "cells_near": ("grid_cell", "freqdp.cells_near({build}, 500000, 4000000, 10, NULL)"),
}


@pytest.mark.parametrize("name", CALLS)
def test_only_one_partition_is_read(cities: dict[str, Built], city_url: str, name: str) -> None:
    """Inlined, so that the planner sees the build: the other partitions are not in the plan."""
    part, call = CALLS[name]
    builds = {built.row.build_id for built in cities.values()}
    assert len(builds) == 3
    for built in cities.values():
        own = built.row.build_id
        statement = f"EXPLAIN (COSTS OFF) SELECT * FROM {call.format(build=own)}"
        with psycopg.connect(city_url) as connection:
            plan = "\n".join(row[0] for row in connection.execute(statement.encode()))
        assert "Function Scan on " + name not in plan and "Append" not in plan, plan
        assert {number for number in builds if f"{part}_{number}" in plan} == {own}
        if built.row.snap == "grid:100":  # the others are so small that it does not matter
            assert "Seq Scan on" not in plan, plan
