"""Journals that the database keeps: of a release that is made, and of one that is verified."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

import freqdp_db
from freqdp_db.db import releases
from freqdp_db.db.connection import Connection, Database, DatabaseRef
from freqdp_db.db.draws import load_columns, load_edits
from freqdp_db.db.ledger import require_booked
from freqdp_db.db.releases import ReleaseRow, StepRow
from freqdp_db.engines.partitions import PerPartition, Range
from freqdp_db.errors import ResumeRefused, VerificationFailed
from freqdp_db.methods.contract import AnyStep, Counts, StepContext, WorkingSet
from freqdp_db.methods.frequency.partition import Partition
from freqdp_db.methods.frequency.steps import log_of
from freqdp_db.methods.loop import Turn
from freqdp_db.model.arrays import Ints
from freqdp_db.model.edits import EditLog, Edits
from freqdp_db.privacy.noise import RandomSource, SecureSource, SeededSource
from freqdp_db.progress import Progress

_BY_TRAJECTORY = "2:"
"""What a digest begins with: which rule it was computed by."""


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
            steps = releases.list_steps(connection, self.database, self.release.release_id)
            key = releases.load_key(connection, self.database, self.release.release_id)
        self._committed = {step.step: step for step in steps}
        self._key = key if len(key) else None
        self._require_same_software()

    def key(self) -> Ints | None:
        return self._key

    def drawn(self, turn: Turn, world: StepContext, state: WorkingSet) -> Any | None:
        number, step = turn.number, turn.step
        known = self._committed.get(number)
        if known is None:
            return None
        if number == 1 and len(state.key) != len(state.trajectories):
            raise self._refused("the key of released ids is not whole")
        with self.database.begin() as connection:
            drawn = load_columns(
                connection, self.database, self.release.release_id, number, "draw", step.draws
            )
        if len(drawn) != known.drawn:
            raise self._refused(f"step {number} has lost or gained targets")
        try:
            step.require_drawn_from(world, state, drawn)
        except VerificationFailed as error:
            raise self._refused(f"step {number}: {error.message}") from None
        return drawn

    def source(self, number: int) -> RandomSource:
        require_booked(self.database, self.release.release_id)
        return SecureSource() if self.seed is None else SeededSource(self.seed, number)

    def commit(self, turn: Turn, drawn: Any, key: Ints | None) -> None:
        releases.commit_draw(
            self.database,
            self.release.release_id,
            turn.number,
            turn.step.name,
            drawn,
            freqdp_db.__version__,
            key,
        )

    def carry_out(
        self, turn: Turn, world: StepContext, state: WorkingSet, drawn: Any
    ) -> WorkingSet:
        number, step, options = turn.number, turn.step, turn.options
        costs = step.user_level(state, drawn, options)
        if costs:
            self.user_level[step.name] = costs
        logged, after = step.carry_out(world, state, drawn, options)
        counts = step.counts(drawn, logged, state, after, options)
        known = self._committed.get(number)
        if known is None or known.digest is None:
            self.meanwhile(self._write_log, number, step, logged, counts, after)
        elif known.counts != counts or known.digest != digest(after):
            raise self._refused(
                f"step {number}: the edits recomputed from the stored targets are not the "
                "recorded ones"
            )
        return after

    def _write_log(
        self, number: int, step: AnyStep, logged: Any, counts: Counts, after: WorkingSet
    ) -> None:
        with self.progress.stage(f"{step.name} log"):
            releases.finish_step(
                self.database, self.release.release_id, number, logged, counts, digest(after)
            )

    def _require_same_software(self) -> None:
        for step in self._committed.values():
            if step.software != freqdp_db.__version__:
                name = self.release.name
                raise ResumeRefused(
                    f"release {name!r} drew its targets with freqdp {step.software}; this is "
                    f"{freqdp_db.__version__}, which may edit differently",
                    remedy=f"resume it with freqdp {step.software}, or give it up "
                    f"(freqdp release withdraw {shlex.quote(name)}) and ask for a new draw",
                )

    def _refused(self, what: str) -> ResumeRefused:
        name = self.release.name
        return ResumeRefused(
            f"release {name!r}: {what}",
            remedy=f"give it up (freqdp release withdraw {shlex.quote(name)}) and ask for a new draw",
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
        steps = releases.list_steps(self.connection, self.database, self.release_id)
        self._steps = {step.step: step for step in steps}

    def key(self) -> Ints:
        key = releases.load_key(self.connection, self.database, self.release_id)
        if len(np.unique(key)) != len(key):
            raise VerificationFailed("the key does not give every trajectory an id of its own")
        return key

    def drawn(self, turn: Turn, world: StepContext, state: WorkingSet) -> Any:
        number, step = turn.number, turn.step
        if number == 1 and len(state.key) != len(state.trajectories):
            raise VerificationFailed("the key does not give every trajectory an id of its own")
        if number not in self._steps:
            raise VerificationFailed(f"step {number} was never drawn")
        drawn = self._load(number, "draw", step.draws)
        if not self.checks:
            return drawn
        try:
            step.require_drawn_from(world, state, drawn)
        except VerificationFailed as error:
            raise VerificationFailed(f"step {number}: {error.message}") from None
        return drawn

    def source(self, number: int) -> RandomSource:
        raise AssertionError("a replay draws nothing")

    def commit(self, turn: Turn, drawn: Any, key: Ints | None) -> None:
        raise AssertionError("a replay draws nothing")

    def carry_out(
        self, turn: Turn, world: StepContext, state: WorkingSet, drawn: Any
    ) -> WorkingSet:
        number, step, options = turn.number, turn.step, turn.options
        logged = self._log(number, step, state)
        recorded = self._steps[number]
        try:
            after: WorkingSet = step.replay(world, state, drawn, logged, options)
            if not self.checks:
                return after
            found = step.check(world, state, drawn, logged, after, options)
        except VerificationFailed as error:
            raise VerificationFailed(f"step {number}: {error.message}") from None
        counts = step.counts(drawn, logged, state, after, options)
        later = step.later_counts(options)
        same = _same_counts(recorded.counts, counts, later)
        if not same or recorded.digest != digest(after):
            raise VerificationFailed(f"step {number}: the log is not the one that was recorded")
        for name, count in found.items():
            self.checked[name] = self.checked.get(name, 0) + count
        return after

    def _log(self, number: int, step: AnyStep, state: WorkingSet) -> Any:
        """The log of a step; of edits, each partition reads what concerns its trajectories."""
        if step.logs is not EditLog:
            return self._load(number, "log", step.logs)
        partitions, reach = state.partitions, DatabaseRef.of(self.database)
        limits = _limits(partitions.ranges)
        return log_of(partitions.map(_own_edits, reach, self.release_id, number, limits))

    def _load(self, number: int, part: Any, kind: type) -> Any:
        return load_columns(self.connection, self.database, self.release_id, number, part, kind)


def _same_counts(recorded: Counts | None, found: Counts, later: frozenset[str]) -> bool:
    """Whether what is found was recorded: all of it, or all but what was not counted then."""
    return recorded == found or recorded == {n: v for n, v in found.items() if n not in later}


def _limits(ranges: list[Range]) -> PerPartition:
    """The trajectories of each range; none are left out at either end, so that a stray one shows."""
    inner: list[int | None] = [first for first, _ in ranges[1:]]
    return PerPartition(list(pairwise([None, *inner, None])))


def _own_edits(
    partition: Partition,
    reach: DatabaseRef,
    release_id: int,
    step: int,
    limits: tuple[int | None, int | None],
) -> Edits:
    """What the log says of the trajectories of a partition."""
    database = reach.database()
    with database.begin(snapshot=True) as connection:
        return load_edits(connection, database, release_id, step, limits)


def digest(state: WorkingSet) -> str:
    """Hash of the trajectories' hashes: partitions of the trajectories can be hashed apart."""
    whole = hashlib.sha256()
    more: list[NDArray[Any]] = []
    if state.owner is not None:
        more.append(state.owner)
    if state.places.source_x is None:
        location = state.trajectories.location
        more += [state.places.x[location], state.places.y[location]]
    if state.areas is not None:
        more += [getattr(state.areas, f.name) for f in fields(state.areas)]
    # columns of a method's own are there only where all trajectories are here, in one partition
    for hashes in state.partitions.map(_hashes_of, more):
        whole.update(hashes)
    if state.members is not None:
        whole.update(state.members.tobytes())
    if state.made is not None:
        for made in fields(state.made):
            whole.update(np.ascontiguousarray(getattr(state.made, made.name)).tobytes())
    return _BY_TRAJECTORY + whole.hexdigest()


def _hashes_of(partition: Partition, more: list[NDArray[Any]]) -> bytes:
    t = partition.trajectories
    return _hashes(t.offsets, [t.location, t.at, *more])


def _hashes(offsets: Ints, columns: list[NDArray[Any]]) -> bytes:
    """The hash of each trajectory, one after the other."""
    packed = [np.ascontiguousarray(column).view(np.uint8).data for column in columns]
    widths = [column.itemsize for column in columns]
    found = bytearray()
    for begin, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        one = hashlib.sha256()
        for data, width in zip(packed, widths, strict=True):
            one.update(data[begin * width : end * width])
        found += one.digest()
    return bytes(found)
