"""`freqdp experiment`: what it writes, that it is what releases give, and that it leaves no trace."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from servers import SharedServer, cloned
from world import city_template, freqdp, written


@pytest.fixture
def city(shared_server: SharedServer, pytestconfig: pytest.Config) -> Iterator[str]:
    with cloned(shared_server.get(), city_template(shared_server, pytestconfig)) as url:
        yield url


def test_methods_side_by_side(city: str, tmp_path: Path) -> None:
    before = written(city)
    out = tmp_path / "found"
    answer = freqdp(
        city, "experiment", "city", "--method", "lg", "--method", "rsc:300", "--epsilon", "0.5",
        "--epsilon", "2", "--objects", "8", "--objects", "16", "--seeds", "2",
        "--roads", "demo.roads", "--out", str(out),
    ).succeeded()  # fmt: skip
    assert written(city) == before, "nothing is published, spent or stored"
    document = json.loads((out / "results.json").read_text())
    rows = list(csv.DictReader((out / "results.csv").read_text().splitlines()))
    # two sizes; lg with two epsilons and two seeds, rsc with neither
    assert len(rows) == len(document["runs"]) == answer["runs"] == 2 * (2 * 2 + 1)
    assert {r["epsilon"] for r in rows if r["method"] == "rsc:300"} == {""}
    for row in rows:
        precision, recall = float(row["recovery.precision"]), float(row["recovery.recall"])
        rmf = recall / precision + 1 - 2 * recall
        assert float(row["recovery.rmf"]) == pytest.approx(rmf)
    table = (out / "results.md").read_text()
    assert table.count("| lg |") == 4
    assert "±" in table
    for name in ("epsilon.svg", "size.svg"):
        assert ElementTree.parse(out / name).getroot().tag.endswith("svg")
    again = ("experiment", "city", "--method", "sc", "--out", str(out))
    freqdp(city, *again).refused("results.csv")
    freqdp(city, *again, "--force").succeeded()


def test_an_experiment_measures_what_a_release_would(city: str, tmp_path: Path) -> None:
    """The same seed, published, has the same metrics."""
    freqdp(
        city, "experiment", "city", "--method", "gl:paper", "--epsilon", "2", "--seeds", "1",
        "--time-step", "none", "--time-step", "5min", "--out", str(tmp_path / "e"),
    ).succeeded()  # fmt: skip
    run, coarse = json.loads((tmp_path / "e" / "results.json").read_text())["runs"]
    freqdp(
        city, "anonymize", "city", "--method", "gl", "--spread", "paper", "--epsilon", "2",
        "--seed", "1", "--as", "r", "--time-step", "5min",
    ).succeeded()  # fmt: skip
    measured = freqdp(city, "evaluate", "r", "--seed", "1").succeeded()["metrics"]
    assert coarse["values"] == measured
    assert (run["time_step_s"], coarse["time_step_s"]) == (None, 300)
    assert run["values"]["inf"] == measured["inf"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--method", "xyz"), ("--method", "xyz")),
        (("--method", "lg:"), ("--method", "lg:")),
        (("--method", "lg:near"), ("near",)),
        (("--epsilon", "0"), ("--epsilon", "0")),
        (("--objects", "41"), ("--objects 41", "40")),
        (("--objects", "0"), ("--objects 0",)),
        (("--seeds", "0"), ("--seeds 0",)),
        (("--time-step", "soon"), ("--time-step", "soon")),
        (("--roads", "demo.none"), ("demo.none",)),
    ],
    ids=str,
)
def test_bad_designs(
    city: str, tmp_path: Path, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    freqdp(city, "experiment", "city", *arguments, "--out", str(tmp_path / "e")).refused(*words)
    assert not (tmp_path / "e").exists()
