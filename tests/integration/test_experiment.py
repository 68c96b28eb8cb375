"""`freqdp experiment`: what it writes, that it is what releases give, and that it leaves no trace."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from world import anonymize, freqdp, written

from freqdp_db.paper.summary_table import COLUMNS, ROWS


def test_methods_side_by_side(city: str, tmp_path: Path) -> None:
    before = written(city)
    out = tmp_path / "found"
    answer = freqdp(
        city, "experiment", "city", "--method", "lg", "--method", "rsc:300", "--epsilon", "2",
        "--objects", "8", "--objects", "16", "--seeds", "2", "--roads", "demo.roads",
        "--out", str(out),
    ).succeeded()  # fmt: skip
    assert written(city) == before, "nothing is published, spent or stored"
    document = json.loads((out / "results.json").read_text())
    rows = list(csv.DictReader((out / "results.csv").read_text().splitlines()))
    # two sizes; lg with an epsilon and two seeds, rsc with neither
    assert len(rows) == len(document["runs"]) == answer["runs"] == 2 * (2 + 1)
    assert {r["epsilon"] for r in rows if r["method"] == "rsc:300"} == {""}
    for row in rows:
        precision, recall = float(row["recovery.precision"]), float(row["recovery.recall"])
        rmf = recall / precision + 1 - 2 * recall
        assert float(row["recovery.rmf"]) == pytest.approx(rmf)
    table = (out / "results.md").read_text()
    assert table.count("| lg |") == 2
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
    anonymize(
        city,
        "city",
        "gl",
        "--spread",
        "paper",
        "--epsilon",
        "2",
        "--seed",
        "1",
        "--as",
        "r",
        "--time-step",
        "5min",
    )
    measured = freqdp(city, "evaluate", "r", "--seed", "1").succeeded()["metrics"]
    assert coarse["values"] == measured
    assert (run["time_step_s"], coarse["time_step_s"]) == (None, 300)
    assert run["values"]["inf"] == measured["inf"]


def test_the_paper_s_table(city: str, tmp_path: Path) -> None:
    """All its rows and columns beside the published values; what cannot run is said."""
    before = written(city)
    out = tmp_path / "paper"
    answer = freqdp(
        city, "experiment", "city", "--paper", "--roads", "demo.roads", "--seeds", "1",
        "--objects", "20", "--objects", "40", "--epsilon", "0.5", "--epsilon", "1",
        "--poi", "demo.poi", "--category", "category", "--out", str(out),
    ).succeeded()  # fmt: skip
    assert written(city) == before, "nothing is published, spent or stored"
    document = json.loads((out / "results.json").read_text())
    # what guarantees something for a person needs a public region: it is left out
    assert set(document["left_out"]) == {"DPT", "AdaTrace"}
    assert all("must be declared" in why for why in document["left_out"].values())
    runs = {(run["method"], run["epsilon"]): run for run in document["runs"]}
    ran = {row.title for row in ROWS} - {"DPT", "AdaTrace"}
    assert {title for title, _ in runs} == ran
    assert {t for t, epsilon in runs if epsilon == "0.5"} == {"PureG", "PureL", "GL"}
    assert answer["runs"] == len(runs) == len(ran) + 3
    for run in runs.values():
        assert set(run["values"]) == set(COLUMNS.values())
        assert run["objects"] == 40
    # what removes the ten strongest places has none of them left to link by
    assert runs["SC", None]["values"]["la_s.a.10"] < runs["PureG", "1"]["values"]["la_s.a.10"]
    # groups of five: at most one of them is linked right
    assert runs["GLOVE", None]["values"]["la_s.a.10"] <= 0.3
    wider = [runs[f"RSC-{km}", None]["values"]["inf"] for km in ("0.1", "0.5", "1.0", "3.0")]
    assert wider == sorted(wider)
    assert [t["objects"] for t in document["times"]] == [20, 40]
    assert set(document["times"][0]["steps"]) == {"global", "local"}
    assert document["published"]["GL"]["recovery.rmf"] == 1.42
    table = (out / "results.md").read_text().splitlines()
    assert sum(line.startswith("| | paper |") for line in table) == len(ROWS) == 14
    assert any(line.startswith("| DPT | not run |") for line in table)
    for name in ("epsilon.svg", "size.svg"):
        assert ElementTree.parse(out / name).getroot().tag.endswith("svg")
