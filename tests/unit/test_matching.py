"""Map matching on networks drawn by hand, on the made-up city, and the scores of a recovery."""

from __future__ import annotations

import numpy as np
import pytest
from driven import driven_roads

from freqdp_db.evaluation.attacks.recovery import recovery_attack, road_accuracy, route_scores
from freqdp_db.evaluation.pair import Pair
from freqdp_db.loading.city import City
from freqdp_db.model.arrays import offsets_from
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.progress import Progress
from freqdp_db.roads.matching import Matched, find_passages, match
from freqdp_db.roads.network import Network, RoadRows, find_candidates, make_network

SECOND = 1_000_000


def lines(*roads: tuple[int, int, bool, list[tuple[float, float]]]) -> Network:
    """Roads 10, 11, ... from (source, target, oneway, points)."""
    return make_network(
        RoadRows(
            np.arange(10, 10 + len(roads)),
            np.array([r[0] for r in roads]),
            np.array([r[1] for r in roads]),
            np.array([r[2] for r in roads]),
            offsets_from(np.array([len(r[3]) for r in roads])),
            np.array([p[0] for r in roads for p in r[3]], np.float64),
            np.array([p[1] for r in roads for p in r[3]], np.float64),
        )
    )


def drive(*points: tuple[float, float], gap_s: int = 60) -> tuple[Trajectories, Locations]:
    """One trajectory through these points."""
    at = np.arange(len(points), dtype=np.int64) * gap_s * SECOND
    return (
        Trajectories(
            np.array([0, len(points)]), np.arange(len(points), dtype=np.int32), at, at[:1]
        ),
        Locations(*np.array(points, np.float64).T.copy()),
    )


def matched(network: Network, *points: tuple[float, float], gap_s: int = 60) -> Matched:
    trajectories, locations = drive(*points, gap_s=gap_s)
    near = find_candidates(network, locations)
    return match(network, near, trajectories, locations, Progress())


# a square of 1 km: south, east, north, west; and a parallel of the south, 60 m away, with no exit
SQUARE = lines(
    (1, 2, False, [(0, 0), (1_000, 0)]),
    (2, 3, False, [(1_000, 0), (1_000, 1_000)]),
    (3, 4, False, [(1_000, 1_000), (0, 1_000)]),
    (4, 1, False, [(0, 1_000), (0, 0)]),
    (8, 9, False, [(0, -60), (1_000, -60)]),
)


def test_candidates_are_the_nearest_roads_within_reach() -> None:
    places = Locations(np.array([500.0, 5.0, 500.0]), np.array([-40.0, 3.0, 500.0]))
    found = find_candidates(SQUARE, places)
    assert found.road[0].tolist() == [4, 0, *[-1] * 6]
    assert found.away[0, :2].tolist() == [20.0, 40.0]
    assert found.along[0, :2].tolist() == [500.0, 500.0]
    assert found.road[1, :3].tolist() == [0, 3, 4]
    assert found.along[1, 1] == 997.0
    assert found.road[2].tolist() == [-1] * 8


def test_no_more_than_eight_candidates_the_nearest_ones() -> None:
    fan = lines(*((2 * i, 2 * i + 1, False, [(0, 9.0 * i), (100, 9.0 * i)]) for i in range(12)))
    found = find_candidates(fan, Locations(np.array([50.0]), np.array([0.0])))
    assert found.road[0].tolist() == list(range(8))


def test_the_way_decides_between_near_roads() -> None:
    """The middle sample lies nearer to the parallel, from which nothing leads on."""
    found = matched(SQUARE, (100, 0), (500, -32), (1_000, 100), (1_000, 500))
    assert found.road.tolist() == [0, 0, 1, 1]
    assert found.breaks == 0
    assert sorted(found.driven.tolist()) == [0, 1]


def test_roads_between_samples_are_driven() -> None:
    found = matched(SQUARE, (500, 0), (500, 1_000), gap_s=120)
    # over the east or the west: 2 km either way; one of them
    assert sorted(found.driven.tolist()) in ([0, 1, 2], [0, 2, 3])
    assert found.road.tolist() == [0, 2]


def test_oneway_roads_are_driven_one_way() -> None:
    ring = lines(
        (1, 2, True, [(0, 0), (1_000, 0)]),
        (2, 1, True, [(1_000, 0), (1_000, 500), (0, 500), (0, 0)]),
    )
    ahead = matched(ring, (200, 0), (600, 0))
    assert ahead.driven.tolist() == [0]
    # backwards it is all around the ring, which is less than eight times the straight way
    back = matched(ring, (600, 0), (200, 0), gap_s=120)
    assert sorted(back.driven.tolist()) == [0, 1]
    assert back.breaks == 0


@pytest.mark.parametrize("back", [-2.0, 2.0, 49.0])
def test_noise_along_a_oneway_road_is_no_drive_around_the_block(back: float) -> None:
    network = lines((1, 2, True, [(0, 0), (1000, 0)]), (3, 4, False, [(0, 60), (1000, 60)]))
    points = [(100.0, 0.0), (300.0, 0.0), (300.0 - back, 0.0), (500.0, 0.0), (700.0, 0.0)]
    found = matched(network, *points, gap_s=10)
    assert found.road.tolist() == [0] * 5 and found.breaks == 0


@pytest.mark.parametrize(
    ("points", "gap_s"),
    [
        ([(500, 0), (500, 1_000)], 20),  # 2 km in 20 s
        ([(100, 0), (300, -60)], 600),  # no way leads from the ring to the road beside it
    ],
)
def test_chains_break_where_no_route_fits(points: list[tuple[float, float]], gap_s: int) -> None:
    far = lines(
        (1, 2, False, [(0, 0), (1_000, 0)]),
        (2, 3, False, [(1_000, 0), (1_000, 1_000)]),
        (3, 4, False, [(1_000, 1_000), (0, 1_000)]),
        (8, 9, False, [(200, -160), (1_000, -160)]),
    )
    moved = [(x, y - 100 if y == -60 else y) for x, y in points]
    found = matched(far, *moved, gap_s=gap_s)
    assert found.breaks == 1
    assert len(found.driven) == 2
    assert (found.road >= 0).all()


def test_samples_without_a_road_break_the_chain() -> None:
    found = matched(SQUARE, (100, 0), (500, 500), (900, 0))
    assert found.road.tolist() == [0, -1, 0]
    assert found.breaks == 1


def test_a_stay_is_one_step() -> None:
    locations = Locations(np.array([100.0, 500.0]), np.array([3.0, 3.0]))
    at = np.arange(4) * 60 * SECOND
    stay = Trajectories(np.array([0, 4]), np.array([0, 0, 0, 1], np.int32), at, at[:1])
    found = match(SQUARE, find_candidates(SQUARE, locations), stay, locations, Progress())
    assert found.road.tolist() == [0, 0, 0, 0]


def passed(
    network: Network, *points: tuple[float, float], gap_s: int = 60
) -> list[tuple[float, ...]]:
    """Roads, seconds and metres per second."""
    found = find_passages(network, *drive(*points, gap_s=gap_s), 100.0)
    assert found.offsets.tolist() == [0, len(found.road)]
    return list(
        zip(found.road.tolist(), (found.at / SECOND).tolist(), found.speed.tolist(), strict=True)
    )


def test_passages_by_hand() -> None:
    """A road is passed in its middle; the time and the speed are those of the way between two samples."""
    # 400 m to the corner and 600 m up: at 10 m/s, 900 m past the middle of the east
    assert passed(SQUARE, (600, 0), (1_000, 600), gap_s=100) == [(1, 90.0, 10.0)]
    # the south in its middle, at once; then the east, 400 m after the second sample
    assert passed(SQUARE, (300, 0), (900, 0), (1_000, 900), gap_s=60) == [
        (0, 20.0, 10.0), (1, 96.0, pytest.approx(1_000 / 60)),
    ]  # fmt: skip
    # along the south, the east and the north, of which only the east is driven whole
    assert passed(SQUARE, (900, 0), (1_000, 500), (900, 1_000), gap_s=60) == [(1, 60.0, 10.0)]


def test_who_comes_back_to_the_middle_has_passed_it_once() -> None:
    there = [(400.0, 0.0), (600.0, 0.0), (400.0, 0.0), (700.0, 0.0)]
    assert [road for road, *_ in passed(SQUARE, *there)] == [0]
    around = [*there, (1_000.0, 300.0), (1_000.0, 600.0), (1_000.0, 300.0), (500.0, 0.0)]
    assert [road for road, *_ in passed(SQUARE, *around)] == [0, 1, 0]


def test_passages_against_the_way_of_a_oneway_road() -> None:
    """Noise leads back a little; the middle is passed once."""
    ring = lines((1, 2, True, [(0, 0), (1_000, 0)]), (2, 1, True, [(1_000, 0), (500, 800), (0, 0)]))
    points = [(480.0, 0.0), (510.0, 0.0), (490.0, 0.0), (700.0, 0.0)]
    assert [road for road, *_ in passed(ring, *points)] == [0]


def _truth_every_30_s(seed: int) -> tuple[City, Trajectories, Locations, Matched]:
    """Twenty people's and taxis' true roads in the city, and where a receiver had them."""
    city = City(20, 1, np.random.default_rng(seed))
    truth = driven_roads(city)
    plan = city.network
    names, owner = np.unique(truth.object_id, return_inverse=True)
    rng = np.random.default_rng(seed)
    parts = []
    for who in range(len(names)):
        mine = np.flatnonzero(owner == who)
        ticks = np.arange(truth.enter_s[mine[0]], truth.leave_s[mine[-1]], 30.0)
        row = mine[np.searchsorted(truth.enter_s[mine], ticks, side="right") - 1]
        moving = ticks < truth.leave_s[row]
        ticks, row = ticks[moving], row[moving]
        share = (ticks - truth.enter_s[row]) / (truth.leave_s[row] - truth.enter_s[row])
        share = np.where(truth.forward[row], share, 1 - share)
        road = truth.road_id[row] - 1
        a, b = plan.source[road], plan.target[road]
        noise = rng.normal(0, 8.0, (2, len(road)))
        x = plan.x[a] + share * (plan.x[b] - plan.x[a]) + noise[0]
        y = plan.y[a] + share * (plan.y[b] - plan.y[a]) + noise[1]
        parts.append((np.floor(ticks).astype(np.int64) * SECOND, x, y))
    offsets = offsets_from(np.array([len(p[0]) for p in parts]))
    at = np.concatenate([p[0] for p in parts])
    locations = Locations(
        np.concatenate([p[1] for p in parts]), np.concatenate([p[2] for p in parts])
    )
    sides = Trajectories(offsets, np.arange(offsets[-1], dtype=np.int32), at, at[offsets[:-1]])
    pairs = np.unique(owner.astype(np.int64) * len(plan.source) + truth.road_id - 1)
    driven = offsets_from(np.bincount(pairs // len(plan.source), minlength=len(names)))
    roads = (pairs % len(plan.source)).astype(np.int32)
    return city, sides, locations, Matched(np.zeros(0, np.int32), driven, roads, 0, 0.0)


def test_city_routes_come_back() -> None:
    """Known truth: what was really driven, sampled every 30 s with 8 m of noise."""
    city, trajectories, locations, truth = _truth_every_30_s(3)
    plan = city.network
    count = len(plan.source)
    ends = np.column_stack([plan.source, plan.target]).reshape(-1)
    network = make_network(
        RoadRows(
            np.arange(count), plan.source, plan.target, plan.oneway, 2 * np.arange(count + 1),
            plan.x[ends], plan.y[ends],
        )
    )  # fmt: skip
    near = find_candidates(network, locations)
    found = match(network, near, trajectories, locations, Progress())
    scores = route_scores(truth, found, network.graph.length)
    assert (found.road >= 0).mean() > 0.99
    assert scores["recovery.f"] >= 0.95, scores


def _sets(*roads: list[int]) -> Matched:
    offsets = offsets_from(np.array([len(r) for r in roads]))
    driven = np.array([r for row in roads for r in row], np.int32)
    return Matched(np.zeros(0, np.int32), offsets, driven, 0, 0.0)


def test_scores_weigh_roads_by_length() -> None:
    length = np.array([100.0, 200.0, 400.0])
    found = route_scores(_sets([0, 1], [2]), _sets([1, 2], []), length)
    # truth 700 m, attack 600 m, common 200 m (road 2 belongs to another trajectory)
    assert found["recovery.precision"] == pytest.approx(200 / 600)
    assert found["recovery.recall"] == pytest.approx(200 / 700)
    assert found["recovery.rmf"] == pytest.approx((400 + 500) / 700)
    assert found["recovery.f"] == pytest.approx(2 * 200 / 1_300)


def test_recovery_of_an_identical_release_is_whole() -> None:
    trajectories, locations = drive((100, 0), (900, 0), (1_000, 500), (600, 1_000), gap_s=90)
    found = recovery_attack(Pair(trajectories, trajectories, locations), SQUARE, Progress())
    for name in ("precision", "recall", "f", "accuracy", "matched"):
        assert found[f"recovery.{name}"] == 1.0
    assert found["recovery.rmf"] == 0.0


def test_accuracy_looks_at_the_nearest_sample_in_time() -> None:
    original = Trajectories(
        np.array([0, 3]), np.zeros(3, np.int32), np.array([0, 10, 20]), np.zeros(1, np.int64)
    )
    released = Trajectories(
        np.array([0, 2]), np.zeros(2, np.int32), np.array([4, 14]), np.zeros(1, np.int64)
    )
    pair = Pair(original, released, Locations(np.zeros(1), np.zeros(1)))
    nothing = (np.zeros(2, np.int64), np.zeros(0, np.int32), 0, 1.0)
    truth = Matched(np.array([5, 6, 7], np.int32), *nothing)
    # 0 -> 4 (before the first: the one after), 10 -> 14 (nearer than 4), 20 -> 14 (the last)
    attack = Matched(np.array([5, 6], np.int32), *nothing)
    assert road_accuracy(pair, truth, attack) == pytest.approx(2 / 3)
    # what could not be matched in D does not count
    half = Matched(np.array([5, -1, 7], np.int32), *nothing)
    assert road_accuracy(pair, half, attack) == pytest.approx(1 / 2)
