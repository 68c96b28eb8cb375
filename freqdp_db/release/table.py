"""The rows of a release: what they are, in which order they are written, and how they are compared.

Rows are written in pieces: here all of them are one; where workers keep the trajectories, each worker has
a range of released ids, not of objects: the physical order of a table must say nothing but the ids. So the
workers exchange trajectories first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import freqdp_db
from freqdp_db.dataset.projection import SourceCoordinates, to_source
from freqdp_db.db.connection import Database, DatabaseRef
from freqdp_db.db.copy import (
    AREAS,
    POINTS,
    Layout,
    box_bytes,
    encode_columns,
    encode_lines,
    encode_values,
    point_bytes,
    range_bytes,
)
from freqdp_db.db.published import Hashed, digest_of
from freqdp_db.db.staging import Staging
from freqdp_db.engines.partitions import LocalPartitions, Partitions, PerPartition
from freqdp_db.engines.ranges import cut
from freqdp_db.errors import VerificationFailed
from freqdp_db.methods.contract import Method, StepContext, WorkingSet
from freqdp_db.methods.frequency.partition import Partition
from freqdp_db.methods.relations import Blocks, Relation
from freqdp_db.model.arrays import Ints, Metres, offsets_from, rows_of, within
from freqdp_db.model.days import local_days
from freqdp_db.model.trajectories import MM_PER_M, Areas, KeptColumns, Locations, Trajectories
from freqdp_db.progress import Stage
from freqdp_db.release.request import Request

Ids: TypeAlias = tuple[int | None, int | None]
"""Released ids from one on, and before another; None: no limit."""
TablePart: TypeAlias = tuple[int | None, int, str]
"""Of rows that were compared: the first id (None: no limit), how many they are, and a hash of them."""
Hashes: TypeAlias = dict[str, list[str]]
"""Of each table, by its suffix: a hash of each piece of its rows."""
_ALL: Ids = (None, None)


@dataclass(frozen=True)
class Stored:
    """Where the rows of a relation are: staged, or published."""

    schema: str
    name: str
    in_order: bool = False
    """Whether the rows lie in the order of the key: written once, and never changed."""

    def digest(self, database: Database, relation: Relation, ids: Ids = _ALL) -> tuple[int, str]:
        """How many rows there are, or are of these ids, and a hash of them."""
        order = [] if self.in_order else list(relation.key)
        with database.begin(snapshot=True) as connection:
            return digest_of(connection, (self.schema, self.name), relation.names, order, ids)


_LINE_ROWS = 1 << 20
_DAY_ROWS = Layout("trajectory_id int8, day int4")
_TRIP_ROWS = Layout(
    "trajectory_id int8, trip int4, start_at timestamptz, end_at timestamptz, length_m float8, "
    "places int4, start_geom point, end_geom point"
)
"""What stands before the line in a row."""
_CHUNK = 1 << 17


def tables_of(request: Request, software: str = freqdp_db.__version__) -> list[Relation]:
    """The relations of a release that have rows of their own, the largest first.

    software: the version that made it. In 0.3.0 the trips were a view.
    """
    tables = [relation for relation in request.relations if relation.view is None]
    return [t for t in tables if t.suffix != "_trip" or not software.startswith("0.3.")]


@dataclass(frozen=True)
class OwnRows:
    """The rows of a release by a method with relations of its own."""

    state: WorkingSet
    world: StepContext

    def blocks(self, relation: Relation) -> Blocks:
        assert relation.rows is not None, "a method makes the rows of its relations"
        kinds = [(column.name, column.kind) for column in relation.columns]
        for columns in relation.rows(self.state, self.world):
            for begin in range(0, len(columns[kinds[0][0]]), _CHUNK):
                part = {name: c[begin : begin + _CHUNK] for name, c in columns.items()}
                yield encode_columns(kinds, part)


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
    places: Locations
    """The same in metres."""
    areas: Areas | None
    """Each sample's, in the source's SRID."""
    srid: int
    timezone: str
    """Of the days that lines are cut into."""
    kept: KeptColumns | None = None
    """What the codes of samples that carry columns along stand for."""

    @classmethod
    def of(cls, state: WorkingSet, world: StepContext, order: Ints) -> ReleasedTable:
        build = world.build
        if state.places.source_x is not None:
            x, y = state.places.in_source()
        else:
            x, y = to_source(build, state.places.x, state.places.y)
        areas = None if state.areas is None else SourceCoordinates(build).areas(state.areas)
        return cls(
            state.trajectories, order, state.key, x, y, state.places, areas, build.source_srid,
            build.timezone, build.kept,
        )  # fmt: skip

    @property
    def layout(self) -> Layout:
        return POINTS if self.areas is None else AREAS

    def blocks(self, relation: Relation) -> Blocks:
        """The rows of a table: of samples, lines or trips."""
        written = {"": self.points, "_line": self.lines, "_trip": self.trips}
        return written[relation.suffix]()

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
        """Packed rows (trajectory_id, seq, at, geom), and area and interval where there are any.

        What samples carry along follows.
        """
        carried = None
        if self.trajectories.kept is not None:
            assert self.kept is not None, "codes are of a build that has kept columns"
            carried = encode_values(self.kept)
        geometry = point_bytes(self.x, self.y, self.srid)
        for batch in self._batches(_CHUNK):
            source, offsets = rows_of(self.trajectories.offsets, batch)
            counts = np.diff(offsets)
            columns = {
                "trajectory_id": np.repeat(self.key[batch], counts),
                "seq": np.arange(len(source)) - np.repeat(offsets[:-1], counts) + 1,
                "sampled_at": self.trajectories.at[source],
                "geom": geometry[self.trajectories.location[source]],
            }
            if self.areas is not None:
                a = self.areas
                columns["area"] = box_bytes(
                    a.x_min[source], a.y_min[source], a.x_max[source], a.y_max[source], self.srid
                )
                columns["during"] = range_bytes(self.trajectories.at[source], a.until[source])
            rows = self.layout.pack(**columns)
            codes = self.trajectories.kept_of(source)
            yield rows if carried is None or codes is None else carried.append_to(rows, codes)

    def lines(self) -> Iterator[NDArray[np.uint8]]:
        """Rows (trajectory_id, day, LineStringM) of the days with at least two samples."""
        for batch in self._batches(_LINE_ROWS):
            whose, days, first, count = self._days(batch)
            whole = count >= 2
            whose, days, first, count = whose[whole], days[whole], first[whole], count[whole]
            rows = _DAY_ROWS.pack(trajectory_id=self.key[whose], day=days)
            sample = within(offsets_from(count)) + np.repeat(first, count)
            place = self.trajectories.location[sample]
            at = self.trajectories.at[sample]
            yield encode_lines(rows, count, self.x[place], self.y[place], self.srid, at)

    def trips(self) -> Iterator[NDArray[np.uint8]]:
        """Rows of trips that pass at least two places: see `freqdp_db.methods.trips`."""
        from freqdp_db.methods.trips import TripRule, find_trips, samples_of  # compiles kernels

        geometry = point_bytes(self.x, self.y, self.srid)
        for batch in self._batches(_LINE_ROWS):
            side = self.trajectories.take(batch)
            runs = find_trips(side, self.places, TripRule(), with_stops=True)
            offsets, sample = samples_of(runs.first, runs.last)
            place = side.location[sample]
            moved = np.ones(len(sample), np.bool_)
            moved[1:] = np.diff(place) != 0
            moved[offsets[:-1]] = True
            count = np.diff(np.r_[0, np.cumsum(moved)][offsets])
            shown = count > 1
            place = place[moved & np.repeat(shown, np.diff(offsets))]
            count, whose = count[shown], runs.trajectory[shown]
            first, last = offsets_from(count)[:-1], np.cumsum(count) - 1
            # of whole millimetres the sum is the same everywhere
            x, y = self.places.x[place], self.places.y[place]
            steps = np.sqrt(np.diff(x) ** 2 + np.diff(y) ** 2)
            way = np.cumsum(np.r_[0, np.rint(steps * MM_PER_M)].astype(np.int64))
            rows = _TRIP_ROWS.pack(
                trajectory_id=self.key[batch][whose],
                trip=np.arange(len(whose)) - np.searchsorted(whose, whose) + 1,
                start_at=side.at[runs.first[shown]],
                end_at=side.at[runs.last[shown]],
                length_m=(way[last] - way[first]) / MM_PER_M,
                places=count,
                start_geom=geometry[place[first]],
                end_geom=geometry[place[last]],
            )
            yield encode_lines(rows, count, self.x[place], self.y[place], self.srid)

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


Rows: TypeAlias = ReleasedTable | OwnRows
_Piece: TypeAlias = tuple[Ints, Trajectories]
"""Some trajectories after their released ids, which are in order."""


@dataclass(frozen=True)
class ReleaseRows:
    """The rows of all tables of a release, in pieces: here one with everything, or one with each worker."""

    pieces: Partitions[Rows]
    ids: list[Ids]
    """The released ids of each piece. The first and the last have no limit: a row too many shows."""
    rows: int
    """Of the first table; of a method's own, what there is to do for who waits."""
    shown: int
    """How many trajectories there are."""

    @classmethod
    def of(cls, method: Method, state: WorkingSet, world: StepContext) -> ReleaseRows:
        """The rows that a state is released as."""
        if method.publishes:
            rows = 0 if state.tables is None else len(state.tables)
            return cls(LocalPartitions([(0, 1)], [OwnRows(state, world)]), [_ALL], rows, 0)
        lengths = state.trajectories.lengths
        order = np.argsort(state.key)
        order = order[lengths[order] > 0]
        if state.partitions.remote:
            pieces, ids = _exchange(state, world, order)
        else:
            table = ReleasedTable.of(state, world, order)
            pieces, ids = LocalPartitions([(0, len(order))], [table]), [_ALL]
        return cls(pieces, ids, state.samples, len(order))

    @property
    def in_order(self) -> bool:
        """Whether rows lie as they were written. Pages of several writers are mixed."""
        return not self.pieces.remote

    def write(self, staging: Staging, tables: list[Relation], stage: Stage) -> Hashes:
        """Create and fill staged tables; their indexes follow."""
        if self.in_order:
            (here,) = self.pieces
            hashes = {}
            for relation in tables:
                blocks = Hashed(_counted(here.blocks(relation), stage))
                staging.write(relation, blocks)
                hashes[relation.suffix] = [blocks.digest()]
            return hashes
        run, numbers = staging.create_for_parts(tables), PerPartition(range(len(self.ids)))
        written = list(self.pieces.map(_write_part, staging, run, numbers, tables))
        staging.forget_parts()
        stage.advance(self.rows)
        return {r.suffix: [hashes[r.suffix] for hashes in written] for r in tables}

    def hashes(self, relation: Relation) -> list[str]:
        """A hash of each piece of a table."""
        return list(self.pieces.map(_hash, relation))

    def compare(
        self,
        database: Database,
        relation: Relation,
        stored: Stored,
        hashes: list[str],
        stage: Stage,
    ) -> list[TablePart]:
        """Compare a stored table with the hash of each piece; raises VerificationFailed."""
        reach, found = DatabaseRef.of(database), []
        read = self.pieces.map(_digest_stored, reach, relation, stored, PerPartition(self.ids))
        for (first, _), (rows, digest), expected in zip(self.ids, read, hashes, strict=True):
            if digest != expected:
                raise VerificationFailed(
                    f"{stored.schema}.{stored.name} does not hold the rows that its edit log gives",
                    remedy="withdraw it; if nobody changed the table, report this as a fault of freqdp",
                )
            found.append((first, rows, digest))
            stage.advance(0 if relation.suffix else rows)
        return found


def _counted(blocks: Blocks, stage: Stage) -> Iterator[Any]:
    for block in blocks:
        yield block
        # of records, each is a row
        stage.advance(len(block) if block.dtype.names else 0)


def _write_part(
    rows: Rows, staging: Staging, run: int, number: int, tables: list[Relation]
) -> dict[str, str]:
    """For a worker: write its part of the staged tables, unless that was done before; their hashes."""
    blocks = {relation: Hashed(rows.blocks(relation)) for relation in tables}
    staging.write_part(run, number, blocks)
    return {relation.suffix: hashed.digest() for relation, hashed in blocks.items()}


def _hash(rows: Rows, relation: Relation) -> str:
    return Hashed(rows.blocks(relation)).digest()


def _digest_stored(
    _: Rows, reach: DatabaseRef, relation: Relation, stored: Stored, ids: Ids
) -> tuple[int, str]:
    return stored.digest(reach.database(), relation, ids)


def _exchange(
    state: WorkingSet, world: StepContext, order: Ints
) -> tuple[Partitions[Rows], list[Ids]]:
    """A table for each worker, of a range of released ids; order: the trajectories, by these ids."""
    partitions, key = state.partitions, state.key
    ranges = cut(offsets_from(state.trajectories.lengths[order]), len(partitions.ranges))
    wanted = []
    for begin, end in ranges:
        chosen = order[begin:end]
        # those that each old range has, by their numbers there, and their released ids
        mine = [chosen[(chosen >= first) & (chosen < last)] for first, last in partitions.ranges]
        wanted.append(
            [(m - first, key[m]) for m, (first, _) in zip(mine, partitions.ranges, strict=True)]
        )
    limits = [None, *(int(key[order[begin]]) for begin, _ in ranges[1:]), None]
    pieces = partitions.shuffle(_take, wanted, _join, ranges)
    places = partitions.map(_places_of)
    build = world.build
    shown = build.source_srid, build.timezone, build.kept
    return pieces.map(_as_table, places, *shown), list(pairwise(limits))


def _places_of(partition: Partition) -> Locations:
    return partition.places


def _take(partition: Partition, wanted: tuple[Ints, Ints]) -> _Piece:
    chosen, key = wanted
    return key, partition.trajectories.take(chosen)


def _join(pieces: list[_Piece]) -> _Piece:
    """The trajectories of all pieces, in the order of their released ids."""
    key = np.concatenate([key for key, _ in pieces])
    lengths = np.concatenate([own.lengths for _, own in pieces])
    carried = [] if pieces[0][1].kept is None else ["kept"]
    whole = Trajectories(
        offsets_from(lengths),
        **{
            column: np.concatenate([getattr(own, column) for _, own in pieces])
            for column in ("location", "at", "start", *carried)
        },
    )
    order = np.argsort(key)
    return key[order], whole.take(order)


def _as_table(
    piece: _Piece, places: Locations, srid: int, timezone: str, kept: KeptColumns | None
) -> ReleasedTable:
    key, trajectories = piece
    x, y = places.in_source()
    return ReleasedTable(
        trajectories, np.arange(len(key)), key, x, y, places, None, srid, timezone, kept
    )
