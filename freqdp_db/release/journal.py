"""Journals that the database keeps: of a release that is made, and of one that is verified."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

import freqdp_db
from freqdp_db.db import releases
from freqdp_db.db.connection import Connection, Database, DatabaseRef
from freqdp_db.db.ledger import require_booked
from freqdp_db.db.releases import ReleaseRow, StepRow, load_columns, load_edits
from freqdp_db.engines.partitions import PerPartition
from freqdp_db.errors import ResumeRefused, VerificationFailed
from freqdp_db.methods.contract import Counts, Recorded, StepContext, Taken, WorkingSet
from freqdp_db.methods.frequency.partition import Partition
from freqdp_db.methods.frequency.steps import log_of
from freqdp_db.methods.loop import Turn
from freqdp_db.model.arrays import Ints
from freqdp_db.model.edits import EditLog, Edits
from freqdp_db.privacy.noise import RandomSource, SecureSource, SeededSource
from freqdp_db.progress import Progress


@dataclass
class StoredJournal:
    """The journal of `anonymize`: committed draws are taken as they are, and never drawn again."""

    database: Database
    release: ReleaseRow
    seed: int | None
    progress: Progress
    meanwhile: Callable[..., object]
    """Starts what need not be waited for: writing the log of a step."""
    user_level: dict[str, Any] = field(default_factory=dict)
    _committed: dict[int, StepRow] = field(default_factory=dict)
    _key: Ints | None = None

    def __post_init__(self) -> None:
        with self.database.begin(snapshot=True) as connection:
            steps = releases.list_steps(connection, self.release.release_id)
            key = releases.load_key(connection, self.release.release_id)
        self._committed = {step.step: step for step in steps}
        self._key = key if len(key) else None
        for step in steps:
            if step.software != freqdp_db.__version__:
                raise self._refused(
                    f"its targets were drawn with freqdp {step.software}; this is "
                    f"{freqdp_db.__version__}, which may edit differently",
                    f"resume it with freqdp {step.software}, or ",
                )

    def key(self) -> Ints | None:
        return self._key

    def drawn(self, turn: Turn, world: StepContext, state: WorkingSet) -> Any | None:
        known = self._committed.get(turn.number)
        if known is None:
            return None
        try:
            with self.database.begin() as connection:
                drawn = _drawn(connection, self.release.release_id, turn, world, state)
        except VerificationFailed as error:
            raise self._refused(error.message) from None
        if len(drawn) != known.drawn:
            raise self._refused(f"step {turn.number} has lost or gained targets")
        return drawn

    def source(self, number: int) -> RandomSource:
        require_booked(self.database, self.release.release_id)
        return SecureSource() if self.seed is None else SeededSource(self.seed, number)

    def commit(self, turn: Turn, drawn: Any, key: Ints | None) -> None:
        releases.commit_draw(
            self.database, self.release.release_id, turn.number, turn.step.name, drawn,
            freqdp_db.__version__, key,
        )  # fmt: skip

    def carry_out(
        self, turn: Turn, world: StepContext, state: WorkingSet, drawn: Any
    ) -> WorkingSet:
        step = turn.step
        costs = step.user_level(state, drawn, turn.options)
        if costs:
            self.user_level[step.name] = costs
        logged, after = step.carry_out(world, state, drawn, turn.options)
        counts = step.counts(Taken(world, state, drawn, logged, turn.options, after))
        known = self._committed.get(turn.number)
        if known is None or known.digest is None:
            self.meanwhile(self._write_log, turn, logged, counts, after)
        elif known.counts != counts or known.digest != after.digest:
            raise self._refused(
                f"step {turn.number}: the edits recomputed from the stored targets are not the "
                "recorded ones"
            )
        return after

    def _write_log(self, turn: Turn, logged: Any, counts: Counts, after: WorkingSet) -> None:
        with self.progress.stage(f"{turn.step.name} log"):
            releases.finish_step(
                self.database, self.release.release_id, turn.number, logged, counts, after.digest
            )

    def _refused(self, what: str, first: str = "") -> ResumeRefused:
        name = self.release.name
        return ResumeRefused(
            f"release {name!r}: {what}",
            remedy=f"{first}give it up (freqdp release withdraw {shlex.quote(name)}) and ask for a new "
            "draw",
        )


@dataclass
class ReplayJournal:
    """The journal of `verify`: draws and logs as they are stored, each step checked on the way."""

    connection: Connection
    """All of it is read in one snapshot."""
    database: Database
    release_id: int
    checks: bool = True
    """False: what the steps promise was checked before."""
    checked: dict[str, int] = field(default_factory=dict)
    _steps: dict[int, StepRow] = field(default_factory=dict)

    def __post_init__(self) -> None:
        steps = releases.list_steps(self.connection, self.release_id)
        self._steps = {step.step: step for step in steps}

    def key(self) -> Ints:
        key = releases.load_key(self.connection, self.release_id)
        if len(np.unique(key)) != len(key):
            raise VerificationFailed("the key does not give every trajectory an id of its own")
        return key

    def drawn(self, turn: Turn, world: StepContext, state: WorkingSet) -> Any:
        if turn.number not in self._steps:
            raise VerificationFailed(f"step {turn.number} was never drawn")
        return _drawn(self.connection, self.release_id, turn, world, state, self.checks)

    def source(self, number: int) -> RandomSource:
        raise AssertionError("a replay draws nothing")

    def commit(self, turn: Turn, drawn: Any, key: Ints | None) -> None:
        raise AssertionError("a replay draws nothing")

    def carry_out(
        self, turn: Turn, world: StepContext, state: WorkingSet, drawn: Any
    ) -> WorkingSet:
        number, step, options = turn.number, turn.step, turn.options
        logged = self._log(turn, state)
        try:
            after: WorkingSet = step.replay(Recorded(world, state, drawn, logged, options))
            if not self.checks:
                return after
            done = Taken(world, state, drawn, logged, options, after)
            found = step.check(done)
        except VerificationFailed as error:
            raise VerificationFailed(f"step {number}: {error.message}") from None
        recorded, counts = self._steps[number], step.counts(done)
        # an earlier version may not have counted all that this one does
        earlier = {n: v for n, v in counts.items() if n not in step.later_counts(options)}
        if recorded.counts not in (counts, earlier) or recorded.digest != after.digest:
            raise VerificationFailed(f"step {number}: the log is not the one that was recorded")
        for name, count in found.items():
            self.checked[name] = self.checked.get(name, 0) + count
        return after

    def _log(self, turn: Turn, state: WorkingSet) -> Any:
        """The log of a step; of edits, each partition reads what concerns its trajectories."""
        if turn.step.logs is not EditLog:
            return load_columns(
                self.connection, self.release_id, turn.number, "log", turn.step.logs
            )
        partitions = state.partitions
        # without a limit at either end, so that a stray trajectory shows
        limits = pairwise([None, *(first for first, _ in partitions.ranges[1:]), None])
        edits = partitions.map(
            _own_edits, DatabaseRef.of(self.database), self.release_id, turn.number,
            PerPartition(list(limits)),
        )  # fmt: skip
        return log_of(edits)


def _drawn(
    connection: Connection,
    release_id: int,
    turn: Turn,
    world: StepContext,
    state: WorkingSet,
    checks: bool = True,
) -> Any:
    """The stored draw of a step; raises VerificationFailed if it was made from other data."""
    number, step = turn.number, turn.step
    if number == 1 and len(state.key) != len(state.trajectories):
        raise VerificationFailed("the key does not give every trajectory an id of its own")
    drawn = load_columns(connection, release_id, number, "draw", step.draws)
    try:
        if checks:
            step.require_drawn_from(world, state, drawn)
    except VerificationFailed as error:
        raise VerificationFailed(f"step {number}: {error.message}") from None
    return drawn


def _own_edits(
    _: Partition,
    reach: DatabaseRef,
    release_id: int,
    step: int,
    limits: tuple[int | None, int | None],
) -> Edits:
    """What the log says of the trajectories of a partition."""
    database = reach.database()
    with database.begin(snapshot=True) as connection:
        return load_edits(connection, release_id, step, limits)
