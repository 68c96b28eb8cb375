"""One clock, crowds, no dates and single points over small worlds, against naive statements."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from alone import SECOND, WORLD, asked, carried_out, make
from hypothesis import given
from hypothesis import strategies as st
from sides import MINUTE
from small_worlds import SmallWorld, thorough, worlds

from freqdp_db.errors import BadInput, VerificationFailed
from freqdp_db.methods.contract import CompletedStep, StepContext, WorkingSet
from freqdp_db.methods.unlinking.clock import check_hidden_samples, hide_samples
from freqdp_db.methods.unlinking.options import CutOptions, PointsOptions
from freqdp_db.methods.unlinking.samples import SPANS, WEEK_US, fold, week_of
from freqdp_db.methods.unlinking.steps import CutLog, CutStep, PointsStep
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.privacy.noise import SeededSource

ZONE = "Europe/Brussels"
EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
# a Sunday evening in the week before clocks are put forward, so that both happen on the way
LATE = int(datetime(2024, 3, 24, 20, tzinfo=UTC).timestamp() - EPOCH.timestamp()) * SECOND


def later(world: SmallWorld, factor: int) -> SmallWorld:
    side = world.trajectories
    return replace(
        world,
        trajectories=Trajectories(
            side.offsets, side.location, LATE + side.at * factor, LATE + side.start * factor
        ),
    )


spread = st.builds(later, worlds(allow_empty=True), st.sampled_from([SECOND, 17 * SECOND]))


def reading(source: WorkingSet, zone: str = "UTC") -> StepContext:
    """The world of a build with these trajectories."""
    side, places = source.trajectories, source.places
    return replace(
        WORLD, build=replace(WORLD.build, trajectories=side, locations=places, timezone=zone)
    )


def state_of(world: SmallWorld) -> WorkingSet:
    return WorkingSet(world.trajectories, world.locations, 1000 + world.rank)


def cutting(**given: Any) -> CutOptions:
    values: dict[str, Any] = {
        "trips": 5 * MINUTE, "pieces": 2 * MINUTE, "quiet": MINUTE, "silence": "together", "ends": 1,
        "samples": None, "gap": 10 * MINUTE, "crowd": None, "crowd_within": None, "dates": None, "clock": 0,
        "grain": None, "beside": None, "roads": None,
    }  # fmt: skip
    return CutOptions(**{**values, **given})


def scattering(**given: Any) -> PointsOptions:
    values: dict[str, Any] = {
        "crowd": None, "crowd_within": None, "dates": None, "share": None, "dominance": None, "clock": 0,
        "grain": None, "beside": None,
    }  # fmt: skip
    return PointsOptions(**{**values, **given})


def wall(at: int) -> datetime:
    return (EPOCH + timedelta(microseconds=int(at))).astimezone(ZoneInfo(ZONE))


def bucket(within: str | None, at: int) -> Any:
    if within == "hour":
        return wall(at).hour
    return wall(at).date() if within == "day" else None


def naive_crowded(world: SmallWorld, options: CutOptions | PointsOptions) -> list[bool]:
    """Of each sample: whether enough trajectories have one at its place, when it counts."""
    side = world.trajectories
    if options.crowd is None:
        return [True] * side.samples
    there = [
        (int(p), bucket(options.crowd_within, a))
        for p, a in zip(side.location, side.at, strict=True)
    ]
    visitors: dict[Any, set[int]] = {}
    for cell, who in zip(there, side.owner.tolist(), strict=True):
        visitors.setdefault(cell, set()).add(who)
    return [len(visitors[cell]) >= options.crowd for cell in there]


def naive_trips(world: SmallWorld, options: CutOptions) -> list[list[int]]:
    side, places = world.trajectories, world.locations
    found: list[list[int]] = []
    for t in range(len(side)):
        mine = list(range(side.offsets[t], side.offsets[t + 1]))
        found.append([])
        while mine:
            near = []
            for j in mine:
                p, q = side.location[mine[0]], side.location[j]
                if np.hypot(places.x[p] - places.x[q], places.y[p] - places.y[q]) > 150.0:
                    break
                near.append(j)
            if side.at[near[-1]] - side.at[near[0]] >= options.trips:
                found.append([])
                mine = mine[len(near) :]
                continue
            if found[-1] and side.at[mine[0]] - side.at[found[-1][-1]] > options.gap:
                found.append([])
            found[-1].append(mine.pop(0))
    return found


def naive_pieces(world: SmallWorld, options: CutOptions) -> list[list[int]]:
    """The samples of each piece, by the words of the rule: no kernel, no runs."""
    side = world.trajectories
    crowded = naive_crowded(world, options)
    visitors: dict[int, set[int]] = {}
    for place, who in zip(side.location.tolist(), side.owner.tolist(), strict=True):
        visitors.setdefault(place, set()).add(who)
    turn = options.pieces + options.quiet
    pieces: list[list[int]] = []
    for trip in naive_trips(world, options):
        parts: list[list[int]] = []
        before: Any = None
        for i in trip:
            at = int(side.at[i])
            when: tuple[Any, ...] = (at // turn,)
            if options.dates is not None:
                days = wall(at).weekday() if options.dates == "hour-of-week" else 0
                when += (wall(at).date() - timedelta(days=days), wall(at).utcoffset())
            if when != before:
                parts.append([])
            before = when
            speaks = at % turn < options.pieces
            if speaks and crowded[i]:
                hole = bool(parts[-1]) and at - side.at[parts[-1][-1]] > options.gap
                if hole and options.samples != "ends":
                    parts.append([])
                parts[-1].append(i)
        for part in parts:
            while part and len(visitors[int(side.location[part[0]])]) < options.ends:
                part.pop(0)
            while part and len(visitors[int(side.location[part[-1]])]) < options.ends:
                part.pop()
            if options.samples == "ends":
                part = part[:1] + part[1:][-1:]
            if part:
                pieces.append(part)
    return pieces


sharing = st.sampled_from([None, 1, 2, 3]), st.sampled_from(["ever", "hour", "day"])
cuts = st.builds(
    lambda crowd, within, dates, pieces, quiet, ends, gap, samples: cutting(
        crowd=crowd, crowd_within=within if crowd else None, dates=dates, pieces=pieces,
        quiet=quiet, ends=ends, gap=gap, samples=samples,
    ),
    *sharing,
    st.sampled_from([None, *SPANS]),
    st.sampled_from([MINUTE, 7 * MINUTE]),
    st.sampled_from([0, 30 * SECOND, 5 * MINUTE]),
    st.integers(1, 3),
    st.sampled_from([MINUTE, 10 * MINUTE]),
    st.sampled_from([None, "all", "ends"]),
)  # fmt: skip


@thorough
@given(spread, cuts)
def test_pieces_by_the_words_of_the_rule(world: SmallWorld, options: CutOptions) -> None:
    state = state_of(world)
    here = reading(state, ZONE)
    expected = naive_pieces(world, options)
    _, _, after, counts = carried_out(state, CutStep(), options, here)
    side = after.trajectories
    released = Counter(
        tuple(zip(side.location[a:b].tolist(), after.owners()[a:b].tolist(), times, strict=True))
        for a, b in zip(side.offsets[:-1], side.offsets[1:], strict=True)
        for times in [(side.at if after.undated is None else after.undated.at)[a:b].tolist()]
    )
    whole = world.trajectories
    assert released == Counter(
        tuple((int(whole.location[i]), int(whole.owner[i]), int(whole.at[i])) for i in piece)
        for piece in expected
    )
    assert counts["pieces"] == len(expected)
    # nobody is heard where somebody else is silent
    dated = side.at if after.undated is None else after.undated.at
    assert all(int(at) % (options.pieces + options.quiet) < options.pieces for at in dated)


points = st.builds(
    lambda crowd, within, dates, share, dominance: scattering(
        crowd=crowd,
        crowd_within=within if crowd else None,
        dates=dates,
        share=share,
        dominance=dominance,
    ),
    *sharing,
    st.sampled_from([None, *SPANS]),
    st.sampled_from([None, Decimal(30)]),
    st.sampled_from([None, Decimal(100), Decimal(50), Decimal("33.334"), Decimal("12.5")]),
)


def most_by_the_rule(counts: list[int], percent: Decimal) -> int:
    """How many everybody may have at most, if nobody is to have more than a share: by trying."""
    allowed = 0
    for most in range(1, max(counts) + 1):
        shown = [min(count, most) for count in counts]
        if max(shown) <= percent / 100 * sum(shown):
            allowed = most
    return allowed


@thorough
@given(spread, points)
def test_points_by_the_words_of_the_rule(world: SmallWorld, options: PointsOptions) -> None:
    state = state_of(world)
    here = reading(state, ZONE)
    crowded = naive_crowded(world, options)
    _, _, after, counts = carried_out(state, PointsStep(), options, here)
    side, whole = after.trajectories, world.trajectories
    assert side.lengths.tolist() == [1] * counts["points"]
    assert after.key.tolist() == sorted(set(after.key.tolist()))
    dated = side.at if after.undated is None else after.undated.at
    got = Counter(zip(side.location.tolist(), dated.tolist(), after.owners().tolist(), strict=True))
    allowed = Counter(
        (int(whole.location[i]), int(whole.at[i]), int(whole.owner[i]))
        for i in range(whole.samples)
        if crowded[i]
    )
    assert got <= allowed
    if options.share is None and options.dominance is None:
        assert got == allowed
    if options.dominance is not None:
        require_nobody_dominates(got, allowed, options)


def require_nobody_dominates(
    got: Counter[tuple[int, int, int]],
    allowed: Counter[tuple[int, int, int]],
    options: PointsOptions,
) -> None:
    shown: dict[Any, Counter[int]] = {}
    there: dict[Any, Counter[int]] = {}
    for counts, samples in ((shown, got), (there, allowed)):
        for (place, at, owner), count in samples.items():
            counts.setdefault((place, wall(at).hour), Counter())[owner] += count
    assert options.dominance is not None
    for cell, counts in there.items():
        of_cell = shown.get(cell, Counter())
        for count in of_cell.values():
            assert count <= options.dominance / 100 * of_cell.total()
        if options.share is None:
            most = most_by_the_rule(list(counts.values()), options.dominance)
            assert {o: n for o, n in of_cell.items() if n} == {
                o: min(n, most) for o, n in counts.items() if most
            }


@thorough
@given(spread, st.sampled_from([SECOND, 7 * SECOND, MINUTE]))
def test_single_samples_on_the_clock(world: SmallWorld, clock: int) -> None:
    """Each moves to the nearest tick, the earlier one from halfway; none is lost."""
    state = state_of(world)
    options = scattering(clock=clock)
    after = hide_samples(state, options)
    for was, now in zip(state.trajectories.at, after.trajectories.at, strict=True):
        tick = int(was) // clock * clock
        assert now == min((tick, tick + clock), key=lambda t: abs(t - int(was)))
    check_hidden_samples(state, after, options)
    if state.samples:
        moved = replace(after.trajectories, at=after.trajectories.at + clock)
        with pytest.raises(VerificationFailed):
            check_hidden_samples(state, replace(after, trajectories=moved), options)


@thorough
@given(st.lists(st.integers(0, 60 * 7 * 24 * 60), min_size=1, max_size=20))
def test_times_keep_weekday_hour_and_minute(minutes: list[int]) -> None:
    at = LATE + np.array(minutes) * MINUTE - 30 * WEEK_US
    side = Trajectories(np.array([0, len(at)]), np.zeros(len(at), np.int32), np.sort(at), at[:1])
    week = week_of(replace(WORLD, build=replace(WORLD.build, trajectories=side, timezone=ZONE)))
    begin = wall(week)
    assert (begin.weekday(), begin.hour, begin.minute) == (0, 0, 0)
    assert begin.utcoffset() == wall(week + WEEK_US).utcoffset()
    assert abs(week - int(np.median(at))) <= 3 * WEEK_US
    for dates, span in SPANS.items():
        for was, now in zip(at, fold(at, ZONE, week, span), strict=True):
            a, b = wall(was), wall(now)
            assert a.time() == b.time()
            assert b.weekday() == (a.weekday() if dates == "hour-of-week" else 0)
            assert 0 <= now - week < span


@pytest.mark.parametrize(
    "zone", ["UTC", "Asia/Shanghai", "America/New_York", "Australia/Lord_Howe"]
)
def test_the_week_begins_on_monday_in_every_zone(zone: str) -> None:
    for day in range(0, 400, 3):
        at = np.array([LATE + day * 24 * 60 * MINUTE])
        side = Trajectories(np.array([0, 1]), np.zeros(1, np.int32), at, at)
        week = week_of(replace(WORLD, build=replace(WORLD.build, trajectories=side, timezone=zone)))
        begin = (EPOCH + timedelta(microseconds=week)).astimezone(ZoneInfo(zone))
        assert (begin.weekday(), begin.hour, begin.minute) == (0, 0, 0)


def test_everybody_is_silent_at_the_same_times() -> None:
    rows = [[(k % 12, 1.0 * k + 0.1 * t) for k in range(10 * t, 90)] for t in range(6)]
    state = make(*rows)
    step, options = asked("cut", pieces="10min", quiet="5min", ends="1", silence="together")
    options = replace(options, clock=0)
    _, _, after, _ = carried_out(state, step, options, reading(state))
    assert after.trajectories.samples > 200
    assert (after.trajectories.at // MINUTE % 15 < 10).all()
    apart = replace(options, silence="apart")
    _, _, scattered, _ = carried_out(state, step, apart, reading(state))
    assert (scattered.trajectories.at // MINUTE % 15 >= 10).any()


def test_who_counts_for_a_crowd_is_an_object_of_the_build() -> None:
    """What a method before has put in counts for nobody, and the own visit counts once."""
    place = [(0, 0.0), (1, 2.0), (2, 4.0)]
    source = make(*([place] * 3), [(3, 0.0), (3, 1.0), (1, 2.0)])
    put_in = make(*([[(3, -1.0), *place]] * 3), [(3, 0.0), (3, 1.0), (1, 2.0)])
    here = reading(source)
    for step, options in (
        (PointsStep(), scattering(crowd=2)),
        (CutStep(), cutting(crowd=2, quiet=0, pieces=60 * MINUTE)),
    ):
        _, _, after, _ = carried_out(put_in, step, options, here)
        assert set(after.trajectories.location.tolist()) == {0, 1, 2}


def test_a_crowd_is_counted_on_the_clock_and_in_the_grain() -> None:
    """Two who are in one cell in the same shown hour are a crowd, wherever in it they are."""
    places = Locations(np.array([1.0, 15.0, 50.0]), np.zeros(3))
    state = replace(make([(0, 59.8)], [(1, 60.4)], [(2, 60.0)]), places=places)
    here = reading(state)
    options = scattering(crowd=2, crowd_within="hour", clock=MINUTE, grain=Decimal(20))
    _, _, after, _ = carried_out(state, PointsStep(), options, here)
    assert sorted(after.owners().tolist()) == [0, 1]
    _, _, alone, _ = carried_out(state, PointsStep(), replace(options, clock=0), here)
    assert alone.samples == 0


FAULTS = ["crowd", "silence", "date", "lost", "week"]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_false_release_is_found_out(fault: str) -> None:
    rows = [[(k % 6 if t < 4 else 6 + k % 6, 1.0 * k) for k in range(60)] for t in range(5)]
    state = make(*rows)
    here = reading(state)
    options = cutting(
        pieces=10 * MINUTE, quiet=5 * MINUTE, crowd=4, crowd_within="hour", dates="hour-of-week"
    )
    drawn, logged, after, _ = carried_out(state, CutStep(), options, here)
    wrong: dict[str, CutOptions] = {
        "crowd": replace(options, crowd=5),
        "silence": replace(options, quiet=6 * MINUTE),
        "lost": replace(options, crowd=None, crowd_within=None),
    }
    side = after.trajectories
    if fault == "date":
        after = replace(after, trajectories=replace(side, at=side.at + MINUTE))
    elif fault == "week":
        at = side.at.copy()
        at[side.offsets[-2] :] += WEEK_US
        after = replace(after, trajectories=replace(side, at=at))
    elif fault == "lost":
        # one piece with a hole that no crowd explains
        logged = CutLog(logged.first[:1], logged.last[:1])
    with pytest.raises(VerificationFailed):
        CutStep().check(CompletedStep(here, state, drawn, logged, wrong.get(fault, options), after))


@pytest.mark.parametrize(
    "fault", ["crowd", "twice", "order", "left out", "place", "dominance", "too few", "unlike"]
)
def test_false_points_are_found_out(fault: str) -> None:
    rows = [[(k % 6 if t < 4 else 6 + k % 6, 1.0 * k) for k in range(30)] for t in range(5)]
    rows[0] += [
        (0, 30.0),
        (0, 31.0),
    ]  # who dominates, if more than a quarter of a place is too much
    state = make(*rows)
    here = reading(state)
    options = scattering(
        crowd=4, share=Decimal(50) if fault == "left out" else None,
        dominance={"dominance": Decimal(50), "unlike": Decimal(30), "too few": Decimal(25)}.get(fault),
    )  # fmt: skip
    drawn, logged, after, _ = carried_out(state, PointsStep(), options, here)
    side = after.trajectories
    if fault == "crowd":
        options = replace(options, crowd=5)
    elif fault == "twice":
        drawn = replace(drawn, row=np.append(drawn.row[:-1], drawn.row[-2]))
    elif fault == "order":
        after = replace(after, key=after.key[::-1])
    elif fault == "left out":
        options = replace(options, share=None)
    elif fault == "dominance":
        options = replace(options, dominance=Decimal(25))
    elif fault in ("too few", "unlike"):
        # without that rule, or under a milder one, more could be published
        options = replace(options, dominance=Decimal(30) if fault == "too few" else None)
    else:
        location = side.location.copy()
        location[0] = (location[0] + 1) % 6
        after = replace(after, trajectories=replace(side, location=location))
    with pytest.raises(VerificationFailed):
        PointsStep().check(CompletedStep(here, state, drawn, logged, options, after))


def test_each_sample_is_as_likely() -> None:
    state = make([(k, 1.0 * k) for k in range(20)])
    drawn = Counter(
        int(row)
        for seed in range(1000)
        for row in PointsStep()
        .draw(WORLD, state, scattering(share=Decimal("12.5")), SeededSource(seed))
        .row
    )
    # 125 expected of each, with a standard deviation of 10.5
    assert len(drawn) == 20 and min(drawn.values()) > 70 and max(drawn.values()) < 180


@pytest.mark.parametrize("given", [{"crowd": "10"}, {"crowd_within": "day"}])
@pytest.mark.parametrize("method", ["cut", "points"])
def test_crowds_that_cannot_be_are_refused(method: str, given: dict[str, str]) -> None:
    step, options = asked(method, **given)
    with pytest.raises(BadInput, match="crowd"):
        step.require_possible(options, 9, 100)
