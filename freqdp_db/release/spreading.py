"""The released table where workers keep the trajectories: they write it and compare it in parts.

A part of the table is a range of released ids, not of objects: the physical order of a table must say
nothing but the ids. So the workers exchange trajectories first.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from freqdp_db.columns.arrays import Ints
from freqdp_db.columns.build import Build
from freqdp_db.columns.ragged import offsets_from
from freqdp_db.columns.trajectories import Locations, Trajectories
from freqdp_db.engines.partitions import Partitions, PerPartition, Range
from freqdp_db.engines.ranges import cut
from freqdp_db.frequency.partition import Partition
from freqdp_db.methods.contract import State
from freqdp_db.progress import Progress, Stage
from freqdp_db.release.comparing import Ids, Relations, compare_tables
from freqdp_db.release.table import ReleasedTable
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.connection.reach import Reach
from freqdp_db.storage.copy.layout import Layout
from freqdp_db.storage.published import staged_parts
from freqdp_db.storage.published.staging import POINTS


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
    areas: None = None
    layout: ClassVar[Layout] = POINTS
    in_order: ClassVar[bool] = False
    """Pages of several writers are mixed: rows are compared by their index."""

    @classmethod
    def of(cls, state: State, build: Build) -> DistributedTable:
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
            build.source_srid,
            build.timezone,
            state.samples,
            len(order),
        )

    def write_points(self, database: Database, release_id: int, stage: Stage) -> None:
        """Each worker writes its pieces, samples and lines."""
        run = staged_parts.create_staging(database, release_id, self.srid)
        numbers = PerPartition(range(len(self.ids)))
        reach = Reach.of(database)
        written = self.pieces.map(
            _write, self.places, self.srid, self.timezone, reach, release_id, run, numbers
        )
        for rows in written:
            stage.advance(rows)

    def write_lines(self, database: Database, release_id: int) -> None:
        """They are written; index them."""
        staged_parts.finish_lines(database, release_id)

    def compare(self, database: Database, relations: Relations, stage: Stage) -> None:
        """Each worker compares its pieces with the stored tables."""
        reach, ids = Reach.of(database), PerPartition(self.ids)
        relations.lines_written()
        named = (relations.points, relations.lines)
        compared = self.pieces.map(
            _compare, self.places, self.srid, self.timezone, reach, named, ids
        )
        for rows in compared:
            stage.advance(rows)


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
    reach: Reach,
    release_id: int,
    run: int,
    number: int,
) -> int:
    """For a worker: its part of the staged tables."""
    table = _table(piece, places, srid, timezone)
    database = reach.database()
    staged_parts.write_part(database, release_id, run, number, table.points(), table.lines)
    return piece.rows


def _compare(
    piece: Piece,
    places: Locations,
    srid: int,
    timezone: str,
    reach: Reach,
    relations: tuple[tuple[str, str], tuple[str, str]],
    ids: Ids,
) -> int:
    """For a worker: its part of the stored tables."""
    table = _table(piece, places, srid, timezone)
    with Progress().stage("compare") as stage:
        compare_tables(reach.database(), Relations(*relations), table, stage, ids)
    return piece.rows


def table_of(state: State, build: Build) -> ReleasedTable | DistributedTable:
    """The rows that a state is released as."""
    of = DistributedTable.of if state.partitions.remote else ReleasedTable.of
    return of(state, build)
