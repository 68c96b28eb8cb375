"""The verbs from Python: every one, what it gives back, and that the command line says the same."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, fields, is_dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from library import opened
from psycopg.conninfo import make_conninfo
from servers import SharedServer, cloned
from world import freqdp, query, value

import freqdp_db
from freqdp_db.documents import plain
from freqdp_db.errors import BadInput, BudgetExceeded, Interrupted, NotFound
from freqdp_db.release import pipeline

VERBS = [name for name in freqdp_db.__all__ if name.islower() and not name.startswith("_")]
SAME: dict[str, tuple[tuple[Any, ...], tuple[str, ...]]] = {
    "datasets": ((), ("dataset", "list")),
    "dataset": (("city",), ("dataset", "show", "city")),
    "releases": ((), ("release", "list")),
    "release": (("city_1",), ("release", "show", "city_1")),
    "budget": (("city",), ("budget", "city")),
    "verify_ledger": ((), ("ledger", "verify")),
    "schedules": ((), ("schedule", "list")),
    "jobs": ((), ("jobs",)),
    "workers": ((), ("jobs", "--workers")),
    "find_object": (("nobody",), ("release", "find", "--object", "nobody")),
}
"""Verbs that only look, their arguments, and the command."""


@pytest.fixture(scope="module")
def url(shared_server: SharedServer) -> Iterator[str]:
    """A city made, registered, built and released from Python."""
    with cloned(shared_server.get(), shared_server.template(schema=False)) as url:
        assert not freqdp_db.doctor(url).ok
        assert "CREATE SCHEMA" in freqdp_db.init_script(url).sql
        assert freqdp_db.init(url).created and not freqdp_db.init(url).changed
        assert freqdp_db.doctor(url).ok
        assert freqdp_db.load_city(url, objects=20, days=1).objects == 20
        added = freqdp_db.add_dataset(
            url, "city", "demo.city", object="object_id", time="at", geom="geom", budget=5
        )
        assert (added.budget.granted, added.budget_is_new) == (5, True)
        assert freqdp_db.build_dataset(url, "city").trajectories == 20
        made = freqdp_db.anonymize(url, "city", epsilon=1, time_step="60s")
        assert (made.name, made.state, made.existed) == ("city_1", "published", False)
        yield url


def _told(found: Any) -> Any:
    """As JSON has it: moments in ISO form, exact numbers and paths as text."""
    return json.loads(json.dumps(plain(found), default=_written))


def _written(value: Any) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)


def test_the_command_line_prints_the_same_document(url: str) -> None:
    for name, (arguments, command) in SAME.items():
        found = getattr(freqdp_db, name)(url, *arguments)
        assert _told(found) == freqdp(url, *command).succeeded(), name
        for document in found if isinstance(found, list) else [found]:
            assert is_dataclass(document)
            with pytest.raises(FrozenInstanceError):
                setattr(document, fields(document)[0].name, None)


def test_resume(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise Interrupted

    with monkeypatch.context() as patched, pytest.raises(Interrupted):
        patched.setattr(pipeline, "_carry_out", interrupted)
        freqdp_db.anonymize(url, "city", "pure-g", epsilon="0.5", name="halted")
    done = freqdp_db.resume(url, "halted")
    assert (done.state, done.resumed, float(done.spend)) == ("published", True, 0.5)
    assert freqdp_db.withdraw(url, "halted").was == "published"


def test_releases(url: str, empty_database_url: str, tmp_path: Path) -> None:
    with opened(url) as database:
        assert freqdp_db.plan(database, "city", "pure-l", epsilon=1).allowed
        again = freqdp_db.anonymize(database, "city", epsilon="1", time_step="1min")
        assert (again.name, again.existed) == ("city_1", True)
        seeded = freqdp_db.anonymize(
            database, "city", "sc", name="other", seed=7, signature=2, memory="1GB"
        )
        assert (seeded.name, seeded.spend, seeded.grantable) == ("other", 0, False)
        assert freqdp_db.verify(database, "other").rows == seeded.rows
        with pytest.raises(BadInput, match="nothing to resume"):
            freqdp_db.resume(database, "other")
        assert freqdp_db.withdraw(database, "other").was == "published"
        written = freqdp_db.export(database, "city_1", "csv", tmp_path / "city.csv")
        assert written.files[0].read_text().count("\n") == written.rows + 1
        handed = freqdp_db.publish(database, all=True, to=empty_database_url)
        assert (handed.copied, handed.removed, handed.waiting) == (["city_1"], [], [])
        assert [r.name for r in freqdp_db.releases(empty_database_url)] == ["city_1"]
        page = freqdp_db.report(database, "city_1", public=True, out=tmp_path / "city.html")
        assert page.file.stat().st_size == page.bytes
    analyst = make_conninfo(url, options="-c role=freqdp_analyst")
    published = freqdp_db.releases(analyst)[0]
    assert (published.name, published.guarantee) == ("city_1", again.guarantee)


def test_measures(url: str, tmp_path: Path) -> None:
    found = freqdp_db.evaluate(url, "city_1")
    assert set(found.publishable) < set(found.metrics) and found.verdicts
    tried = freqdp_db.experiment(url, "city", method=["pure-g"], seeds=1, out=tmp_path / "tried")
    assert tried.runs == 1 and all(file.is_file() for file in tried.files)
    advice = freqdp_db.recommend(
        url, "city", risk=0.1, purpose="trips", objects=8, minutes=0.01, out=tmp_path / "advice"
    )
    assert advice.picked is not None and advice.file.is_file()
    audited = freqdp_db.audit(url, "city", "pure-g", runs=1000, epsilon=1)
    assert audited.document()["method"] == "pure-g"
    matched = freqdp_db.match(url, "city", "demo.roads", "demo.matched")
    assert 0 < matched.rows <= matched.samples


def test_budget_and_datasets(url: str) -> None:
    raised = freqdp_db.raise_budget(url, "city", "0.5", "a test")
    assert (float(raised.granted), raised.ledger[-1].reason) == (5.5, "a test")
    with pytest.raises(BudgetExceeded):
        freqdp_db.anonymize(url, "city", epsilon=100)
    freqdp_db.add_dataset(url, "gone", "demo.city", object="object_id", time="at", geom="geom")
    said = freqdp_db.set_dataset(url, "gone", region="4,50,5,51", period="2024-01-01/2024-02-01")
    assert said.region == "4,50,5,51" and said.srid == 32631
    assert freqdp_db.drop_dataset(url, "gone").dropped == "gone"
    with pytest.raises(NotFound):
        freqdp_db.dataset(url, "gone")


def test_jobs(url: str) -> None:
    made = freqdp_db.schedule(url, "city", "@daily", "pure-g", epsilon="0.1", keep=2)
    assert (made.dataset, made.cron) == ("city", "0 0 * * *") or made.cron == "@daily"
    assert freqdp_db.schedules(url)[0].request["keep"] == 2
    assert freqdp_db.drop_schedule(url, "city").ended
    job = value(url, "SELECT freqdp.request_release('city', 'pure-g', 0.25)")
    unwanted = value(url, "SELECT freqdp.request_release('city', 'pure-g', 0.125)")
    assert freqdp_db.cancel_job(url, unwanted).state == "cancelled"
    served = freqdp_db.work(url)
    assert (served.done, served.exit_code) == (1, 0)
    (shown,) = freqdp_db.jobs(url, job=job)
    assert (shown.state, freqdp_db.release(url, shown.release).rows is None) == ("done", False)
    with pytest.raises(NotFound):
        freqdp_db.living_worker(url)


def test_loading(url: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("who,when,x,y\na,2024-01-01T00:00:00Z,4.3,50.8\n")
    loaded = freqdp_db.load_csv(
        url, [str(tmp_path / "a.csv")], "demo.csv", object="who", time="when", lon="x", lat="y"
    )
    assert loaded.rows == 1
    (tmp_path / "taxis").mkdir()
    (tmp_path / "taxis" / "1.txt").write_text("1,2008-02-02 15:36:08,116.51172,39.92123\n")
    assert freqdp_db.load_tdrive(url, str(tmp_path / "taxis"), "demo.taxis").rows == 1
    with pytest.raises(BadInput):
        freqdp_db.load_geolife(url, str(tmp_path / "taxis"), "demo.geolife")
    assert freqdp_db.load_roads(url, "demo.copied", source="demo.roads").rows > 0


def test_held_kept_in_a_file_and_removed(url: str, tmp_path: Path) -> None:
    freqdp_db.anonymize(url, "city", "pure-g", epsilon="0.01", name="held_back", hold=True)
    assert freqdp_db.release_names(url, "held") == ["held_back"]
    assert freqdp_db.approve(url, "held_back").release == "held_back"
    assert freqdp_db.release_names(url, "held") == []
    assert freqdp_db.dataset_names(url) == ["city"]
    file = tmp_path / "freqdp.toml"
    file.write_text(
        "[datasets.city]\nfrom = 'demo.city'\nobject = 'object_id'\ntime = 'at'\nmax_exposure = 0.5\n"
    )
    planned = freqdp_db.apply(url, file, plan=True)
    assert [c.what for c in planned.changes] == ["set max_exposure to 50% (was not said)"]
    assert "DROP SCHEMA" in freqdp_db.uninstall_script(url).sql


def test_methods() -> None:
    found = {method.name: method for method in freqdp_db.methods()}
    assert "epsilon_local" in found["lg"].parameters and found["sc"].unit is None


def test_refusals_name_the_parameter(url: str) -> None:
    with pytest.raises(BadInput) as caught:
        freqdp_db.anonymize(url, "city", epsilon=1, time_step="0s")
    assert caught.value.parameter == "time_step"
    assert str(caught.value).startswith("time_step 0s is not ")
    told = freqdp(url, "anonymize", "city", "--time-step", "0s").refused("--time-step 0s is not ")
    assert told == caught.value.as_options()
    with pytest.raises(BadInput) as caught:
        freqdp_db.anonymize(url, "city", name="catalog")
    assert str(caught.value) == "name 'catalog' is reserved"


def test_a_job_is_refused_with_keys(url: str) -> None:
    """What only the data can say: found by the worker, recorded for people who write SQL."""
    job = value(
        url,
        "SELECT freqdp.request_release('city', 'pure-l', NULL, '{\"epsilon_local\": 0.000001}')",
    )
    assert freqdp_db.work(url).refused == 1
    ((error,),) = query(url, "SELECT error FROM freqdp.job_queue WHERE job_id = %s", job)
    assert error.startswith("epsilon_local (or its share of epsilon) of ")


def test_connect_uses_the_environment(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", url)
    database = freqdp_db.connect()
    try:
        assert freqdp_db.datasets(database) == freqdp_db.datasets(url) == freqdp_db.datasets()
    finally:
        database.close()
    with pytest.raises(BadInput) as caught:
        freqdp_db.connect(url, schema="public")
    assert caught.value.parameter == "schema"


def test_every_verb_is_tested() -> None:
    called = re.findall(r"freqdp_db\.(\w+)\(", Path(__file__).read_text())
    assert set(VERBS) <= {*called, *SAME}


def test_verbs_are_documented_and_typed() -> None:
    for name in VERBS:
        verb = getattr(freqdp_db, name)
        assert inspect.getdoc(verb), name
        hints = inspect.signature(verb)
        assert hints.return_annotation is not inspect.Signature.empty, name
        for parameter in hints.parameters.values():
            assert parameter.annotation is not inspect.Parameter.empty, name


def test_type_checkers_see_every_name() -> None:
    tree = ast.parse(Path(str(freqdp_db.__file__)).read_text())
    seen = {alias.asname for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
            for alias in node.names if alias.asname}  # fmt: skip
    assert seen == set(freqdp_db.__all__) - {"__version__"}
    assert set(freqdp_db.__all__) <= set(dir(freqdp_db))


def test_import_is_quick_and_verbs_win_over_packages() -> None:
    code = (
        "import sys, freqdp_db; slow = {'numba', 'numpy', 'sqlalchemy', 'pyarrow', 'typer'};"
        "assert not slow & set(sys.modules), slow & set(sys.modules);"
        "import freqdp_db.release.pipeline, freqdp_db.jobs.worker, freqdp_db.doctor;"
        "assert all(map(callable, (freqdp_db.release, freqdp_db.jobs, freqdp_db.methods,"
        " freqdp_db.doctor, freqdp_db.dataset)))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
