"""The generated city: the same for the same seed, planar, connected, and true to its roads."""

from __future__ import annotations

import numpy as np
import pytest
from driven import driven_roads

from freqdp_db.loading.city import SHARES, Chunk, City
from freqdp_db.loading.files import NO_TIME
from freqdp_db.loading.network import LON, make_network, to_degrees
from freqdp_db.roads.router import DestinationTrees


@pytest.fixture(scope="module")
def city() -> City:
    return City(60, 7, np.random.default_rng(1))


@pytest.fixture(scope="module")
def chunk(city: City) -> Chunk:
    (only,) = city.chunks()
    return only


def _clean(chunk: Chunk) -> np.ndarray:
    s = chunk.samples
    return (s.at_us != NO_TIME) & np.isfinite(s.x) & (np.abs(s.x - LON) < 1) & (s.y < 60)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_two_roads_cross_without_a_junction(seed: int) -> None:
    network = make_network(np.random.default_rng(seed))
    a = np.column_stack([network.x, network.y])[network.source]
    d = np.column_stack([network.x, network.y])[network.target] - a
    crossings = 0
    for i in range(len(a)):
        shared = np.isin(network.source, [network.source[i], network.target[i]])
        shared |= np.isin(network.target, [network.source[i], network.target[i]])
        cross = d[i, 0] * d[:, 1] - d[i, 1] * d[:, 0]
        gap = a - a[i]
        with np.errstate(divide="ignore", invalid="ignore"):
            here = (gap[:, 0] * d[:, 1] - gap[:, 1] * d[:, 0]) / cross
            there = (gap[:, 0] * d[i, 1] - gap[:, 1] * d[i, 0]) / cross
        hit = (here > 0) & (here < 1) & (there > 0) & (there < 1) & ~shared
        crossings += int(hit.sum())
    assert crossings == 0
    assert network.length_m.min() > 5
    assert set(network.kind) == {0, 1, 2, 3}


def test_every_junction_reaches_every_other() -> None:
    network = make_network(np.random.default_rng(5))
    ways = DestinationTrees(network.graph)
    everywhere = np.arange(len(network.x))
    ways.prepare(everywhere)
    for destination in (0, len(network.x) // 2, len(network.x) - 1):
        seconds = ways.costs(everywhere, np.full(len(everywhere), destination))
        assert np.isfinite(seconds).all()


def test_paths_lead_to_their_destination_in_the_time_told() -> None:
    network = make_network(np.random.default_rng(5))
    ways = DestinationTrees(network.graph)
    rng = np.random.default_rng(0)
    origin, destination = rng.integers(len(network.x), size=(2, 50))
    ways.prepare(destination)
    paths = ways.paths(origin, destination)
    told = ways.costs(origin, destination)
    for i in range(50):
        mine = slice(paths.first[i], paths.first[i + 1])
        road, forward = paths.road[mine], paths.forward[mine]
        if origin[i] == destination[i]:
            assert not len(road)
            continue
        tail = np.where(forward, network.source[road], network.target[road])
        head = np.where(forward, network.target[road], network.source[road])
        assert tail[0] == origin[i]
        assert head[-1] == destination[i]
        assert (head[:-1] == tail[1:]).all()
        assert network.seconds[road].sum() == pytest.approx(told[i], rel=1e-5)
        # One-way streets are driven one way.
        assert (forward | ~network.oneway[road]).all()


def test_same_seed_same_rows_and_chunks_can_be_made_again(city: City, chunk: Chunk) -> None:
    (again,) = city.chunks()
    (other,) = City(60, 7, np.random.default_rng(1)).chunks()
    for same in (again, other):
        assert (same.samples.object_id == chunk.samples.object_id).all()
        assert (same.samples.at_us == chunk.samples.at_us).all()
        assert np.array_equal(same.samples.x, chunk.samples.x, equal_nan=True)
    (different,) = City(60, 7, np.random.default_rng(2)).chunks()
    assert len(different.samples) != len(chunk.samples)


def test_objects_are_together_in_time_order_on_whole_seconds(chunk: Chunk) -> None:
    s = chunk.samples
    _, first = np.unique(s.object_id, return_index=True)
    assert (s.object_id[1:] != s.object_id[:-1]).sum() == len(first) - 1 == 59
    timed = s.at_us != NO_TIME
    same = s.object_id[timed][1:] == s.object_id[timed][:-1]
    assert (np.diff(s.at_us[timed])[same] >= 0).all()
    assert (s.at_us[timed] % 1_000_000 == 0).all()


def test_dirt_is_what_is_announced(chunk: Chunk) -> None:
    s = chunk.samples
    assert chunk.dirt["no place"] == np.isnan(s.x).sum()
    assert chunk.dirt["no time"] == (s.at_us == NO_TIME).sum()
    assert chunk.dirt["null island"] == ((s.x == 0) & (s.y == 0)).sum()
    assert chunk.dirt["out of range"] == (s.y > 90).sum()
    clean = s.take(_clean(chunk))
    again = (clean.object_id[1:] == clean.object_id[:-1]) & (np.diff(clean.at_us) == 0)
    repeat = again & (np.diff(clean.x) == 0) & (np.diff(clean.y) == 0)
    assert chunk.dirt["exact repeat"] == repeat.sum()
    assert chunk.dirt["same instant"] == (again & ~repeat).sum()
    for name, share in SHARES.items():
        assert chunk.dirt[name] == pytest.approx(share * len(s), rel=0.5)


def test_taxis_have_many_more_samples(chunk: Chunk) -> None:
    ids, counts = np.unique(chunk.samples.object_id, return_counts=True)
    taxi = np.char.startswith(ids, b"taxi-")
    assert taxi.sum() == 6
    assert np.median(counts[taxi]) > 4 * np.median(counts[~taxi])


def test_moving_samples_lie_on_the_true_road(city: City, chunk: Chunk) -> None:
    """Within five sigma of the road that the truth has at that time; parked ones are not there."""
    network, truth = city.network, driven_roads(City(60, 7, np.random.default_rng(1)))
    lon, lat = to_degrees(network.x, network.y)
    name = np.unique(truth.object_id)[-1]
    mine = truth.object_id == name
    enter, leave, road = truth.enter_s[mine], truth.leave_s[mine], truth.road_id[mine] - 1
    assert (np.diff(enter) > 0).all()
    s = chunk.samples.take(_clean(chunk) & (chunk.samples.object_id == name))
    s = s.take(np.append(True, np.diff(s.at_us) > 0))
    at = s.at_us / 1e6
    index = np.searchsorted(enter, at, side="right") - 1
    moving = (index >= 0) & (at + 1 < leave[index])
    assert moving.sum() > 50
    road = road[index[moving]]
    a, b = network.source[road], network.target[road]
    scale = np.array([70_423.8, 111_245.4])
    point = np.column_stack([s.x, s.y])[moving] * scale
    start = np.column_stack([lon[a], lat[a]]) * scale
    step = np.column_stack([lon[b], lat[b]]) * scale - start
    t = np.clip(((point - start) * step).sum(1) / (step**2).sum(1), 0, 1)
    off = np.hypot(*(point - start - t[:, None] * step).T)
    # A sample's time is cut to the second, so it may have just left the road that it was on.
    assert np.percentile(off, 99) < 40
    assert 3 < np.median(off) < 9


@pytest.mark.parametrize("objects", [1, 9, 401])
def test_small_and_uneven_casts(objects: int) -> None:
    chunks = list(City(objects, 1, np.random.default_rng(1)).chunks())
    assert sum(c.objects for c in chunks) == objects
    assert sum(len(np.unique(c.samples.object_id)) for c in chunks) <= objects


def test_people_meet(chunk: Chunk) -> None:
    """As 60 taxis of a real city do: a handful of times a week and more, and nearly all of them."""
    good = _clean(chunk)
    samples = chunk.samples.take(np.flatnonzero(good))
    _, who = np.unique(samples.object_id, return_inverse=True)
    window = samples.at_us // 300_000_000
    cell = np.column_stack([np.floor(samples.x / 0.0071), np.floor(samples.y / 0.0045), window])
    there = np.unique(np.column_stack([cell, who]), axis=0)
    _, crowd, size = np.unique(there[:, :3], axis=0, return_inverse=True, return_counts=True)
    met = np.bincount(there[size[crowd.ravel()] > 1, 3].astype(np.int64), minlength=60)
    assert 5 <= np.median(met) <= 100
    assert (met == 0).mean() < 0.1
