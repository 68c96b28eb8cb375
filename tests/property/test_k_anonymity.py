"""glove, klt and w4m over small worlds that are mostly corner, against naive references."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import naive_glove
import numpy as np
import pytest
from alone import MINUTE, PLACES, SECOND, WORLD, asked, carried_out, make
from hypothesis import given
from hypothesis import strategies as st
from small_worlds import SmallWorld, quick, thorough, worlds

from freqdp_db.engines.ranges import SingleThread, use
from freqdp_db.errors import BadInput, VerificationFailed
from freqdp_db.methods.contract import CompletedStep, StepContext, StoredStep, WorkingSet
from freqdp_db.methods.k_anonymity.glove import Boxes, Origin, first_boxes
from freqdp_db.methods.k_anonymity.greedy import group_rows, replay_merges
from freqdp_db.model.arrays import Ids, offsets_from
from freqdp_db.model.trajectories import Locations, Points
from freqdp_db.paper.diversity import count_points, fingerprint
from freqdp_db.release.request import Request

box = st.tuples(
    st.integers(0, 300), st.integers(1, 30), st.integers(0, 60), st.integers(1, 5),
    st.integers(0, 900), st.integers(1, 90),
).map(lambda b: (b[0], b[0] + b[1], b[2], b[2] + b[3], b[4], b[4] + b[5]))  # fmt: skip
unit = st.tuples(st.integers(0, 60), st.integers(0, 5), st.integers(0, 90)).map(
    lambda b: (b[0], b[0] + 1, b[1], b[1] + 1, b[2], b[2] + 1)
)


# what glove meets: samples at first, several in a minute; later rows that have one box at a time
rows_of_units = st.lists(
    st.lists(unit, min_size=1, max_size=40).map(lambda r: sorted(set(r), key=lambda b: (b[4], b[0], b[2]))),
    min_size=1, max_size=7,
)  # fmt: skip
rows_of_boxes = st.lists(
    st.lists(box, min_size=1, max_size=20).map(naive_glove.cut_apart), min_size=1, max_size=6
)


def boxes_of(rows: list[list[naive_glove.Box]]) -> Boxes:
    bounds = np.array([b for row in rows for b in row], np.int32).T
    return Boxes(offsets_from(np.array([len(r) for r in rows])), bounds, Origin(0, 0, 0))


def as_row(bounds: Ids) -> list[tuple[int, ...]]:
    return [tuple(int(v) for v in b) for b in bounds.T]


@thorough
@given(
    st.one_of(rows_of_units, rows_of_boxes), st.integers(2, 4), st.booleans(), st.integers(1, 7),
)  # fmt: skip
def test_merges_are_those_of_all_pairs(
    rows: list[list[naive_glove.Box]], k: int, join: bool, objects: int
) -> None:
    boxes, who = boxes_of(rows), np.arange(len(rows), dtype=np.int32) % objects
    found = group_rows(boxes, who, k, join=join)
    merges, left = naive_glove.glove(rows, who.tolist(), k, join)
    assert list(zip(found.first.tolist(), found.second.tolist(), strict=True)) == merges
    groups = replay_merges(boxes, who, np.arange(len(rows)), found)
    assert [as_row(g.bounds) for g in groups] == [left[i] for i in sorted(left)]


class Many:
    """An engine of many ranges, one after the other."""

    parts = 5

    def run(self, function: Any, ranges: Any, arguments: Any) -> Any:
        return (function(*part, *arguments) for part in ranges)


def test_long_rows_on_any_engine() -> None:
    """Rows of several chunks, searched in ranges: the merges of all pairs."""
    rng = np.random.default_rng(3)
    rows = [
        sorted(
            {
                (x, x + 1, y, y + 1, t, t + 1)
                for x, y, t in rng.integers(0, (120, 90, 700), (int(n), 3)).tolist()
            },
            key=lambda b: (b[4], b[0], b[2]),
        )
        for n in rng.integers(1, 70, 10)
    ]
    boxes, who = boxes_of(rows), np.arange(10, dtype=np.int32)
    merges, _ = naive_glove.glove(rows, who.tolist(), 5)
    for runner in (Many(), SingleThread()):
        with use(runner):
            found = group_rows(boxes, who, 5)
        assert list(zip(found.first.tolist(), found.second.tolist(), strict=True)) == merges


slowly = worlds(allow_empty=True).map(
    lambda world: replace(
        world,
        trajectories=replace(
            world.trajectories,
            at=world.trajectories.at * SECOND,
            start=world.trajectories.start * SECOND,
        ),
    )
)


def state_of(world: SmallWorld) -> WorkingSet:
    return WorkingSet(world.trajectories, world.locations, 1000 + world.rank)


@thorough
@given(
    slowly, st.integers(2, 4), st.sampled_from([None, "1km/10min", "100m/60s"]),
    st.sampled_from([None, "10min"]), st.sampled_from(["join", "suppress"]),
)  # fmt: skip
def test_glove_keeps_its_promise(
    world: SmallWorld, k: int, widest: str | None, pieces: str | None, leftovers: str
) -> None:
    state = state_of(world)
    step, options = asked("glove", k=k, widest=widest, pieces=pieces, leftovers=leftovers)
    _, _, after, found = carried_out(state, step, options)
    side, areas = world.trajectories, after.areas
    assert after.members.min(initial=k) >= k and (after.owners() == -1).all()
    if widest is None and pieces is None and leftovers == "join" and (side.lengths > 0).sum() >= k:
        assert found["samples_inside"] == side.samples
    assert found["samples_inside"] + found["samples_left_out"] == side.samples
    # by its words: so many objects have all of a trajectory's time
    x, y = world.locations.x[side.location], world.locations.y[side.location]
    for g in range(len(after.trajectories)):
        part = slice(*after.trajectories.offsets[g : g + 2])
        inside = (
            (areas.x_min[part] <= x[:, None]) & (x[:, None] < areas.x_max[part])
            & (areas.y_min[part] <= y[:, None]) & (y[:, None] < areas.y_max[part])
            & (after.trajectories.at[part] <= side.at[:, None]) & (side.at[:, None] < areas.until[part])
        )  # fmt: skip
        if inside.shape[1] and widest is None:
            assert len(np.unique(side.owner[inside.any(axis=1)])) >= k


def test_everybody_at_one_place() -> None:
    """At six times, at the same ones; or all at once."""
    step, options = asked("glove", k=5)
    *_, after, found = carried_out(make(*[[(2, 7.0)] * 4] * 7), step, options)
    assert after.members.tolist() == [7] and after.samples == 1 and found["samples_inside"] == 28
    state = make(*[[(3, 5.0 * i) for i in range(6)] for _ in range(7)])
    *_, after, found = carried_out(state, step, options)
    assert after.members.tolist() == [7] and found["samples_left_out"] == 0
    assert after.samples == 6
    assert (after.areas.x_max - after.areas.x_min == 100).all()
    assert (after.areas.until - after.trajectories.at == MINUTE).all()


def test_nobody_near_is_still_made_alike_or_left_out() -> None:
    """Days and districts apart, two by two: k is never lowered."""
    rows = [[(12 * i, 2000.0 * i), (12 * i + 1, 2000.0 * i + 7)] for i in range(3)]
    step, options = asked("glove", k=2)
    *_, after, found = carried_out(make(*rows), step, options)
    assert after.members.tolist() == [3] and found["samples_left_out"] == 0
    step, options = asked("glove", k=2, leftovers="suppress")
    *_, after, found = carried_out(make(*rows), step, options)
    assert after.members.tolist() == [2] and found["samples_left_out"] == 2
    step, options = asked("glove", k=2, widest="1km/10min")
    *_, after, found = carried_out(make(*rows), step, options)
    assert after.samples == 0 and found["samples_left_out"] == 6


def test_one_object_has_no_company() -> None:
    for k in (2, 5):
        step, options = asked("glove", k=k)
        *_, after, found = carried_out(make([(1, 0), (2, 5)], []), step, options)
        assert len(after.trajectories) == 0 and found["samples_left_out"] == 2
    with pytest.raises(BadInput, match="k 5 is more than the 4 objects") as refused:
        step.require_possible(options, 4, 100)
    assert "k of at most 4" in str(refused.value.remedy)


def test_a_cell_and_a_minute_are_taken_once() -> None:
    state = make([(0, 0.1), (0, 0.2), (0, 0.2), (1, 0.2), (0, 1.0)])
    boxes = first_boxes(state.trajectories, PLACES, 15)
    assert as_row(boxes.bounds) == [
        (0, 1, 0, 1, 0, 1), (3, 4, 9, 10, 0, 1), (0, 1, 0, 1, 1, 2)
    ]  # fmt: skip


def test_pieces_of_one_object_are_one_object() -> None:
    """Two pieces of each of two objects in one window: k = 3 is not reached by four pieces."""
    rows = [[(p, m) for m, p in ((0.0, 1), (2.0, 9), (9.0, 2), (11.0, 8))] for _ in range(2)]
    step, options = asked("glove", k=3, pieces="3min")
    *_, after, _ = carried_out(make(*rows), step, options)
    assert len(after.trajectories) == 0


def test_an_area_may_hold_some_of_its_group_only() -> None:
    """What is not claimed: intervals that overlap are cut apart, and a part is of one of two."""
    state = make([(0, 19), (3, 25)], [(3, 1), (0, 5)])
    step, options = asked("glove", k=2)
    *_, after, found = carried_out(state, step, options)
    assert after.members.tolist() == [2] and found["samples_left_out"] == 0
    side, until = state.trajectories, after.areas.until
    inside = (after.trajectories.at <= side.at[:, None]) & (side.at[:, None] < until)
    assert [len(np.unique(side.owner[held])) for held in inside.T] == [1, 2, 1]


def test_a_sample_outside_the_area_of_its_time_is_found_out_though_some_were_left_out() -> None:
    state = make([(1, 0), (1, 600), (0, 1200)], [(1, 0), (1, 600), (20, 1200)])
    step, options = asked("glove", k=2, widest="100m/60s")
    drawn, logged, after, found = carried_out(state, step, options)
    assert found["samples_left_out"] == 2 and after.samples == 2
    sides = {
        name: getattr(after.areas, name) + 100 for name in ("x_min", "x_max", "y_min", "y_max")
    }
    moved = replace(after, areas=replace(after.areas, **sides))
    with pytest.raises(VerificationFailed, match="outside the area of their time"):
        step.check(CompletedStep(WORLD, state, drawn, logged, options, moved))


@pytest.mark.parametrize("fault", ["few", "moved", "late", "id", "wide", "twice", "gone"])
def test_a_false_result_is_found_out(fault: str) -> None:
    state = make(*[[((i + j) % 40, 6.0 * i + j) for i in range(8)] for j in range(6)])
    step, options = asked("glove", k=3)
    drawn, logged, after, _ = carried_out(state, step, options)
    if fault == "few":
        options = replace(options, k=7)
    elif fault == "moved":
        after = replace(after, areas=replace(after.areas, x_min=after.areas.x_min + 100))
    elif fault == "late":
        after = replace(after, areas=replace(after.areas, until=after.areas.until - MINUTE))
    elif fault == "id":
        after = replace(after, key=after.key + 1)
    elif fault == "wide":
        _, options = asked("glove", k=3, widest="100m/60s")
    elif fault == "twice":
        logged = replace(logged, merged_second=np.maximum(logged.merged_second * 0, 1))
    else:
        logged = replace(logged, last=logged.last + 1)
    with pytest.raises(VerificationFailed):
        step.check(CompletedStep(WORLD, state, drawn, logged, options, after))


cell = st.integers(-6, 12)
points = st.lists(st.tuples(cell, cell, st.integers(0, 3)), min_size=1, max_size=30).map(
    lambda rows: Points(
        np.array([100.0 * x + 40 for x, _, _ in rows]),
        np.array([100.0 * y + 60 for _, y, _ in rows]),
        np.unique([c for _, _, c in rows], return_inverse=True)[1].astype(np.int32),
        tuple(f"c{c}" for c in sorted({c for _, _, c in rows})),
    )
)


@thorough
@given(
    points, st.tuples(st.integers(-40, 40), st.integers(1, 5), st.integers(-40, 40), st.integers(1, 5)),
    st.integers(1, 4), st.sampled_from([0.05, 0.1, 0.5, 2.0]),
)  # fmt: skip
def test_areas_grow_by_their_words(
    poi: Points, at: tuple[int, int, int, int], kinds: int, most: float
) -> None:
    kinds = min(kinds, len(poi.names))
    start = (at[0], at[0] + at[1], at[2], at[2] + at[3])
    bounds = np.array([[*start, 5, 9]], np.int32).T
    grown = count_points(poi, Origin(0, 0, 0), kinds, most)(bounds)
    cells = [
        (int(x // 100), int(y // 100), int(c))
        for x, y, c in zip(poi.x, poi.y, poi.category, strict=True)
    ]
    assert as_row(grown) == [(*naive_glove.grow(cells, start, kinds, most), 5, 9)]


def diverse(poi: Points) -> StepContext:
    return replace(WORLD, inputs={"poi": poi})


@quick
@given(slowly, points, st.integers(1, 3), st.sampled_from([None, "10min"]))
def test_klt_keeps_its_promise(
    world: SmallWorld, poi: Points, kinds: int, pieces: str | None
) -> None:
    step, options = asked("klt", k=2, l=kinds, t="0.2", poi="p.p", pieces=pieces)
    surroundings = diverse(poi)
    if kinds > len(poi.names):
        with pytest.raises(BadInput, match=r"^l "):
            step.require_inputs(options, surroundings.inputs, surroundings.public_facts)
        return
    *_, after, found = carried_out(state_of(world), step, options, surroundings)
    assert found["diverse_areas"] == after.samples


def test_other_points_of_interest_are_noticed() -> None:
    poi = Points(
        np.array([50.0, 950.0]), np.array([50.0, 50.0]), np.array([0, 1], np.int32), ("a", "b")
    )
    step, options = asked("klt", k=2, l=2, poi="p.p")
    state = make([(0, 0.0)], [(1, 0.0)])
    drawn, logged, after, _ = carried_out(state, step, options, diverse(poi))
    moved = replace(poi, x=poi.x + 10_000)
    assert not np.array_equal(fingerprint(poi), fingerprint(moved))
    with pytest.raises(VerificationFailed, match="points of interest"):
        step.replay(StoredStep(diverse(moved), state, drawn, logged, options))
    with pytest.raises(VerificationFailed, match="too few categories"):
        step.check(CompletedStep(diverse(moved), state, drawn, logged, options, after))
    with pytest.raises(BadInput, match="points of interest"):
        step.require_possible(replace(options, poi=None), 10, 100)


@quick
@given(
    slowly, st.integers(2, 4), st.sampled_from(["1", "100", "1000"]), st.sampled_from(["0.001", "50"]),
    st.sampled_from(["lstd", "edr"]),
)  # fmt: skip
def test_w4m_keeps_its_promise(
    world: SmallWorld, k: int, delta: str, trash: str, distance: str
) -> None:
    state, side = state_of(world), world.trajectories
    step, options = asked("w4m", k=k, delta=delta, trash=trash, distance=distance)
    _, logged, after, found = carried_out(state, step, options)
    there = int((side.lengths > 0).sum())
    if there >= k:
        assert found["trash"] <= int(float(trash) * there / 100)
    released = np.flatnonzero(after.trajectories.lengths)
    assert sorted(logged.member.tolist()) == released.tolist()
    # by its words: at each of its times, so many others are within delta
    new = after.trajectories
    x, y = after.places.x[new.location], after.places.y[new.location]
    near = (new.at[:, None] == new.at) & (np.hypot(x[:, None] - x, y[:, None] - y) <= float(delta))
    for i in range(new.samples):
        assert len(np.unique(new.owner[near[i]])) >= k


def test_w4m_moves_nobody_who_is_near() -> None:
    """Five walk together, one of them a little aside; one is elsewhere and is left out."""
    near = Locations(np.array([0.0, 500, 1000, 20, 520, 1020, 90_000]), np.zeros(7))
    rows = [[(0, 0), (1, 5), (2, 10)]] * 4 + [[(3, 0), (4, 5), (5, 10)], [(6, 0), (6, 5)]]
    state = replace(make(*rows), places=near)
    step, options = asked("w4m", k=5, delta=100, trash=20)
    _, _, after, found = carried_out(state, step, options)
    assert found == {"clusters": 1, "instants": 3, "trash": 1}
    assert after.trajectories.lengths.tolist() == [3] * 5 + [0]
    assert after.places.x.tolist() == [0, 500, 1000] * 4 + [20, 520, 1020]
    step, options = asked("w4m", k=5, delta=20, trash=20)
    _, logged, after, _ = carried_out(state, step, options)
    assert after.places.x[:3] == pytest.approx([0, 500, 1000], abs=5)
    assert after.places.x[12:] == pytest.approx([14, 514, 1014], abs=0.01)
    assert int(logged.matched[0]) == 15


@pytest.mark.parametrize("fault", ["apart", "few", "trash", "times", "twice"])
def test_a_false_cluster_is_found_out(fault: str) -> None:
    state = make(*[[((i + j) % 40, 6.0 * i + j) for i in range(8)] for j in range(6)])
    step, options = asked("w4m", k=3, delta=50)
    drawn, logged, after, _ = carried_out(state, step, options)
    if fault == "apart":
        x = after.places.x.copy()
        x[0] += 60
        after = replace(after, places=replace(after.places, x=x))
    elif fault == "few":
        options = replace(options, k=7)
    elif fault == "trash":
        logged = replace(logged, member=logged.member[:3], offsets=np.array([0, 3]))
        empty = np.isin(after.trajectories.owner, logged.member)
        after = replace(after, trajectories=after.trajectories.where(empty))
    elif fault == "times":
        at = after.trajectories.at.copy()
        at[-1] += 1
        after = replace(after, trajectories=replace(after.trajectories, at=at))
    else:
        logged = replace(logged, member=logged.member * 0)
    with pytest.raises(VerificationFailed):
        step.check(CompletedStep(WORLD, state, drawn, logged, options, after))


@pytest.mark.parametrize(
    ("method", "name", "value"),
    [
        ("w4m", "delta", "0"), ("w4m", "delta", "200000"), ("w4m", "trash", "101"),
        ("w4m", "trash", "-1"), ("w4m", "distance", "dtw"), ("w4m", "k", "0"),
        ("klt", "l", "0"), ("klt", "t", "0"), ("klt", "poi", " "), ("klt", "category", ""),
        *((method, name, value) for method in ("glove", "klt") for name, value in (
            ("k", "1"), ("k", "101"), ("k", "x"), ("widest", "6km"), ("widest", "0m/1h"),
            ("widest", "200km/1h"), ("pieces", "0s"), ("leftovers", "keep"),
        )),
    ],
)  # fmt: skip
def test_bad_values_are_refused(method: str, name: str, value: str) -> None:
    with pytest.raises(BadInput, match=f"^{name}\\b"):
        Request.parse(method, **{name: value})


# --- Every step of the newer families where there is little to work with: nobody meets, everybody is at


POI = Points(
    np.arange(60) * 120.0 % 7_300, np.arange(60) * 950.0 % 7_300,
    (np.arange(60) % 4).astype(np.int32), ("clinic", "office", "school", "shop"),
)  # fmt: skip
METHODS = {
    "swap": {},
    "cut": {"ends": 1},
    "glove": {"k": 3},
    "klt": {"k": 3, "poi": "world.poi", "t": "0.5"},
    "w4m": {"k": 3, "trash": 50},
}
GROUPED = ("glove", "klt", "w4m")


@st.composite
def corners(draw: st.DrawFn) -> WorkingSet:
    """Up to nine objects of up to nine samples, alike in one way or in none."""
    kind = draw(st.sampled_from(["nobody meets", "one place", "one object", "equal times"]))
    count = 1 if kind == "one object" else draw(st.integers(2, 9))
    rows = []
    for t in range(count):
        minutes = sorted(draw(st.lists(st.integers(0, 90), max_size=9)))
        if kind == "equal times":
            minutes = [7] * len(minutes)
        far = {"nobody meets": 4 * t, "one place": 0}.get(kind)
        places = [draw(st.integers(0, 3 if far is None else 0)) + (far or 0) for _ in minutes]
        late = 5000 * t if kind == "nobody meets" else 0
        rows.append([(p, float(m + late)) for p, m in zip(places, minutes, strict=True)])
    return make(*rows)


def seen(state: WorkingSet) -> list[tuple[int, int]]:
    side = state.trajectories
    return sorted(zip(side.location.tolist(), side.at.tolist(), strict=True))


@pytest.mark.parametrize("method", METHODS)
def test_keeps_its_promise_in_a_corner(method: str) -> None:
    step, options = asked(method, **METHODS[method])
    world = replace(WORLD, inputs={"poi": POI})

    @quick
    @given(corners())
    def holds(state: WorkingSet) -> None:
        drawn, _, after, found = carried_out(state, step, options, world)
        there = int((state.trajectories.lengths > 0).sum())
        if method == "swap":
            assert seen(after) == seen(state)
            if there < 2:
                assert len(drawn) == 0
        elif method == "cut":
            left = seen(state)
            for one in seen(after):
                left.remove(one)
            assert len(left) + after.samples == state.samples
        elif method == "w4m":
            assert (after.trajectories.lengths > 0).sum() in range(
                3, there + 1
            ) or not after.samples
        else:
            assert after.members.min(initial=3) >= 3
            assert found["samples_inside"] + found["samples_left_out"] == state.samples
            assert bool(after.samples) == (there >= 3)

    holds()


@pytest.mark.parametrize("method", GROUPED)
def test_k_above_the_number_of_objects(method: str) -> None:
    """Refused before anything is done; and if it came to it, nobody is released with fewer."""
    step, options = asked(method, **METHODS[method] | {"k": 9})
    with pytest.raises(BadInput, match="k 9 is more than the 8 objects"):
        step.require_possible(options, 8, 1000)
    step.require_possible(options, 9, 1000)
    state = make(*[[(3, 5.0 * i) for i in range(6)] for _ in range(8)])
    *_, after, _ = carried_out(state, step, options, replace(WORLD, inputs={"poi": POI}))
    assert after.samples == 0
