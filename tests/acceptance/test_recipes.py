"""The pages of docs/ and the files of recipes/: what they show is run."""

from __future__ import annotations

import configparser
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import jinja2
import psycopg
import pytest
import typer
from servers import SharedServer, cloned
from sqlalchemy.engine import make_url
from test_readme import QUERY, SOURCE
from world import anonymize, as_role, freqdp, query, value

import freqdp_db
from freqdp_db.cli import main
from freqdp_db.db.schema import load_objects
from freqdp_db.db.tables import Names

ROOT = Path(__file__).parent.parent.parent
RECIPES = ROOT / "recipes"
_BLOCK = re.compile(r"^```(console|sql)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def url(shared_server: SharedServer, city_db: str) -> Iterator[str]:
    """A city with a release, where pages and recipes speak of vans."""
    with cloned(shared_server.get(), city_db) as url:
        anonymize(url, "city", "lg", "--epsilon", "0.5")
        yield url


def _as_analyst(url: str, statement: str) -> list[Any]:
    with psycopg.connect(as_role(url, "analyst")) as reader:
        return reader.execute(statement.replace("vans", "city").encode()).fetchall()


@pytest.mark.parametrize("page", ["approve.md", "qgis.md"])
def test_pages(url: str, page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = 0
    for kind, body in _BLOCK.findall((ROOT / "docs" / "howto" / page).read_text("utf-8")):
        if kind == "sql":
            assert _as_analyst(url, body), body
            ran += 1
            continue
        for line in body.splitlines():
            assert line.startswith("$ freqdp ")
            freqdp(url, *shlex.split(line.replace("vans", "city"))[2:]).succeeded()
            ran += 1
    assert ran >= 3
    freqdp(url, "dataset", "set", "city", "--max-exposure", "none").succeeded()


def test_the_file_of_the_page_is_understood(url: str, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "howto" / "configuration.md").read_text()
    text, *_ = re.findall(r"^```toml\n(.*?)^```$", page, re.M | re.S)
    file = tmp_path / "freqdp.toml"
    file.write_text(text)
    planned = freqdp(url, "apply", "--file", str(file), "--plan").succeeded()
    assert [c["what"].split()[0] for c in planned["changes"]] == ["add", "schedule"]


def test_systemd_units() -> None:
    units = sorted((RECIPES / "systemd").iterdir())
    assert len(units) == 3
    commands = typer.main.get_command(main.app)
    for unit in units:
        parsed = configparser.ConfigParser(strict=False, interpolation=None)
        parsed.optionxform = str  # type: ignore[assignment, method-assign]
        parsed.read_string(unit.read_text())
        if unit.suffix == ".timer":
            assert unit.with_suffix(".service") in units
            continue
        program, name, *options = shlex.split(parsed["Service"]["ExecStart"])
        assert Path(program).name == "freqdp"
        known = {o for p in commands.commands[name].params for o in p.opts}  # type: ignore[attr-defined]
        assert {o for o in options if o.startswith("-")} <= known
    if shutil.which("systemd-analyze"):
        # programs and files of the machine that they are for are not here
        done = subprocess.run(["systemd-analyze", "verify", *map(str, units)],
                              capture_output=True, text=True, check=False)  # fmt: skip
        wrong = [line for line in done.stderr.splitlines()
                 if str(RECIPES) in line and "is not executable" not in line]  # fmt: skip
        assert not wrong, wrong


class _Task:
    """Stands for an operator of Airflow: remembers what it was given."""

    made: ClassVar[list[_Task]] = []

    def __init__(self, **given: Any) -> None:
        self.given = given
        _Task.made.append(self)

    def __rshift__(self, other: _Task) -> _Task:
        return other


class _Dag(_Task):
    def __enter__(self) -> _Dag:
        return self

    def __exit__(self, *error: object) -> None:
        pass


def test_airflow(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The DAG, with stand-ins for Airflow's own classes: its SQL is run in its order."""
    sql = "airflow.providers.common.sql"
    for module, names in {
        "airflow": {}, "airflow.providers": {}, "airflow.providers.common": {}, sql: {},
        "airflow.sdk": {"DAG": _Dag}, f"{sql}.operators": {}, f"{sql}.sensors": {},
        f"{sql}.operators.sql": {"SQLExecuteQueryOperator": _Task},
        f"{sql}.sensors.sql": {"SqlSensor": _Task},
    }.items():  # fmt: skip
        made = types.ModuleType(module)
        vars(made).update(names)
        monkeypatch.setitem(sys.modules, module, made)
    _Task.made.clear()
    runpy.run_path(str(RECIPES / "airflow" / "freqdp_nightly.py"))
    dag, ask, wait = (task.given for task in _Task.made)
    assert dag["schedule"] == "0 3 * * *"
    result = query(url, ask["sql"].replace("vans", "city").replace('"rebuild": true, ', ""))

    def state() -> Any:
        pulled = types.SimpleNamespace(xcom_pull=lambda task_ids: result)
        return value(url, jinja2.Template(wait["sql"]).render(ti=pulled))

    assert (wait["success"](state()), wait["failure"](state())) == (False, False)
    freqdp(url, "worker", "--once").succeeded()
    assert wait["success"](state()), state()


def test_dbt(url: str) -> None:
    """Every model, as dbt writes it: a table from its SELECT."""
    models = sorted((RECIPES / "dbt" / "models").glob("*.sql"))
    assert len(models) == 3
    described = (RECIPES / "dbt" / "models" / "sources.yml").read_text()
    for model in models:
        assert f"- name: {model.stem}\n" in described
        text = jinja2.Template(model.read_text()).render(
            source=lambda name, table: f'"freqdp_release"."{table}"'
        )
        assert _as_analyst(url, text), model


def test_notebook(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All cells, one after the other, as an analyst."""
    import matplotlib.pyplot as plt

    plt.switch_backend("Agg")
    address = make_url("postgresql+psycopg://").set(query={"options": "-c role=freqdp_analyst"})
    monkeypatch.setenv("DATABASE_URL", str(address))
    for name, given in psycopg.conninfo.conninfo_to_dict(url).items():
        if name in ("host", "port", "user", "dbname", "password"):
            monkeypatch.setenv("PG" + {"dbname": "DATABASE"}.get(name, name.upper()), str(given))
    notebook = json.loads((RECIPES / "notebook" / "look_at_a_release.ipynb").read_text())
    there: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert not cell["outputs"]
            exec("".join(cell["source"]), there)
    assert len(there["trips"]) and len(there["flows"]) and len(there["cells"])
    plt.close("all")
    there["engine"].dispose()


def test_the_site_has_every_command_and_function(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    done = subprocess.run(
        [*command, "--site-dir", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr

    def headings(page: str) -> set[str]:
        text = (tmp_path / "reference" / page / "index.html").read_text("utf-8")
        return {" ".join(found.split()) for found in re.findall(r"<h[23] id=[^>]*>([^<]+)<", text)}

    def leaves(command: Any, *path: str) -> Iterator[str]:
        for name, child in getattr(command, "commands", {}).items():
            yield from leaves(child, *path, name)
        if not hasattr(command, "commands"):
            yield " ".join(("freqdp", *path))

    assert headings("commands") == set(leaves(typer.main.get_command(main.app)))
    objects = {o.identity.split(".")[1].split("(")[0] for o in load_objects(Names("p", "r"))}
    assert headings("sql") >= objects
    verbs = {name for name in dir(freqdp_db.Freqdp) if not name.startswith("_")}
    assert headings("python") == {"connect", *verbs}


# --- The queries that docs/ shows to analysts, as they stand, on sources of other reference systems.


_SQL = re.compile(r"^```sql\n(.*?)^```$", re.MULTILINE | re.DOTALL)
(HOURS,) = (q for q in _SQL.findall(QUERY) if "vans_1" in q and "ST_Buffer" in q)
(LENGTHS,) = (q for q in _SQL.findall(QUERY) if "vans_1_line" in q and "ST_Length" in q)
(FLOWS,) = (q for q in _SQL.findall(QUERY) if "vans_1_trip" in q and "destination" in q)
SRIDS = (4326, 3857, 32633)


@pytest.fixture(scope="module", params=SRIDS)
def vans(request: pytest.FixtureRequest, shared_server: SharedServer) -> Iterator[str]:
    """The quickstart's vans in one of the systems, released."""
    with cloned(shared_server.get(), shared_server.template(schema=True)) as url:
        query(url, SOURCE)
        query(
            url,
            "CREATE TABLE fleet.place AS SELECT van, ts, "
            f"ST_Transform(ST_SetSRID(ST_MakePoint(lon, lat), 4326), {request.param})"
            f"::geometry(Point, {request.param}) AS geom FROM fleet.ping",
        )
        add = ("dataset", "add", "vans", "--from", "fleet.place", "--object", "van")
        freqdp(url, *add, "--time", "ts", "--geom", "geom").succeeded()
        freqdp(url, "dataset", "build", "vans").succeeded()
        anonymize(url, "vans", "swap")
        yield url


def _ask(url: str, statement: str) -> list[tuple[Any, ...]]:
    """As an analyst."""
    options = "-c role=freqdp_analyst -c search_path=public"
    with psycopg.connect(url, options=options) as connection:
        return connection.execute(statement.encode()).fetchall()


def test_queries_work_in_any_system(vans: str) -> None:
    hours = dict(_ask(vans, HOURS))
    within = """
        SELECT date_trunc('hour', sampled_at AT TIME ZONE 'Europe/Brussels'), count(DISTINCT trajectory_id)
        FROM freqdp_release.vans_1
        WHERE ST_Distance(ST_Transform(geom, 4326)::geography,
                          ST_SetSRID(ST_MakePoint(4.35, 50.85), 4326)::geography) < {}
        GROUP BY 1"""
    # a circle drawn as a polygon is a little smaller than a circle
    fewest, most = (dict(_ask(vans, within.format(metres))) for metres in (990, 1001))
    assert hours
    assert all(fewest.get(hour, 0) <= n <= most.get(hour, 0) for hour, n in hours.items())
    assert set(fewest) <= set(hours)

    longest = _ask(vans, LENGTHS)
    assert len(longest) == 10
    assert all(20 < km < 2_000 for *_, km in longest)
    flows = _ask(vans, FLOWS)
    assert flows
    assert all(origin != destination for origin, destination, *_ in flows)
    _uses_the_index_on_places(vans)


def _uses_the_index_on_places(vans: str) -> None:
    ((plan,),) = _ask(vans, "EXPLAIN (FORMAT JSON, VERBOSE) " + HOURS)
    assert '"vans_1_geom_idx"' in json.dumps(plan), plan
    # the circle is made once, not for every row that is looked at
    conditions = re.findall(r'"(?:Filter|Index Cond|Recheck Cond)": "([^"]*)"', json.dumps(plan))
    assert conditions
    assert not re.search("find_srid|st_buffer|st_transform", "; ".join(conditions).lower()), plan
