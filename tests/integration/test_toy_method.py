"""Adding a method takes one module and one line: here is such a module, and all the product does with it.

The toy moves every sample by a drawn whole number of seconds, the same for a whole trajectory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from library import build_points, make_points, opened
from world import freqdp, query

from freqdp_db.cli.request import declared
from freqdp_db.columns.arrays import Ints
from freqdp_db.errors import VerificationFailed
from freqdp_db.evaluation.gate import approve_within_limit
from freqdp_db.jobs.worker import Worker
from freqdp_db.mechanisms.noise import RandomSource
from freqdp_db.methods import registry
from freqdp_db.methods.contract import Method, Nothing, State, Step, World
from freqdp_db.methods.guarantee import Guarantee
from freqdp_db.methods.kinds import Duration
from freqdp_db.methods.parameters import parameter
from freqdp_db.methods.protected_unit import ProtectedUnit
from freqdp_db.progress import Progress
from freqdp_db.release import pipeline
from freqdp_db.release.request import Request
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.records.datasets import find_dataset
from freqdp_db.storage.schema import upgrade

POINTS = [
    (f"o{n % 6}", 60.0 * n, 37.0 * (n * 7 % 40), 53.0 * (n * 3 % 30)) for n in range(240)
]  # fmt: skip
_US = 1_000_000


@dataclass(frozen=True)
class ShiftOptions:
    most: int = parameter(Duration("30s"), "The longest shift.", 60 * _US)


@dataclass(frozen=True)
class Shifts:
    seconds: Ints

    def __len__(self) -> int:
        return len(self.seconds)


class ShiftStep(Step[ShiftOptions, Shifts, Nothing]):
    name = "shift"
    words = "the clock of each object"
    options = ShiftOptions
    draws = Shifts
    logs = Nothing
    checked: ClassVar[dict[str, str]] = {"shifted": "trajectories are shifted by one time each"}

    def draw(
        self, world: World, state: State, options: ShiftOptions, source: RandomSource
    ) -> Shifts:
        words = source.uniform_words(len(state.trajectories))
        return Shifts(words % (options.most // _US) + 1)

    def carry_out(
        self, world: World, state: State, drawn: Shifts, options: ShiftOptions
    ) -> tuple[Nothing, State]:
        before = state.trajectories
        at = before.at + drawn.seconds[before.owner] * _US
        return Nothing(), replace(state, trajectories=replace(before, at=at))

    def check(
        self,
        world: World,
        before: State,
        drawn: Shifts,
        logged: Nothing,
        after: State,
        options: ShiftOptions,
    ) -> dict[str, int]:
        moved = after.trajectories.at - before.trajectories.at
        for t, (begin, end) in enumerate(
            zip(before.trajectories.offsets[:-1], before.trajectories.offsets[1:], strict=True)
        ):
            if not (moved[begin:end] == drawn.seconds[t] * _US).all():
                raise VerificationFailed("a sample was moved by another time")
        return {"shifted": len(before.trajectories)}


def _nothing(values: Mapping[str, Any], protected: ProtectedUnit) -> Guarantee:
    return Guarantee(["Times were moved. Nothing is guaranteed."], {}, {})


TOY = Method(
    "shift", "moves the clock of each object", (ShiftStep(),), kind="edited", guarantee=_nothing,
    after=frozenset({"edited"}),
)  # fmt: skip


@pytest.fixture
def url(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setitem(registry.METHODS, TOY.name, TOY)
    registry.find_method.cache_clear()
    with opened(database_url) as database:
        upgrade.upgrade(database)
        build_points(database, "d", make_points(database_url, "points", POINTS))
    yield database_url
    registry.find_method.cache_clear()


def _asked(database: Database, method: str) -> pipeline.Outcome:
    request = Request.parse(method, most="30s")
    return pipeline.anonymize(database, find_dataset(database, "d"), request, Progress())


def test_the_command_line_knows_its_options(url: str) -> None:
    assert declared()["most"][1] == ["shift"]


@pytest.mark.parametrize("method", ["shift", "lg+shift"])
def test_the_whole_way(url: str, method: str, tmp_path: Path) -> None:
    with opened(url) as database:
        made = _asked(database, method)
        assert made.verified is not None and made.verified.checked["shifted"] == 6
        assert made.release.parameters["most"] == 30
        assert _asked(database, method).existed
    found = freqdp(url, "release", "verify", "d_1").succeeded()
    assert found["checked"]["shifted"] == 6
    freqdp(url, "plan", "d", "--method", method).succeeded()
    freqdp(url, "evaluate", "d_1").succeeded()
    freqdp(url, "release", "report", "d_1", "--out", str(tmp_path / "r.html")).succeeded()
    freqdp(
        url, "release", "export", "d_1", "--format", "csv", "--out", str(tmp_path / "r.csv")
    ).succeeded()


def test_asked_for_in_sql(url: str) -> None:
    query(url, "SELECT freqdp.request_release('d', 'shift', NULL, '{\"most\": \"30s\"}')")
    with opened(url) as database:
        assert Worker(database, approve_within_limit).serve(once=True).done == 1
    with pytest.raises(Exception, match="most"):
        query(url, "SELECT freqdp.request_release('d', 'shift', NULL, '{\"most\": \"x\"}')")


def test_resumed_after_its_draw(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was drawn is not drawn again, whatever ended the first run."""

    def fail(*arguments: Any, **more: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(pipeline.staging, "write_points", fail)
        freqdp(url, "anonymize", "d", "--method", "shift")
    drawn = query(url, "SELECT data FROM freqdp.step_column")
    assert len(drawn) == 1
    freqdp(url, "release", "resume", "d_1").succeeded()
    assert query(url, "SELECT data FROM freqdp.step_column") == drawn
    stored = np.frombuffer(drawn[0][0], np.int64)
    assert len(stored) == 6 and (stored >= 1).all() and (stored <= 60).all()


def test_a_table_that_was_changed_is_found(url: str) -> None:
    freqdp(url, "anonymize", "d", "--method", "shift").succeeded()
    query(url, "UPDATE freqdp_release.d_1 SET at = at + interval '1 s' WHERE seq = 1")
    assert freqdp(url, "release", "verify", "d_1").code == 3


@pytest.mark.parametrize("damage", ["DELETE FROM", "UPDATE"])
def test_a_draw_that_is_not_there_is_said(url: str, damage: str) -> None:
    freqdp(url, "anonymize", "d", "--method", "shift").succeeded()
    query(url, f"{damage} freqdp.step_column{' SET name = $$hours$$' * (damage == 'UPDATE')}")
    answer = freqdp(url, "release", "verify", "d_1")
    assert answer.code == 3
    differ = "seconds" if damage != "UPDATE" else "hours, seconds"
    assert (
        f"step 1: its draw is not stored as this version keeps it (these differ: {differ})"
        in answer.err
    )
