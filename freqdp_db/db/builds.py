"""Builds: filled as standalone tables, attached as partitions, made current by one UPDATE; windows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from datetime import date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from freqdp_db.db.connection import (
    Connection,
    Database,
    Session,
    column_list,
    is_free,
    numbers_left,
)
from freqdp_db.db.copy import Layout, point_coordinates, read_arrays, write_records, writing_once
from freqdp_db.db.ledger import require_traced
from freqdp_db.db.names import format_name, format_relation
from freqdp_db.db.source import SourceRelation
from freqdp_db.db.tables import insert_rows, update_rows
from freqdp_db.errors import BadInput, Busy, NotFound
from freqdp_db.model.arrays import Ids, Ints, Metres, offsets_from, offsets_of
from freqdp_db.model.documents import Document
from freqdp_db.model.trajectories import Locations, Trajectories

PARTS = ("trajectory", "location", "sample", "segment", "grid_cell")
_PARTITION = re.compile(rf"({'|'.join(PARTS)})_(?P<number>\d+)(_part)?")
_LOCK_TIMEOUT = "5s"


@dataclass(frozen=True)
class BuildRow:
    """One consistent copy of a dataset."""

    build_id: int
    dataset_id: int
    snapshot_at: datetime
    built_at: datetime
    rows: int
    excluded: dict[str, int]
    trajectories: int
    samples: int
    locations: int
    segments: int
    source_srid: int
    srid: int
    snap: str
    time_unit: str | None
    """How times were read: `timestamp`, a declared unit of epoch numbers, or `guessed`. None: not
    recorded, by an earlier version."""
    time_step_us: int
    median_gap_us: int
    fingerprint: str
    software: str
    dropped_at: datetime | None
    time_window: str | None
    """The day, week or month whose rows it has; None: all rows."""
    window_begin: datetime | None
    window_end: datetime | None
    kept: dict[str, Any] | None
    """Columns that its samples carry along: see `KeptColumns`; and what was left out of them."""


def find_build(database: Database, build_id: int) -> BuildRow:
    # not *: auditors may not read the frame of the grid
    columns = [f.name for f in fields(BuildRow)]
    with database.begin() as connection:
        query = connection.select_own("build", columns, build_id=build_id)
        found = connection.rows_as(BuildRow, query)
    if not found:
        raise NotFound(f"there is no build {build_id}")
    return found[0]


@dataclass(frozen=True)
class BuildSize(Document):
    """A build that is kept, and what it takes."""

    build_id: int
    dataset: str
    time_window: str | None
    built_at: datetime
    samples: int
    bytes: int
    """Of all its tables, with their indexes."""
    current: bool
    """Whether it is what the next release of its dataset is made from."""
    releases: list[str]
    """Those that are replayed on it: they have to be withdrawn before it can go."""


_SIZES = """
    SELECT b.build_id, d.name AS dataset, b.time_window, b.built_at, b.samples,
        (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::int8 FROM pg_class c
         WHERE c.relnamespace = %s::regnamespace
             AND c.relname = ANY (
                 SELECT part || '_' || b.build_id FROM unnest(%s::text[]) AS part)) AS bytes,
        d.current_build IS NOT DISTINCT FROM b.build_id AND d.dropped_at IS NULL AS current,
        ARRAY(SELECT r.name FROM {p}.release AS r
              WHERE r.build_id = b.build_id AND r.state IN ('running', 'published') ORDER BY 1) AS releases
    FROM {p}.build AS b JOIN {p}.dataset AS d USING (dataset_id)
    WHERE b.dropped_at IS NULL
    ORDER BY bytes DESC, b.build_id
"""


def builds_by_size(database: Database) -> list[BuildSize]:
    """All builds that are kept, the largest first."""
    schema = sql.Identifier(database.settings.schema).as_string(None)
    return database.rows_as(BuildSize, _SIZES, [schema, list(PARTS)])


def grid_of(connection: Connection, build_id: int) -> dict[str, float]:
    """The frame of a build's grid. Its corner may be a sample's place: auditors may not read it."""
    query = "SELECT grid FROM {p}.build WHERE build_id = %s"
    found: dict[str, float] = connection.one_value(query, [build_id])
    return found


def next_build_number(database: Database) -> int:
    with database.begin() as connection:
        sequence = connection.private_name("build_number").as_string(None)
        return int(connection.one_value("SELECT nextval(%s::regclass)", [sequence]))


@contextmanager
def filling(database: Database, part: str, build_id: int) -> Iterator[PartWriter]:
    """Create the standalone table of a part; rows and keys are one transaction."""
    with database.begin() as connection:
        connection.call("create_build_table", build_id, part)
        yield PartWriter(connection.driver, connection.private_name(f"{part}_{build_id}"))
        connection.call("finish_build_table", build_id, part)


@dataclass(frozen=True)
class PartWriter:
    connection: Any
    relation: sql.Identifier

    def copy(self, layout: Layout, chunks: Iterable[NDArray[Any]]) -> None:
        """Stream packed records of this layout."""
        write_records(self.connection, self.relation, layout.names, chunks, created_here=True)

    def copy_rows(self, columns: list[str], rows: Iterable[tuple[Any, ...]]) -> None:
        """Stream rows with variable-width columns (trajectories: one row an object)."""
        statement = sql.SQL("COPY {} ({}) FROM STDIN").format(self.relation, column_list(columns))
        with self.connection.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)


def attach_build(
    database: Database, build: dict[str, Any], sources: Iterable[SourceRelation]
) -> None:
    """Attach the parts, record the build, what it was read from, and make it current: all or nothing.

    A build of a window is nobody's current one. Refused if another budget counts what it was read from.
    """
    number = build["build_id"]
    with database.begin() as connection:
        connection.limit_waiting(_LOCK_TIMEOUT)
        insert_rows(connection, "build", build)
        read = [{"build_id": number, **asdict(source)} for source in sources]
        insert_rows(connection, "build_source", *read)
        require_traced(connection, build["dataset_id"], number)
        connection.call("attach_build", number)
        if build["time_window"] is None:
            current = {"dataset_id": build["dataset_id"]}
            update_rows(connection, "dataset", current, current_build=number)


# Nobody's current build, which no unfinished or published release names. Of the builds of windows, the
# newest of each dataset stays for who plans and then releases it.
_UNNEEDED = """
    SELECT b.build_id FROM {p}.build b JOIN {p}.dataset d USING (dataset_id)
    WHERE b.dropped_at IS NULL
        AND (b.build_id IS DISTINCT FROM d.current_build OR d.dropped_at IS NOT NULL)
        AND (b.time_window IS NULL OR d.dropped_at IS NOT NULL OR EXISTS (
            SELECT FROM {p}.build n WHERE n.dataset_id = b.dataset_id
            AND n.time_window IS NOT NULL AND n.dropped_at IS NULL AND n.build_id > b.build_id))
        AND NOT EXISTS (SELECT FROM {p}.release r
            WHERE r.build_id = b.build_id AND r.state IN ('running', 'published'))
    ORDER BY 1
"""


def sweep_builds(database: Database) -> list[int]:
    """Drop what dead builds left behind and what no release needs any more.

    What somebody is reading is left to the next sweep: the work that was done has succeeded.
    """
    swept = []
    lock = "SELECT FROM {p}.build WHERE build_id = %s FOR UPDATE"
    mark = "UPDATE {p}.build SET dropped_at = now() WHERE build_id = %s"
    for number in numbers_left(database, _PARTITION) + database.first_column(_UNNEEDED):
        with suppress(Busy), database.begin() as connection:
            # a build in progress holds its lock
            if not is_free(connection, "build", number):
                continue
            # looked at again under the row's lock: it may have been attached since, or a release asked
            # for, and whoever asks holds that lock until the release is recorded
            recorded = connection.execute(lock, [number]).fetchone() is not None
            if not recorded or number in connection.first_column(_UNNEEDED):
                connection.limit_waiting(_LOCK_TIMEOUT)
                connection.call("drop_build", number)
                connection.execute(mark, [number])
                swept.append(number)
    return swept


def load_trajectories(
    connection: Connection, build: BuildRow, part: tuple[int, int] | None = None
) -> Trajectories:
    """The samples of a build, in order; part: only the trajectories from one to before another."""
    first, last = part or (0, build.trajectories)
    connection.as_written()
    columns = "trajectory_id int4, seq int4, location_id int4, at timestamptz"
    layout = Layout(columns if build.kept is None else f"{columns}, kept int2")
    query = connection.select_own(
        "sample", layout.names, part=part or (None, None), build_id=build.build_id
    )
    rows = read_arrays(connection.driver, query, layout)
    owner, seq = rows["trajectory_id"], rows["seq"]
    following = (np.diff(owner) > 0) | ((np.diff(owner) == 0) & (np.diff(seq) > 0))
    if not following.all():
        order = np.lexsort((seq, owner))
        rows = {name: column[order] for name, column in rows.items()}
    offsets = offsets_of(rows["trajectory_id"] - first, last - first)
    at = rows["at"]
    return Trajectories(offsets, rows["location_id"], at, at[offsets[:-1]], rows.get("kept"))


def load_object_keys(database: Database, build_id: int) -> list[str]:
    """The object of each trajectory of a build, as the source names it: for curators."""
    columns = ["object_key"]
    with database.begin() as connection:
        query = connection.select_own("trajectory", columns, "trajectory_id", build_id=build_id)
        return [key for (key,) in connection.execute(query)]


def load_offsets(connection: Connection, build: BuildRow) -> Ints:
    """Where each trajectory's samples begin among all."""
    layout = Layout("samples int4")
    query = connection.select_own(
        "trajectory", layout.names, "trajectory_id", build_id=build.build_id
    )
    return offsets_from(read_arrays(connection.driver, query, layout)["samples"])


def object_numbers(connection: Connection, build: BuildRow) -> dict[str, int]:
    """The trajectory of each object, by its key in the source."""
    columns = ("object_key", "trajectory_id")
    query = connection.select_own("trajectory", columns, build_id=build.build_id)
    return dict(connection.execute(query).fetchall())


def load_locations(connection: Connection, build: BuildRow) -> tuple[Locations, Ids]:
    """The locations of a build, in metres and in the source's SRID; how many trajectories visit each.

    That is what the view `trajectory_frequency` shows.
    """
    layout = Layout("x_m float8, y_m float8, geom point, tf int4")
    query = connection.select_own("location", layout.names, "location_id", build_id=build.build_id)
    rows = read_arrays(connection.driver, query, layout)
    return Locations(rows["x_m"], rows["y_m"], *point_coordinates(rows["geom"])), rows["tf"]


def samples_by_place(
    connection: Connection, build: BuildRow, begin: datetime, end: datetime
) -> Ints:
    """How many samples each location of a build has from one moment to before another."""
    query = (
        "SELECT location_id, count(*) FROM {p}.sample "
        "WHERE build_id = %s AND at >= %s AND at < %s GROUP BY location_id"
    )
    rows = connection.execute(query, [build.build_id, begin, end])
    found = np.zeros(build.locations, np.int64)
    for place, samples in rows:
        found[place] = samples
    return found


def sparse_objects(database: Database, build_id: int, signature: int) -> int:
    """Objects with fewer than 2m places: the method leaves little of them."""
    query = "SELECT count(*) FROM {p}.trajectory WHERE build_id = %s AND places < %s"
    return int(database.one_value(query, [build_id, 2 * signature]))


# The large tables of a build, samples and segments, written in ranges by several sessions at once.


LARGE = ("sample", "segment")
Chunks = tuple[Layout, Iterable[NDArray[Any]]]


def create_large(database: Database, build_id: int) -> int:
    """Empty tables, for all to see; the number of the run that fills them."""
    with database.begin() as connection:
        for part in LARGE:
            connection.call("create_build_table", build_id, part)
        return int(connection.call("create_notes", "build", build_id))


def write_range(
    database: Database, build_id: int, run: int, number: int, samples: Chunks, segments: Chunks
) -> None:
    """Write a range, unless that was done before."""
    with writing_once(database, f"sample_{build_id}_part", run, number) as connection:
        if connection is None:
            return
        for part, (layout, chunks) in zip(LARGE, (samples, segments), strict=True):
            relation = connection.private_name(f"{part}_{build_id}")
            write_records(connection.driver, relation, layout.names, chunks)


def finish_large(database: Database, build_id: int) -> None:
    """Give both tables their keys, in two sessions."""

    with database.side_by_side(len(LARGE)) as start:
        for part in LARGE:
            start(database.call, "finish_build_table", build_id, part)
    database.call("drop_notes", "build", build_id)


# The grid of a build, as the search reads it: its cells, and the segments of some or all of them.
#
# All rows have a fixed width, so they come by binary COPY. Positions count from 0 here and from 1 in
# the tables (`seq`).


_BOX = ("x_min", "y_min", "x_max", "y_max")


def all_cells(connection: Connection, build_id: int) -> tuple[Ints, Ids, Metres]:
    """The cells of a build's grid in order, how many segments are filed in each itself, and their box."""
    layout = Layout("cell_id int8, segments int4, " + ", ".join(f"{side} float8" for side in _BOX))
    query = connection.select_own("grid_cell", layout.names, "cell_id", build_id=build_id)
    rows = read_arrays(connection.driver, query, layout)
    return rows["cell_id"], rows["segments"], np.stack([rows[name] for name in _BOX], axis=1)


def cell_segments(connection: Connection, build_id: int, cells: Ints | None) -> tuple[Ids, Ids]:
    """Trajectory and position of the segments filed in these cells, or in all; mostly in filed order."""
    connection.as_written()
    layout = Layout("trajectory_id int4, seq int4")
    wanted = None if cells is None else "{" + ",".join(map(str, cells)) + "}"
    query = sql.SQL("SELECT {} FROM {}({}, {}::bigint[])").format(
        column_list(layout.names),
        connection.private_name("cell_segments"),
        sql.Literal(build_id),
        sql.Literal(wanted),
    )
    rows = read_arrays(connection.driver, query, layout)
    return rows["trajectory_id"], rows["seq"] - 1


# Windows of a dataset: days, weeks and months of the calendar in its time zone.


EVERY = {"day": "daily", "week": "weekly", "month": "monthly"}
"""What a window can be, and what a series of such is called."""


@dataclass(frozen=True)
class Window:
    """One window, as SQL's `find_window` gives it."""

    time_window: str
    """2024-05-06, 2024-W19 or 2024-05."""
    every: str
    """day, week or month."""
    first_day: date
    window_begin: datetime
    window_end: datetime
    """Not in it."""
    following: str
    """What the next one is called."""
    ended: bool

    @property
    def times(self) -> tuple[datetime, datetime]:
        return self.window_begin, self.window_end


def find_window(session: Session, word: str, timezone: str) -> Window:
    """The window that a word means now: `2024-05-06`, `yesterday`, ...; raises BadInput."""
    query = "SELECT * FROM {p}.find_window(%s::text, %s::text)"
    (found,) = session.rows_as(Window, query, [word, timezone])
    return found


def ended_window(database: Database, word: str, timezone: str) -> Window:
    """The same, of a window that is over: what is released is closed, and must be whole."""
    window = find_window(database, word, timezone)
    if not window.ended:
        raise BadInput(
            f"[[window]] {window.time_window} has not ended yet (time zone {timezone})",
            remedy="take one that has ended, such as yesterday or last-week",
        )
    return window


def window_name(series: str, time_window: str) -> str:
    """The release of a window in a series; `record_release` refuses any other name."""
    return f"{series}_{time_window.replace('-', '_')}"


def missing_index(session: Session, source: tuple[str, str], column: str) -> str | None:
    """The statement that makes an index by which a window can be read alone; None: there is one.

    Of a view, any table behind it with a column of that name.
    """
    query = """
        SELECT l.source_schema, l.source_relation, EXISTS (
            SELECT FROM pg_index AS i
            WHERE i.indrelid = a.attrelid AND i.indkey[0] = a.attnum AND i.indisvalid AND i.indpred IS NULL
        )
        FROM {p}.source_lineage(%s::text, %s::text) AS l
        JOIN pg_attribute AS a ON a.attrelid = l.relation_oid::oid AND a.attname = %s AND NOT a.attisdropped
        WHERE l.relation_kind IN ('r', 'p', 'm')
        ORDER BY (l.source_schema, l.source_relation) = (%s::text, %s::text) DESC, 1, 2
        """
    found = session.execute(query, [*source, column, *source]).fetchall()
    if not found or any(indexed for *_, indexed in found):
        return None
    schema, relation, _ = found[0]
    return f"CREATE INDEX ON {format_relation(schema, relation)} ({format_name(column)})"


def window_build(database: Database, dataset_id: int, time_window: str) -> int | None:
    """The newest build of a window that is there."""
    query = (
        "SELECT max(build_id) FROM {p}.build "
        "WHERE dataset_id = %s AND time_window = %s AND dropped_at IS NULL"
    )
    found: int | None = database.one_value(query, [dataset_id, time_window])
    return found
