"""Exposure: every attack against a naive one on tiny random worlds, and at its limits."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sides import MINUTE, Rows, side_of

from freqdp_db.evaluation.attacks.claims import AttackScore, area_under_curve, found_at, score_picks
from freqdp_db.evaluation.attacks.devices import device_exposures
from freqdp_db.evaluation.attacks.exposure import (
    edits_exposure,
    inserted_samples,
    is_exposure,
    measure_exposure,
    measure_membership,
    membership,
)
from freqdp_db.evaluation.attacks.habits import home_exposure, resting_place
from freqdp_db.evaluation.attacks.known_samples import (
    KnownSamples,
    Sighted,
    SightingIndex,
    draw_known,
    held_samples,
)
from freqdp_db.evaluation.attacks.relinking import find_runs
from freqdp_db.evaluation.attacks.signatures import pick_by_clock, pick_by_cosine, tf_idf
from freqdp_db.evaluation.pair import Case, Pair, ReleaseSeen
from freqdp_db.model.arrays import Groups
from freqdp_db.model.trajectories import Areas, Locations, Trajectories

GRID = Locations(150.0 * (np.arange(36) % 6), 150.0 * (np.arange(36) // 6))


def rng_of(*seed: int) -> np.random.Generator:
    return np.random.default_rng(list(seed))


def random_rows(rng: np.random.Generator, count: int, places: int = 36, most: int = 9) -> Rows:
    return [
        [
            (int(rng.integers(places)), float(m))
            for m in np.sort(rng.integers(0, 40, rng.integers(most)))
        ]
        for _ in range(count)
    ]


@pytest.fixture
def city() -> tuple[Trajectories, Locations]:
    """Forty wanderers over four days, each with a home of its own at night."""
    rng = rng_of(1, 2)
    rows: Rows = []
    for t in range(40):
        row, here = [], rng.integers(0, 900)
        for minute in range(0, 4 * 1440, 15):
            night = minute % 1440 < 360
            here = 900 + t if night else (here + rng.choice([-31, -30, -1, 1, 30, 31])) % 900
            row.append((int(here), minute + t / 50))
        rows.append(row)
    places = Locations(
        np.append(400.0 * (np.arange(900) % 30), 400.0 * rng.uniform(0, 30, 40)),
        np.append(400.0 * (np.arange(900) // 30), 400.0 * rng.uniform(0, 30, 40)),
    )
    return side_of(rows), places


def naive_score(case: Case, u: int, claim: list[int], known: set[int]) -> tuple[float, float]:
    release, side = case.release, case.release.trajectories
    mine = range(case.original.offsets[u], case.original.offsets[u + 1])

    def near(i: int, p: int) -> bool:
        t, at = int(case.original.at[i]), int(side.at[p])
        if release.areas is not None:
            a = release.areas
            small = a.x_max[p] - a.x_min[p] <= 500 and a.y_max[p] - a.y_min[p] <= 500
            small &= bool(a.until[p] - at <= 10 * MINUTE)
            inside = a.x_min[p] <= case.x[i] <= a.x_max[p] and a.y_min[p] <= case.y[i] <= a.y_max[p]
            return bool(small and inside and at <= t <= a.until[p])
        way = math.hypot(case.x[i] - release.x[p], case.y[i] - release.y[p])
        return way <= 200 and abs(t - at) <= 5 * MINUTE

    left = [i for i in mine if i not in known]
    found = sum(any(near(i, p) for p in claim) for i in left)
    right = sum(any(near(i, p) for i in mine) for p in claim)
    return (found / len(left) if left else math.nan, right / len(claim) if claim else math.nan)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("areas", [False, True])
def test_worth_of_a_claim(seed: int, areas: bool) -> None:
    rng = rng_of(3, seed)
    original, released = side_of(random_rows(rng, 6)), side_of(random_rows(rng, 8))
    boxes = None
    if areas:
        x, y = GRID.x[released.location], GRID.y[released.location]
        wide, long = rng.uniform(0, 350, len(x)), rng.integers(0, 14, len(x)) * MINUTE
        boxes = Areas(x - wide, y - wide, x + wide, y + wide, released.at + long)
    case = Case(original, GRID, ReleaseSeen(released, GRID, areas=boxes))
    pick = rng.integers(-1, 8, 6)
    known = rng.random(original.samples) < 0.2
    score = score_picks(case, pick, known)
    for u in range(6):
        claim = [] if pick[u] < 0 else list(range(*released.offsets[pick[u] : pick[u] + 2]))
        expected = naive_score(case, u, claim, set(np.flatnonzero(known).tolist()))
        assert (score.found[u], score.right[u]) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("seed", range(3))
def test_worth_of_a_claim_of_many_samples(seed: int) -> None:
    """Walkers who are sampled every few seconds: of each, many samples lie within five minutes."""
    rng = rng_of(31, seed)
    places = Locations(90.0 * (np.arange(900) % 30), 90.0 * (np.arange(900) // 30))

    def walks(count: int) -> Trajectories:
        rows: Rows = []
        for _ in range(count):
            steps = rng.choice([-31, -30, -29, -1, 0, 0, 0, 1, 29, 30, 31], rng.integers(1, 400))
            at = np.cumsum(rng.choice([1, 3, 5, 60], len(steps), p=[0.4, 0.3, 0.25, 0.05])) / 60
            rows.append(list(zip(((450 + np.cumsum(steps)) % 900).tolist(), at, strict=True)))
        return side_of(rows)

    case = Case(walks(4), places, ReleaseSeen(walks(4), places))
    pick = np.arange(4)
    score = score_picks(case, pick)
    offsets = case.release.trajectories.offsets
    for u in range(4):
        expected = naive_score(case, u, list(range(*offsets[u : u + 2])), set())
        assert (score.found[u], score.right[u]) == pytest.approx(expected)
    assert np.nanmin(score.found) > 0 and np.nanmax(score.found) < 1


def test_names_of_a_score() -> None:
    share = np.array([0.5, np.nan, np.nan, 0.0])
    score = AttackScore(np.array([1.0, 0.4, np.nan, 0.0]), share, np.array([1, 0, 0, 3]))
    assert score.named("e") == pytest.approx(
        {"e": 1.4 / 3, "e.precision": 0.25, "e.half": 1 / 3, "e.p95": 0.94}
    )


@pytest.mark.parametrize("seed", range(8))
def test_most_alike_by_cosine(seed: int) -> None:
    rng = rng_of(4, seed)
    original, released = side_of(random_rows(rng, 7, 12)), side_of(random_rows(rng, 11, 12))
    vectors = [tf_idf(side, 12) for side in (original, released)]
    dense = []
    for v in vectors:
        matrix = np.zeros((len(v), 12))
        owner = np.repeat(np.arange(len(v)), np.diff(v.offsets))
        matrix[owner, v.dimension] = v.weight
        dense.append(matrix)
    like = dense[0] @ dense[1].T
    pick, best = pick_by_cosine(vectors[0], vectors[1], 12, rng)
    for u in range(7):
        assert best[u] == pytest.approx(like[u].max())
        ties = (
            np.flatnonzero(like[u] >= like[u].max() - 1e-9).tolist()
            if like[u].max() > 1e-9
            else [-1]
        )
        assert pick[u] in ties


def test_ties_are_broken_at_random() -> None:
    same = side_of([[(0, 0.0), (1, 1.0)]] * 5 + [[(2, 0.0)]])
    vectors = tf_idf(same, 3)
    picks = {int(pick_by_cosine(vectors, vectors, 3, rng_of(5, s))[0][0]) for s in range(60)}
    assert picks == {0, 1, 2, 3, 4}
    picks = {int(pick_by_clock(Pair(same, same, GRID), rng_of(5, s))[0]) for s in range(60)}
    assert picks == {0, 1, 2, 3, 4, 5}


def naive_sight(case: Case, known: KnownSamples, u: int) -> tuple[set[int], int]:
    side, release = case.release.trajectories, case.release
    scores = []
    for t in range(len(side)):
        score = 0
        for i in known.position[known.offsets[u] : known.offsets[u + 1]]:
            rows = range(side.offsets[t], side.offsets[t + 1])
            at = release.coarse(case.original.at[i])
            way = [math.hypot(release.x[p] - case.x[i], release.y[p] - case.y[i]) for p in rows]
            late = [abs(int(side.at[p]) - int(at)) for p in rows]
            score += any(w <= 200 and t <= 5 * MINUTE for w, t in zip(way, late, strict=True))
            score += 1000 * any(w == 0 and t == 0 for w, t in zip(way, late, strict=True))
        scores.append(score)
    best = max(scores)
    return ({t for t, s in enumerate(scores) if s == best} if best else {-1}), best


@pytest.mark.parametrize("step", [None, 4 * MINUTE])
@pytest.mark.parametrize("seed", range(8))
def test_the_best_fit_of_known_samples(seed: int, step: int | None) -> None:
    rng = rng_of(6, seed)
    original, released = side_of(random_rows(rng, 7)), side_of(random_rows(rng, 9))
    if step:
        released = replace(released, at=released.at // step * step)
    case = Case(original, GRID, ReleaseSeen(released, GRID, time_step_us=step))
    known = draw_known(case, 3, rng)
    sighted = SightingIndex(case.release).find(case, known, rng)
    for u in range(7):
        picks, best = naive_sight(case, known, u)
        assert sighted.pick[u] in picks
        assert sighted.score[u] == best


def test_areas_that_contain_what_is_known() -> None:
    original = side_of([[(0, 0), (1, 10)], [(35, 0), (35, 10)]])
    released = side_of([[(35, 0), (35, 9)], [(0, 0), (0, 9)]])
    x, y = GRID.x[released.location], GRID.y[released.location]
    areas = Areas(x - 200, y - 200, x + 200, y + 200, released.at + 2 * MINUTE)
    case = Case(original, GRID, ReleaseSeen(released, GRID, areas=areas))
    sighted = SightingIndex(case.release).find(case, draw_known(case, 2, rng_of(1)), rng_of(2))
    assert sighted.pick.tolist() == [1, 0]
    assert sighted.score.tolist() == [2, 2]


def test_identity_gives_everything_away(city: tuple[Trajectories, Locations]) -> None:
    side, places = city
    found = measure_exposure(Case(side, places, ReleaseSeen(side, places)), 1)
    for name, value in found.items():
        # by the clock all are alike
        if is_exposure(name) and ".b" not in name and ".t." not in name and "habits" not in name:
            assert value == pytest.approx(1.0), name
    assert found["exposure"] == found["home"] == 1.0
    assert found["exposure.habits"] > 0.3 and found["habits"] > 0.5, "of forty"
    assert "edits.auc" not in found and "relink" not in found


@pytest.mark.parametrize("shown", ["time_step_us", "clock_us"])
def test_hours_tell_when_somebody_was_there(
    city: tuple[Trajectories, Locations], shown: str
) -> None:
    """Whole hours do not hide who was where in that hour, and are not counted as if they did."""
    side, places = city
    hour = 3_600_000_000
    # ticks are the nearest ones, steps begin before
    begin = side.at if shown == "time_step_us" else side.at + (hour - 1) // 2
    coarse = replace(side, at=begin // hour * hour)
    values: dict[str, Any] = {shown: hour}
    release = ReleaseSeen(coarse, places, **values)
    found = measure_exposure(Case(side, places, release), 1)
    assert found["exposure.x.10"] == pytest.approx(1.0)


def test_shuffled_identities_are_near_chance(city: tuple[Trajectories, Locations]) -> None:
    """At every instant the samples are dealt anew: a released trajectory is everybody's."""
    side, places = city
    # every hour will do
    side = side.where(np.arange(side.samples) % 4 == 0)
    own_seconds = by_devices(_dealt_anew(side, places))
    assert own_seconds["exposure.second.10"] == 1.0, "each has a second of its own"
    side = replace(side, at=side.at // MINUTE * MINUTE)
    found = measure_exposure(_dealt_anew(side, places), 1)
    # a few are near each other by chance; and a sample that is known is followed one step or two
    nights = ("exposure.relink.1", "exposure.relink.10", "exposure.habits")
    others = {n: v for n, v in found.items() if is_exposure(n) and n not in nights}
    # what stands near ten known samples is claimed as boldly as it is right every second time
    assert others.pop("exposure.near.10") < 0.15
    assert max(others.values()) < 0.1
    # who stays at home is joined there, and known by it, for a quarter of the day
    assert max(found[name] for name in nights) < 0.3
    assert found["home"] < 0.3


def by_devices(case: Case) -> dict[str, float]:
    """What is learnt by how devices write, from ten known samples."""
    known = draw_known(case, 10, rng_of(1), held_samples(case))
    sighted = SightingIndex(case.release).find(case, known, rng_of(1))
    return device_exposures(case, find_runs(case.release), 10, known, sighted)


def _dealt_anew(side: Trajectories, places: Locations) -> Case:
    rng = rng_of(9)
    steps = int(side.lengths[0])
    dealt = np.column_stack([rng.permutation(len(side)) for _ in range(steps)])
    source = (side.offsets[:-1][dealt] + np.arange(steps)).reshape(-1)
    mixed = Trajectories(side.offsets, side.location[source], side.at[source], side.start)
    order = np.lexsort((mixed.at, np.repeat(np.arange(len(side)), steps)))
    mixed = replace(mixed, location=mixed.location[order], at=mixed.at[order])
    owner = dealt.reshape(-1)[order].astype(np.int32)
    stop = (np.arange(steps)[:, None] + steps * np.arange(len(side))[None, :]).reshape(-1)
    groups = Groups(np.arange(steps + 1) * len(side), stop, np.zeros(steps, np.int32))
    return Case(side, places, ReleaseSeen(mixed, places, owner, groups=groups))


def test_home_is_where_the_nights_are() -> None:
    night, day = 23.5 * 60, 12 * 60
    side = side_of(
        [
            [(1, day + k) for k in range(5)] + [(2, night), (2, night + 1), (3, night + 2)],
            [(4, day)],
        ]
    )
    assert resting_place(side, "UTC").tolist() == [2, -1]
    assert resting_place(side, "Asia/Shanghai").tolist() == [-1, -1]
    told = side_of([[(7, night)], [(4, night)]])
    for released, right in ((side, 1.0), (told, 0.0)):
        case = Case(side, GRID, ReleaseSeen(released, GRID))
        sighted = Sighted(np.array([0, 1]), np.zeros(0, np.int64), np.zeros(2, np.int64))
        assert home_exposure(case, sighted)["home"] == right


def test_curve_and_false_alarms() -> None:
    a, b = np.array([3.0, 2.0, 1.0]), np.array([2.0, 0.0])
    wins = np.mean([[1.0 if p > n else 0.5 if p == n else 0.0 for n in b] for p in a])
    assert area_under_curve(a, b) == pytest.approx(wins)
    assert found_at(np.arange(200.0), np.arange(100.0), 0.01) == pytest.approx(101 / 200)
    assert found_at(np.zeros(50), np.zeros(50), 0.01) == 0.0


def test_membership_has_power(city: tuple[Trajectories, Locations]) -> None:
    side, places = city
    half = 20 * int(side.lengths[0])
    first = Trajectories(side.offsets[:21], side.location[:half], side.at[:half], side.start[:20])
    second = Trajectories(
        side.offsets[20:] - half, side.location[half:], side.at[half:], side.start[20:]
    )
    case = Case(first, places, ReleaseSeen(first, places))
    found = measure_exposure(case, 1) | measure_membership(case, 1, second)
    assert found["membership.auc"] > 0.95 and found["membership.tpr1"] > 0.95
    assert found["exposure.x.4.control"] < 0.1 < found["exposure.x.4"]
    assert found["exposure.x.4.half.control"] < 0.1 < found["exposure.x.4.half"]
    # a release that neither half is in
    rng = rng_of(8)
    third = replace(
        first, location=rng.integers(0, 900, half).astype(np.int32), at=first.at + MINUTE // 3
    )
    release = ReleaseSeen(third, places)
    cases = [Case(s, places, release) for s in (first, second)]
    chance = membership(cases[0], cases[1], SightingIndex(release), rng)
    assert 0.2 < chance["membership.auc.places"] < 0.8


def test_inserted_samples_are_told_if_they_look_different(
    city: tuple[Trajectories, Locations],
) -> None:
    side, places = city
    rng = rng_of(12)
    far = rng.random(side.samples) < 0.2
    location = np.where(far, rng.integers(0, 900, side.samples), side.location).astype(np.int32)
    case = Case(side, places, ReleaseSeen(replace(side, location=location), places))
    assert (inserted_samples(case) == (location != side.location)).all()
    assert edits_exposure(case, rng_of(1))["edits.auc"] > 0.8
    # true places, told by their times alone
    late = replace(side, at=side.at + 1 + far * 20_000_000)
    by_times = edits_exposure(
        Case(replace(side, at=side.at + 1), places, ReleaseSeen(late, places)), rng_of(1)
    )
    assert by_times["edits.auc"] > by_times["edits.auc.visits"] + 0.2
    assert by_times["edits.auc.visits"] < 0.6
    # inserted by definition, but nothing shows it
    renamed = Case(replace(side, at=side.at + far), places, ReleaseSeen(side, places))
    assert edits_exposure(renamed, rng_of(1))["edits.auc"] < 0.6


def test_a_release_with_places_of_its_own_and_an_empty_one(
    city: tuple[Trajectories, Locations],
) -> None:
    side, places = city
    own = Locations(places.x + 1.0, places.y)
    nobody = np.full(side.samples, -1, np.int32)
    found = measure_exposure(Case(side, places, ReleaseSeen(side, own, nobody)), 1)
    assert "exposure.habits" not in found and "edits.auc" not in found
    assert found["exposure.s.a.full"] == 1.0
    nothing = Trajectories(
        np.zeros(3, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(2, np.int64)
    )
    found = measure_exposure(Case(side, places, ReleaseSeen(nothing, places, pieces=True)), 1)
    assert found["exposure"] == 0.0
    assert all(math.isfinite(v) for v in found.values())
