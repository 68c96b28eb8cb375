"""Adding a method takes one module and one line: here is all the product does with that of CONTRIBUTING.md.

It moves every sample by a drawn whole number of seconds, the same for a whole trajectory.
"""

from __future__ import annotations

import json
import re
import sys
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow.parquet as pq
import pyogrio
import pytest
from library import build_points, make_points, opened
from servers import SharedServer, clone_of, cloned, filled_once
from world import anonymize, freqdp, query, report, serve, verify, withdraw

from freqdp_db.cli.main import declared
from freqdp_db.db import schema as upgrade
from freqdp_db.db.connection import Database
from freqdp_db.db.copy import point_bytes
from freqdp_db.db.datasets import find_dataset
from freqdp_db.errors import VerificationFailed
from freqdp_db.methods import registry
from freqdp_db.methods.contract import (
    CompletedStep,
    EmptyLog,
    Method,
    Step,
    StepContext,
    WorkingSet,
)
from freqdp_db.methods.kinds import Duration
from freqdp_db.methods.parameters import parameter
from freqdp_db.methods.relations import Column, Relation
from freqdp_db.model.arrays import Ints
from freqdp_db.privacy.guarantee import Guarantee, ProtectedUnit
from freqdp_db.privacy.noise import RandomSource
from freqdp_db.progress import Progress
from freqdp_db.release import pipeline
from freqdp_db.release.request import JobRequest, Request

POINTS = [
    (f"o{n % 6}", 60.0 * n, 37.0 * (n * 7 % 40), 53.0 * (n * 3 % 30)) for n in range(240)
]  # fmt: skip
_US = 1_000_000


PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"


def _of_the_page() -> Method:
    """The method that CONTRIBUTING.md shows, as whoever copies it has it."""
    code, *_ = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
    module = types.ModuleType("shift_of_the_page")
    sys.modules[module.__name__] = module
    exec(compile(code, str(PAGE), "exec", dont_inherit=True), vars(module))
    found: Method = module.SHIFT
    return found


TOY = _of_the_page()


def _nothing(values: Mapping[str, Any], protected: ProtectedUnit) -> Guarantee:
    return Guarantee(["Times were moved. Nothing is guaranteed."], {}, {})


@contextmanager
def _known(*methods: Method) -> Iterator[None]:
    """As if they had their lines in the registry."""
    with pytest.MonkeyPatch.context() as patched:
        for method in methods:
            patched.setitem(registry.METHODS, method.name, method)
        registry.find_method.cache_clear()
        yield
    registry.find_method.cache_clear()


def _build(url: str) -> None:
    with _known(TOY, HOURS), opened(url) as database:
        upgrade.upgrade(database)
        build_points(database, "d", make_points(url, "points", POINTS))


toy_db = filled_once("toy", _build)
toy = clone_of("toy_db")


@pytest.fixture
def url(toy: str) -> Iterator[str]:
    with _known(TOY, HOURS):
        yield toy


def _asked(database: Database, method: str) -> pipeline.Outcome:
    request = Request.parse(method, most="30s")
    return pipeline.anonymize(
        database, find_dataset(database, "d"), JobRequest(request), Progress()
    )


def test_the_command_line_knows_its_options(url: str) -> None:
    assert declared()["most"][1] == ["shift", "hours"]


@pytest.mark.parametrize("method", ["shift", "lg+shift"])
def test_the_whole_way(url: str, method: str, tmp_path: Path) -> None:
    with opened(url) as database:
        made = _asked(database, method)
        assert made.verified is not None and made.verified.checked["shifted"] == 6
        assert made.release.parameters["most"] == 30
        assert _asked(database, method).existed
    found = verify(url, "d_1")
    assert found["checked"]["shifted"] == 6
    freqdp(url, "plan", "d", "--method", method).succeeded()
    freqdp(url, "evaluate", "d_1").succeeded()
    report(url, "d_1", tmp_path)
    freqdp(
        url, "release", "export", "d_1", "--format", "csv", "--out", str(tmp_path / "r.csv")
    ).succeeded()


def test_asked_for_in_sql(url: str) -> None:
    query(url, "SELECT freqdp.request_release('d', 'shift', NULL, '{\"most\": \"30s\"}')")
    assert serve(url).done == 1
    with pytest.raises(Exception, match="most"):
        query(url, "SELECT freqdp.request_release('d', 'shift', NULL, '{\"most\": \"x\"}')")


def test_resumed_after_its_draw(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was drawn is not drawn again, whatever ended the first run."""

    def fail(*arguments: Any, **more: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(pipeline.staging, "write_records", fail)
        freqdp(url, "anonymize", "d", "--method", "shift")
    stored = "SELECT name, place, value FROM freqdp.step_value ORDER BY place"
    drawn = query(url, stored)
    freqdp(url, "release", "resume", "d_1").succeeded()
    assert query(url, stored) == drawn
    assert [(name, place) for name, place, _ in drawn] == [("seconds", n) for n in range(1, 7)]
    assert all(1 <= seconds <= 60 for *_, seconds in drawn)


def test_a_table_that_was_changed_is_found(url: str) -> None:
    anonymize(url, "d", "shift")
    query(
        url, "UPDATE freqdp_release.d_1 SET sampled_at = sampled_at + interval '1 s' WHERE seq = 1"
    )
    assert freqdp(url, "release", "verify", "d_1").code == 3


@pytest.mark.parametrize("damage", ["DELETE FROM", "UPDATE"])
def test_a_draw_that_is_not_there_is_said(url: str, damage: str) -> None:
    anonymize(url, "d", "shift")
    query(url, f"{damage} freqdp.step_column{' SET name = $$hours$$' * (damage == 'UPDATE')}")
    answer = freqdp(url, "release", "verify", "d_1")
    assert answer.code == 3
    differ = "seconds" if damage != "UPDATE" else "hours, seconds"
    assert (
        f"step 1: its draw is not stored as this version keeps it (these differ: {differ})"
        in answer.err
    )


# A method that publishes another table than trajectories: how many samples there are in each hour.


@dataclass(frozen=True)
class HourOptions:
    most: int = parameter(Duration("30s"), "Not used.", 60 * _US)


@dataclass(frozen=True)
class HourNoise:
    value: Ints

    def __len__(self) -> int:
        return len(self.value)


@dataclass(frozen=True)
class Hours:
    """What is published: a value for each hour of the day, and where it was counted."""

    hour: Ints
    value: Ints

    def __len__(self) -> int:
        return len(self.hour)


class HourStep(Step[HourOptions, HourNoise, EmptyLog]):
    name = "hour"
    words = "how many samples there are in each hour"
    options = HourOptions
    draws = HourNoise
    logs = EmptyLog
    checked: ClassVar[dict[str, str]] = {"hours": "hours are the counts with their noise"}

    def draw(
        self, world: StepContext, state: WorkingSet, options: HourOptions, source: RandomSource
    ) -> HourNoise:
        return HourNoise((source.uniform_words(24) % 5).astype(np.int64))

    def carry_out(
        self, world: StepContext, state: WorkingSet, drawn: HourNoise, options: HourOptions
    ) -> tuple[EmptyLog, WorkingSet]:
        hour = state.trajectories.at // (3600 * _US) % 24
        counts = np.bincount(hour, minlength=24) + drawn.value
        return EmptyLog(), replace(state, tables=Hours(np.arange(24), counts))

    def check(self, done: CompletedStep[HourOptions, HourNoise, EmptyLog]) -> dict[str, int]:
        assert isinstance(done.after.tables, Hours)
        if done.after.tables.value.sum() != done.before.samples + done.drawn.value.sum():
            raise VerificationFailed("the hours do not add up")
        return {"hours": len(done.after.tables)}


def _hour_rows(state: WorkingSet, world: StepContext) -> Iterator[Any]:
    assert isinstance(state.tables, Hours)
    yield {"hour": state.tables.hour, "value": state.tables.value}


def _place_rows(state: WorkingSet, world: StepContext) -> Iterator[Any]:
    x, y = world.locations.in_source()
    geometry = point_bytes(x[:1], y[:1], world.build.source_srid)
    yield {"place": np.ones(1, np.int64), "geom": geometry}


HOURS = Method(
    "hours", "counts samples by hour", (HourStep(),), kind="synthetic", guarantee=_nothing,
    explains="How many samples there are in each hour.",
    publishes=(
        Relation(
            "_hour",
            (Column("hour", "int4", "Hour of the day."), Column("value", "int8", "Samples, {timezone}.")),
            "A row for each hour.", key=("hour",), indexes=("value",), rows=_hour_rows,
        ),
        Relation(
            "_place",
            (Column("place", "int4", "Its number."), Column("geom", "geometry(Point)", "Where it is.")),
            key=("place",), indexes=("geom",), rows=_place_rows,
        ),
    ),
)  # fmt: skip


@pytest.fixture
def counted(url: str) -> str:
    """The dataset, with a release by the method that publishes counts."""
    made = anonymize(url, "d", "hours")
    assert made["table"] == "freqdp_release.d_1_hour"
    assert made["relations"] == ["freqdp_release.d_1_hour", "freqdp_release.d_1_place"]
    assert made["verified"]["checked"] == {"hours": 24} and made["rows"] == 24
    return url


def _relations(url: str) -> list[str]:
    rows = query(
        url, "SELECT relname FROM pg_class WHERE relnamespace = 'freqdp_release'::regnamespace "
        "AND relkind IN ('r', 'v') AND relname NOT IN ('catalog', 'series') ORDER BY 1",
    )  # fmt: skip
    return [name for (name,) in rows]


def test_another_table_is_published(counted: str) -> None:
    rows = query(counted, "SELECT hour, value FROM freqdp_release.d_1_hour ORDER BY hour")
    assert [hour for hour, _ in rows] == list(range(24))
    drawn = query(counted, "SELECT value FROM freqdp.step_value")
    assert sum(n for _, n in rows) == len(POINTS) + sum(n for (n,) in drawn)
    assert _relations(counted) == ["d_1_hour", "d_1_place", "d_current_hour", "d_current_place"]
    assert query(counted, "SELECT relations FROM freqdp_release.catalog") == [
        (["d_1_hour", "d_1_place"],)
    ]
    about = query(
        counted,
        "SELECT obj_description('freqdp_release.d_1_hour'::regclass), "
        "col_description('freqdp_release.d_1_hour'::regclass, 2), "
        "has_table_privilege('freqdp_analyst', 'freqdp_release.d_1_hour', 'SELECT'), "
        "has_table_privilege('freqdp_runner', 'freqdp_release.d_1_hour', 'INSERT')",
    )
    comment, column, readable, writable = about[0]
    assert "Nothing is guaranteed." in comment and comment.endswith("A row for each hour.")
    assert column == "Samples, UTC." and readable and not writable
    indexes = query(
        counted, "SELECT indexname FROM pg_indexes WHERE tablename LIKE 'd_1_%' ORDER BY 1"
    )
    assert [name for (name,) in indexes] == [
        "d_1_hour_pkey", "d_1_hour_value_idx", "d_1_place_geom_idx", "d_1_place_pkey",
    ]  # fmt: skip
    shown = freqdp(counted, "release", "show", "d_1").succeeded()
    assert shown["relations"] == ["freqdp_release.d_1_hour", "freqdp_release.d_1_place"]
    freqdp(counted, "evaluate", "d_1").refused("no trajectories")
    freqdp(counted, "release", "report", "d_1").refused("no trajectories")
    freqdp(counted, "release", "report", "d_1", "--public").refused("no trajectories")


def test_another_table_is_verified(counted: str) -> None:
    assert verify(counted, "d_1")["checked"] == {"hours": 24}
    for suffix, change in (
        ("place", "DELETE FROM freqdp_release.d_1_place"),
        ("hour", "UPDATE freqdp_release.d_1_hour SET value = value + 1 WHERE hour = 7"),
    ):
        query(counted, change)
        answer = freqdp(counted, "release", "verify", "d_1")
        assert answer.code == 3 and f"d_1_{suffix} does not hold the rows" in answer.err


@pytest.mark.parametrize("form", ["csv", "geoparquet", "gpkg"])
def test_another_table_is_exported(counted: str, form: str, tmp_path: Path) -> None:
    ending = {"csv": "csv", "geoparquet": "parquet", "gpkg": "gpkg"}[form]
    out = tmp_path / f"r.{ending}"
    freqdp(
        counted, "release", "export", "d_1", "--format", form, "--out", str(out), "--srid", "4326"
    ).succeeded()
    hours, places = tmp_path / f"r_hour.{ending}", tmp_path / f"r_place.{ending}"
    if form == "gpkg":
        layers = [
            len(pyogrio.read_arrow(out, layer=layer)[1]) for layer in ("d_1_hour", "d_1_place")
        ]
        assert layers == [24, 1]
        assert "- d_1_hour.hour: Hour of the day." in Path(f"{out}.README.txt").read_text()
        return
    stored = query(counted, "SELECT hour, value FROM freqdp_release.d_1_hour ORDER BY hour")
    if form == "csv":
        lines = hours.read_text().splitlines()
        assert lines[0] == '"hour","value"'
        assert [tuple(map(int, line.split(","))) for line in lines[1:]] == stored
        assert "POINT(" in places.read_text()
    else:
        table = pq.read_table(hours)
        assert list(zip(*(c.to_pylist() for c in table.columns), strict=True)) == stored
        assert b"geo" not in table.schema.metadata and b"geo" in pq.read_schema(places).metadata
    notice = Path(f"{hours}.README.txt").read_text()
    assert "24 rows" in notice and "- hour: Hour of the day." in notice
    assert json.loads(Path(f"{places}.guarantee.json").read_text())["file"]["columns"] == [
        "place", "geom",
    ]  # fmt: skip


def test_another_table_is_copied_and_withdrawn(counted: str, shared_server: SharedServer) -> None:
    with cloned(shared_server.get(), shared_server.template(schema=False)) as other:
        copy = ("release", "publish", "--to", other, "--all")
        assert freqdp(counted, *copy).succeeded()["copied"] == ["d_1"]
        rows = "SELECT * FROM freqdp_release.d_current_hour ORDER BY 1"
        assert query(other, rows) == query(counted, rows)
        assert _relations(other) == _relations(counted)
        withdraw(counted, "d_1")
        assert _relations(counted) == []
        assert freqdp(counted, *copy).succeeded()["removed"] == ["d_1"]
        assert _relations(other) == []


def test_the_newest_may_have_other_relations(counted: str) -> None:
    """Views of what the newest release does not have go; names with a suffix are reserved."""
    anonymize(counted, "d", "shift")
    assert [name for name in _relations(counted) if name.startswith("d_current")] == [
        "d_current", "d_current_line", "d_current_trip",
    ]  # fmt: skip
    freqdp(counted, "anonymize", "d", "--method", "hours", "--as", "x_hour").refused("reserved")
