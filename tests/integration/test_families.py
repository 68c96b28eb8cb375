"""Methods beside the paper's, through the whole product: unlinked and synthetic releases."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from library import load_city, opened
from servers import SharedServer, cloned
from synthetic_world import rough_fits
from world import freqdp, query, value

from freqdp_db.evaluation.gate import approve_within_limit
from freqdp_db.jobs.worker import Worker
from freqdp_db.methods.synthesis import steps

_REGION = ("--region", "3.9,51.9,4.9,52.4", "--period", "2024-03-03/2024-03-12")


@pytest.fixture(scope="module")
def city_database(shared_server: SharedServer, template_db: str) -> Iterator[str]:
    """A city of 60 objects with public facts, built."""
    with cloned(shared_server.get(), template_db) as url:
        load_city(url, objects=60, days=3)
        box = value(
            url,
            "SELECT concat_ws(',', floor(min(ST_X(geom)) * 100) / 100, "
            "floor(min(ST_Y(geom)) * 100) / 100, ceil(max(ST_X(geom)) * 100) / 100, "
            "ceil(max(ST_Y(geom)) * 100) / 100) FROM demo.city "
            "WHERE ST_X(geom) BETWEEN 3 AND 6 AND ST_Y(geom) BETWEEN 50 AND 54",
        )
        freqdp(
            url, "dataset", "add", "city", "--from", "demo.city", "--object", "object_id",
            "--time", "at", "--geom", "geom", "--region", box, "--period", "2024-03-01/2024-03-20",
        ).succeeded()  # fmt: skip
        freqdp(url, "dataset", "build", "city").succeeded()
        yield url


@pytest.fixture
def url(shared_server: SharedServer, city_database: str) -> Iterator[str]:
    name = value(city_database, "SELECT current_database()")
    with cloned(shared_server.get(), name) as copy:
        yield copy


@pytest.mark.parametrize("method", ["swap", "cut", "lg+swap", "pure-l+cut", "gl+swap+cut"])
def test_unlinked(url: str, method: str, tmp_path: Path) -> None:
    made = freqdp(url, "anonymize", "city", "--method", method).succeeded()
    assert made["kind"] == "unlinked" and made["grantable"]
    assert freqdp(url, "release", "verify", made["name"]).succeeded()["verified"]
    measured = freqdp(url, "evaluate", made["name"]).succeeded()
    assert 0 <= measured["metrics"]["exposure"] <= 1 and "la" not in measured["metrics"]
    freqdp(url, "release", "report", made["name"], "--out", str(tmp_path / "r.html")).succeeded()
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "do not follow one" in page or "No id says which pieces" in page
    assert query(url, "SELECT kind FROM freqdp_release.catalog") == [("unlinked",)]


def test_swapping_loses_nothing(url: str) -> None:
    """By SQL: every place and time of the build is in the table, and no other."""
    freqdp(url, "anonymize", "city", "--method", "swap", "--as", "r").succeeded()
    source = (
        "SELECT l.geom::text, s.at FROM freqdp.sample s JOIN freqdp.location l "
        "USING (build_id, location_id)"
    )
    released = "SELECT geom::text, at FROM freqdp_release.r"
    for one, other in ((source, released), (released, source)):
        assert query(url, f"({one}) EXCEPT ALL ({other}) LIMIT 1") == []


def test_an_unlinked_release_is_not_put_beside_a_linked_one(url: str) -> None:
    freqdp(url, "anonymize", "city", "--as", "linked").succeeded()
    freqdp(url, "anonymize", "city", "--method", "swap").refused("linked", "undoes")
    assert value(url, "SELECT count(*) FROM freqdp.release") == 1
    freqdp(url, "anonymize", "city", "--method", "swap", "--beside", "linked").succeeded()


def test_a_linked_release_is_not_put_beside_an_unlinked_one(url: str) -> None:
    """Which of the two was first makes no difference to who has both."""
    freqdp(url, "anonymize", "city", "--method", "swap", "--as", "mixed").succeeded()
    refusal = freqdp(url, "anonymize", "city").refused("mixed", "undoes")
    assert "--hold" in refusal["remedy"]
    assert value(url, "SELECT count(*) FROM freqdp.release") == 1
    # what analysts never get is no harm, and what is held is looked at again
    freqdp(url, "anonymize", "city", "--seed", "1").succeeded()
    freqdp(url, "anonymize", "city", "--hold", "--as", "kept").succeeded()
    freqdp(url, "release", "approve", "kept").refused("mixed", "undoes")
    freqdp(url, "release", "withdraw", "mixed").succeeded()
    freqdp(url, "release", "approve", "kept").succeeded()


def test_moved_objects_are_linked_too(url: str) -> None:
    """A trajectory of w4m is one object's, moved: it tells who is who in an unlinked release."""
    freqdp(url, "anonymize", "city", "--method", "w4m", "--as", "moved").succeeded()
    freqdp(url, "anonymize", "city", "--method", "swap").refused("moved", "undoes")
    freqdp(url, "release", "withdraw", "moved").succeeded()
    freqdp(url, "anonymize", "city", "--method", "swap", "--as", "mixed").succeeded()
    freqdp(url, "anonymize", "city", "--method", "w4m", "--new-draw").refused("mixed", "undoes")
    freqdp(url, "anonymize", "city", "--method", "glove").succeeded()


def test_a_linked_release_may_follow_where_that_was_accepted(url: str) -> None:
    freqdp(url, "anonymize", "city", "--as", "linked").succeeded()
    freqdp(url, "anonymize", "city", "--method", "swap", "--beside", "linked").succeeded()
    freqdp(url, "anonymize", "city", "--new-draw").succeeded()


def test_a_person_is_protected(url: str) -> None:
    made = freqdp(
        url, "anonymize", "city", "--method", "strict", "--epsilon", "1", "--size", "200"
    ).succeeded()
    assert (made["kind"], made["unit"]) == ("synthetic", "person")
    assert "one person with all data" in made["guarantee"]["plain"]
    assert freqdp(url, "release", "verify", made["name"]).succeeded()["checked"]["trips"] == 200
    budget = freqdp(url, "budget", "city").succeeded()
    assert budget["unit"] == "occurrence" and float(budget["spent"]) == 0
    (persons,) = budget["other_units"]
    assert persons["unit"] == "person"
    assert float(persons["spent"]) == pytest.approx(0.024356, rel=1e-3)
    freqdp(url, "evaluate", made["name"]).succeeded()
    freqdp(url, "ledger", "verify").succeeded()
    # the same again draws nothing; the budget for persons ends at epsilon 4
    assert freqdp(
        url, "anonymize", "city", "--method", "strict", "--epsilon", "1", "--size", "200"
    ).succeeded()["existed"]
    refused = freqdp(url, "anonymize", "city", "--method", "strict", "--epsilon", "5").refused(
        "budget", "(rho for one person): requested 0.4"
    )
    assert "--unit person --raise" in refused["remedy"]


def test_the_ledger_says_which_releases_its_bound_does_not_cover(url: str) -> None:
    asked = ("anonymize", "city", "--method", "strict", "--epsilon", "1", "--size", "200")
    freqdp(url, *asked).succeeded()
    assert "seeded" not in freqdp(url, "budget", "city", in_words=True).out
    freqdp(url, *asked, "--seed", "1", "--as", "known").succeeded()
    said = freqdp(url, "budget", "city", in_words=True).out
    assert "does not hold for known: its noise was seeded" in " ".join(said.split())


@pytest.mark.parametrize("method", ["adatrace", "dpt"])
def test_baselines(url: str, method: str) -> None:
    made = freqdp(url, "anonymize", "city", "--method", method, "--epsilon", "0.5").succeeded()
    assert freqdp(url, "release", "verify", made["name"]).succeeded()["verified"]


def test_a_guarantee_for_a_person_needs_public_facts(url: str) -> None:
    query(url, "UPDATE freqdp.dataset SET region = NULL")
    refused = freqdp(url, "anonymize", "city", "--method", "strict").refused("region", "public")
    assert "dataset set city --region" in refused["remedy"]
    for option, given in (
        ("--region", "1,2,3"), ("--region", "5,5,4,6"), ("--epsilon", "0"), ("--epsilon", "21"),
        ("--delta", "0.1"), ("--accounting", "loose"), ("--size", "0"), ("--every", "0s"),
        ("--period", "2024-03-09/2024-03-01"),
    ):  # fmt: skip
        freqdp(url, "anonymize", "city", "--method", "strict", option, given).refused(option, given)
    assert value(url, "SELECT count(*) FROM freqdp.release") == 0


def test_a_region_with_an_outline(url: str, tmp_path: Path) -> None:
    """From a file of GeoJSON or WKT, and from a table of polygons: the same region."""
    query(url, "CREATE TABLE demo.area AS SELECT ST_Buffer(ST_Centroid(ST_Extent(geom)::geometry), "
          "0.05, 8) AS geom FROM demo.roads")  # fmt: skip
    query(url, "SELECT UpdateGeometrySRID('demo', 'area', 'geom', 4326)")
    file, words = tmp_path / "area.geojson", tmp_path / "area.wkt"
    file.write_text(value(url, "SELECT ST_AsGeoJSON(geom, 15) FROM demo.area"))
    words.write_text(value(url, "SELECT ST_AsText(geom, 15) FROM demo.area"))
    said = [
        freqdp(url, "dataset", "set", "city", "--region", given).succeeded()["region"]
        for given in ("demo.area", str(file), str(words))
    ]
    assert all(text.startswith("MULTIPOLYGON(((") for text in said)
    # a union may begin its ring elsewhere
    assert len({frozenset(text[15:-3].split(", ")) for text in said}) == 1
    made = freqdp(url, "anonymize", "city", "--method", "strict", "--size", "200").succeeded()
    assert freqdp(url, "release", "verify", made["name"]).succeeded()["verified"]
    out = f'SELECT count(*) FROM freqdp_release."{made["name"]}" r, demo.area a '
    assert value(url, out + "WHERE NOT ST_DWithin(r.geom, a.geom, 0.000001)") == 0
    query(url, "SELECT freqdp.request_release('city', 'strict', 1, jsonb_build_object('region', %s::text))",
          words.read_text())  # fmt: skip
    for wrong in (str(tmp_path / "none.geojson"), "demo.nothing", "POLYGON((1 1, 2 2))"):
        freqdp(url, "dataset", "set", "city", "--region", wrong).refused("--region")


def test_asked_for_in_sql(url: str) -> None:
    for method, options in (
        ("swap", '{"meet": "400m/2min"}'),
        ("cut", '{"pieces": "30min", "quiet": 0}'),
        ("strict", '{"epsilon": 1, "size": 100}'),
    ):
        query(url, "SELECT freqdp.request_release('city', %s, NULL, %s::jsonb)", method, options)
    with opened(url) as database:
        assert Worker(database, approve_within_limit).serve(once=True).done == 3
    kinds = query(url, "SELECT kind FROM freqdp_release.catalog ORDER BY published_at")
    assert kinds == [("unlinked",), ("unlinked",), ("synthetic",)]


def test_asked_for_in_sql_again_costs_nothing(url: str) -> None:
    """Region and period belong to the request also where only the dataset says them."""
    asked = "SELECT freqdp.request_release('city', 'strict', 3.5, %s::jsonb)"
    spent = "SELECT count(*) FROM freqdp.spend WHERE kind = 'spend'"
    for _ in range(2):  # the second time the budget, which ends at 4, could not pay for it
        query(url, asked, '{"size": 100}')
        with opened(url) as database:
            assert Worker(database, approve_within_limit).serve(once=True).done == 1
        assert value(url, spent) == 1
    with pytest.raises(psycopg.Error, match="budget"):
        query(url, asked, '{"size": 101}')
    query(url, "UPDATE freqdp.dataset SET region = NULL")
    with pytest.raises(psycopg.Error, match="must be public"):
        query(url, asked, '{"size": 100}')


def test_trips_on_roads(url: str, tmp_path: Path) -> None:
    on_roads = ("anonymize", "city", "--method", "strict", "--size", "150", "--region",
                "4.26,50.79,4.44,50.91", "--roads")  # fmt: skip
    for table, words in (("demo.nothing", "demo.nothing"), ("demo.city", "demo.city")):
        freqdp(url, *on_roads, table).refused(words)
    query(url, "CREATE TABLE demo.loose AS SELECT id, 2 * id AS source, 2 * id + 1 AS target, geom "
          "FROM demo.roads")  # fmt: skip
    freqdp(url, *on_roads, "demo.loose").refused("--roads", "do not connect")
    assert value(url, "SELECT count(*) FROM freqdp.spend WHERE kind = 'spend'") == 0
    made = freqdp(url, *on_roads, "demo.roads").succeeded()
    assert freqdp(url, "release", "verify", made["name"]).succeeded()["verified"]
    far = value(
        url,
        "SELECT max(d) FROM (SELECT (SELECT min(ST_Distance(r.geom::geography, p.geom::geography)) "
        f"FROM demo.roads r WHERE r.geom && ST_Expand(p.geom, 0.001)) AS d "
        f'FROM (SELECT DISTINCT geom FROM freqdp_release."{made["name"]}") p) q',
    )
    assert far < 0.1
    query(url, "UPDATE demo.roads SET geom = ST_Translate(geom, 0.0001, 0)")
    changed = freqdp(url, "release", "verify", made["name"])
    assert changed.code == 3 and "roads are not those" in changed.err


def test_recommended_on_roads(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "_FEW_OBJECTS", 20)
    freqdp(url, "dataset", "set", "city", "--region", "4.26,50.79,4.44,50.91").succeeded()
    ask = ("recommend", "city", "--minutes", "3", "--out", str(tmp_path / "r"), "--roads")
    freqdp(url, *ask, "demo.nothing").refused("demo.nothing")
    assert not (tmp_path / "r").exists()
    found = freqdp(url, *ask, "demo.roads").succeeded()
    commands = {c["label"]: c["command"] for c in found["candidates"]}
    assert "--roads demo.roads" in commands["strict, epsilon 2"]
    assert "--roads" not in commands["lg+swap"]


def test_an_experiment_on_trips(url: str, tmp_path: Path) -> None:
    asked = ("experiment", "city", "--method", "strict", "--method", "strict:pure", "--epsilon", "4",
             "--seeds", "1", "--trips")  # fmt: skip
    for more in ((), ("--each-trip",)):
        out = tmp_path / f"found{len(more)}"
        freqdp(url, *asked, *more, "--out", str(out)).succeeded()
        runs = json.loads((out / "results.json").read_text())["runs"]
        assert [run["method"] for run in runs] == ["resampled", "strict", "strict:pure"]
        assert (runs[0]["objects"] == 60) == (not more)
        assert "| TE trips |" in (out / "results.md").read_text()
        for run in runs:
            assert 0 <= run["values"]["trip.te"] <= 0.7 and 0 <= run["values"]["trip.ffp"] <= 1
        assert runs[0]["values"]["trip.density"] < runs[1]["values"]["trip.density"]
    assert value(url, "SELECT count(*) FROM freqdp.spend WHERE kind = 'spend'") == 0
    freqdp(url, *asked[:-1], "--each-trip").refused("--each-trip", "--trips")
    freqdp(url, *asked, "--time-step", "60s").refused("--trips")
    query(url, "UPDATE freqdp.dataset SET region = NULL")
    freqdp(url, *asked).refused("region")


def test_audit_of_a_person(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rough_fits(monkeypatch)
    found = freqdp(
        url, "audit", "city", "--method", "strict", "--epsilon", "2", "--runs", "4000"
    ).succeeded()
    vectors, *trips = found["findings"]
    for finding in found["findings"]:
        assert finding["claimed_epsilon"] == "2" and finding["within_claim"]
    assert vectors["artefact"] == "noisy_vectors" and vectors["epsilon_at_least"] > 0.6
    assert [t["artefact"] for t in trips] == ["trajectories", "trajectories"]
