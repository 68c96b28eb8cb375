"""Exposure: every attack against a naive one on tiny random worlds, and at its limits."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from sides import MINUTE, Rows, side_of

from freqdp_db.evaluation.attacks.claims import AttackScore, area_under_curve, score_picks
from freqdp_db.evaluation.attacks.edits import edits_exposure, inserted_samples, log_odds
from freqdp_db.evaluation.attacks.exposure import (
    found_at,
    is_exposure,
    measure_exposure,
    measure_membership,
    membership,
)
from freqdp_db.evaluation.attacks.following import (
    HORIZONS_H,
    find_swap_points,
    follow,
    following_exposures,
    relink,
)
from freqdp_db.evaluation.attacks.habits import (
    home_exposure,
    pick_by_likelihood,
    profile_exposures,
    resting_place,
)
from freqdp_db.evaluation.attacks.known_samples import (
    KnownSamples,
    Sighted,
    SightingIndex,
    draw_known,
    sighting_exposures,
)
from freqdp_db.evaluation.attacks.signatures import (
    pick_by_clock,
    pick_by_cosine,
    tf_idf,
)
from freqdp_db.evaluation.pair import Case, Pair, ReleaseSeen
from freqdp_db.model.arrays import Groups, offsets_from
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
    score = AttackScore(np.array([1.0, 0.4, np.nan, 0.0]), np.array([0.5, np.nan, np.nan, 0.0]))
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
        if is_exposure(name) and ".b" not in name and ".t." not in name:
            assert value == pytest.approx(1.0), name
    assert found["exposure"] == found["home"] == 1.0
    assert found["exposure.follow.1.1h"] < 0.1
    assert found["profile.s.cosine"] == 1.0
    assert "edits.auc" not in found and "relink" not in found


def test_shuffled_identities_are_near_chance(city: tuple[Trajectories, Locations]) -> None:
    """At every instant the samples are dealt anew: a released trajectory is everybody's."""
    side, places = city
    assert _dealt_anew(side, places)["exposure.second.10"] == 1.0, "each has a second of its own"
    side = replace(side, at=side.at // MINUTE * MINUTE)
    found = _dealt_anew(side, places)
    # a few are near each other by chance; and a sample that is known is followed one step or two
    assert found["exposure"] < 0.1
    assert found["profile"] < 0.1
    assert found["home"] < 0.3


def _dealt_anew(side: Trajectories, places: Locations) -> dict[str, float]:
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
    release = ReleaseSeen(mixed, places, owner, groups=groups)
    return measure_exposure(Case(side, places, release), 1)


def crossing(swapped: bool) -> tuple[Case, Groups]:
    """Two objects cross at one place, eastward and northward, and may be dealt to each other."""
    places = Locations(
        np.concatenate([300.0 * np.arange(-8, 9), np.zeros(17)]),
        np.concatenate([np.zeros(17), 300.0 * np.arange(-8, 9)]),
    )
    east = [(k, float(k)) for k in range(17)]
    north = [(17 + k, k + 0.25) for k in range(17)]
    original = side_of([east, north])
    a, b = (east[:9] + north[9:], north[:9] + east[9:]) if swapped else (east, north)
    owner = np.repeat(np.array([0, 1, 1, 0] if swapped else [0, 0, 1, 1], np.int32), [9, 8, 9, 8])
    groups = Groups(np.array([0, 2]), np.array([8, 25]), np.zeros(1, np.int32))
    release = ReleaseSeen(side_of([a, b]), places, owner, groups=groups)
    return Case(original, places, release), groups


@pytest.mark.parametrize("swapped", [False, True])
def test_the_follower_keeps_its_course(swapped: bool) -> None:
    case, _ = crossing(swapped)
    index, swap_points = SightingIndex(case.release), find_swap_points(case.release)
    known = KnownSamples(np.array([0, 1, 2]), np.array([2, 19]))
    sighted = index.find(case, known, rng_of(1))
    for by_rhythm in (False, True):
        score = follow(case, swap_points, known, sighted, by_rhythm=by_rhythm)[-1]
        assert score.found.tolist() == [1.0, 1.0]
        assert score.right.tolist() == [1.0, 1.0]
    assert relink(case.release, swap_points) == {"relink": 1.0, "relink.rhythm": 1.0}
    if swapped:  # whoever takes the id for the object is wrong half of the way
        assert score_picks(case, sighted.pick).found.max() < 0.8


def test_a_follower_is_led_astray_by_a_turn() -> None:
    """Both turn where they meet: the least change of velocity is the other one's way."""
    case, groups = crossing(swapped=True)
    turned = replace(
        case,
        original=case.release.trajectories,
        release=replace(case.release, owner=np.repeat(np.array([0, 1], np.int32), 17)),
    )
    swap_points = find_swap_points(turned.release)
    assert relink(turned.release, swap_points) == {"relink": 0.0, "relink.rhythm": 0.0}
    seen = {1: (known := KnownSamples(np.array([0, 1, 2]), np.array([2, 19])),
                SightingIndex(turned.release).find(turned, known, rng_of(1)))}  # fmt: skip
    found = following_exposures(turned, swap_points, seen)
    assert found["exposure.follow.1.endless"] < 0.7
    assert len(groups) == 1


def test_rhythm_tells_what_velocity_does_not() -> None:
    """Two objects at one place, one seen every minute, the other every seven."""
    places = Locations(np.zeros(1), np.zeros(1))
    quick, slow = [(0, float(k)) for k in range(60)], [(0, 7.0 * k + 0.5) for k in range(9)]
    rows: Rows = [quick[:30] + slow[5:], slow[:5] + quick[30:]]
    owner = np.repeat(np.array([0, 1, 1, 0], np.int32), [30, 4, 5, 30])
    groups = Groups(np.array([0, 2]), np.array([29, 38]), np.zeros(1, np.int32))
    release = ReleaseSeen(side_of(rows), places, owner, groups=groups)
    assert relink(release, find_swap_points(release))["relink.rhythm"] == 1.0


def test_pieces_are_joined_by_place_time_and_velocity() -> None:
    places = Locations(100.0 * np.arange(40), np.repeat([0.0, 900.0], 20))
    walks = [[(row * 20 + k, k + 0.1 * row) for k in range(20)] for row in range(2)]
    pieces = [walk[a : a + 4] for walk in walks for a in range(0, 20, 5)]
    owner = np.repeat(np.array([0, 1], np.int32), 16)
    release = ReleaseSeen(side_of(pieces), places, owner, pieces=True)
    swap_points = find_swap_points(release)
    assert relink(release, swap_points)["relink"] == 1.0
    assert swap_points.before.tolist()[1:4] == [3, 7, 11]
    case = Case(side_of(walks), places, release)
    known = KnownSamples(np.array([0, 1, 2]), np.array([6, 26]))
    sighted = SightingIndex(release).find(case, known, rng_of(1))
    assert follow(case, swap_points, known, sighted, by_rhythm=False)[-1].found.tolist() == [
        1.0,
        1.0,
    ]
    # without knowing that they are pieces, a piece is all there is
    alone = find_swap_points(replace(release, pieces=False))
    assert follow(case, alone, known, sighted, by_rhythm=False)[-1].found.max() < 0.7


def test_a_follower_never_goes_in_circles() -> None:
    """Pieces that end and begin where groups meet, in any order of equal times: it always stops."""
    for seed in range(30):
        rng = rng_of(13, seed)
        rows = [
            [(0, float(rng.integers(0, 6))) for _ in range(rng.integers(1, 3))] for _ in range(12)
        ]
        side = side_of([sorted(row, key=lambda sample: sample[1]) for row in rows])
        window = side.at // (2 * MINUTE)
        last = np.flatnonzero(np.diff(window, append=-1) | ReleaseSeen(side, GRID).ends)
        parts = [last[window[last] == w] for w in np.unique(window[last])]
        parts = [part for part in parts if len(part) > 1]
        groups = Groups(
            offsets_from(np.array([len(part) for part in parts], np.int64)),
            np.concatenate(parts),
            np.zeros(len(parts), np.int32),
        )
        release = ReleaseSeen(side, GRID, groups=groups, pieces=True)
        case = Case(side, GRID, release)
        known = draw_known(case, 1, rng)
        sighted = SightingIndex(release).find(case, known, rng)
        for by_rhythm in (False, True):
            follow(case, find_swap_points(release), known, sighted, by_rhythm=by_rhythm)


def test_horizons_and_even_odds() -> None:
    side = side_of([[(k % 36, 10.0 * k) for k in range(300)]])
    case = Case(side, GRID, ReleaseSeen(side, GRID))
    known = KnownSamples(np.array([0, 1]), np.array([150]))
    sighted = SightingIndex(case.release).find(case, known, rng_of(1))
    found = following_exposures(case, find_swap_points(case.release), {1: (known, sighted)})
    for horizon, hours in HORIZONS_H.items():
        share = 1.0 if hours is None else min(12 * hours / 299, 1.0)
        assert found[f"exposure.follow.1.{horizon}"] == pytest.approx(share, abs=0.01)
    assert found["exposure.follow.1"] == 1.0
    # a claim that is right less than every second time does not count
    lost = Sighted(np.array([-1]), np.array([-1]), np.array([0]))
    assert (
        following_exposures(case, find_swap_points(case.release), {1: (known, lost)})[
            "exposure.follow.1"
        ]
        == 0.0
    )


@pytest.mark.parametrize("seed", range(5))
def test_habits_by_likelihood(seed: int) -> None:
    rng = rng_of(7, seed)
    original, released = side_of(random_rows(rng, 5, 6)), side_of(random_rows(rng, 6, 6))
    pick = pick_by_likelihood(original, released, 6)
    counts = [
        np.array(
            [
                np.bincount(s.location[a:b], minlength=6)
                for a, b in zip(s.offsets, s.offsets[1:], strict=False)
            ]
        )
        for s in (original, released)
    ]
    common = counts[0].sum(axis=0) / max(counts[0].sum(), 1)
    for t in range(6):
        seen = (counts[1][t] > 0) & (common > 0)
        if not seen.any():
            assert pick[t] == -1
            continue
        score = [
            (
                counts[1][t][seen] * np.log(0.8 * c[seen] / max(c.sum(), 1) + 0.2 * common[seen])
            ).sum()
            for c in counts[0]
        ]
        assert score[pick[t]] == pytest.approx(max(score))


def test_profile_needs_habits(city: tuple[Trajectories, Locations]) -> None:
    side, places = city
    assert (
        profile_exposures(Case(side, places, ReleaseSeen(side, places)), rng_of(1))["profile"]
        == 1.0
    )
    stranger = ReleaseSeen(
        side, places, (np.repeat(np.arange(40), side.lengths) + 1).astype(np.int32) % 40
    )
    assert profile_exposures(Case(side, places, stranger), rng_of(1))["profile"] == 0.0


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


def test_boosting_learns_what_there_is() -> None:
    rng = rng_of(11)
    features = rng.normal(size=(4000, 5))
    answer = (features[:, 0] * features[:, 3] > 0) ^ (rng.random(4000) < 0.05)
    score = log_odds(features[:2000], answer[:2000], features[2000:])
    truth = answer[2000:]
    assert area_under_curve(score[truth], score[~truth]) > 0.9
    noise = rng.random(4000) < 0.3
    score = log_odds(features[:2000], noise[:2000], features[2000:])
    truth = noise[2000:]
    assert 0.42 < area_under_curve(score[truth], score[~truth]) < 0.58


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
    assert found["profile"] == 0.0 and "edits.auc" not in found
    assert found["exposure.s.a.full"] == 1.0
    nothing = Trajectories(
        np.zeros(3, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(2, np.int64)
    )
    found = measure_exposure(Case(side, places, ReleaseSeen(nothing, places, pieces=True)), 1)
    assert found["exposure"] == 0.0
    assert all(math.isfinite(v) for v in found.values())


def test_metrics_do_not_change_from_run_to_run(city: tuple[Trajectories, Locations]) -> None:
    side, places = city
    case = Case(side, places, ReleaseSeen(side, places))
    once = partial(sighting_exposures, case, SightingIndex(case.release))
    assert once(rng_of(1))[0] == once(rng_of(1))[0]
