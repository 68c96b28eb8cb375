"""The verbs from Python: every one, what it gives back, and that the command line says the same."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, fields, is_dataclass
from datetime import date
from typing import Any

import pytest
from servers import SharedServer, cloned
from world import freqdp, query, value

import freqdp_db
from freqdp_db.commands import commands_of, parameters_of
from freqdp_db.errors import BadInput
from freqdp_db.model.documents import plain

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


def test_methods() -> None:
    found = {method.name: method for method in freqdp_db.connect().methods()}
    assert "epsilon_local" in found["lg"].parameters and found["sc"].unit is None


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
