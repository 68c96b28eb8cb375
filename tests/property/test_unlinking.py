"""swap and cut over small worlds that are mostly corner, against naive references."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from alone import SECOND, WORLD, carried_out
from hypothesis import given
from hypothesis import strategies as st
from sides import MINUTE, side_of
from small_worlds import SmallWorld, as_lists, quick, thorough, worlds
from test_crowds_and_clocks import cutting, naive_trips, reading, state_of

from freqdp_db.errors import BadInput, VerificationFailed
from freqdp_db.methods.contract import CompletedStep, WorkingSet
from freqdp_db.methods.kinds import Meet
from freqdp_db.methods.trips import TripRule, find_stays
from freqdp_db.methods.unlinking.clock import (
    check_clock,
    clock_counts,
    clock_warnings,
    put_on_clock,
)
from freqdp_db.methods.unlinking.cut import find_pieces
from freqdp_db.methods.unlinking.options import CutOptions, SwapOptions
from freqdp_db.methods.unlinking.steps import CutStep, SwapDraw, SwapStep
from freqdp_db.methods.unlinking.swap import (
    AT_REST,
    FASTEST_M_PER_US,
    RESTING,
    Meeting,
    deal,
    find_courses,
    find_groups,
    lonely_trajectories,
    summary,
)
from freqdp_db.model.arrays import offsets_from
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.privacy.noise import SeededSource
from freqdp_db.release.request import Request

# times of the small worlds are microseconds: as seconds, windows and speeds mean something
slowly = worlds(allow_empty=True).map(
    lambda world: replace(
        world,
        trajectories=Trajectories(
            world.trajectories.offsets,
            world.trajectories.location,
            world.trajectories.at * SECOND,
            world.trajectories.start * SECOND,
        ),
    )
)


def swapping(
    cell_m: float,
    window_us: int,
    doublings: int = 1,
    courses: int = 6,
    drop_unmixed: bool = False,
    clock: int | None = None,
) -> SwapOptions:
    return SwapOptions(
        meet=Meet(Decimal(cell_m), window_us),
        widen=doublings,
        courses=courses,
        drop_unmixed=drop_unmixed,
        clock=clock,
        grain=None,
        beside=None,
    )


APART = cutting(
    trips=20 * MINUTE, pieces=60 * MINUTE, quiet=5 * MINUTE, silence="apart", ends=5,
    gap=30 * MINUTE, clock=None,
)  # fmt: skip


meetings = st.builds(
    swapping,
    st.sampled_from([1.0, 100.0, 150.0, 10_000.0]),
    st.sampled_from([SECOND, 10 * SECOND, 5 * MINUTE, 24 * 60 * MINUTE]),
    st.integers(0, 3),
    st.sampled_from([0, 2, 6]),
    st.booleans(),
)


def swap(state: WorkingSet, parameters: SwapOptions) -> tuple[SwapDraw, WorkingSet]:
    draw, _, after, counts = carried_out(state, SwapStep(), parameters)
    assert counts["members"] == len(draw.stop)
    return draw, after


def naive_swap(state: WorkingSet, draw: SwapDraw) -> list[list[tuple[int, int, int]]]:
    """(location, time, owner) of each released trajectory: every stop hands its rest over."""
    side = state.trajectories
    rest = {int(s): int(s) + 1 for s in range(side.samples)}
    for end in side.offsets[1:]:
        rest[int(end) - 1] = -1
    new = dict(rest)
    for g in range(len(draw.offsets) - 1):
        lo, hi = int(draw.offsets[g]), int(draw.offsets[g + 1])
        for m in range(lo, hi):
            new[int(draw.stop[m])] = rest[int(draw.stop[lo + draw.dealt[m]])]
    owner = side.owner
    found = []
    for t in range(len(side)):
        i = int(side.offsets[t]) if side.lengths[t] else -1
        row = []
        while i >= 0:
            row.append((int(side.location[i]), int(side.at[i]), int(owner[i])))
            i = new[i]
        found.append(row)
    return found


@thorough
@given(slowly, meetings)
def test_swap_is_what_was_dealt(world: SmallWorld, parameters: SwapOptions) -> None:
    state = state_of(world)
    draw, after = swap(state, replace(parameters, drop_unmixed=False))
    got = [
        [(p, at, int(o)) for (p, at), o in zip(row, after.owners()[lo:], strict=False)]
        for row, lo in zip(as_lists(after.trajectories), after.trajectories.offsets, strict=False)
    ]
    assert got == naive_swap(state, draw)
    before = Counter(zip(world.trajectories.location, world.trajectories.at, strict=True))
    assert before == Counter(zip(after.trajectories.location, after.trajectories.at, strict=True))
    for row in as_lists(after.trajectories):
        assert [at for _, at in row] == sorted(at for _, at in row)
    assert too_fast(after.trajectories, world) <= too_fast(world.trajectories, world)


def too_fast(side: Trajectories, world: SmallWorld) -> int:
    """Segments over 120 km/h."""
    x, y = world.locations.x[side.location], world.locations.y[side.location]
    fast = np.hypot(np.diff(x), np.diff(y)) > np.diff(side.at) * FASTEST_M_PER_US * (1 + 1e-12)
    return int((fast & (np.diff(side.owner) == 0)).sum())


@thorough
@given(slowly, meetings)
def test_groups_met_and_could_go_on_as_each_other(
    world: SmallWorld, parameters: SwapOptions
) -> None:
    side, places, meeting = world.trajectories, world.locations, parameters.meeting
    groups = find_groups(side, places, meeting)
    owner = side.owner
    assert len(np.unique(groups.stop)) == len(groups.stop)
    last = {
        (int(o), int(a) // meeting.window_us): i
        for i, (o, a) in enumerate(zip(owner, side.at, strict=True))
    }
    assert set(groups.stop.tolist()) <= set(last.values())
    for g in range(len(groups)):
        members = groups.stop[groups.offsets[g] : groups.offsets[g + 1]].tolist()
        assert len(members) > 1
        assert len({owner[m] for m in members}) == len(members)
        assert len({int(side.at[m]) // meeting.window_us for m in members}) == 1
        x, y = places.x[side.location[members]], places.y[side.location[members]]
        resting = groups.doubled[g] == RESTING
        widest = 100.0 if resting else meeting.cell_m * 2.0 ** groups.doubled[g]
        assert np.ptp(x) <= widest and np.ptp(y) <= widest
        for a in members:
            for b in members:
                if b + 1 < side.samples and owner[b + 1] == owner[b]:
                    p, q = side.location[a], side.location[b + 1]
                    way = np.hypot(places.x[q] - places.x[p], places.y[q] - places.y[p])
                    assert way <= (side.at[b + 1] - side.at[a]) * FASTEST_M_PER_US * (1 + 1e-12)


@quick
@given(slowly, meetings, st.integers(0, 3))
def test_a_false_swap_is_found_out(world: SmallWorld, parameters: SwapOptions, fault: int) -> None:
    state, parameters = state_of(world), replace(parameters, drop_unmixed=False)
    draw, log, after, _ = carried_out(state, SwapStep(), parameters)
    side = after.trajectories
    if not side.samples:
        return
    if fault == 0:  # a sample is moved
        place = side.location.copy()
        place[-1] += 1
        after = replace(after, trajectories=replace(side, location=place))
    elif fault == 1:  # a sample is somebody else's
        owner = after.owners().copy()
        owner[0] += 1
        after = replace(after, owner=owner)
    elif fault == 2:  # a sample is lost
        lengths = side.lengths.copy()
        lengths[np.flatnonzero(lengths)[-1]] -= 1
        shorter = Trajectories(offsets_from(lengths), side.location[:-1], side.at[:-1], side.start)
        after = WorkingSet(shorter, after.places, after.key, after.owners()[:-1])
    else:  # a group is dealt twice the same
        if not len(draw.dealt):
            return
        dealt = draw.dealt.copy()
        dealt[0] = dealt[1]
        draw = replace(draw, dealt=dealt)
    with pytest.raises(VerificationFailed):
        SwapStep().check(CompletedStep(WORLD, state, draw, log, parameters, after))


LINE = Locations(1000.0 * np.arange(12), np.zeros(12))


def state_from(*rows: list[tuple[int, float]]) -> WorkingSet:
    return WorkingSet(side_of(rows), LINE, np.arange(len(rows)))


def test_nobody_meets() -> None:
    state = state_from([(0, 0), (1, 6)], [(5, 0), (6, 6)], [])
    draw, after = swap(state, swapping(200.0, 5 * MINUTE, 0, 0))
    assert len(draw.stop) == 0
    assert as_lists(after.trajectories) == as_lists(state.trajectories)
    assert summary(state, draw, after)["objects_that_never_meet"] == 2
    _, after = swap(state, swapping(200.0, 5 * MINUTE, 0, 0, drop_unmixed=True))
    assert after.trajectories.samples == 0


def test_only_who_never_meets_is_dropped() -> None:
    state = state_from([(0, 0), (1, 6)], [(0, 1), (2, 7)], [(9, 0), (9, 6)])
    _, after = swap(state, swapping(200.0, 5 * MINUTE, 0, 0, drop_unmixed=True))
    assert sorted(np.unique(after.owners()).tolist()) == [0, 1]
    assert after.trajectories.samples == 4


def test_everybody_at_one_place_and_one_object() -> None:
    rows = [[(3, 5.0 * k + 0.1 * t) for k in range(6)] for t in range(7)]
    draw, _ = swap(state_from(*rows), swapping(200.0, 5 * MINUTE, 0, 0))
    assert np.diff(draw.offsets).tolist() == [7] * 6
    draw, after = swap(state_from(rows[0]), swapping(200.0, 5 * MINUTE, 0, 0))
    assert len(draw.stop) == 0
    assert as_lists(after.trajectories) == as_lists(side_of([rows[0]]))


def test_company_is_looked_for_in_wider_cells() -> None:
    state = state_from([(0, 0), (0, 20)], [(2, 0), (2, 20)])
    assert len(find_groups(state.trajectories, LINE, Meeting(500.0, 5 * MINUTE, 0, 0))) == 0
    groups = find_groups(state.trajectories, LINE, Meeting(500.0, 5 * MINUTE, 4))
    assert groups.doubled.tolist()[0] == 3  # 4 km hold both 0 and 2 km


def test_courses_part_a_crowd() -> None:
    """Two come from the west and two from the east; one of each rests where they meet."""
    west = [[(0, 0), (3, 5), (6, 10.1), (9, 16)], [(0, 0.5), (3, 5.5), (6, 10.2), (8, 16)]]
    east = [[(11, 0), (9, 5), (6, 10.3), (3, 16)], [(11, 0.5), (9, 5.5), (6, 10.4), (2, 16)]]
    rest = [[(6, 3.0 * k + 0.05 * t) for k in range(12)] for t in range(2)]
    state = state_from(*west, *east, *rest)
    course = find_courses(state.trajectories, LINE, 4)
    at_ten = [2, 6, 10, 14]
    assert course[at_ten[0]] == course[at_ten[1]] != course[at_ten[2]] == course[at_ten[3]]
    assert (course[16:] == AT_REST).all()
    groups = find_groups(state.trajectories, LINE, Meeting(500.0, 5 * MINUTE, 0, 4))
    found = [
        set(groups.stop[a:b].tolist())
        for a, b in zip(groups.offsets, groups.offsets[1:], strict=False)
    ]
    assert {2, 6} in found and {10, 14} in found
    assert any(g <= set(range(16, 40)) for g in found)
    everybody = find_groups(state.trajectories, LINE, Meeting(500.0, 5 * MINUTE, 0, 0))
    assert np.diff(everybody.offsets).max() == 6


def test_the_lonely_meet_anybody() -> None:
    """Two that never leave their places, a kilometre apart, would be found as they are."""
    rows = [[(t, 4.0 * k + 0.1 * t) for k in range(20)] for t in range(2)]
    side = side_of(rows)
    assert lonely_trajectories(side, np.zeros(0, np.int64)).all()
    groups = find_groups(side, LINE, Meeting(500.0, 5 * MINUTE, 1, 6))
    assert len(groups) > 4
    assert groups.doubled.min() >= 1
    assert not lonely_trajectories(side, groups.stop).any()
    # half and no more is not lonely
    assert not lonely_trajectories(side, np.array([9, 29])).any()
    assert lonely_trajectories(side, np.array([8, 29])).tolist() == [True, False]


@pytest.mark.parametrize("size", [2, 3, 4])
def test_permutations_are_uniform(size: int) -> None:
    groups = 24_000
    rank = deal(np.arange(groups + 1) * size, SeededSource(7)).reshape(groups, size)
    _, counts = np.unique(rank, axis=0, return_counts=True)
    expected = groups / len(counts)
    assert len(counts) == [2, 6, 24][size - 2]
    assert ((counts - expected) ** 2 / expected).sum() < 3 * len(counts) + 20


def test_equal_words_are_drawn_again() -> None:
    class Repeats(SeededSource):
        asked = 0

        def uniform_words(self, count: int) -> np.ndarray:  # type: ignore[type-arg]
            self.asked += 1
            return np.zeros(count, np.int64) if self.asked == 1 else super().uniform_words(count)

    source = Repeats(1)
    assert sorted(deal(np.array([0, 3]), source).tolist()) == [0, 1, 2]
    assert source.asked == 2


cuts = st.builds(
    lambda trips, pieces, quiet, ends, gap: replace(
        APART, trips=trips, pieces=pieces, quiet=quiet, ends=ends, gap=gap
    ),
    st.sampled_from([MINUTE, 5 * MINUTE]),
    st.sampled_from([MINUTE, 10 * MINUTE]),
    st.sampled_from([0, MINUTE]),
    st.integers(1, 3),
    st.sampled_from([MINUTE, 30 * MINUTE]),
)


def naive_pieces(world: SmallWorld, parameters: CutOptions) -> list[list[int]]:
    """Positions of each piece, by the words of the rule."""
    side = world.trajectories
    visitors: dict[int, set[int]] = {}
    for place, who in zip(side.location.tolist(), side.owner.tolist(), strict=True):
        visitors.setdefault(place, set()).add(who)
    pieces: list[list[int]] = []
    for trip in naive_trips(world, parameters):
        while trip:
            piece = [i for i in trip if side.at[i] - side.at[trip[0]] <= parameters.pieces]
            rest = [i for i in trip if i > piece[-1]]
            trip = [i for i in rest if side.at[i] - side.at[piece[-1]] >= parameters.quiet]
            shared = [len(visitors[int(side.location[i])]) >= parameters.ends for i in piece]
            if any(shared):
                first, last = shared.index(True), len(shared) - shared[::-1].index(True)
                pieces.append(piece[first:last])
    return pieces


@thorough
@given(slowly, cuts)
def test_cut_by_its_words(world: SmallWorld, parameters: CutOptions) -> None:
    state = state_of(world)
    pieces = find_pieces(state, parameters)
    got = [list(range(a, b + 1)) for a, b in zip(pieces.first, pieces.last, strict=True)]
    assert got == naive_pieces(world, parameters)
    draw, _, after, counts = carried_out(state, CutStep(), parameters)
    assert counts["pieces"] == len(got) == len(after.trajectories)
    assert after.key.tolist() == sorted(draw.key.tolist())


def test_cut_after_swap_keeps_owners() -> None:
    rows = [[(k % 3 + 3 * (k // 6 % 2), 3.0 * k + 0.1 * t) for k in range(30)] for t in range(5)]
    state = state_from(*rows)
    _, mixed = swap(state, swapping(500.0, 5 * MINUTE, 1))
    _, _, after, counts = carried_out(mixed, CutStep(), replace(APART, ends=2))
    assert 0 < counts["largest_share_per_mille"] <= 1000
    truth = {
        (int(p), int(a), t) for t, row in enumerate(as_lists(state.trajectories)) for p, a in row
    }
    side = after.trajectories
    got = zip(side.location.tolist(), side.at.tolist(), after.owners().tolist(), strict=True)
    assert set(got) <= truth


@pytest.mark.parametrize("fault", ["long", "gap", "ends", "quiet", "ids", "place"])
def test_a_false_cut_is_found_out(fault: str) -> None:
    rows = [[(k % 12, 4.0 * k) for k in range(12)] for _ in range(3)]
    state, parameters = state_from(*rows), replace(APART, pieces=20 * MINUTE, ends=3)
    draw, log, after, _ = carried_out(state, CutStep(), parameters)
    if fault == "ids":
        after = replace(after, key=after.key * 0)
    elif fault == "place":
        moved = after.trajectories.location.copy()
        moved[1] += 1
        after = replace(after, trajectories=replace(after.trajectories, location=moved))
    stricter = {
        "long": replace(parameters, pieces=10 * MINUTE),
        "gap": replace(parameters, gap=3 * MINUTE),
        "ends": replace(parameters, ends=4),
        "quiet": replace(parameters, quiet=30 * MINUTE),
    }
    with pytest.raises(VerificationFailed):
        CutStep().check(
            CompletedStep(WORLD, state, draw, log, stricter.get(fault, parameters), after)
        )


clocks = st.sampled_from([SECOND, 3 * SECOND, 10 * SECOND, MINUTE])


@thorough
@given(slowly, clocks)
def test_times_on_a_clock(world: SmallWorld, clock: int) -> None:
    """Sample by sample: the nearest to each tick stays, the first of equals, and moves to it."""
    state = state_of(world)
    jitter = np.arange(state.samples) * 617_231 % SECOND
    side = replace(state.trajectories, at=state.trajectories.at + jitter)
    rows = [
        sorted(row, key=lambda sample: sample[1])
        for row in np.split(np.column_stack([side.location, side.at]), side.offsets[1:-1])
    ]
    flat = np.array([sample for row in rows for sample in row]).reshape(-1, 2)
    side = replace(side, location=flat[:, 0].astype(np.int32), at=flat[:, 1])
    state = replace(state, trajectories=side)
    after = put_on_clock(state, clock)
    expected = []
    for row in rows:
        best: dict[int, tuple[int, int]] = {}
        for place, at in row:
            tick = min(
                (at // clock * clock, at // clock * clock + clock), key=lambda t: abs(t - at)
            )
            if tick not in best or abs(at - tick) < best[tick][0]:
                best[tick] = (abs(at - tick), int(place))
        expected.append([(best[tick][1], int(tick)) for tick in sorted(best)])
    assert as_lists(after.trajectories) == expected
    check_clock(state, after, clock)
    assert put_on_clock(after, clock).trajectories.at.tolist() == after.trajectories.at.tolist()


@pytest.mark.parametrize("fault", ["off", "twice", "place", "lost", "other"])
def test_a_false_clock_is_found_out(fault: str) -> None:
    state = state_from([(k % 7, 0.4 * k) for k in range(20)])
    after = put_on_clock(state, MINUTE)
    side = after.trajectories
    at, location, kept = side.at.copy(), side.location.copy(), np.ones(side.samples, np.bool_)
    if fault == "off":
        at[1] += SECOND
    elif fault == "twice":
        at[1] = at[0]
    elif fault == "place":
        location[3] += 1
    elif fault == "lost":
        kept[4] = False
    else:  # a sample that is on the tick, but farther from it
        location[2] = state.trajectories.location[6]
    check_clock(state, after, MINUTE)
    false = replace(after, trajectories=replace(side, at=at, location=location).where(kept))
    with pytest.raises(VerificationFailed):
        check_clock(state, false, MINUTE)


@quick
@given(slowly, meetings, clocks)
def test_what_swap_and_cut_promise_holds_on_the_clock(
    world: SmallWorld, parameters: SwapOptions, clock: int
) -> None:
    state = state_of(world)
    _, after = swap(state, replace(parameters, clock=clock))
    assert (np.diff(after.trajectories.at)[np.diff(after.trajectories.owner) == 0] > 0).all()
    options = replace(APART, pieces=MINUTE, quiet=10 * SECOND, ends=2, clock=clock)
    _, _, pieces, _ = carried_out(after, CutStep(), options, reading(state))
    assert (pieces.trajectories.at % clock == 0).all()


def test_ends_are_counted_in_the_source() -> None:
    """Visits that another method put in are nobody's: one object's place stays its own."""
    way = [(place, 3.0 * place) for place in range(1, 6)]
    source = state_from(*([way] * 4), [(0, 0.0), *way])
    # another method put the first place of the last one into all
    edited = state_from(*([[(0, 0.0), *way]] * 5))
    here = reading(source)
    for clock in (0, MINUTE):
        _, _, after, _ = carried_out(edited, CutStep(), replace(APART, clock=clock), here)
        assert set(after.trajectories.location.tolist()) == set(range(1, 6))
    # releases without a clock are older: they are checked by what came into the step
    draw, log, after, _ = carried_out(edited, CutStep(), APART, here)
    assert 0 in after.trajectories.location
    with pytest.raises(VerificationFailed, match="place of too few"):
        CutStep().check(CompletedStep(here, edited, draw, log, replace(APART, clock=0), after))


@pytest.mark.parametrize(("apart", "pieced"), [(40, 0), (0, 12)])
def test_trajectories_that_are_pieced_together_are_counted(apart: int, pieced: int) -> None:
    """What swap claims is counted; where nobody met, it says so."""
    places = Locations(np.arange(600) * 300.0, np.zeros(600))
    rows = [[(apart * t + k % 12, 6.0 * k + 0.1 * t) for k in range(30)] for t in range(12)]
    side = side_of(rows)
    state = WorkingSet(side, places, np.arange(12))
    options = swapping(500.0, 5 * MINUTE, 0, 0, clock=MINUTE)
    draw, log, after, _ = carried_out(state, SwapStep(), options)
    counts = SwapStep().counts(CompletedStep(WORLD, state, draw, log, options, after))
    assert (counts["pieced_together"], counts["trajectories"]) == (pieced, 12)
    assert f"{pieced} of 12 trajectories are pieced together" in SwapStep().describe(1, counts)
    warned = [text for text in SwapStep().warnings(options, counts) if "pieced together" in text]
    assert len(warned) == (pieced == 0)


def test_who_sends_more_seldom_than_the_clock_ticks_is_warned_of() -> None:
    rows = [[(k % 5, (1 if t < 10 else 7) * k) for k in range(30)] for t in range(12)]
    state = state_from(*rows)
    counts = clock_counts(state, put_on_clock(state, MINUTE), MINUTE)
    assert (counts["slower_than_clock"], counts["left_out_by_clock"]) == (2, 0)
    assert "2 of 12 trajectories" in clock_warnings(counts)[0]
    assert "--clock 0s" in clock_warnings(clock_counts(state, state, 0))[0]
    assert not clock_warnings({}) and not clock_warnings(
        clock_counts(state, put_on_clock(state, 7 * MINUTE), 7 * MINUTE)
    )


def test_a_stay_lasts_across_gaps() -> None:
    side = side_of([[(0, 0), (1, 5), (1, 300), (2, 305)]])
    stays = find_stays(side, LINE, TripRule(20 * MINUTE, 30 * MINUTE))
    assert stays.tolist() == [False, True, True, False]


@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("swap", {"meet": "0.5m/5min"}),
        ("swap", {"meet": "500m/10us"}),
        ("swap", {"meet": "500m"}),
        ("swap", {"widen": "9"}),
        ("swap", {"courses": "37"}),
        ("cut", {"trips": "0s"}),
        ("cut", {"pieces": "-1"}),
        ("cut", {"quiet": "-1s"}),
        ("cut", {"gap": "400d"}),
        ("cut", {"ends": "0"}),
        ("swap", {"clock": "-1s"}),
        ("cut", {"clock": "soon"}),
        ("cut+swap", {}),
        ("swap+swap", {}),
        ("cut", {"crowd": "1"}),
        ("cut", {"crowd_within": "week"}),
        ("cut", {"dates": "none"}),
        ("cut", {"silence": "never"}),
        ("points", {"share": "0"}),
        ("points", {"share": "101"}),
        ("cut", {"samples": "none"}),
        ("points", {"pieces": "10min"}),
        ("cut+points", {}),
    ],
)
def test_bad_parameters_are_refused(method: str, given: dict[str, str]) -> None:
    with pytest.raises(BadInput) as refused:
        Request.parse(method, **given)
    assert refused.value.remedy and "--" in str(refused.value.as_options()["message"])
