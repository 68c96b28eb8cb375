"""Near known, the re-linker and habits: power on what is not protected, chance on what is shuffled."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sides import MINUTE, Rows, side_of
from test_exposure import GRID, naive_score, random_rows, rng_of

from freqdp_db.evaluation.attacks.claims import (
    AttackScore,
    Claims,
    area_under_curve,
    best_at_even_odds,
    score_claims,
)
from freqdp_db.evaluation.attacks.exposure import measure_exposure
from freqdp_db.evaluation.attacks.habits import habit_exposures
from freqdp_db.evaluation.attacks.known_samples import (
    KnownSamples,
    Sighted,
    SightingIndex,
    draw_known,
    held_samples,
    near_known,
)
from freqdp_db.evaluation.attacks.learning import LEAST, halves, trees
from freqdp_db.evaluation.attacks.relinking import (
    Links,
    Pairs,
    Runs,
    assign,
    claim_linked,
    find_joints,
    find_runs,
    learn_links,
    posteriors,
    relinked_exposures,
)
from freqdp_db.evaluation.pair import Case, ReleaseSeen
from freqdp_db.methods.contract import Undated
from freqdp_db.model.arrays import Groups, Ids
from freqdp_db.model.trajectories import Areas, Locations, Trajectories

QUIET = 5


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("areas", [False, True])
def test_near_known_claims_what_is_near(seed: int, areas: bool) -> None:
    rng = rng_of(3, seed)
    original, released = side_of(random_rows(rng, 6)), side_of(random_rows(rng, 8))
    boxes = None
    if areas:
        x, y = GRID.x[released.location], GRID.y[released.location]
        boxes = Areas(x - 200, y - 200, x + 200, y + 200, released.at + 3 * MINUTE)
    case = Case(original, GRID, ReleaseSeen(released, GRID, areas=boxes))
    known = draw_known(case, 3, rng)
    where = rng.integers(-1, released.samples, len(known.position))
    sighted = Sighted(np.full(6, -1), where, np.zeros(6, np.int64))
    windows = (5 * MINUTE, 12 * MINUTE, 2**62)
    scores = near_known(case, known, sighted, windows)
    for u in range(6):
        mine = slice(known.offsets[u], known.offsets[u + 1])
        for window, score in zip(windows, scores, strict=True):
            claim = {
                p
                for w in where[mine].tolist()
                if w >= 0
                for p in range(released.samples)
                if released.owner[p] == released.owner[w]
                and abs(int(released.at[p]) - int(released.at[w])) <= window
            }
            expected = naive_score(case, u, sorted(claim), set(known.position[mine].tolist()))
            assert (score.found[u], score.right[u]) == pytest.approx(expected, nan_ok=True)


def test_known_samples_are_among_those_that_the_release_holds() -> None:
    original = side_of([[(0, 0), (1, 1), (2, 2)], [(3, 0), (4, 1), (5, 9)]])
    # object 1's sample under another id, one in another place, one at another time
    released = side_of([[(0, 0), (4, 1)], [(9, 1), (5, 8)]])
    owner = np.array([0, 1, 0, 1], np.int32)
    case = Case(original, GRID, ReleaseSeen(released, GRID, owner))
    held = held_samples(case)
    assert held is not None and held.tolist() == [True, False, False, False, True, False]
    known = draw_known(case, 4, rng_of(1), held)
    assert known.offsets.tolist() == [0, 1, 2] and known.position.tolist() == [0, 4]
    # on a clock and in grains, as the release shows them
    shown = Locations((np.floor(GRID.x / 300) + 0.5) * 300, (np.floor(GRID.y / 300) + 0.5) * 300)
    late = replace(released, at=released.at // (4 * MINUTE) * (4 * MINUTE))
    coarse = ReleaseSeen(late, shown, owner, time_step_us=4 * MINUTE, grain_m=300.0)
    held = held_samples(Case(original, GRID, coarse))
    assert held is not None and held.tolist() == [True, True, True, False, True, True]
    assert held_samples(Case(original, GRID, replace(coarse, owner=owner * 0 - 1))) is None


def test_even_odds_and_what_halves_differ_by() -> None:
    right, claimed = np.full(4, 0.9), np.full(4, 10)
    found = [np.array([0.1, 0.1, 0.2, 0.2]), np.array([0.2, 0.2, 0.4, np.nan]), np.ones(4)]
    scores = [AttackScore(f, right, claimed) for f in found[:2]]
    parts = np.array([0, 0, 1, 1], np.int32)
    best = best_at_even_odds("e", scores, parts)
    assert best["e"] == pytest.approx(0.8 / 3)
    assert (best["e.low"], best["e.high"]) == pytest.approx((0.2, 0.4))
    wrong = AttackScore(found[2], right - 0.5, claimed)
    nothing = {"e": 0.0, "e.precision": 0.0, "e.half": 0.0, "e.p95": 0.0}
    assert best_at_even_odds("e", [wrong]) == nothing
    # margins of 0.4 and -0.1: the bold claim for four of five objects, the sure one for the fifth
    best = best_at_even_odds("e", [scores[0], wrong], parts)
    assert best["e"] == pytest.approx(0.2 * 0.15 + 0.8) and best["e.precision"] == 0.5
    assert (best["e.low"], best["e.high"]) == pytest.approx((0.2 * 0.1 + 0.8, 0.2 * 0.2 + 0.8))


@pytest.mark.parametrize("claimed", [(1, 99), (99, 1)])
def test_even_odds_over_objects_or_over_samples(claimed: tuple[int, int]) -> None:
    """A large claim that is right pays for a small wild one, and many right ones for a large wild one."""
    score = AttackScore(np.array([0.2, 0.4]), np.array([1.0, 0.0]), np.array(claimed))
    best = best_at_even_odds("e", [score])
    assert best["e"] == pytest.approx(0.3)
    assert best["e.precision"] == pytest.approx(max(0.5, claimed[0] / 100))
    worse = AttackScore(score.found, np.array([0.9, 0.0]), score.claimed)
    over = best_at_even_odds("e", [worse])["e"]
    assert over == (pytest.approx(0.3) if claimed[0] == 99 else 0.0)


def test_a_group_is_claimed_once_for_what_it_is_worth_most() -> None:
    who, group = np.array([2, 0, 2, 2]), np.array([1, 0, 0, 1])
    claims = Claims.of_groups(3, who, group, np.array([0.2, 0.9, 0.4, 0.7]), np.array([0, 2, 3]))
    assert claims.offsets.tolist() == [0, 2, 2, 5]
    assert claims.sample.tolist() == [0, 1, 0, 1, 2]
    assert claims.worth.tolist() == [0.9, 0.9, 0.4, 0.4, 0.7]


def test_objects_to_learn_from_and_to_attack_are_apart() -> None:
    learn = halves(11, rng_of(1))
    assert len(learn) == 4
    for first, second in (learn[:2], learn[2:]):
        assert (first ^ second).all() and first.sum() == 5
    assert not np.array_equal(learn[0], learn[2])


def test_trees_learn_what_there_is() -> None:
    rng = rng_of(11)
    features = rng.normal(size=(4000, 5)).astype(np.float32)
    answer = (features[:, 0] * features[:, 3] > 0) ^ (rng.random(4000) < 0.05)
    truth = answer[2000:]
    score = trees(features[:2000], answer[:2000])(features[2000:])
    assert area_under_curve(score[truth], score[~truth]) > 0.9
    noise = rng.random(4000) < 0.3
    truth = noise[2000:]
    score = trees(features[:2000], noise[:2000])(features[2000:])
    assert 0.42 < area_under_curve(score[truth], score[~truth]) < 0.58


def walkers(seed: int, count: int = 60, minutes: int = 240) -> tuple[Trajectories, Locations]:
    """People who walk straight on through one town, and turn now and then; a place for each sample."""
    rng = rng_of(20, seed)
    rows: Rows = []
    x, y = [], []
    for _ in range(count):
        here, course = rng.uniform(0, 20_000, 2), rng.uniform(0, 2 * np.pi)
        speed, row = rng.uniform(60, 500), []
        for minute in range(minutes):
            course += rng.normal(0, 0.05)
            here = here + speed * np.array([np.cos(course), np.sin(course)])
            row.append((len(x), float(minute)))
            x.append(here[0])
            y.append(here[1])
        rows.append(row)
    return side_of(rows), Locations(np.array(x), np.array(y))


def in_pieces(side: Trajectories, places: Locations, shuffled: bool = False) -> Case:
    """Pieces of 20 min with a quiet time between; shuffled: it is dealt anew whose each piece is."""
    minute = side.at // MINUTE % (20 + QUIET)
    kept = np.flatnonzero(minute < 20)
    piece = side.owner[kept].astype(np.int64) * 1000 + side.at[kept] // MINUTE // (20 + QUIET)
    offsets = np.append(np.flatnonzero(np.diff(piece, prepend=-1)), len(kept))
    pieces = Trajectories(
        offsets.astype(np.int64), side.location[kept], side.at[kept], side.at[kept[offsets[:-1]]],
        side.kept_of(kept),
    )  # fmt: skip
    owner: Ids = side.owner[kept]
    if shuffled:
        begins = pieces.at[pieces.offsets[:-1]]
        order = np.argsort(begins, kind="stable")
        dealt, rng = np.empty(len(pieces), np.int32), rng_of(5)
        for part in np.split(order, np.flatnonzero(np.diff(begins[order])) + 1):
            dealt[part] = rng.permutation(owner[pieces.offsets[:-1]][part])
        owner = dealt[pieces.owner]
    release = ReleaseSeen(pieces, places, owner, pieces=True, quiet_us=QUIET * MINUTE)
    return Case(side, places, release)


def relinked(case: Case, known: int = 1) -> dict[str, float]:
    rng = rng_of(7)
    samples = draw_known(case, known, rng, held_samples(case))
    seen = {known: (samples, SightingIndex(case.release).find(case, samples, rng))}
    return relinked_exposures(case, find_joints(case.release), seen, rng)


def test_pieces_are_joined_again() -> None:
    found = relinked(in_pieces(*walkers(1)))
    assert found["relink"] > 0.8 and found["relink.precision"] > 0.8
    # a piece is a twelfth of a walk, and one known sample leads to most of it
    assert found["exposure.relink.1"] > 0.5 and found["exposure.relink.1.precision"] > 0.5
    assert (
        found["exposure.relink.1.low"]
        <= found["exposure.relink.1"]
        <= found["exposure.relink.1.high"]
    )


def test_nothing_is_learnt_from_pieces_that_are_shuffled() -> None:
    side, places = walkers(2)
    case = in_pieces(side, places, shuffled=True)
    # whose a piece is was dealt anew: what goes on from it is one of sixty
    found = relinked(case)
    assert found["relink"] < 0.1
    assert found["exposure.relink.1"] < 0.12, "the known piece, and nothing beyond it"


def test_values_that_pieces_carry_along_join_them() -> None:
    """Whose each piece is was dealt anew, so that places say nothing; two people have each value."""
    side, places = walkers(4)
    town = Locations(places.x % 2_000, places.y % 2_000)
    case = in_pieces(side, town, shuffled=True)
    values = (case.release.owners % 30).astype(np.int16)
    found = []
    for kept in (None, values, rng_of(6).permutation(values)):
        carried = replace(case.release.trajectories, kept=kept)
        found.append(relinked(replace(case, release=replace(case.release, trajectories=carried))))
    without, told, noise = (f["relink"] for f in found)
    assert without < 0.1 and noise < 0.1
    assert told > 0.3 and found[1]["relink.precision"] > 0.3


def test_who_knows_a_sample_knows_its_values() -> None:
    """Two at one place and time: the value says which of them is meant."""
    rows: Rows = [[(0, 0.0), (1, 1.0)], [(0, 0.0), (2, 1.0)]]
    original = side_of(rows)
    for kept, right in ((None, 0.5), ([1, 1, 2, 2], 1.0), ([0, 0, 0, 0], 0.5)):
        codes = None if kept is None else np.array(kept, np.int16)
        side = replace(original, kept=codes)
        case = Case(side, GRID, ReleaseSeen(side, GRID))
        known = KnownSamples(np.array([0, 1, 2]), np.array([0, 2]))
        picks = [SightingIndex(case.release).find(case, known, rng_of(s)).pick for s in range(200)]
        assert np.mean(np.array(picks) == [0, 1]) == pytest.approx(right, abs=0.1)


def at_crossings(seed: int, fair: bool) -> ReleaseSeen:
    """A hundred pairs that cross at right angles and were swapped; fair: a coin says who went where."""
    rng = rng_of(30, seed)
    x, y, rows, owner, stop = [], [], [], [], []
    for pair in range(100):
        middle = rng.uniform(0, 1e6, 2)
        turned = fair and rng.random() < 0.5
        for who in range(2):
            row: list[tuple[int, float]] = []
            for k in range(-8, 9):
                # the released trajectory changes its course where it meets the other one
                east = (who == 0) == (k <= 0)
                row.append((len(x), 10.0 + k + who * 0.2))
                x.append(middle[0] + 300.0 * k * east)
                y.append(middle[1] + 300.0 * k * (not east))
            stop.append(17 * len(rows) + 8)
            mine, other = 2 * pair + who, 2 * pair + 1 - who
            owner += [mine] * 9 + [mine if turned else other] * 8
            rows.append(row)
    groups = Groups(2 * np.arange(101), np.array(stop), np.zeros(100, np.int32))
    places = Locations(np.array(x), np.array(y))
    return ReleaseSeen(side_of(rows), places, np.array(owner, np.int32), groups=groups)


def test_swaps_are_undone_where_courses_tell_and_not_where_a_coin_does() -> None:
    for fair, least, most in ((False, 0.9, 1.0), (True, 0.3, 0.7)):
        release = at_crossings(1, fair)
        order = np.lexsort((release.trajectories.at, release.owners))
        original = replace(
            release.trajectories,
            location=release.trajectories.location[order],
            at=release.trajectories.at[order],
        )
        found = relinked(Case(original, release.places, release))
        # of those who go on, a hundred pairs; chance is one half
        assert least <= found["relink.precision"] <= most


def test_what_is_learnt_does_not_depend_on_who_is_attacked() -> None:
    case = in_pieces(*walkers(3, count=30))
    joints = find_joints(case.release)
    assert joints is not None
    learn = np.arange(30) < 15
    others = joints.owner[joints.pairs.end] >= 15
    misled = replace(joints, true=np.where(others, ~joints.true, joints.true))
    for one, two in zip(
        vars(learn_links(joints, learn, rng_of(1))).values(),
        vars(learn_links(misled, learn, rng_of(1))).values(),
        strict=True,
    ):
        assert np.array_equal(one, two)


def test_candidates_know_the_quiet_time() -> None:
    case = in_pieces(*walkers(4, count=20))
    joints = find_joints(case.release)
    assert joints is not None
    at, runs = case.release.trajectories.at, joints.runs
    gap = at[runs.first[joints.pairs.start]] - at[runs.last[joints.pairs.end]]
    assert gap.min() >= QUIET * MINUTE
    assert len(np.unique(joints.pairs.end.astype(np.int64) << 32 | joints.pairs.start)) == len(gap)
    # what an object does next is among them, but where it is out of reach
    assert joints.true.sum() > 0.95 * joints.goes_on.sum()
    assert find_joints(replace(case.release, pieces=False)) is None


def test_posteriors_of_rivals_and_of_nobody() -> None:
    def of(end: list[int], start: list[int], odds: list[float]) -> list[float]:
        pairs = Pairs.of(np.array(end, np.int32), np.array(start, np.int32), 8)
        return posteriors(pairs, np.array(odds, np.float32)).tolist()

    assert of([0], [4], [9.0]) == pytest.approx([0.9])
    # two that may follow, or nobody
    assert of([0, 0], [4, 5], [3.0, 1.0]) == pytest.approx([0.6, 0.2])
    assert of([0, 1], [4, 4], [3.0, 1.0]) == pytest.approx([0.6, 0.2])
    # two ends and two starts, every way equally likely: each pair in 2 + ... of 7 matchings
    assert of([0, 0, 1, 1], [4, 5, 4, 5], [1.0] * 4) == pytest.approx([2 / 7] * 4, abs=0.02)


@pytest.mark.parametrize("seed", range(5))
def test_links_are_one_to_one_and_lead_to_an_end(seed: int) -> None:
    rng = rng_of(40, seed)
    end, start = np.divmod(rng.choice(400, 120, replace=False), 20)
    pairs = Pairs.of(end.astype(np.int32), start.astype(np.int32), 20)
    likely = rng.random(120).astype(np.float32)
    links = assign(pairs, likely, 20)
    there = np.flatnonzero(links.after >= 0)
    assert (links.before[links.after[there]] == there).all()
    assert np.array_equal(links.likely_before[links.after[there]], links.likely_after[there])
    # nothing is left that would fit and is likely
    for k in range(120):
        if likely[k] > 0.05:
            assert links.after[pairs.end[k]] >= 0 or links.before[pairs.start[k]] >= 0


def test_circles_of_links_end() -> None:
    side, places = walkers(6, count=3)
    case = in_pieces(side, places)
    runs = find_runs(case.release)
    after = (np.arange(len(runs)) + 1) % len(runs)
    sure = np.full(len(runs), 0.99, np.float32)
    links = Links(after, np.roll(np.arange(len(runs)), 1), sure, sure)
    known = draw_known(case, 1, rng_of(1), held_samples(case))
    sighted = SightingIndex(case.release).find(case, known, rng_of(1))
    claims = claim_linked(runs, links, known, sighted, np.ones(3, np.bool_))
    (score,) = score_claims(case, claims, (LEAST,))
    assert score.found.min() > 0.7


@pytest.mark.parametrize(
    ("likely", "circle", "met"), [(1.0, False, 3_000), (1.0, True, 3_000), (0.9, False, 1 + 2 * 28)]
)
def test_links_are_followed_while_they_are_likely(likely: float, circle: bool, met: int) -> None:
    """From the middle of 3,000 runs of a sample each; 0.9 to the power of 28 is just above 0.05."""
    each = np.arange(3_000)
    after, before = np.roll(each, -1), np.roll(each, 1)
    if not circle:
        after[-1] = before[0] = -1
    sure = np.full(len(each), likely, np.float32)
    known = KnownSamples(np.array([0, 1]), np.array([0]))
    sighted = Sighted(np.array([-1]), np.array([1_500]), np.array([0]))
    runs, links = Runs(np.arange(len(each) + 1), each), Links(after, before, sure, sure)
    claims = claim_linked(runs, links, known, sighted, np.ones(1, np.bool_))
    assert len(claims.sample) == met


def creatures(seed: int = 1, persons: int = 40, days: int = 8) -> tuple[Trajectories, Locations]:
    """Each has a home and a work place and goes there and back every day; all share a centre."""
    rng = rng_of(50, seed)
    places = Locations(rng.uniform(0, 20_000, 300), rng.uniform(0, 20_000, 300))
    rows: Rows = []
    for person in range(persons):
        home, work = person, 100 + int(rng.integers(0, 60))
        row = []
        for day in range(days):
            for hour in (7, 8, 17, 18):
                usual = home if hour in (7, 18) else work
                row.append((usual, day * 1440 + hour * 60 + rng.uniform(0, 20)))
                row.append((200 + int(rng.integers(0, 5)), day * 1440 + hour * 60 + 30.0))
        rows.append(row)
    return side_of(rows), places


def of_days(side: Trajectories, places: Locations, owner: Ids) -> Case:
    """A piece for each day and person."""
    day = side.at // (1440 * MINUTE)
    piece = side.owner.astype(np.int64) * 100 + day
    offsets = np.append(np.flatnonzero(np.diff(piece, prepend=-1)), side.samples).astype(np.int64)
    pieces = Trajectories(offsets, side.location, side.at, side.at[offsets[:-1]])
    return Case(side, places, ReleaseSeen(pieces, places, owner, pieces=True))


def test_habits_find_every_piece_of_a_person() -> None:
    side, places = creatures()
    found = habit_exposures(of_days(side, places, side.owner), rng_of(1))
    assert found["habits"] > 0.9
    assert found["exposure.habits"] > 0.8 and found["exposure.habits.precision"] > 0.5
    assert found["exposure.habits.low"] <= found["exposure.habits.high"]


@pytest.mark.parametrize(("at_home", "least", "most"), [(1, 0.4, 1.0), (3, 0.0, 0.02)])
def test_habits_in_single_samples_that_look_alike(at_home: int, least: float, most: float) -> None:
    """Who alone is at a place at an hour is found there; of three whom nothing tells apart, nobody is."""
    rng = rng_of(60)
    places = Locations(rng.uniform(0, 40_000, 40), rng.uniform(0, 40_000, 40))
    side = side_of(
        [
            [(person // at_home, day * 1440 + 20 * 60 + 20 * k + 6 * (person % at_home))
             for day in range(8) for k in range(12)]
            for person in range(40)
        ]
    )  # fmt: skip
    shown = side.at // (60 * MINUTE) % 24 * (60 * MINUTE)
    alone = Trajectories(np.arange(side.samples + 1), side.location, shown, shown)
    release = ReleaseSeen(
        alone, places, side.owner, pieces=True, undated=Undated(0, 1440 * MINUTE, side.at)
    )
    found = habit_exposures(Case(side, places, release), rng_of(1))
    assert least <= found["exposure.habits"] <= most


def test_habits_of_strangers_say_nothing() -> None:
    """Each day's piece is somebody's at random: nobody has habits."""
    side, places = creatures()
    day = side.at // (1440 * MINUTE)
    owner = np.empty(side.samples, np.int32)
    order = [rng_of(9, int(d)).permutation(40) for d in range(8)]
    for d, dealt in enumerate(order):
        owner[day == d] = dealt[side.owner[day == d]]
    # whose history is whose is dealt, too: D is what the owners did
    rows = np.lexsort((side.at, owner))
    original = replace(side, location=side.location[rows], at=side.at[rows])
    dealt = replace(of_days(side, places, owner), original=original)
    found = habit_exposures(dealt, rng_of(1))
    assert found["habits"] < 0.15
    assert found["exposure.habits"] < 0.1


def test_everything_counts_in_the_headline() -> None:
    case = in_pieces(*walkers(8, count=24))
    assert measure_exposure(case, 1, only=[]) == {}
    found = measure_exposure(case, 1)
    for attack in ("exposure.near.10", "exposure.relink.10"):
        assert (
            found[attack]
            <= found["exposure"]
            == max(
                value
                for name, value in found.items()
                if name.count(".") == 2 and "exposure" in name
            )
        )
    assert found["exposure.relink.1"] > found["exposure.near.1"]
    assert found["exposure.near.1"] < found["exposure.near.10"]


def test_some_objects_are_attacked_in_the_release_of_all() -> None:
    """Whom nobody looks for stays in the release; what is found of the others does not depend on it."""
    rng = rng_of(7)
    original, released = side_of(random_rows(rng, 30)), side_of(random_rows(rng, 30))
    case = Case(original, GRID, ReleaseSeen(released, GRID))
    some = np.array([3, 4, 11, 29])
    about = case.about(some)
    assert len(about) == 4 and about.original.samples == original.lengths[some].sum()
    assert about.release.trajectories is released
    assert set(np.unique(about.release.owners)) == {-1, 0, 1, 2, 3}
    assert (about.release.owners == 2).sum() == released.lengths[11]
    pick = np.zeros(30, np.int64)
    claims = Claims.of_groups(30, np.arange(30), pick, np.ones(30), released.offsets)
    (whole,) = score_claims(case, claims, (1.0,))
    theirs = Claims.of_groups(4, np.arange(4), pick[:4], np.ones(4), released.offsets)
    (part,) = score_claims(about, theirs, (1.0,))
    assert np.array_equal(part.found, whole.found[some], equal_nan=True)
    # all of them in any order are who was attacked before
    assert np.array_equal(case.about(np.arange(30)).release.owners, case.release.owners)
    # and they can be looked for again among some
    assert np.array_equal(
        about.about(np.array([2])).release.owners, np.where(case.release.owners == 11, 0, -1)
    )


def test_a_known_sample_that_is_nowhere_claims_nothing() -> None:
    case = in_pieces(*walkers(9, count=4))
    known = KnownSamples(np.arange(5), case.original.offsets[:-1])
    lost = Sighted(np.full(4, -1), np.full(4, -1), np.zeros(4, np.int64))
    for score in near_known(case, known, lost):
        assert (score.found == 0).all() and np.isnan(score.right).all()
