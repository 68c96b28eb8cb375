"""Every step of the newer families where there is little to work with: nobody meets, everybody is at
one place, there is one object, all times are equal, k is more than there are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from alone import MINUTE, WORLD, asked, carried_out, make
from hypothesis import given
from hypothesis import strategies as st
from small_worlds import quick

from freqdp_db.errors import BadInput
from freqdp_db.methods.contract import WorkingSet
from freqdp_db.model.trajectories import Points

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


def test_equal_times_at_one_place_are_one_area() -> None:
    step, options = asked("glove", k=3)
    *_, after, found = carried_out(make(*[[(2, 7.0)] * 4] * 4), step, options)
    assert after.members.tolist() == [4] and found["samples_inside"] == 16
    assert after.samples == 1
    assert int(after.areas.until[0] - after.trajectories.at[0]) == MINUTE
