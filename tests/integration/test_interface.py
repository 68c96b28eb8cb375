"""The verbs from Python: every one, what it gives back, and that the command line says the same."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, fields, is_dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from servers import SharedServer, cloned
from world import freqdp, query, value

import freqdp_db
from freqdp_db.commands import commands_of, parameters_of
from freqdp_db.errors import BadInput, BudgetExceeded, Interrupted, NotFound
from freqdp_db.model.documents import plain
from freqdp_db.release import pipeline

VERBS = [name for name in dir(freqdp_db.Freqdp) if not name.startswith("_") and name != "close"]
SAME: dict[str, tuple[tuple[Any, ...], tuple[str, ...]]] = {
    "datasets": ((), ("dataset", "list")),
    "builds": ((), ("dataset", "builds")),
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
    with (
        cloned(shared_server.get(), shared_server.template(schema=False)) as url,
        freqdp_db.connect(url) as db,
    ):
        assert not db.doctor().ok
        assert "CREATE SCHEMA" in db.init_script().sql
        assert db.init().created and not db.init().changed
        assert db.doctor().ok
        assert db.load_city(objects=20, days=1).objects == 20
        added = db.add_dataset(
            "city", "demo.city", object="object_id", time="at", geom="geom", budget=5
        )
        assert (added.budget.granted, added.budget_is_new) == (5, True)
        assert db.build_dataset("city").trajectories == 20
        made = db.anonymize("city", "lg", epsilon=1, time_step="60s")
        assert (made.name, made.state, made.existed) == ("city_1", "published", False)
        yield url


@pytest.fixture
def db(url: str) -> Iterator[freqdp_db.Freqdp]:
    with freqdp_db.connect(url) as db:
        yield db


def _told(found: Any) -> Any:
    """As JSON has it: moments in ISO form, exact numbers and paths as text."""
    return json.loads(json.dumps(plain(found), default=_written))


def _written(value: Any) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)


def test_the_command_line_prints_the_same_document(url: str, db: freqdp_db.Freqdp) -> None:
    for name, (arguments, command) in SAME.items():
        found = getattr(db, name)(*arguments)
        told, printed = _told(found), freqdp(url, *command).succeeded()
        if name == "builds":  # a vacuum between the two calls adds its maps to the size
            for size in told + printed:
                assert size.pop("bytes") > 0
        assert told == printed, name
        for document in found if isinstance(found, list) else [found]:
            assert is_dataclass(document)
            with pytest.raises(FrozenInstanceError):
                setattr(document, fields(document)[0].name, None)


def test_resume(db: freqdp_db.Freqdp, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise Interrupted

    with monkeypatch.context() as patched, pytest.raises(Interrupted):
        patched.setattr(pipeline, "_carry_out", interrupted)
        db.anonymize("city", "pure-g", epsilon="0.5", name="halted")
    done = db.resume("halted")
    assert (done.state, done.resumed, float(done.spend)) == ("published", True, 0.5)
    assert db.withdraw("halted").was == "published"


def test_releases(url: str, db: freqdp_db.Freqdp, empty_database_url: str, tmp_path: Path) -> None:
    assert db.plan("city", "pure-l", epsilon=1).allowed
    again = db.anonymize("city", "lg", epsilon="1", time_step="1min")
    assert (again.name, again.existed) == ("city_1", True)
    seeded = db.anonymize("city", "sc", name="other", seed=7, signature=2, memory="1GB")
    assert (seeded.name, seeded.spend, seeded.grantable) == ("other", 0, False)
    assert db.verify("other").rows == seeded.rows
    with pytest.raises(BadInput, match="nothing to resume"):
        db.resume("other")
    assert db.withdraw("other").was == "published"
    written = db.export("city_1", "csv", tmp_path / "city.csv")
    assert written.files[0].read_text().count("\n") == written.rows + 1
    handed = db.publish(all=True, to=empty_database_url)
    # others of this file may have released more, in whatever order the tests run
    assert "city_1" in handed.copied and (handed.removed, handed.waiting) == ([], [])
    with freqdp_db.connect(empty_database_url) as elsewhere:
        assert [r.name for r in elsewhere.releases()] == ["city_1"]
    page = db.report("city_1", public=True, out=tmp_path / "city.html")
    assert page.file.stat().st_size == page.bytes
    analyst = make_conninfo(url, options="-c role=freqdp_analyst")
    with freqdp_db.connect(analyst) as theirs:
        published = theirs.releases()[0]
    assert published.name == "city_1"
    assert published.guarantee == again.guarantee | {"notes": published.guarantee["notes"]}


def test_measures(db: freqdp_db.Freqdp, tmp_path: Path) -> None:
    found = db.evaluate("city_1")
    assert set(found.publishable) < set(found.metrics) and found.verdicts
    judged = db.evaluate_table(
        "freqdp_release.city_1", "city", trajectory="trajectory_id", time="sampled_at", geom="geom"
    )
    # whether all are found to be somebody's depends on the noise
    assert judged.kind in ("edited", "unlinked") and judged.key == "matched"
    assert judged.time_step_us == 60_000_000, "what the release was coarsened to"
    assert abs(judged.metrics["exposure"] - found.metrics["exposure"]) < 0.02
    tried = db.experiment("city", method=["pure-g"], seeds=1, out=tmp_path / "tried")
    assert tried.runs == 1 and all(file.is_file() for file in tried.files)
    advice = db.recommend(
        "city", risk=0.1, purpose="trips", objects=8, minutes=0.01, out=tmp_path / "advice"
    )
    assert advice.picked is not None and advice.file.is_file()
    audited = db.audit("city", "pure-g", runs=1000, epsilon=1)
    assert audited.document()["method"] == "pure-g"
    matched = db.match("city", "demo.roads", "demo.matched")
    assert 0 < matched.rows <= matched.samples


def test_budget_and_datasets(db: freqdp_db.Freqdp) -> None:
    raised = db.raise_budget("city", "0.5", "a test")
    assert (float(raised.granted), raised.ledger[-1].reason) == (5.5, "a test")
    with pytest.raises(BudgetExceeded):
        db.anonymize("city", "lg", epsilon=100)
    db.add_dataset("gone", "demo.city", object="object_id", time="at", geom="geom")
    said = db.set_dataset("gone", region="4,50,5,51", period="2024-01-01/2024-02-01")
    assert said.region == "4,50,5,51" and said.srid == 32631
    assert db.drop_dataset("gone").dropped == "gone"
    with pytest.raises(NotFound):
        db.dataset("gone")


def test_jobs(url: str, db: freqdp_db.Freqdp) -> None:
    made = db.schedule("city", "@daily", "pure-g", epsilon="0.1", keep=2)
    assert (made.dataset, made.cron) == ("city", "0 0 * * *") or made.cron == "@daily"
    assert db.schedules()[0].request["keep"] == 2
    assert db.drop_schedule("city").ended
    job = value(url, "SELECT freqdp.request_release('city', 'pure-g', 0.25)")
    unwanted = value(url, "SELECT freqdp.request_release('city', 'pure-g', 0.125)")
    assert db.cancel_job(unwanted).state == "cancelled"
    served = db.work(once=True, log=False)
    assert (served.done, served.exit_code) == (1, 0)
    (shown,) = db.jobs(job=job)
    assert (shown.state, db.release(shown.release).rows is None) == ("done", False)
    with pytest.raises(NotFound):
        db.living_worker()


def test_loading(db: freqdp_db.Freqdp, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("who,when,x,y\na,2024-01-01T00:00:00Z,4.3,50.8\n")
    loaded = db.load_csv(
        [str(tmp_path / "a.csv")], "demo.csv", object="who", time="when", lon="x", lat="y"
    )
    assert loaded.rows == 1
    (tmp_path / "taxis").mkdir()
    (tmp_path / "taxis" / "1.txt").write_text("1,2008-02-02 15:36:08,116.51172,39.92123\n")
    assert db.load_tdrive(str(tmp_path / "taxis"), "demo.taxis").rows == 1
    with pytest.raises(BadInput):
        db.load_geolife(str(tmp_path / "taxis"), "demo.geolife")
    assert db.load_roads("demo.copied", source="demo.roads").rows > 0


def test_held_kept_in_a_file_and_removed(db: freqdp_db.Freqdp, tmp_path: Path) -> None:
    db.anonymize("city", "pure-g", epsilon="0.01", name="held_back", hold=True)
    assert db.release_names("held") == ["held_back"]
    assert db.approve("held_back").release == "held_back"
    assert db.release_names("held") == []
    assert db.dataset_names() == ["city"]
    file = tmp_path / "freqdp.toml"
    file.write_text(
        "[datasets.city]\nfrom = 'demo.city'\nobject = 'object_id'\ntime = 'at'\nmax_exposure = 0.5\n"
    )
    planned = db.apply(file, plan=True)
    assert [c.what for c in planned.changes] == ["set max_exposure to 50% (was not set)"]
    assert "DROP SCHEMA" in db.uninstall_script().sql


def test_methods() -> None:
    found = {method.name: method for method in freqdp_db.connect().methods()}
    assert "epsilon_local" in found["lg"].parameters and found["sc"].unit is None


def test_refusals_name_the_parameter(url: str, db: freqdp_db.Freqdp) -> None:
    with pytest.raises(BadInput) as caught:
        db.anonymize("city", "lg", epsilon=1, time_step="0s")
    assert caught.value.parameter == "time_step"
    assert str(caught.value).startswith("time_step 0s is not ")
    told = freqdp(url, "anonymize", "city", "--method", "lg", "--time-step", "0s").refused(
        "--time-step 0s is not "
    )
    assert told == caught.value.as_options()
    with pytest.raises(BadInput) as caught:
        db.anonymize("city", "lg", name="catalog")
    assert str(caught.value) == "name 'catalog' is reserved"


def test_a_job_is_refused_with_keys(url: str, db: freqdp_db.Freqdp) -> None:
    """What only the data can say: found by the worker, recorded for people who write SQL."""
    job = value(
        url,
        "SELECT freqdp.request_release('city', 'pure-l', NULL, '{\"epsilon_local\": 0.000001}')",
    )
    assert db.work(once=True, log=False).refused == 1
    ((error,),) = query(url, "SELECT error FROM freqdp.job_queue WHERE job_id = %s", job)
    assert error.startswith("epsilon_local (or its share of epsilon) of ")


def test_connect_uses_the_environment(
    url: str, db: freqdp_db.Freqdp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", url)
    with freqdp_db.connect() as same:
        assert same.datasets() == db.datasets()
        same.close()
        assert same.dataset_names() == ["city"], "it connects again"
    with pytest.raises(BadInput) as caught:
        freqdp_db.connect(url, schema="public")
    assert caught.value.parameter == "schema"


def test_progress_is_made_for_each_verb(url: str) -> None:
    made: list[freqdp_db.Progress] = []

    def progress() -> freqdp_db.Progress:
        made.append(freqdp_db.Progress())
        return made[-1]

    with freqdp_db.connect(url, progress=progress) as db:
        assert db.verify("city_1").seconds == made[0].seconds
        db.plan("city", "pure-g", epsilon=1)
    assert made[0].seconds.keys() != made[1].seconds.keys()


def test_a_method_is_named(url: str, db: freqdp_db.Freqdp, tmp_path: Path) -> None:
    """There is none that is right for all data: whoever names none is sent to `recommend`."""
    for verb in (db.anonymize, db.plan, db.audit, partial(db.schedule, at="@daily")):
        with pytest.raises(BadInput, match="method is missing") as caught:
            verb("city", epsilon=1)
        assert caught.value.parameter == "method"
        assert "freqdp recommend" in str(caught.value.remedy)
        assert "method lg" in str(caught.value.remedy)
    told = freqdp(url, "anonymize", "city", "--epsilon", "1").refused("--method is missing")
    assert "freqdp recommend" in told["remedy"] and "--method lg" in told["remedy"]
    for asked in ("'city'", "'city', NULL, 1"):
        with pytest.raises(psycopg.Error, match="method is missing") as refused:
            query(url, f"SELECT freqdp.request_release({asked})")
        assert refused.value.sqlstate == "QF001"
        assert "freqdp recommend" in str(refused.value.diag.message_hint)
    file = tmp_path / "freqdp.toml"
    file.write_text(
        "[datasets.city]\nfrom = 'demo.city'\nobject = 'object_id'\ntime = 'at'\n"
        "[datasets.city.schedule]\nat = '@daily'\n"
    )
    with pytest.raises(BadInput, match="method is missing"):
        db.apply(file, plan=True)


def test_the_extension_is_written(db: freqdp_db.Freqdp, tmp_path: Path) -> None:
    written = db.init_extension(tmp_path)
    assert (tmp_path / "freqdp.control") in written.files


def test_every_verb_is_tested() -> None:
    called = re.findall(r"\bdb\.(\w+)\(", Path(__file__).read_text())
    assert set(VERBS) <= {
        *called,
        *SAME,
        "bench_search",
        "bench_pipeline",
        "bench_counts",
        "methods",
    }


def test_verbs_are_documented_and_typed() -> None:
    for name in VERBS:
        verb = getattr(freqdp_db.Freqdp, name)
        assert inspect.getdoc(verb), name
        hints = inspect.signature(verb)
        assert hints.return_annotation is not inspect.Signature.empty, name
        for parameter in list(hints.parameters.values())[1:]:
            assert parameter.annotation is not inspect.Parameter.empty, name


def test_parameters_are_on_the_command_line_with_a_help_text() -> None:
    """But for few, which a command line has no use for."""
    only_in_python = set()
    for name, _ in commands_of(freqdp_db.Freqdp):
        verb = getattr(freqdp_db.Freqdp, name)
        declared = {p.name: p for p in parameters_of(verb)[0]}
        assert all(p.says.help for p in declared.values()), name
        taken = {*inspect.signature(verb).parameters} - {"self", "parameters"}
        only_in_python |= {(name, left) for left in taken - declared.keys()}
    assert only_in_python == {("work", "log")}


def test_import_is_quick() -> None:
    code = (
        "import sys, freqdp_db; slow = {'numba', 'numpy', 'sqlalchemy', 'pyarrow', 'typer'};"
        "assert not slow & set(sys.modules), slow & set(sys.modules);"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
