"""A release of counts through the product: made, verified, resumed, refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyogrio
import pytest
from servers import clone_of, filled_once
from world import add_city, freqdp, query, report, value, verify

from freqdp_db.methods.counts import plan
from freqdp_db.release import planning

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "counts.md"
COUNTS = (
    "anonymize",
    "town",
    "--method",
    "counts",
    "--zones",
    "grid:2km",
    "--bins",
    "parts-of-day",
)


def _build(url: str) -> None:
    freqdp(
        url, "load", "demo", "--objects", "120", "--days", "2", "--into", "demo.city",
        "--roads-into", "demo.town_roads",
    ).succeeded()  # fmt: skip
    add_city(url, "town", "--region", "4.26,50.79,4.44,50.91", "--period", "2024-03-01/2024-03-20")
    freqdp(url, "dataset", "build", "town").succeeded()


town_db = filled_once("town", _build)
town = clone_of("town_db")


@pytest.mark.parametrize("accounting", ["zcdp", "pure"])
def test_tables_agree_in_sql(town: str, accounting: str) -> None:
    made = freqdp(town, *COUNTS, "--epsilon", "0.5", "--accounting", accounting).succeeded()
    assert made["verified"]["checked"]["sums"] > 0
    assert verify(town, "town_1")["checked"]["measurements"] > 0
    # zones add up to districts, and these to the city, in every bin; bins to all bins
    for table in ("visits", "stays"):
        for number in ("value", "estimate"):
            differ = query(
                town,
                f"SELECT z.parent, v.bin FROM freqdp_release.town_1_{table} AS v "
                f"JOIN freqdp_release.town_1_zone AS z USING (zone) WHERE z.parent > 0 "
                f"GROUP BY 1, 2 HAVING abs(sum(v.{number}) - (SELECT w.{number} "
                f"FROM freqdp_release.town_1_{table} AS w WHERE w.zone = z.parent AND w.bin = v.bin)) "
                "> 0.001",
            )
            assert differ == []
    city = value(town, "SELECT zone FROM freqdp_release.town_1_zone WHERE level = 'city'")
    trips = query(
        town, "SELECT bin, sum(value) FROM freqdp_release.town_1_trips GROUP BY 1 ORDER BY 1"
    )
    flows = query(
        town,
        "SELECT bin, value FROM freqdp_release.town_1_flows "
        f"WHERE origin = {city} AND destination = {city} ORDER BY 1",
    )
    assert [(b, int(n)) for b, n in trips] == flows and len(flows) == 6
    assert value(town, "SELECT count(*) FROM freqdp_release.town_1_visits_map") > 0
    assert value(
        town, "SELECT min(margin) > 0 AND min(estimate) >= 0 FROM freqdp_release.town_1_visits"
    )


def test_a_sparse_domain(town: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As one of a million zones: zones over all bins together, single bins where there is something."""
    monkeypatch.setattr(plan, "MAX_DENSE_CELLS", 10)
    freqdp(town, *COUNTS, "--epsilon", "4").succeeded()
    verify(town, "town_1")
    for table in ("visits", "stays"):
        rows = query(
            town,
            f"SELECT level, count(*) FILTER (WHERE bin = 0), count(*) FROM freqdp_release.town_1_{table} "
            "JOIN freqdp_release.town_1_zone USING (zone) GROUP BY level",
        )
        zones = value(town, "SELECT count(*) FROM freqdp_release.town_1_zone WHERE level = 'zone'")
        by_level = {level: (whole, every) for level, whole, every in rows}
        whole, every = by_level["zone"]
        assert whole == zones and zones <= every < 6 * zones
        assert by_level["district"][1] == 6 * by_level["district"][0]
    shown = "SELECT count(*) FROM freqdp_release.town_1_visits WHERE shown_from > 0"
    assert value(town, shown) > 0
    metrics = freqdp(town, "evaluate", "town_1").succeeded()["metrics"]
    assert metrics["counts.coverage.visits.zone"] > 0.9
    assert metrics["membership.auc.unprotected"] > 0.7
    assert "maps of the districts" in report(town, "town_1", tmp_path)


def test_a_plan_reads_no_data(town: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Margins come from what is public and declared, then from the noisy numbers of a release."""

    def fail(*arguments: Any, **more: Any) -> None:
        raise AssertionError("the data were read")

    monkeypatch.setattr(planning, "load_build", fail)
    asked = ("plan", *COUNTS[1:], "--epsilon", "1")
    few, many = (
        freqdp(town, *asked, "--objects", str(n)).succeeded()["steps"][0] for n in (500, 50_000)
    )
    assert few["visits_zone_margin"] > 0 and few["noisy_objects"] == 500
    assert few["visits_zone_margin"] <= many["visits_zone_margin"]
    assert "3 trips" in freqdp(town, *asked, in_words=True).out
    freqdp(town, "plan", "town", "--method", "cut", "--objects", "9").refused("--objects")
    freqdp(town, *asked, "--objects", "0").refused("--objects")
    monkeypatch.undo()
    freqdp(town, *COUNTS, "--epsilon", "1").succeeded()
    monkeypatch.setattr(planning, "load_build", fail)
    planned = freqdp(town, *asked).succeeded()
    assert "town_1" in planned["basis"]
    margin = value(
        town,
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY margin) FROM freqdp_release.town_1_visits "
        "JOIN freqdp_release.town_1_zone USING (zone) WHERE level = 'zone' AND bin = 1",
    )
    assert planned["steps"][0]["visits_zone_margin"] == pytest.approx(margin, abs=0.1)


def test_roads(town: str, tmp_path: Path) -> None:
    """A row for each road and bin, with its line on a map; through verify, export, report, evaluate."""
    asked = (*COUNTS, "--roads", "demo.town_roads", "--epsilon", "4")
    made = freqdp(town, *asked, "--tables", "visits").succeeded()
    assert sorted(name.rpartition("town_1_")[2] for name in made["relations"]) == [
        "bin", "road", "roads", "roads_map", "visits", "visits_map", "zone",
    ]  # fmt: skip
    verify(town, "town_1")
    whole, roads, far = query(
        town,
        "SELECT count(*), count(*) FILTER (WHERE r.geom IS NOT NULL), "
        "max(ST_HausdorffDistance(ST_GeometryN(z.geom, 1), r.geom)) FROM freqdp_release.town_1_road z "
        "LEFT JOIN demo.town_roads r ON r.id::text = z.name WHERE z.level = 'road'",
    )[0]
    assert whole == roads > 100 and far < 1e-7
    rows = query(
        town,
        "SELECT level, count(*), min(m.mean_kmh), max(m.mean_kmh), sum(r.value) FILTER (WHERE bin = 0) "
        "FROM freqdp_release.town_1_roads r JOIN freqdp_release.town_1_roads_map m USING (road, bin) "
        "GROUP BY level",
    )
    by_level = {level: found for level, *found in rows}
    assert by_level["road"][0] == 6 * whole and by_level["city"][0] == 6
    assert all(0 <= least <= most <= 120 for _, least, most, _ in by_level.values())
    assert len({total for *_, total in by_level.values()}) == 1
    *_, of_page = re.findall(
        r"^```sql\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    busy = query(
        town,
        of_page.replace("vans_current", "town_1").replace("08:00-09:00", "morning 06:00-10:00"),
    )
    assert busy and all(shown > margin for _, shown, margin, *_ in busy)
    out = tmp_path / "roads.gpkg"
    freqdp(town, "release", "export", "town_1", "--format", "gpkg", "--out", str(out)).succeeded()
    info = pyogrio.read_info(out, layer="town_1_roads_map")
    assert info["geometry_type"] == "MultiLineString" and "mean_kmh" in info["fields"]
    assert "The busiest roads" in report(town, "town_1", tmp_path)
    metrics = freqdp(town, "evaluate", "town_1").succeeded()["metrics"]
    assert 0.9 < metrics["counts.coverage.roads.road"] <= 1
    assert freqdp(town, "plan", *asked[1:]).succeeded()["steps"][0]["roads_road_margin"] > 0
