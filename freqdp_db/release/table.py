"""The rows of a release: what they are, in which order they are written, and how they are compared.

Where workers keep the trajectories, they write the tables and compare them in parts. A part is a range of
released ids, not of objects: the physical order of a table must say nothing but the ids. So the workers
exchange trajectories first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from freqdp_db.dataset.projection import InSource, to_source
from freqdp_db.db.connection import Database, DatabaseRef
from freqdp_db.db.copy import (
    AREAS,
    POINTS,
    Layout,
    box_bytes,
    encode_columns,
    encode_lines,
    point_bytes,
    range_bytes,
)
from freqdp_db.db.published import digest_of, digest_rows
from freqdp_db.db.staging import Staging
from freqdp_db.engines.partitions import Partitions, PerPartition, Range
from freqdp_db.engines.ranges import cut
from freqdp_db.errors import VerificationFailed
from freqdp_db.methods.contract import Method, StepContext, WorkingSet
from freqdp_db.methods.frequency.partition import Partition
from freqdp_db.methods.relations import TRAJECTORIES, Blocks, Relation
from freqdp_db.model.arrays import Ints, Metres, offsets_from, rows_of
from freqdp_db.model.days import local_days
from freqdp_db.model.trajectories import Areas, Locations, Trajectories
from freqdp_db.progress import Progress, Stage
from freqdp_db.release.request import Request

Ids: TypeAlias = tuple[int | None, int | None]
"""Released ids from one on, and before another; None: no limit."""
TablePart: TypeAlias = tuple[int | None, int, str]
"""Of rows that were compared: the first id (None: no limit), how many they are, and a hash of them."""


@dataclass(frozen=True)
class Stored:
    """Where the rows of a relation are: staged, or published."""

    schema: str
    name: str
    in_order: bool = False
    """Whether the rows lie in the order of the key: written once, and never changed."""


_LINE_ROWS = 1 << 20
_CHUNK = 1 << 17


def tables_of(request: Request) -> list[Relation]:
    """The relations of a release that have rows of their own, the largest first."""
    return [relation for relation in request.relations if relation.view is None]


@dataclass(frozen=True)
class OwnRows:
    """The rows of a release by a method with relations of its own."""

    state: WorkingSet
    world: StepContext
    in_order: ClassVar[bool] = True
    shown: ClassVar[int] = 0

    @property
    def rows(self) -> int:
        """What there is to do, for who waits."""
        return 0 if self.state.made is None else len(self.state.made)

    def blocks(self, relation: Relation) -> Blocks:
        assert relation.rows is not None, "a method makes the rows of its relations"
        kinds = [(column.name, column.kind) for column in relation.columns]
        for columns in relation.rows(self.state, self.world):
            yield encode_columns(kinds, columns)

    def write_first(self, staging: Staging, tables: list[Relation], stage: Stage) -> None:
        staging.write(tables[0], self.blocks(tables[0]), index=False)

    def write_other(self, staging: Staging, relation: Relation) -> None:
        staging.write(relation, self.blocks(relation), index=True)

    def compare(
        self, database: Database, relation: Relation, stored: Stored, stage: Stage
    ) -> list[TablePart]:
        return [compare_table(database, relation, stored, self.blocks(relation))]


@dataclass(frozen=True)
class ReleasedTable:
    """Released trajectories, in order of their ids: physical order says nothing else."""

    trajectories: Trajectories
    order: Ints
    """Trajectories that are not empty, by released id."""
    key: Ints
    x: Metres
    y: Metres
    """Each place, in the source's SRID."""
    areas: Areas | None
    """Each sample's, in the source's SRID."""
    srid: int
    timezone: str
    """Of the days that lines are cut into."""
    in_order: ClassVar[bool] = True
    """Whether rows can be compared as they were written, before there is an index."""

    @classmethod
    def of(cls, state: WorkingSet, world: StepContext) -> ReleasedTable:
        build = world.build
        order = np.argsort(state.key)
        order = order[state.trajectories.lengths[order] > 0]
        if state.places.source_x is not None:
            x, y = state.places.in_source()
        else:
            x, y = to_source(build, state.places.x, state.places.y)
        areas = None if state.areas is None else InSource(build).areas(state.areas)
        return cls(
            state.trajectories, order, state.key, x, y, areas, build.source_srid, build.timezone
        )

    @property
    def rows(self) -> int:
        return self.trajectories.samples

    @property
    def shown(self) -> int:
        """How many trajectories it has."""
        return len(self.order)

    @property
    def layout(self) -> Layout:
        return POINTS if self.areas is None else AREAS

    def blocks(self, relation: Relation) -> Blocks:
        """The rows of a table: of lines, or of samples."""
        return self.lines() if relation.suffix == "_line" else self.points()

    def write_first(self, staging: Staging, tables: list[Relation], stage: Stage) -> None:
        """Write the first table; its indexes follow."""
        staging.write(tables[0], _counted(self.points(), stage), index=False)

    def write_other(self, staging: Staging, relation: Relation) -> None:
        """Write another table, and index it."""
        staging.write(relation, self.blocks(relation), index=True)

    def compare(
        self,
        database: Database,
        relation: Relation,
        stored: Stored,
        stage: Stage,
        ids: Ids = (None, None),
    ) -> list[TablePart]:
        """Compare with a stored table; raises VerificationFailed."""
        samples = relation.suffix == ""
        blocks = _counted(self.points(), stage) if samples else self.blocks(relation)
        return [compare_table(database, relation, stored, blocks, ids)]

    def _batches(self, rows: int) -> Iterator[Ints]:
        """Whole trajectories, about so many rows at a time."""
        ends = np.cumsum(self.trajectories.lengths[self.order])
        begin = 0
        while begin < len(self.order):
            before = ends[begin - 1] if begin else 0
            end = max(int(np.searchsorted(ends, before + rows)), begin + 1)
            yield self.order[begin:end]
            begin = end

    def points(self) -> Iterator[NDArray[Any]]:
        """Packed rows (trajectory_id, seq, at, geom), and area and interval where there are any."""
        geometry = point_bytes(self.x, self.y, self.srid)
        for batch in self._batches(_CHUNK):
            source, offsets = rows_of(self.trajectories.offsets, batch)
            counts = np.diff(offsets)
            columns = {
                "trajectory_id": np.repeat(self.key[batch], counts),
                "seq": np.arange(len(source)) - np.repeat(offsets[:-1], counts) + 1,
                "at": self.trajectories.at[source],
                "geom": geometry[self.trajectories.location[source]],
            }
            if self.areas is not None:
                a = self.areas
                columns["area"] = box_bytes(
                    a.x_min[source], a.y_min[source], a.x_max[source], a.y_max[source], self.srid
                )
                columns["during"] = range_bytes(self.trajectories.at[source], a.until[source])
            yield self.layout.pack(**columns)

    def lines(self) -> Iterator[NDArray[np.uint8]]:
        """Rows (trajectory_id, day, LineStringM) of the days with at least two samples."""
        for batch in self._batches(_LINE_ROWS):
            whose, days, first, count = self._days(batch)
            whole = count >= 2
            yield encode_lines(
                self.key[whose[whole]],
                days[whole],
                first[whole],
                count[whole],
                self.trajectories.location,
                self.x,
                self.y,
                self.trajectories.at,
                self.srid,
            )

    def _days(self, batch: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """The days of these trajectories: whose, which, the first sample of each and how many."""
        source, offsets = rows_of(self.trajectories.offsets, batch)
        days = local_days(self.trajectories.at[source], self.timezone)
        begins = np.ones(len(days), np.bool_)
        begins[1:] = np.diff(days) != 0
        begins[offsets[:-1]] = True
        first = np.flatnonzero(begins)
        owner = np.searchsorted(offsets, first, side="right") - 1
        return batch[owner], days[first], source[first], np.diff(first, append=len(days))


def _counted(chunks: Iterator[NDArray[Any]], stage: Stage) -> Iterator[NDArray[Any]]:
    for chunk in chunks:
        yield chunk
        stage.advance(len(chunk))


@dataclass(frozen=True)
class Piece:
    """Some trajectories and their released ids, which are in order."""

    key: Ints
    trajectories: Trajectories

    @property
    def rows(self) -> int:
        return self.trajectories.samples


@dataclass(frozen=True)
class DistributedTable:
    """A released table whose rows are with the workers."""

    pieces: Partitions[Piece]
    ids: list[Ids]
    """The released ids of each piece. The first and the last have no limit: a row too many shows."""
    places: Partitions[Locations]
    """The build's, as workers have them: the same for every piece."""
    srid: int
    timezone: str
    rows: int
    shown: int
    """How many trajectories it has."""
    in_order: ClassVar[bool] = False
    """Pages of several writers are mixed: rows are compared by their index."""

    @classmethod
    def of(cls, state: WorkingSet, world: StepContext) -> DistributedTable:
        partitions, lengths = state.partitions, state.trajectories.lengths
        order = np.argsort(state.key)
        order = order[lengths[order] > 0]
        ranges = cut(offsets_from(lengths[order]), len(partitions.ranges))
        wanted = [
            [_of_range(order[begin:end], own, state.key) for own in partitions.ranges]
            for begin, end in ranges
        ]
        limits = [None, *(int(state.key[order[begin]]) for begin, _ in ranges[1:]), None]
        return cls(
            partitions.shuffle(_take, wanted, _join, ranges),
            list(pairwise(limits)),
            partitions.map(_places_of),
            world.build.source_srid,
            world.build.timezone,
            state.samples,
            len(order),
        )

    def write_first(self, staging: Staging, tables: list[Relation], stage: Stage) -> None:
        """Each worker writes its pieces of all tables."""
        run = staging.create_for_parts(tables)
        numbers = PerPartition(range(len(self.ids)))
        reach, about = DatabaseRef.of(staging.database), (staging.release_id, staging.method)
        written = self.pieces.map(
            _write, self.places, self.srid, self.timezone, reach, about, run, numbers
        )
        for rows in written:
            stage.advance(rows)
        staging.forget_parts()

    def write_other(self, staging: Staging, relation: Relation) -> None:
        """It is written; index it."""
        staging.index_parts(relation)

    def compare(
        self, database: Database, relation: Relation, stored: Stored, stage: Stage
    ) -> list[TablePart]:
        """Each worker compares its pieces with the stored table."""
        reach, ids = DatabaseRef.of(database), PerPartition(self.ids)
        found = []
        for compared in self.pieces.map(
            _compare, self.places, self.srid, self.timezone, reach, relation.suffix, stored, ids
        ):
            found += compared
            stage.advance(0 if relation.suffix else compared[0][1])
        return found


def _of_range(chosen: Ints, own: Range, key: Ints) -> tuple[Ints, Ints]:
    """Which trajectories of a range are wanted, by their numbers there, and their released ids."""
    mine = chosen[(chosen >= own[0]) & (chosen < own[1])]
    return mine - own[0], key[mine]


def _places_of(partition: Partition) -> Locations:
    return partition.places


def _take(partition: Partition, wanted: tuple[Ints, Ints]) -> Piece:
    chosen, key = wanted
    return Piece(key, partition.trajectories.take(chosen))


def _join(pieces: list[Piece]) -> Piece:
    key = np.concatenate([p.key for p in pieces])
    lengths = np.concatenate([p.trajectories.lengths for p in pieces])
    whole = Trajectories(
        offsets_from(lengths),
        *(
            np.concatenate([getattr(p.trajectories, column) for p in pieces])
            for column in ("location", "at", "start")
        ),
    )
    order = np.argsort(key)
    return Piece(key[order], whole.take(order))


def _table(piece: Piece, places: Locations, srid: int, timezone: str) -> ReleasedTable:
    order = np.arange(len(piece.key))
    x, y = places.in_source()
    return ReleasedTable(piece.trajectories, order, piece.key, x, y, None, srid, timezone)


def _write(
    piece: Piece,
    places: Locations,
    srid: int,
    timezone: str,
    reach: DatabaseRef,
    about: tuple[int, str],
    run: int,
    number: int,
) -> int:
    """For a worker: its part of the staged tables. about: the release's number and method."""
    table = _table(piece, places, srid, timezone)
    staging = Staging(reach.database(), *about, srid)
    tables = [relation for relation in TRAJECTORIES if relation.view is None]
    staging.write_part(run, number, {r: partial(table.blocks, r) for r in tables})
    return piece.rows


def _compare(
    piece: Piece,
    places: Locations,
    srid: int,
    timezone: str,
    reach: DatabaseRef,
    suffix: str,
    stored: Stored,
    ids: Ids,
) -> list[TablePart]:
    """For a worker: its part of a stored table."""
    table = _table(piece, places, srid, timezone)
    relation = next(relation for relation in TRAJECTORIES if relation.suffix == suffix)
    with Progress().stage("compare") as stage:
        return table.compare(reach.database(), relation, stored, stage, ids)


AnyRows: TypeAlias = ReleasedTable | DistributedTable | OwnRows


def rows_to_release(method: Method, state: WorkingSet, world: StepContext) -> AnyRows:
    """The rows that a state is released as."""
    if method.publishes:
        return OwnRows(state, world)
    of = DistributedTable.of if state.partitions.remote else ReleasedTable.of
    return of(state, world)


def digest_table(
    database: Database, relation: Relation, stored: Stored, ids: Ids = (None, None)
) -> tuple[int, str]:
    """How many rows a stored table has, or has of these ids, and a hash of them."""
    order = [] if stored.in_order else list(relation.key)
    with database.begin(snapshot=True) as connection:
        return digest_of(connection, (stored.schema, stored.name), relation.names, order, ids)


def compare_table(
    database: Database,
    relation: Relation,
    stored: Stored,
    expected: Blocks,
    ids: Ids = (None, None),
) -> TablePart:
    """Compare a stored table, or its rows of these ids, with the expected rows."""
    rows, found = digest_table(database, relation, stored, ids)
    if found != digest_rows(expected):
        raise VerificationFailed(
            f"{stored.schema}.{stored.name} does not hold the rows that its edit log gives",
            remedy="withdraw it; if nobody changed the table, report this as a fault of freqdp",
        )
    return ids[0], rows, found
