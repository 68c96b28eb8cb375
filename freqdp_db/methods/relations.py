"""What a release consists of: tables and views, each with its columns, key, indexes and comments.

A method declares its relations. `freqdp init` writes the declarations into the database, so that what is
made there in the owner's name is what the software declares, whoever asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from freqdp_db.methods.contract import StepContext, WorkingSet

Blocks: TypeAlias = Iterable[Any]
"""Rows as binary COPY has them, many whole rows in each block: see `db.copy`."""
Rows: TypeAlias = "Callable[[WorkingSet, StepContext], Iterable[Mapping[str, Any]]]"
"""Rows by columns, many in each block: arrays of numbers, or lists of text and of geometries (EWKB)."""
Kept: TypeAlias = tuple[tuple[str, str], ...]
"""Columns that a build carries along: the name and the type of each."""
SAMPLES = ""
"""The suffix of the table of samples, which has such columns."""
TABLES = "tables"
"""The parameter that says which of the relations of a method are wanted."""


@dataclass(frozen=True)
class Column:
    """A column of a relation. It is never NULL, but for those that are carried along."""

    name: str
    kind: str
    """A type of PostgreSQL's own as the catalogue calls it (`int8`, `timestamptz`), or `geometry(Point)`:
    geometries are in the SRID of the source."""
    comment: str
    """`{timezone}` in it becomes that of the dataset."""


@dataclass(frozen=True)
class Relation:
    """A table or a view of a release."""

    suffix: str
    """What follows the name of the release in its own; it may be empty."""
    columns: tuple[Column, ...]
    comment: str = ""
    """Said of it, after what is said of the release."""
    key: tuple[str, ...] = ()
    """Primary key of a table, and the order in which its rows are written."""
    indexes: tuple[str, ...] = ()
    """Columns that have an index besides the key, the one that takes longest first."""
    rows: Rows | None = None
    """The rows of a table, in the order of its key. None: those of the released trajectories."""
    chosen_by: str = ""
    """It is made if the request's `tables` have this word, or it has a parameter of this name; empty: it is
    always made."""
    view: str | None = None
    """Of a view, which comes after the tables that it reads: the function in `sql/` that makes it, from
    the release's name, its SRID and that of the build's metres."""

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def with_kept(self, kept: Kept) -> Relation:
        """The same with columns that samples carry along."""
        more = (Column(name, kind, KEPT_COLUMN) for name, kind in kept)
        return replace(self, columns=(*self.columns, *more))

    def comments(
        self, release: str, timezone: str, columns: Mapping[str, str] = MappingProxyType({})
    ) -> dict[str, str]:
        """What it says of itself and of its columns.

        release: what is said of the release. columns: what columns say in it, where not as declared.
        """
        own = {"": self.comment} | {c.name: columns.get(c.name, c.comment) for c in self.columns}
        said = {name: comment.format(timezone=timezone) for name, comment in own.items()}
        return said | {"": f"{release} {said['']}".strip()}

    def declaration(self) -> dict[str, Any]:
        """What the database is told of it."""
        return {
            "suffix": self.suffix,
            "columns": [[column.name, column.kind] for column in self.columns],
            "key": list(self.key),
            "indexes": list(self.indexes),
            "view": self.view,
            "chosen_by": self.chosen_by,
        }


FEWEST_OBJECTS = 10
"""Values that fewer objects of a build have together are not published."""
KEPT_COLUMN = (
    "Of the source, as it is there. NULL: there is no value, or fewer than "
    f"{FEWEST_OBJECTS} objects have this combination of values."
)
_ID = Column("trajectory_id", "int8", "The same id as in the table of samples.")
_OWN_ID = Column(
    "trajectory_id", "int8", "An id of this release alone; says nothing about any object."
)
_SEQ = Column("seq", "int4", "Position in the trajectory, from 1, in time order.")
_DAY = Column("day", "date", "The day, in the time zone {timezone}.")

_LINES = Relation(
    "_line",
    (
        _ID,
        _DAY,
        Column("geom", "geometry(LineStringM)", "LineStringM: M is the time in epoch seconds."),
    ),
    "One line for each day ({timezone}) of a trajectory with at least 2 samples.",
    key=("trajectory_id", "day"),
    indexes=("geom",),
)
TRAJECTORIES = (
    Relation(
        "",
        (
            _OWN_ID,
            _SEQ,
            Column(
                "sampled_at",
                "timestamptz",
                "Time of the sample; days and hours are those of {timezone}.",
            ),
            Column("geom", "geometry(Point)", "The location's point, in the SRID of the source."),
        ),
        "See catalog for the full guarantee.",
        key=("trajectory_id", "seq"),
        indexes=("geom", "sampled_at"),
    ),
    _LINES,
    Relation(
        "_trip",
        (
            _ID,
            Column("trip", "int4", "Number of the trip in its trajectory, from 1."),
            Column(
                "start_at",
                "timestamptz",
                "Time of its first sample: the last of the stay before it.",
            ),
            Column(
                "end_at", "timestamptz", "Time of its last sample: the first of the stay after it."
            ),
            Column("length_m", "float8", "Metres along the line, in the projection of the build."),
            Column("places", "int4", "How many places it passes, its ends included."),
            Column("start_geom", "geometry(Point)", "Where it begins."),
            Column("end_geom", "geometry(Point)", "Where it ends."),
            Column(
                "geom", "geometry(LineString)", "The line through its places, without the time."
            ),
        ),
        "A line for each trip, between stays (20 minutes within 150 m) or gaps (30 minutes).",
        key=("trajectory_id", "trip"),
        indexes=("geom", "start_at"),
    ),
)
"""Samples, lines of days, and trips."""
AREAS = (
    Relation(
        "",
        (
            _OWN_ID,
            _SEQ,
            Column("sampled_at", "timestamptz", "Begin of the interval."),
            Column(
                "geom",
                "geometry(Point)",
                "The middle of the area, in the SRID of the source: not a position.",
            ),
            Column(
                "area",
                "geometry(Polygon)",
                "Where samples of the group lie, of some or all of its objects; in the SRID of the source.",
            ),
            Column(
                "during",
                "tstzrange",
                "When: the times of samples in the area lie in this interval.",
            ),
        ),
        "See catalog for the full guarantee.",
        key=("trajectory_id", "seq"),
        indexes=("geom", "sampled_at", "area", "during"),
    ),
    _LINES,
    Relation(
        "_area",
        (
            _ID,
            _SEQ,
            Column("begin_at", "timestamptz", "Begin of the interval."),
            Column("end_at", "timestamptz", "Its end, not in it."),
            Column("geom", "geometry(Polygon)", "The area, in the SRID of the source."),
        ),
        "Areas as the only geometry, and intervals as two times, for programs that know no ranges.",
        view="create_area_view",
    ),
)
"""The same where a sample is somewhere in an area: its point is only the middle, and no way leads there."""
