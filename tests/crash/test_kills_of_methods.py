"""kill -9 in every phase of the methods that unlink and make alike."""

from __future__ import annotations

import pytest
from harness import Driver
from witness import draws, require_whole, resumed, scene, spends

METHODS = {
    "swap": (),
    "cut": (),
    "lg+swap+cut": (),
    "glove": ("--k", "3"),
    "klt": ("--k", "3", "--poi", "demo.poi"),
    "w4m": ("--k", "3"),
}
# before the draw is committed, between draw and work, after the work, and in all that follows
MOMENTS = (
    "drawn: first",
    "targets: first",
    "targets: first edits logged",
    "copy: first rows",
    "publish: before verifying",
    "publish: before",
)


@pytest.mark.parametrize("method", METHODS)
def test_killed_in_every_phase(city: str, driver: Driver, method: str) -> None:
    """One release, killed once in each: one spend, and what was drawn first is released."""
    command = ("anonymize", "city", "--method", method, *METHODS[method])
    before = scene(city)
    committed: dict[str, object] = {}
    spent: list[object] = []
    for number, moment in enumerate(MOMENTS):
        run = driver.start(city, *command, stop=moment)
        run.reach()
        run.kill()
        assert require_whole(city, before) == before
        now = draws(city)
        assert {name: now[name] for name in committed} == committed
        assert bool(now) == (number > 0)
        committed = dict(now)
        assert spends(city) == (spent or spends(city))
        spent = list(spends(city))
    resumed(city, *command)
    ((_, amount, _),) = spends(city)
    assert (amount > 0) == (method == "lg+swap+cut")
    assert require_whole(city, before).catalog == [("city_1",)]
