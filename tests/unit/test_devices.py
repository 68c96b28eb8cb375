"""Devices that betray themselves: attackers by instants and digits, and what unlinking does about it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from test_exposure import by_devices

from freqdp_db.errors import VerificationFailed
from freqdp_db.evaluation.attacks.devices import decimals_of
from freqdp_db.evaluation.evaluate import run_trial
from freqdp_db.evaluation.pair import Case
from freqdp_db.methods.contract import StepContext, WorkingSet
from freqdp_db.methods.unlinking.clock import check_grains, clock_for, grain_for, put_in_grains
from freqdp_db.model.arrays import Ints
from freqdp_db.model.trajectories import Build, Clock, Locations, Trajectories
from freqdp_db.release.request import Request

SECOND = 1_000_000
OBJECTS, SAMPLES, SIDE = 40, 300, 12

STREETS = 500_000 + 250.0 * np.stack(np.divmod(np.arange(SIDE * SIDE), SIDE))


def wanderers(
    phase: Ints, interval: int = 60 * SECOND, places: Locations | None = None
) -> StepContext:
    """Objects that wander over one grid of streets, each sending at instants of its own.

    phase: of each object (rows) and sample (columns), microseconds after the full interval.
    places: each object's own, of the same streets.
    """
    rng, objects = np.random.default_rng(5), len(phase)
    steps = rng.integers(-1, 2, (objects, SAMPLES, 2))
    steps[:, 0] = rng.integers(0, SIDE, (objects, 2))
    way = np.abs(np.cumsum(steps, axis=1)) % (2 * SIDE)
    way = np.minimum(way, 2 * SIDE - 1 - way)
    location = way[..., 0] * SIDE + way[..., 1]
    if places is not None:
        location = location + np.arange(objects)[:, None] * SIDE * SIDE
    at = np.arange(SAMPLES) * interval + np.broadcast_to(phase, (objects, SAMPLES))
    trajectories = Trajectories(
        np.arange(objects + 1) * SAMPLES, location.ravel().astype(np.int32), at.ravel(), at[:, 0]
    )
    shown = Locations(*STREETS, *STREETS) if places is None else places
    return StepContext(Build(trajectories, shown, Clock(1, interval), 32631, 32631))


def exposure(world: StepContext, method: str, mark: str, **given: str) -> tuple[float, float]:
    """What the attacker by a mark learns of an object, and how much of its claims is right."""
    request = Request.parse(method, **given)
    state, _ = run_trial(request, world, 1)
    found = by_devices(Case.of(world.build, state, request.values))
    return found[f"exposure.{mark}.10"], found[f"exposure.{mark}.10.precision"]


def fractions() -> Ints:
    return (np.arange(OBJECTS) * 23_456 % SECOND)[:, None]


def seconds() -> Ints:
    return (np.arange(OBJECTS) * SECOND)[:, None]


def shuffled(phase: Ints) -> Ints:
    """The same instants, but no device has some of its own."""
    rng = np.random.default_rng(6)
    return rng.permuted(np.repeat(phase, SAMPLES, axis=1), axis=0)


CUT = {"ends": "1", "trips": "4h", "pieces": "20min", "quiet": "5min"}


@pytest.mark.parametrize("method", ["swap", "cut"])
@pytest.mark.parametrize(
    ("mark", "phase", "interval"),
    [
        ("fraction", fractions(), 60 * SECOND),
        ("second", seconds(), 60 * SECOND),
        ("interval", seconds() * 3, 170 * SECOND),
    ],
)
def test_devices_are_known_by_their_clocks_until_there_is_one_for_all(
    method: str, mark: str, phase: Ints, interval: int
) -> None:
    given = CUT if method == "cut" else {}
    world = wanderers(phase, interval)
    learnt, right = exposure(world, method, mark, **given, clock="0s")
    # what cut leaves out cannot be found in it
    assert learnt > (0.99 if method == "swap" else 0.75)
    assert right > 0.99
    clock = f"{-(-interval // (60 * SECOND)) * 60}s"
    assert exposure(world, method, mark, **given, clock=clock)[0] < 0.05
    assert (
        exposure(wanderers(shuffled(phase), interval), method, mark, **given, clock="0s")[0] < 0.1
    )


def written_with(decimals: Ints) -> Locations:
    """The streets as devices write them that have so many decimals each: (device, place)."""
    rng = np.random.default_rng(7)
    noise = rng.normal(0.0, 3.0, (2, *decimals.shape))
    exact = STREETS[:, None, :] + noise
    shown = np.empty_like(exact)
    for d in np.unique(decimals):
        shown[:, decimals == d] = np.round(exact[:, decimals == d], int(d))
    x, y = shown.reshape(2, -1)
    return Locations(x, y, x, y)


@pytest.mark.parametrize("method", ["swap", "cut"])
def test_devices_are_known_by_their_digits_until_there_is_one_grain(method: str) -> None:
    devices = 8
    own = np.repeat(np.arange(1, devices + 1)[:, None], SIDE * SIDE, axis=1)
    given = CUT if method == "cut" else {}
    together = np.zeros((devices, 1), np.int64)
    world = wanderers(together, places=written_with(own))
    learnt, right = exposure(world, method, "digits", **given, clock="60s")
    assert learnt > (0.99 if method == "swap" else 0.75)
    assert right > 0.99
    assert exposure(world, method, "digits", **given, clock="60s", grain="20")[0] == 0.0
    mixed = np.random.default_rng(8).permuted(own, axis=0)
    world = wanderers(together, places=written_with(mixed))
    assert exposure(world, method, "digits", **given, clock="60s")[0] < 0.1


def test_decimals_are_counted_as_they_are_written() -> None:
    x = np.array([4.0, 4.25, 4.123456, 50.1234567, 1 / 3])
    assert decimals_of(Locations(x, x, x, np.zeros(5))).tolist() == [0, 2, 6, 7, 10]  # type: ignore[union-attr]
    assert decimals_of(Locations(x, x)) is None


def test_a_build_gets_its_clock_and_its_grain() -> None:
    """A request takes both from the build; one that was stored without them keeps to that."""
    expected = {1: 1, 17: 15, 19: 20, 59: 60, 71: 60, 73: 120, 177: 180, 190: 180, 40_000: 3600}
    for gap, clock in expected.items():
        assert clock_for(gap * SECOND) == clock * SECOND
    assert (grain_for("exact"), grain_for("grid:100"), grain_for("anchors:a.b")) == (20, None, None)
    stored = Request.from_json("swap", Request.parse("swap").document())
    assert "clock" not in stored.values and "grain" not in stored.values


@pytest.mark.parametrize("fault", ["place", "centre"])
def test_a_false_grain_is_found_out(fault: str) -> None:
    world = wanderers(np.zeros((3, 1), np.int64), places=written_with(np.full((3, SIDE * SIDE), 5)))
    state = WorkingSet(world.build.trajectories, world.locations, np.arange(3))
    after = put_in_grains(state, Decimal(20))
    check_grains(state, after, Decimal(20))
    x = after.places.x + (20.0 if fault == "place" else 0.5)
    with pytest.raises(VerificationFailed):
        check_grains(state, replace(after, places=replace(after.places, x=x)), Decimal(20))
