"""Relations of the release schema: whether they are there, their rows, their readers, the newest."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import cached_property
from typing import Any, LiteralString

import numpy as np
import sqlalchemy as sa
from psycopg import errors as driver_errors
from psycopg import sql

from freqdp_db.db.connection import Connection, Database, Session, column_list, in_range, translated
from freqdp_db.db.copy import (
    AREAS,
    POINTS,
    POSTGRES_EPOCH_US,
    Layout,
    box_coordinates,
    copy_bytes,
    point_coordinates,
    range_times,
    read_records,
)
from freqdp_db.db.names import as_text, did_you_mean, format_relation, number_of_value
from freqdp_db.db.releases import ReleaseRow, select_releases, update_release
from freqdp_db.db.source import (
    OF_RELEASES,
    OID_OF,
    NamedRelation,
    catalog_value,
    columns_of,
    definition_of,
    is_table,
    key_of,
    named_relation,
    relation_exists,
    relations_of,
)
from freqdp_db.db.tables import update_rows
from freqdp_db.errors import (
    AlreadyExists,
    BadInput,
    Busy,
    NotFound,
    SchemaInUse,
    VerificationFailed,
)
from freqdp_db.methods.contract import Kind
from freqdp_db.methods.registry import suffixes
from freqdp_db.methods.relations import SAMPLES, Kept, Relation
from freqdp_db.model.arrays import Ints, Metres
from freqdp_db.model.trajectories import Codes
from freqdp_db.settings import MAX_IDENTIFIER_BYTES


def may_read(session: Session, relation: tuple[str, str]) -> bool:
    """Whether this login may; of a relation that is not there, that is for others to say."""
    return catalog_value(session, "has_table_privilege(c.oid, 'SELECT')", relation) is not False


def missing_message(schema: str, name: str) -> str:
    """What is said of a relation of a release that is not there any more."""
    return f"{format_relation(schema, name)} is not there: it was dropped or renamed by hand"


def require_exists(session: Session, relation: tuple[str, str]) -> None:
    """Refuse if a relation of a published release was dropped or renamed by hand."""
    if not relation_exists(session, *relation):
        raise VerificationFailed(
            missing_message(*relation), remedy="rename it back, or withdraw the release"
        )


def dependent_views(session: Session, schema: str, relation: str) -> list[tuple[str, str, str]]:
    """Views of anybody's that read a relation: what each is, its schema and its name."""
    query = """
        SELECT DISTINCT CASE v.relkind WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE 'VIEW' END,
            s.nspname::text, v.relname::text
        FROM pg_depend d
        JOIN pg_rewrite r ON r.oid = d.objid AND d.classid = 'pg_rewrite'::regclass
        JOIN pg_class v ON v.oid = r.ev_class AND v.oid <> d.refobjid
        JOIN pg_namespace s ON s.oid = v.relnamespace
        WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = {oid} ORDER BY 1, 2, 3
        """
    return session.execute(query, named_relation((schema, relation)), oid=OID_OF).fetchall()


def missing_relations(session: Session, schema: str) -> list[str]:
    """Relations of releases that the catalogue has and that are not there."""
    named = "SELECT DISTINCT unnest(relations) FROM {r}.catalog ORDER BY 1"
    found = {relation.name for relation in relations_of(session, schema)}
    return [name for name in session.first_column(named) if name not in found]


def count_rows(session: Session, relation: tuple[str, str]) -> int:
    require_exists(session, relation)
    counted = "SELECT count(*) FROM {relation}"
    return int(session.one_value(counted, relation=sql.Identifier(*relation)))


@dataclass(frozen=True)
class Check:
    """What `check_release` found: a row of it."""

    number: int
    what: str
    expected: int
    found: int
    ok: bool


def check_release(database: Database, name: str) -> list[Check]:
    """The checks of a published release that the server makes by itself."""
    with database.begin(snapshot=True) as connection:
        return connection.rows_as(Check, "SELECT * FROM {p}.check_release(%s::text)", [name])


def srid_of(connection: Connection, relation: tuple[str, str]) -> int:
    """The SRID that the geometry columns of a relation declare; 0 if it has none."""
    query = (
        "SELECT coalesce(max({postgis_typmod_srid}(atttypmod)), 0) FROM pg_attribute "
        "WHERE attrelid = {relation}::regclass AND atttypid = {type}::regtype "
        "AND attnum > 0 AND NOT attisdropped"
    )
    geometry = sql.Identifier(connection.postgis, "geometry").as_string()
    named = sql.Identifier(*relation).as_string()
    return int(connection.one_value(query, relation=named, type=geometry))


def digest_of(
    connection: Connection,
    relation: tuple[str, str],
    columns: list[str],
    order: list[str],
    ids: tuple[int | None, int | None] = (None, None),
) -> tuple[int, str]:
    """How many rows a release's table has, and a SHA-256 of what COPY sends for them, in this order.

    order: none, as they were written. ids: only those from this trajectory_id on, and before that one.
    """
    require_exists(connection, relation)
    connection.as_written()
    query: sql.Composable = sql.SQL("SELECT {} FROM {}").format(
        column_list([_stored_name(connection, relation, name) for name in columns]),
        sql.Identifier(*relation),
    )
    if limits := in_range("trajectory_id", ids):
        query += sql.SQL(" WHERE ") + sql.SQL(" AND ").join(limits)
    if order:
        query += sql.SQL(" ORDER BY ") + column_list(order)
        # by the index of the key, whether or not there are statistics
        connection.execute("SET LOCAL enable_sort = off; SET LOCAL enable_bitmapscan = off")
    counted: list[int] = []
    found = Hashed(copy_bytes(connection.driver, query, counted.append)).digest()
    return counted[0], found


def _stored_name(connection: Connection, relation: tuple[str, str], column: str) -> str:
    """What a column of a release is called in its table: in those of 0.3.0, `sampled_at` is `at`."""
    if column == "sampled_at" and column not in columns_of(connection, relation):
        return "at"
    return column


class Hashed:
    """Blocks of rows as COPY has them, hashed as they are taken."""

    def __init__(self, blocks: Iterable[Any]) -> None:
        self._blocks = iter(blocks)
        self._hash = hashlib.sha256()

    def __iter__(self) -> Iterator[Any]:
        for block in self._blocks:
            self._hash.update(np.frombuffer(block, np.uint8).data)
            yield block

    def digest(self) -> str:
        """SHA-256 of all of them, those included that nobody took."""
        for _ in self:
            pass
        return self._hash.hexdigest()


# A published release as `release export` reads it: from the release schema alone.


@dataclass(frozen=True)
class ReadAreas:
    """Of some rows of a release: where and when, in the SRID of the release."""

    x_min: Metres
    y_min: Metres
    x_max: Metres
    y_max: Metres
    begin_us: Ints
    end_us: Ints
    """Microseconds since 1970-01-01 UTC; the end is not in the interval."""


@dataclass(frozen=True)
class Samples:
    """Some rows of a release, as columns."""

    trajectory_id: Ints
    seq: Ints
    at_us: Ints
    """Microseconds since 1970-01-01 UTC."""
    x: Metres
    y: Metres
    areas: ReadAreas | None = None
    kept: tuple[Codes, ...] = ()
    """Of each column that is carried along, the numbers of its values: see `ReleaseReader.kept_values`."""

    def __len__(self) -> int:
        return len(self.seq)


@dataclass(frozen=True)
class Extent:
    """What one look at the table tells: enough to write a file's header before its rows."""

    rows: int
    box: tuple[float, float, float, float] | None
    """x_min, y_min, x_max, y_max, of the areas where there are some; None if there are no rows."""
    whole_seconds: bool
    """Whether no time has a fraction of a second."""


@dataclass(frozen=True)
class CatalogRow:
    """A row of the catalogue."""

    name: str
    dataset: str
    method: str
    kind: Kind
    parameters: dict[str, Any]
    published_at: datetime
    version: int
    guarantee: dict[str, Any]
    granted: bool
    rows: int
    ledger_head: str
    relations: list[str]
    time_window: str | None
    """The day, week or month that it covers; None: all data."""
    series: str | None
    """The series that it belongs to."""


def read_catalog(session: Session) -> list[CatalogRow]:
    """The catalogue, oldest first."""
    return session.rows_as(CatalogRow, "SELECT * FROM {r}.catalog ORDER BY published_at, name")


def is_series(session: Session, name: str) -> bool:
    """Whether a series is called so."""
    query = "SELECT EXISTS (SELECT FROM {r}.series WHERE name = %s)"
    return bool(session.one_value(query, [name]))


def catalog_row(session: Session, name: str) -> CatalogRow:
    """What the catalogue says of a release; of a series, what it says of its newest window and of all.

    Its rows are those of all windows, and `time_window` is from the first to the last of them.
    """
    query = (
        "SELECT * FROM {r}.catalog WHERE name = %(name)s "
        "OR series = %(name)s AND time_window IS NOT NULL AND granted "
        "ORDER BY name = %(name)s DESC, time_window"
    )
    found = session.rows_as(CatalogRow, query, {"name": name})
    if not found:
        names = session.first_column("SELECT name FROM {r}.catalog")
        raise NotFound(
            f"the catalogue has no release {name!r}",
            remedy=did_you_mean(name, names) + "`freqdp release list` shows what there is",
        )
    if found[0].name == name:
        return found[0]
    relations = "SELECT relations FROM {r}.series WHERE name = %s"
    return replace(
        found[-1],
        name=name,
        relations=session.one_value(relations, [name]),
        rows=sum(window.rows for window in found),
        time_window=f"{found[0].time_window} to {found[-1].time_window}",
    )


_ROWS = 10_000


class ReleaseReader:
    """Reads one release inside one snapshot, in its own SRID or in another one."""

    def __init__(self, connection: Connection, name: str, srid: int | None = None) -> None:
        schema = connection.release_schema
        self._connection = connection
        self._schema = schema
        self._points = sql.Identifier(schema, name)
        self._lines = sql.Identifier(schema, f"{name}_line")
        self.catalog = vars(catalog_row(connection, name))
        relations: list[str] = self.catalog["relations"]
        for relation in relations:
            require_exists(connection, (schema, relation))
        self.tables = [r for r in relations if is_table(connection, (schema, r))]
        self.views = [r for r in relations if r not in self.tables]
        # of a series, an id is one window's
        self.has_trajectories = f"{name}_line" in relations and self.catalog["series"] != name
        trips, filled = f"{name}_trip", "SELECT EXISTS (SELECT FROM {trips})"
        there = trips in self.tables and connection.one_value(
            filled, trips=sql.Identifier(schema, trips)
        )
        self.trips = trips if there else None
        """The table of trips, if there are any. Releases of 0.3.0 have a view, which computes them."""
        self.has_areas = "area" in columns_of(connection, (schema, relations[0]))
        self._time = sql.Identifier(_stored_name(connection, (schema, relations[0]), "sampled_at"))
        own = max(srid_of(connection, (schema, table)) for table in self.tables)
        self.srid = own if srid is None else srid
        """0: it has no geometries."""
        self._moved = self.srid != own

    @cached_property
    def kept_columns(self) -> dict[str, str]:
        """Columns that samples carry along, and their types."""
        first = self.catalog["relations"][0]
        return {name: kind for name, kind in self.columns(first).items() if name not in OF_RELEASES}

    @cached_property
    def kept_values(self) -> dict[str, tuple[str, ...]]:
        """Their values as text: value number 1 of a column, number 2, ...; 0 is NULL."""
        found = {}
        for name in self.kept_columns:
            query = self._sql(
                "SELECT DISTINCT {value} FROM {points} WHERE {column} IS NOT NULL ORDER BY 1",
                value=as_text(sql.Identifier(name)),
                column=sql.Identifier(name),
            )
            found[name] = tuple(self._connection.first_column(query))
        return found

    def _sql(self, text: LiteralString, **values: Any) -> sql.Composed:
        return self._connection.text(text, points=self._points, **values)

    def definition(self) -> str:
        """A definition of the SRID that pyproj understands."""
        return definition_of(self._connection, self.srid, "[[srid]]")

    def _column(self, name: str) -> sql.Composable:
        """A geometry in the SRID that is wanted."""
        column = sql.Identifier(name)
        if not self._moved:
            return column
        if name != "area":
            return self._sql("{st_transform}({c}, {srid})", c=column, srid=self.srid)
        # the sides of a box are curves there: the box around many points of them
        return self._sql(
            "{st_envelope}({st_transform}({st_segmentize}({c}, "
            "greatest({st_perimeter}({c}) / 64, 1e-9)), {srid}))",
            c=column,
            srid=self.srid,
        )

    def columns(self, table: str) -> dict[str, str]:
        """The columns of one of its relations, and their types."""
        return dict(_columns_shown(self._connection, table))

    def comments(self, table: str) -> dict[str, str]:
        """What the columns of one of its relations say of themselves."""
        columns = columns_of(self._connection, (self._schema, table)).values()
        return {column.name: column.comment or "" for column in columns}

    def rows(
        self, table: str, shown: Callable[[str], LiteralString], wanted: Sequence[str]
    ) -> Generator[list[tuple[Any, ...]], None, None]:
        """The rows of one of its relations, of a table in the order of its key, many at a time.

        shown: what a column of a type is asked for as: `{}` is the column, `{wkb}` and `{text}` are the
        functions that write a geometry. wanted: which columns.
        """
        asked = [
            sql.SQL(shown(kind)).format(
                self._column(name) if "geometry(" in kind else sql.Identifier(name),
                text=self._sql("{st_astext}"),
                wkb=self._sql("{st_asbinary}"),
            )
            for name, kind in self.columns(table).items()
            if name in wanted
        ]
        query = sql.SQL("SELECT {} FROM {}").format(
            sql.SQL(", ").join(asked), sql.Identifier(self._schema, table)
        )
        if key := key_of(self._connection, (self._schema, table)):
            query += sql.SQL(" ORDER BY {}").format(column_list(key))
        with self._connection.driver.cursor("rows") as cursor:
            cursor.execute(query)
            while some := cursor.fetchmany(_ROWS):
                yield some

    def extent(self) -> Extent:
        query = self._sql(
            "SELECT count(*), min({st_xmin}(g)), min({st_ymin}(g)), max({st_xmax}(g)), "
            "max({st_ymax}(g)), coalesce(bool_and(whole), true) FROM "
            "(SELECT {shown}::{box3d} AS g, {time} = date_trunc('second', {time}) AS whole "
            "FROM {points}) s",
            shown=self._column("area" if self.has_areas else "geom"),
            time=self._time,
        )
        ((rows, *box, whole),) = self._connection.execute(query)
        return Extent(rows, (box[0], box[1], box[2], box[3]) if rows else None, whole)

    def samples(self, *, by_place: bool = False) -> Generator[Samples, None, None]:
        """All samples in order of (trajectory_id, seq), many rows at a time.

        by_place: in order of the day (UTC) and along the Hilbert curve, by which PostGIS orders geometries.
        """
        if not self.has_trajectories:
            raise BadInput(
                f"release {self.catalog['name']!r} has no trajectories",
                remedy="its tables: " + ", ".join(self.tables),
            )
        layout = AREAS if self.has_areas else POINTS
        by_day = self._sql("({time} AT TIME ZONE 'UTC')::date, geom, ", time=self._time)
        shown: dict[str, sql.Composable] = {name: sql.Identifier(name) for name in layout.names}
        shown |= {name: self._column(name) for name in ("geom", "area") if name in shown}
        shown["sampled_at"] = self._time
        kept = {f"kept_{n}": name for n, name in enumerate(self.kept_columns)}
        layout = Layout(", ".join([layout.columns, *(f"{number} int4" for number in kept)]))
        shown |= {
            number: number_of_value(sql.Identifier(name), self.kept_values[name])
            for number, name in kept.items()
        }
        query = self._sql(
            "SELECT {columns} FROM {points} AS r ORDER BY {first}trajectory_id, seq",
            columns=sql.SQL(", ").join(shown.values()),
            first=by_day if by_place else sql.SQL(""),
        )
        for records in read_records(self._connection.driver, query, layout):
            x, y = point_coordinates(records["geom"])
            areas = None
            if self.has_areas:
                sides = box_coordinates(records["area"])
                begin, end = range_times(records["during"])
                areas = ReadAreas(*sides, begin + POSTGRES_EPOCH_US, end + POSTGRES_EPOCH_US)
            yield Samples(
                trajectory_id=records["trajectory_id"].astype(np.int64),
                seq=records["seq"].astype(np.int64),
                at_us=records["sampled_at"].astype(np.int64) + POSTGRES_EPOCH_US,
                x=x,
                y=y,
                areas=areas,
                kept=tuple(records[number].astype(np.int16) for number in kept),
            )

    def lines(self) -> Generator[tuple[int, date, bytes], None, None]:
        """(trajectory_id, day, LineStringM as ISO WKB, little-endian) in order, one at a time."""
        query = self._sql(
            "COPY (SELECT trajectory_id, day, {st_asbinary}({geom}, 'NDR'::text) FROM {lines} "
            "ORDER BY 1, 2) TO STDOUT (FORMAT binary)",
            geom=self._column("geom"),
            lines=self._lines,
        )
        with self._connection.driver.cursor() as cursor, cursor.copy(query) as copy:
            copy.set_types(["int8", "date", "bytea"])
            yield from copy.rows()


# Locks on what analysts read: never waited for long, because whoever waits holds others up.


LOCK_TIMEOUT = "2s"
_ATTEMPTS = 15
_SECONDS_BETWEEN = 1.0


def retry_on_lock_timeout(work: Callable[[bool], None]) -> None:
    """Try a transaction that limits its waiting again, some times, while others are in the way.

    work: is told whether to point the views of the newest release at it. In the end it is done without:
    whoever reads one of these for hours keeps nothing else from being published.
    """
    for _ in range(_ATTEMPTS):
        try:
            work(True)
            return
        except Busy:
            time.sleep(_SECONDS_BETWEEN)
    work(False)


# `<dataset>_current`, `_current_line`, ...: views of the newest release that is granted; for each series of
# releases of all data, `<series>_current`, ....


_SUFFIX = "_current"


def current_names(dataset: str, series: str | None) -> dict[str, str]:
    """The name of the view over each part of a release; without those that would be too long."""
    names = {part: (series or dataset) + _SUFFIX + part for part in suffixes()}
    return {p: n for p, n in names.items() if len(n.encode()) <= MAX_IDENTIFIER_BYTES}


def _named_as_current(
    connection: Connection, dataset: str, series: str | None
) -> list[NamedRelation]:
    """The relations that are called as these views."""
    names = current_names(dataset, series).values()
    return relations_of(connection, connection.release_schema, names)


def require_current_names_free(connection: Connection, dataset: str, series: str | None) -> None:
    """Refuse, before anything is spent, if a relation that is not such a view has the name of one."""
    for found in _named_as_current(connection, dataset, series):
        if not (found.is_view and found.comment.startswith(_begins(dataset, series))):
            raise AlreadyExists(
                f"{connection.release_schema} has a relation {found.name!r} that is not a view of "
                f"the newest release of {_whose(dataset, series)}",
                remedy="rename or drop it: the name is reserved",
            )


def require_replaceable(
    connection: Connection,
    dataset: str,
    series: str | None,
    relations: tuple[Relation, ...],
    srid: int,
) -> None:
    """Refuse, before anything is spent, if views of others hang on one that gets other columns."""
    schema = connection.release_schema
    columns = {relation.suffix: relation.names for relation in relations}
    for part, name in current_names(dataset, series).items():
        before = list(columns_of(connection, (schema, name)))
        same = before == columns.get(part, [])[: len(before)]
        if before and not (same and srid_of(connection, (schema, name)) in (0, srid)):
            _require_no_dependents(connection, schema, name)


def require_same_columns(
    connection: Connection, series: str, relations: tuple[Relation, ...], kept: Kept
) -> None:
    """Refuse, before anything is spent, a window with other columns than its series: it cannot be a part.

    kept: columns that are carried along, which are all that can differ.
    """
    before = columns_of(connection, (connection.release_schema, series))
    if not before:
        return
    (samples,) = (relation for relation in relations if relation.suffix == SAMPLES)
    same = [*before][1:] == samples.names
    if same and all(before[name].type == kind for name, kind in kept):
        return
    raise BadInput(
        f"series {series!r} has the columns {', '.join([*before][1:])}, and this window would have "
        f"{', '.join(samples.names)}, or another type of one",
        remedy="keep the same columns as before (freqdp dataset set ... --keep-columns), or give another "
        "name with [[series]]",
    )


def _require_no_dependents(connection: Connection, schema: str, view: str) -> None:
    found = [
        (kind, format_relation(*of)) for kind, *of in dependent_views(connection, schema, view)
    ]
    if found:
        raise SchemaInUse(
            f"{format_relation(schema, view)} has to be dropped, because its columns change or go, and "
            f"these views hang on it: {', '.join(name for _, name in found)}",
            remedy="drop them first, and make them anew afterwards: "
            + "; ".join(f"DROP {kind} {name}" for kind, name in found),
        )


def _lock_dataset(connection: Connection, dataset_id: int) -> str:
    """Lock a dataset's row until the end of the transaction; its name."""
    query = "SELECT name FROM {p}.dataset WHERE dataset_id = %s FOR NO KEY UPDATE"
    return str(connection.one_value(query, [dataset_id]))


def next_version(connection: Connection, dataset_id: int) -> int:
    """The number of the next release; the dataset's row is locked, so that no two get the same."""
    _lock_dataset(connection, dataset_id)
    last = "SELECT coalesce(max(version), 0) FROM {p}.release WHERE dataset_id = %s"
    return int(connection.one_value(last, [dataset_id])) + 1


def show_newest(connection: Connection, dataset_id: int, series: str | None) -> None:
    """Point the views at the newest release that is granted, or drop them if there is none.

    series: whose; None: those of the dataset, over the releases that are in no series.

    Inside the transaction that publishes or withdraws, and last in it: readers wait from here to
    the commit. One at a time for a dataset: what another one withdraws is not shown again.
    """
    dataset = _lock_dataset(connection, dataset_id)
    newest = _newest(connection, dataset_id, series)
    for part, name in current_names(dataset, series).items():
        now: list[tuple[str, str]] = []
        if newest is not None and part in (newest.relations or ()):
            now = _columns_shown(connection, newest.name + part)
        before = _columns_shown(connection, name)
        if not now or (before and before != now[: len(before)]):
            # another SRID, or areas no longer: a view's columns can neither change their type nor go
            _drop_current(connection, dataset_id, series, part, name)
        if newest is not None and now:
            connection.call("show_current", newest.release_id, part)


def _columns_shown(connection: Connection, relation: str) -> list[tuple[str, str]]:
    """Names and types of the columns of a relation of the release schema."""
    columns = columns_of(connection, (connection.release_schema, relation)).values()
    return [(column.name, column.shown) for column in columns]


def _newest(session: Session, dataset_id: int, series: str | None) -> ReleaseRow | None:
    """The newest release that analysts may read. A window is not what a dataset looks like now."""
    condition: LiteralString = (
        "WHERE r.dataset_id = %s AND r.series IS NOT DISTINCT FROM %s AND b.time_window IS NULL "
        "AND r.state = 'published' AND r.grantable AND NOT r.held ORDER BY r.version DESC LIMIT 1"
    )
    found = select_releases(session, condition, dataset_id, series)
    return found[0] if found else None


def show_pending(database: Database) -> None:
    """Point views at what was published while somebody was reading them; those still read wait on."""
    shown = (
        "SELECT DISTINCT d.dataset_id, d.name, r.series FROM {p}.dataset d "
        "JOIN {p}.release r USING (dataset_id) WHERE r.state = 'published'"
    )
    with database.begin() as connection:
        late = [
            (dataset_id, series)
            for dataset_id, name, series in connection.execute(shown).fetchall()
            if (newest := _newest(connection, dataset_id, series)) is not None
            and not is_shown(connection, name, series, (newest.name, newest.version))
        ]
    for dataset_id, series in late:
        with suppress(Busy, SchemaInUse), database.begin() as connection:
            connection.limit_waiting(LOCK_TIMEOUT)
            show_newest(connection, dataset_id, series)


def is_shown(
    connection: Connection, dataset: str, series: str | None, newest: tuple[str, int | None] | None
) -> bool:
    """Whether the views say that they show this release; readers need not wait to hear it again."""
    said = {found.comment for found in _named_as_current(connection, dataset, series)}
    return said == (set() if newest is None else {described(dataset, series, newest)})


def described(dataset: str, series: str | None, newest: tuple[str, int | None]) -> str:
    """The comment of the views over a release; `show_current` writes the same."""
    return f"{_begins(dataset, series)} now {newest[0]}, version {newest[1]}. See catalog."


def _begins(dataset: str, series: str | None) -> str:
    """What the comment of such a view begins with."""
    return f"The newest release that analysts may read of {_whose(dataset, series)}:"


def _whose(dataset: str, series: str | None) -> str:
    return f"dataset {dataset}" + ("" if series is None else f", series {series}")


def _drop_current(
    connection: Connection, dataset_id: int, series: str | None, part: str, name: str
) -> None:
    schema = connection.release_schema
    _require_no_dependents(connection, schema, name)
    try:
        connection.call("drop_current", dataset_id, series, part)
    except driver_errors.DependentObjectsStillExist as error:
        # names of relations only: the detail of this error never holds a row
        raise SchemaInUse(
            f"{format_relation(schema, name)} has to be dropped, but: {error.diag.message_detail}",
            remedy="drop what hangs on it first",
        ) from None


# Who may read a published release: analysts, from when it is granted until it is withdrawn.
#
# A release is taken back first from its readers, then from the disk. The first step waits for nobody:
# whoever reads the tables goes on until the end of that transaction, and nobody begins anew. The second
# waits for readers and for views that hang on the tables, and is tried again.


def approve_release(
    database: Database, release: ReleaseRow, check: Callable[[Connection], None]
) -> None:
    """Grant a release that was held, say so in the catalogue, and show it as the newest: at once.

    check: raises, in the same transaction, if it must not be granted.
    """

    def grant(show: bool) -> None:
        with database.begin() as connection:
            check(connection)
            connection.limit_waiting(LOCK_TIMEOUT)
            connection.call("approve_release", release.release_id)
            update_rows(connection, "catalog", {"name": release.name}, granted=True)
            connection.call("grant_release", release.release_id)
            if show and release.window is None:
                show_newest(connection, release.dataset_id, release.series)

    retry_on_lock_timeout(grant)


def revoke_release(database: Database, release: ReleaseRow) -> None:
    """Let nobody read a release any more, and take it from the catalogue. The record stays."""
    with database.begin() as connection:
        connection.limit_waiting(LOCK_TIMEOUT)
        update_release(
            connection, release.release_id, state="withdrawing", withdrawn_at=sa.func.now()
        )
        connection.execute("DELETE FROM {r}.catalog WHERE name = %s", [release.name])
        connection.call("revoke_release", release.release_id, "")
        if release.series is not None:
            try:
                with translated(database), connection.savepoint():
                    connection.call("leave_series", release.release_id, True)
            except Busy:
                # who may read the series would read it there
                connection.call("leave_series", release.release_id, False)
        if _is_current(connection, release):
            try:
                with translated(database), connection.savepoint():
                    show_newest(connection, release.dataset_id, release.series)
            except (Busy, SchemaInUse):
                # the views show it with the rights of their owner
                connection.call("revoke_release", release.release_id, "_current")


def drop_release(database: Database, release: ReleaseRow) -> None:
    """Drop the tables of a release that nobody may read; or empty them, and say what hangs on them."""
    with database.begin() as connection:
        connection.limit_waiting(LOCK_TIMEOUT)
        if _is_current(connection, release):
            show_newest(connection, release.dataset_id, release.series)
        connection.call("leave_series", release.release_id, True)
        names = release.relation_names
        dependents = dependents_of_release(connection, connection.release_schema, names)
        connection.call("drop_release", release.release_id, bool(dependents))
        if not dependents:
            update_release(connection, release.release_id, state="withdrawn")
    refuse_dependents(dependents)


def dependents_of_release(
    connection: Connection, schema: str, relations: Sequence[str]
) -> list[tuple[str, str]]:
    """Views of others that read relations of a release, each with what it is."""
    found = [view for of in relations for view in dependent_views(connection, schema, of)]
    own = {(schema, relation) for relation in relations}
    return [(kind, format_relation(*view)) for kind, *view in found if tuple(view) not in own]


def refuse_dependents(found: list[tuple[str, str]]) -> None:
    if found:
        raise SchemaInUse(
            "these views hang on it: " + ", ".join(view for _, view in found),
            remedy="; ".join(f"DROP {kind} {view}" for kind, view in found),
        )


def _is_current(connection: Connection, release: ReleaseRow) -> bool:
    """Whether views of its dataset, or of its series, show the release."""
    schema, query = connection.release_schema, "SELECT name FROM {p}.dataset WHERE dataset_id = %s"
    dataset = connection.one_value(query, [release.dataset_id])
    return bool(showing(connection, schema, release.relation_names, dataset, release.series))


def showing(
    connection: Connection, schema: str, relations: Sequence[str], dataset: str, series: str | None
) -> list[str]:
    """The views over the newest release of a dataset or a series that read these relations."""
    found = {tuple(v) for of in relations for _, *v in dependent_views(connection, schema, of)}
    return [view for view in current_names(dataset, series).values() if (schema, view) in found]
