"""`freqdp bench`: it measures the product, compares the answers and leaves nothing behind."""

from __future__ import annotations

import json
from typing import Any

import pytest
from world import freqdp, query

from freqdp_db.paper import bench
from freqdp_db.paper.bench import PipelineRun, growth_exponent
from freqdp_db.paper.strategies import STRATEGIES, Strategy
from freqdp_db.search.nearest import Nearest

NAMES = [*STRATEGIES, "gist"]


def _schemas(url: str) -> set[str]:
    return {
        row[0] for row in query(url, "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_'")
    }


def test_search(city: str) -> None:
    before = _schemas(city)
    done = freqdp(
        city, "bench", "search", "city", "--sizes", "10,99", "--queries", "40", "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert document["answers_equal"] is True
    assert [run["trajectories"] for run in document["runs"]] == [10, 40]
    assert [s["name"] for s in document["strategies"]] == NAMES
    for strategy in document["strategies"]:
        assert strategy["us_per_query"] > 0 and strategy["distances_per_query"] > 0
        assert strategy["queries"] > 0
    looked = {s["name"]: s["distances_per_query"] for s in document["strategies"]}
    assert looked["linear"] == document["segments"]
    assert looked["extent"] < looked["linear"]
    # the build has a grid of all trajectories, and of no part of them
    assert document["runs"][0]["stored"] == []
    assert [s["memory_mb"] is None for s in document["stored"]] == [True, False]
    assert all(s["queries"] == document["queries"] for s in document["stored"])
    assert _schemas(city) == before


def test_a_wrong_answer_is_seen(city: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = STRATEGIES["extent"]

    def wrong(*arguments: Any) -> Nearest:
        found = right.query(*arguments)
        found.loss_mm[-1] += 1
        return found

    monkeypatch.setitem(bench.STRATEGIES, "extent", Strategy("extent", right.build, wrong))
    done = freqdp(city, "bench", "search", "city", "--queries", "10", "--strategies",
                  "linear,extent", "--json")  # fmt: skip
    assert json.loads(done.out)["answers_equal"] is False


def test_pipeline(database_url: str) -> None:
    before = _schemas(database_url)
    done = freqdp(database_url, "bench", "pipeline", "--sizes", "10,20", "--json")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert [run["trajectories"] for run in document["runs"]] == [10, 20]
    for run in document["runs"]:
        assert run["samples"] > 0 and run["peak_rss_mb"] > 0
        for seconds in ("floor_s", "build_s", "anonymize_s"):
            assert run[seconds] > 0, seconds
        assert sum(run["floor_parts"].values()) == pytest.approx(run["floor_s"])
        assert {"read build", "write release", "replay steps"} <= set(run["anonymize_stages"])
    assert isinstance(document["growth_exponent"], float)
    assert _schemas(database_url) == before, "the benchmark's schemas are gone"
    assert query(database_url, "SELECT count(*) FROM freqdp.spend") == [(0,)]


def test_growth_exponent() -> None:
    def run(size: int, seconds: float) -> PipelineRun:
        return PipelineRun(size, size, 1.0, {}, 1.0, {}, seconds, {}, 1.0, {})

    assert growth_exponent([run(10, 1.0), run(100, 10.0), run(1000, 100.0)]) == pytest.approx(1.0)
    assert growth_exponent([run(10, 1.0), run(100, 100.0)]) == pytest.approx(2.0)
    assert growth_exponent([run(10, 1.0)]) is None
