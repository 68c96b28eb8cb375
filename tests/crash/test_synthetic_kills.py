"""kill -9 in every phase of a synthetic release: nothing is drawn or spent twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from harness import Driver
from servers import SharedServer, cloned
from witness import draws, require_whole, resumed, scene, spends
from world import freqdp, value

STRICT = ("anonymize", "town", "--method", "strict", "--epsilon", "1", "--size", "200")

# How many sets of draws are committed at each moment: the key with that of the one step.
MOMENTS = {
    "spent: before the lock": 0,
    "spent: before reading": 0,
    "drawn: first": 0,
    "targets: first": 2,
    "targets: first edits logged": 2,
    "copy: first rows": 2,
    "publish: before verifying": 2,
    "publish: before": 2,
}


@pytest.fixture(scope="module")
def built_town(shared_server: SharedServer) -> Iterator[str]:
    """A database with a city of enough objects, whose region and period are public."""
    with cloned(shared_server.get(), shared_server.template(schema=True)) as url:
        freqdp(
            url, "load", "demo", "--objects", "60", "--days", "2", "--into", "demo.city",
            "--roads-into", "demo.town_roads",
        ).succeeded()  # fmt: skip
        freqdp(
            url, "dataset", "add", "town", "--from", "demo.city", "--object", "object_id",
            "--time", "at", "--geom", "geom", "--region", "4.26,50.79,4.44,50.91",
            "--period", "2024-03-01/2024-03-20",
        ).succeeded()  # fmt: skip
        freqdp(url, "dataset", "build", "town").succeeded()
        yield value(url, "SELECT current_database()")


@pytest.fixture
def town(shared_server: SharedServer, built_town: str) -> Iterator[str]:
    with cloned(shared_server.get(), built_town) as url:
        yield url


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_synthetic_release_is_resumed(town: str, driver: Driver, moment: str) -> None:
    before = scene(town)
    run = driver.start(town, *STRICT, stop=moment)
    run.reach()
    run.kill()
    assert require_whole(town, before) == before
    assert len(draws(town)) == MOMENTS[moment]
    resumed(town, *STRICT)
    spent = spends(town)
    assert len(draws(town)) == 2
    assert freqdp(town, *STRICT).succeeded()["existed"] is True
    assert spends(town) == spent
    require_whole(town, before)
