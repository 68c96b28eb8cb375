"""Methods beside the paper's, through the whole product: unlinked and synthetic releases."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest
from library import load_city
from servers import clone_of, filled_once
from world import (
    add_city,
    anonymize,
    freqdp,
    query,
    report,
    serve,
    try_only,
    value,
    verify,
    wait_for,
    withdraw,
)

import freqdp_db
from freqdp_db.db import releases as requests
from freqdp_db.errors import FreqdpError
from freqdp_db.methods.unlinking.clock import clock_for
from freqdp_db.release import pipeline


def _build(url: str) -> None:
    """A city of 60 objects with public facts."""
    load_city(url, objects=60, days=3)
    box = value(
        url,
        "SELECT concat_ws(',', floor(min(ST_X(geom)) * 100) / 100, "
        "floor(min(ST_Y(geom)) * 100) / 100, ceil(max(ST_X(geom)) * 100) / 100, "
        "ceil(max(ST_Y(geom)) * 100) / 100) FROM demo.city "
        "WHERE ST_X(geom) BETWEEN 3 AND 6 AND ST_Y(geom) BETWEEN 50 AND 54",
    )
    add_city(url, "city", "--region", box, "--period", "2024-03-01/2024-03-20")
    freqdp(url, "dataset", "build", "city").succeeded()


large_city_db = filled_once("large_city", _build)
url = clone_of("large_city_db")


def test_unlinked(url: str, tmp_path: Path) -> None:
    made = anonymize(url, "city", "gl+swap+cut")
    assert made["kind"] == "unlinked" and made["grantable"]
    verify(url, made["name"])
    measured = freqdp(url, "evaluate", made["name"]).succeeded()
    assert 0 <= measured["metrics"]["exposure"] <= 1 and "la" not in measured["metrics"]
    page = report(url, made["name"], tmp_path)
    assert "do not follow one" in page or "No id says which pieces" in page
    assert query(url, "SELECT kind FROM freqdp_release.catalog") == [("unlinked",)]


def test_swapping_loses_nothing(url: str) -> None:
    """By SQL: every place and time of the build is in the table, and no other."""
    anonymize(url, "city", "swap", "--clock", "0s", "--as", "r")
    source = (
        "SELECT l.geom::text, s.at FROM freqdp.sample s JOIN freqdp.location l "
        "USING (build_id, location_id)"
    )
    released = "SELECT geom::text, sampled_at FROM freqdp_release.r"
    for one, other in ((source, released), (released, source)):
        assert query(url, f"({one}) EXCEPT ALL ({other}) LIMIT 1") == []


@pytest.mark.parametrize("method", ["lg+swap", "cut"])
def test_times_are_on_one_clock(url: str, method: str) -> None:
    """By SQL: every time is a tick, one sample of a trajectory for each, none moved by more than half."""
    anonymize(url, "city", method, "--as", "r")
    tick = float(value(url, "SELECT parameters ->> 'clock' FROM freqdp_release.catalog"))
    assert tick == clock_for(int(value(url, "SELECT median_gap_us FROM freqdp.build"))) / 1e6
    off = (
        "SELECT count(*) FROM freqdp_release.r "
        "WHERE mod(extract(epoch FROM sampled_at), %s::numeric) <> 0"
    )
    assert value(url, off, tick) == 0
    same = "SELECT count(*) - count(DISTINCT (trajectory_id, sampled_at)) FROM freqdp_release.r"
    assert value(url, same) == 0
    if method == "lg+swap":
        return
    moved = (
        "SELECT count(*) FROM freqdp_release.r r WHERE NOT EXISTS (SELECT FROM freqdp.sample s "
        "JOIN freqdp.location l USING (build_id, location_id) WHERE l.geom = r.geom "
        "AND s.at BETWEEN r.sampled_at - make_interval(secs => %s) "
        "AND r.sampled_at + make_interval(secs => %s))"
    )
    assert value(url, moved, tick / 2, tick / 2) == 0


def test_ends_lie_at_places_of_several_in_the_source(url: str) -> None:
    """By SQL, after a method that puts visits in: they do not count."""
    anonymize(url, "city", "lg+cut", "--ends", "5", "--as", "r")
    few = (
        "WITH ends AS (SELECT DISTINCT ON (trajectory_id) geom FROM freqdp_release.r "
        "ORDER BY trajectory_id, seq {}), visited AS (SELECT l.geom, count(DISTINCT s.trajectory_id) "
        "AS objects FROM freqdp.sample s JOIN freqdp.location l USING (build_id, location_id) "
        "GROUP BY 1) SELECT count(*), count(*) FILTER (WHERE coalesce(objects, 0) < 5) "
        "FROM ends LEFT JOIN visited USING (geom)"
    )
    for way in ("ASC", "DESC"):
        ((ends, too_few),) = query(url, few.format(way))
        assert ends > 100 and too_few == 0


def test_counts_that_are_gone_are_seen(url: str) -> None:
    """Also those that a release from before the clock need not have."""
    anonymize(url, "city", "swap", "--as", "r")
    verify(url, "r")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "UPDATE freqdp.release_step SET counts = counts - 'pieced_together' - 'trajectories'"
        )
    answer = freqdp(url, "release", "verify", "r")
    assert (answer.code, answer.document["error"]) == (3, "VerificationFailed")


def test_two_unlinked_releases_are_joined_by_their_true_samples(url: str) -> None:
    """Who has both reads in one what the other cut apart: plans say so, and who accepts it is told."""
    anonymize(url, "city", "lg+swap+cut", "--as", "both")
    planned = freqdp(url, "plan", "city", "--method", "cut", in_words=True).out
    assert "REFUSED by anonymize: both is a published release" in " ".join(planned.split())
    assert "both" in freqdp(url, "plan", "city", "--method", "cut").succeeded()["refused"]
    # what was answered before is answered again
    same = freqdp(url, "plan", "city", "--method", "lg+swap+cut").succeeded()
    assert same["refused"] is None and same["guarantee"]["object"].startswith("one object_id (")
    made = anonymize(url, "city", "cut", "--beside", "both", "--as", "told")
    assert (
        "the unlinking, from whoever has both as well: true samples join the two, which was accepted"
    ) in made["guarantee"]["not_protected"]


_QUEUED = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
    "AND wait_event_type = 'Lock'"
)


@pytest.mark.parametrize("where", ["in its transaction", "while it is made"])
def test_of_two_conflicting_requests_at_once_one_is_refused(
    url: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second comes while the first is being recorded, or has been and is not published yet."""
    module, name = {
        "in its transaction": (requests, "lock_build"),
        "while it is made": (pipeline, "run"),
    }[where]
    real, first = getattr(module, name), threading.current_thread()
    arrived, ended = threading.Event(), threading.Event()

    def held_up(*args: Any, **options: Any) -> Any:
        if threading.current_thread() is first and not arrived.is_set():
            arrived.set()
            if where == "while it is made":
                ended.wait()
            else:
                wait_for(lambda: value(url, _QUEUED), "the second to queue behind the transaction")
                assert not ended.is_set()
        return real(*args, **options)

    monkeypatch.setattr(module, name, held_up)
    refusals: list[FreqdpError] = []

    def second() -> None:
        arrived.wait()
        try:
            with freqdp_db.connect(url) as db:
                db.anonymize("city", "cut", name="second")
        except FreqdpError as error:
            refusals.append(error)
        ended.set()

    other = threading.Thread(target=second)
    other.start()
    with freqdp_db.connect(url) as db:
        db.anonymize("city", "lg+swap+cut", name="first")
    other.join()
    assert "both hold true samples of the same times" in refusals[0].message
    assert query(url, "SELECT name, state FROM freqdp.release") == [("first", "published")]


def test_a_job_that_replaces_an_unlinked_release_may_follow_it(url: str) -> None:
    """`keep: 1` withdraws the one before; `keep: 2` would leave both, and is refused unpaid."""
    ask = "SELECT freqdp.request_release('city', 'lg+cut', 0.5, %s::jsonb)"
    state = "SELECT state, error FROM freqdp.job ORDER BY job_id DESC LIMIT 1"
    spends = "SELECT count(*) FROM freqdp.spend WHERE kind = 'spend'"
    live = "SELECT array_agg(name ORDER BY version) FROM freqdp_release.catalog"

    def served(options: str) -> tuple[str, str | None]:
        query(url, ask, options)
        serve(url)
        ((found, error),) = query(url, state)
        return found, error

    for night in (1, 2):
        assert served('{"keep": 1, "new_draw": true}')[0] == "done"
        assert value(url, live) == [f"city_{night}"]
    found, error = served('{"keep": 2, "new_draw": true}')
    assert found == "refused" and "city_2" in str(error) and "both hold true samples" in str(error)
    assert value(url, spends) == 2
    assert served('{"keep": 2, "new_draw": true, "beside": "city_current"}')[0] == "done"
    assert value(url, live) == ["city_2", "city_3"]
    withdraw(url, "city_3")
    # held until it was measured, and granted by the job: the one before is replaced as well
    freqdp(url, "dataset", "set", "city", "--max-exposure", "100%").succeeded()
    assert served('{"keep": 1, "new_draw": true}')[0] == "done"
    assert value(url, live) == ["city_4"]


_STRICT = ("city", "--method", "strict", "--epsilon", "1", "--size", "200")


def test_a_guarantee_beside_true_samples(url: str) -> None:
    """`strict` says which releases of the same objects it does not cover, wherever it is read."""
    alone = freqdp(url, "plan", *_STRICT).succeeded()["guarantee"]["not_protected"]
    anonymize(url, "city", "cut", "--as", "pieces")
    said = (
        "true samples of the same objects in pieces (cut), also published: no guarantee "
        "covers them and no sum counts them"
    )
    assert freqdp(url, "plan", *_STRICT).succeeded()["guarantee"]["not_protected"] == [*alone, said]
    freqdp(url, "anonymize", *_STRICT, "--as", "guaranteed").succeeded()
    published = value(url, "SELECT guarantee -> 'not_protected' FROM freqdp_release.catalog "
                      "WHERE name = 'guaranteed'")  # fmt: skip
    assert published == [*alone, said]
    budget = freqdp(url, "budget", "city").succeeded()
    assert budget["other_units"][0]["true_samples"] == ["pieces (cut)"]
    # what analysts cannot read is no such release
    withdraw(url, "pieces")
    anonymize(url, "city", "cut", "--hold", "--as", "kept")
    assert freqdp(url, "budget", "city").succeeded()["other_units"][0]["true_samples"] == []


def test_true_samples_beside_a_guarantee(url: str) -> None:
    freqdp(url, "anonymize", *_STRICT, "--as", "guaranteed").succeeded()
    said = (
        "true samples, in this release, of the objects of guaranteed (strict), also published: its "
        "guarantee does not cover them"
    )
    for method in ("lg", "cut", "glove"):
        planned = freqdp(url, "plan", "city", "--method", method).succeeded()
        assert said in planned["guarantee"]["not_protected"]
    anonymize(url, "city", "lg", "--hold", "--as", "edited")
    approved = freqdp(url, "release", "approve", "edited", in_words=True)
    assert f"Not protected: {said}." in _words(approved.out)
    assert (
        said in freqdp(url, "release", "show", "edited").succeeded()["guarantee"]["not_protected"]
    )


def _words(out: str) -> str:
    return " ".join(out.split())


def test_one_object_is_protected(url: str, tmp_path: Path) -> None:
    made = anonymize(url, "city", "strict", "--epsilon", "1", "--size", "200")
    assert (made["kind"], made["unit"]) == ("synthetic", "person")
    one = "one object_id (column object_id of demo.city)"
    assert f"differentially private for {one} with all its data" in made["guarantee"]["plain"]
    comment = value(url, "SELECT obj_description(%s::regclass)", f"freqdp_release.{made['name']}")
    assert made["guarantee"]["plain"] in comment
    # how large errors are is said where analysts look
    (errors,) = value(url, "SELECT guarantee -> 'errors' FROM freqdp_release.catalog")
    assert errors.startswith("With 95 % confidence noise moves ") and errors in comment
    assert errors in report(url, made["name"], tmp_path, "--public")
    assert verify(url, made["name"])["checked"]["trips"] == 200
    budget = freqdp(url, "budget", "city").succeeded()
    assert budget["unit"] == "occurrence" and float(budget["spent"]) == 0
    (persons,) = budget["other_units"]
    assert persons["unit"] == "person"
    assert float(persons["spent"]) == pytest.approx(0.024356, rel=1e-3)
    freqdp(url, "evaluate", made["name"]).succeeded()
    freqdp(url, "ledger", "verify").succeeded()
    # the same again draws nothing; the budget for persons ends at epsilon 4
    assert anonymize(url, "city", "strict", "--epsilon", "1", "--size", "200")["existed"]
    refused = freqdp(url, "anonymize", "city", "--method", "strict", "--epsilon", "5").refused(
        f"the budget for {one} does not allow this (rho): requested 0.4"
    )
    assert f"given as epsilon for {one}: " in refused["remedy"]
    assert "--unit person --raise" in refused["remedy"]
    planned = _words(freqdp(url, "plan", "city", "--method", "strict", in_words=True).out)
    assert f"would spend rho 0.088152776533 for {one} of the" in planned


def test_the_ledger_says_which_releases_its_bound_does_not_cover(url: str) -> None:
    asked = ("anonymize", "city", "--method", "strict", "--epsilon", "1", "--size", "200")
    freqdp(url, *asked).succeeded()
    assert "seeded" not in freqdp(url, "budget", "city", in_words=True).out
    freqdp(url, *asked, "--seed", "1", "--as", "known").succeeded()
    said = freqdp(url, "budget", "city", in_words=True).out
    assert "does not hold for known: its noise was seeded" in " ".join(said.split())


@pytest.mark.parametrize("method", ["adatrace", "dpt"])
def test_baselines(url: str, method: str) -> None:
    made = anonymize(url, "city", method, "--epsilon", "0.5")
    verify(url, made["name"])


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
    made = anonymize(url, "city", "strict", "--size", "200")
    verify(url, made["name"])
    out = f'SELECT count(*) FROM freqdp_release."{made["name"]}" r, demo.area a '
    assert value(url, out + "WHERE NOT ST_DWithin(r.geom, a.geom, 0.000001)") == 0
    query(url, "SELECT freqdp.request_release('city', 'strict', 1, jsonb_build_object('region', %s::text))",
          words.read_text())  # fmt: skip
    for wrong in (str(tmp_path / "none.geojson"), "demo.nothing", "POLYGON((1 1, 2 2))"):
        freqdp(url, "dataset", "set", "city", "--region", wrong).refused("--region")


def test_asked_for_in_sql(url: str) -> None:
    for method, options in (
        ("swap", '{"meet": "400m/2min"}'),
        ("cut", '{"pieces": "30min", "quiet": 0, "beside": "city_1"}'),
        ("strict", '{"epsilon": 1, "size": 100}'),
    ):
        query(url, "SELECT freqdp.request_release('city', %s, NULL, %s::jsonb)", method, options)
    assert serve(url).done == 3
    kinds = query(url, "SELECT kind FROM freqdp_release.catalog ORDER BY published_at")
    assert kinds == [("unlinked",), ("unlinked",), ("synthetic",)]


def test_asked_for_in_sql_again_costs_nothing(url: str) -> None:
    """Region and period belong to the request also where only the dataset says them."""
    asked = "SELECT freqdp.request_release('city', 'strict', 3.5, %s::jsonb)"
    spent = "SELECT count(*) FROM freqdp.spend WHERE kind = 'spend'"
    for _ in range(2):  # the second time the budget, which ends at 4, could not pay for it
        query(url, asked, '{"size": 100}')
        assert serve(url).done == 1
        assert value(url, spent) == 1
    with pytest.raises(psycopg.Error, match="budget"):
        query(url, asked, '{"size": 101}')
    query(url, "UPDATE freqdp.dataset SET region = NULL")
    with pytest.raises(psycopg.Error, match="must be declared"):
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
    verify(url, made["name"])
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


def test_ends_of_trips_are_trimmed_by_the_map(url: str) -> None:
    ask = ("anonymize", "city", "--method", "cut", "--pieces", "30min")
    freqdp(url, *ask, "--roads", "demo.nothing").refused("demo.nothing")
    made = freqdp(url, *ask, "--roads", "demo.roads").succeeded()
    name = made["name"]
    assert "650 m by road" in value(
        url, f"SELECT guarantee->>'plain' FROM freqdp_release.catalog WHERE name = '{name}'"
    )
    verify(url, name)
    kept = value(url, f"SELECT count(*) FROM freqdp_release.{name}")
    withdraw(url, name)
    plain = freqdp(url, *ask).succeeded()["name"]
    assert 0 < kept < value(url, f"SELECT count(*) FROM freqdp_release.{plain}")
    withdraw(url, plain)


def test_recommended_on_roads(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try_only(monkeypatch, "strict, epsilon 2", "lg+swap")
    freqdp(url, "dataset", "set", "city", "--region", "4.26,50.79,4.44,50.91").succeeded()
    ask = ("recommend", "city", "--minutes", "30", "--out", str(tmp_path / "r"), "--roads")
    freqdp(url, *ask, "demo.nothing").refused("demo.nothing")
    assert not (tmp_path / "r").exists()
    found = freqdp(url, *ask, "demo.roads").succeeded()
    commands = {c["label"]: c["command"] for c in found["candidates"]}
    assert "--roads demo.roads" in commands["strict, epsilon 2"]
    assert "--roads demo.roads" in commands["cut, short pieces, ends trimmed by the map"]
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
    # two objects have no place of three, whoever else is in the dataset: nothing is left of them
    few = ("--method", "cut", "--objects", "2", "--seeds", "1", "--trips")
    freqdp(url, "experiment", "city", *few, "--out", str(tmp_path / "few")).refused("no trip")
    assert value(url, "SELECT count(*) FROM freqdp.spend WHERE kind = 'spend'") == 0
    freqdp(url, *asked[:-1], "--each-trip").refused("--each-trip", "--trips")
    freqdp(url, *asked, "--time-step", "60s").refused("--trips")
    query(url, "UPDATE freqdp.dataset SET region = NULL")
    freqdp(url, *asked).refused("region")


def test_a_release_of_hardly_anything_is_said(url: str) -> None:
    """Ends that everybody shares are few: pieces are trimmed to nothing."""
    asked = ("city", "--method", "cut", "--ends", "1000")
    planned = freqdp(url, "plan", *asked, in_words=True)
    made = freqdp(url, "anonymize", *asked, in_words=True)
    for said in (planned.out, made.out):
        assert "samples: hardly anything can be counted in it; longer pieces" in said
    much = freqdp(url, "plan", "city", "--method", "swap", in_words=True)
    assert "hardly anything" not in much.out
