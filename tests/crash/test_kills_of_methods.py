"""kill -9 in every phase of the methods that unlink, make alike and make up."""

from __future__ import annotations

import pytest
from harness import Driver
from witness import draws, leftovers, require_whole, scene, spends
from world import freqdp

METHODS = {
    "swap": (),
    "cut": (),
    "lg+swap+cut": (),
    "glove": ("--k", "3"),
    "klt": ("--k", "3", "--poi", "demo.poi"),
    "w4m": ("--k", "3"),
    "strict": (),
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
PUBLIC = ("--region", "4.26,50.79,4.44,50.91", "--period", "2024-03-03/2024-03-31")


@pytest.mark.parametrize("method", METHODS)
def test_killed_in_every_phase(city: str, driver: Driver, method: str) -> None:
    """One release, killed once in each: one spend at most, and what was drawn first is released."""
    if method == "strict":
        freqdp(city, "dataset", "set", "city", *PUBLIC).succeeded()
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
    answer = freqdp(city, *command).succeeded()
    assert (answer["state"], answer["resumed"]) == ("published", True)
    assert answer["verified"]["rows"] == answer["rows"] > 0
    now = draws(city)
    assert {name: now[name] for name in committed} == committed
    assert spends(city) == spent
    assert len(spent) == (method in ("strict", "lg+swap+cut"))
    assert leftovers(city) == []
    assert require_whole(city, before).catalog == [("city_1",)]
