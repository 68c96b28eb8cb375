"""Releases as the catalogue shows them, and where one object is in them."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from freqdp_db.db import releases as erasure
from freqdp_db.db.connection import Database
from freqdp_db.db.names import format_name, format_relation
from freqdp_db.db.published import catalog_row, may_read, read_catalog
from freqdp_db.db.releases import ObjectRow
from freqdp_db.errors import PermissionMissing
from freqdp_db.methods import kinds
from freqdp_db.methods.contract import WITHOUT_SAMPLES, Kind
from freqdp_db.methods.registry import find_method
from freqdp_db.model.documents import Document, not_in_json


@dataclass(frozen=True)
class Published(Document):
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
    """The table that it is a part of."""
    schema: str = not_in_json()

    @property
    def is_series(self) -> bool:
        """Whether this is a series, told as one release: what is said is its newest window's."""
        return self.series == self.name

    @property
    def _version(self) -> str:
        return "a series" if self.is_series else f"version {self.version}"

    def lines(self) -> list[str]:
        """In words."""
        table = format_relation(self.schema, self.relations[0])
        method = find_method(self.method)
        kind_of = {p.name: p.kind for p in method.parameters}
        parameters = ", ".join(
            f"{name.replace('_', ' ')} {_with_unit(kind_of[name], value)}"
            for name, value in self.parameters.items()
        )
        return [
            f"{table}, {self._version}: {self.rows:,} rows of dataset {self.dataset}"
            f"{f' in {self.time_window}' if self.time_window else ''}, "
            f"{'newest ' if self.is_series else ''}published {self.published_at:%Y-%m-%d %H:%M}.",
            f"Method {self.method}" + (f": {parameters}." if parameters else "."),
            f"What it is: {method.for_analysts}",
            *(f"Note: {text}" for text in self.guarantee.get("notes", [])),
            *(f"Errors: {text}" for text in self.guarantee.get("errors", [])),
            f"Guarantee{' of each window' if self.is_series else ''}: {self.guarantee['plain']}",
            "Tables and views: "
            + ", ".join(format_relation(self.schema, relation) for relation in self.relations)
            + ".",
        ]


def _with_unit(kind: kinds.Kind, value: Any) -> str:
    """A parameter as the curator sees it: 60s, yes. The catalogue has numbers as text."""
    return kind.show(kind.from_text(value) if isinstance(value, str) else kind.from_json(value))


def published(database: Database) -> list[Published]:
    """All rows of the catalogue, oldest first."""
    schema = database.settings.release_schema
    return [Published(**row, schema=schema) for row in read_catalog(database)]


def find_published(database: Database, name: str) -> Published:
    """A row of the catalogue, or a series as one; raises NotFound."""
    with database.begin() as connection:
        row = catalog_row(connection, database, name)
    return Published(**row, schema=database.settings.release_schema)


def may_be_granted(guarantee: dict[str, Any]) -> bool:
    """Whether analysts may ever be granted a release: then it is only held, if it is not."""
    return not guarantee["seeded"] and find_method(guarantee["method"]).grantable


def require_readable(database: Database, name: str) -> None:
    """Refuse whoever may not read a release, with whom to ask.

    Never with a GRANT on its table: that would go round the approval.
    """
    release = find_published(database, name)
    with database.begin() as connection:
        if may_read(connection, (release.schema, name)):
            return
    if release.granted:
        raise PermissionMissing(
            f"release {name!r} is for analysts, and this login is none",
            remedy=f"an administrator can: GRANT {format_name(database.settings.role('analyst'))} "
            f"TO {format_name(database.user or 'your_login')}",
        )
    if may_be_granted(release.guarantee):
        raise PermissionMissing(
            f"release {name!r} is held: its curator has not approved it for analysts yet",
            remedy=f"ask a curator, who can approve it: freqdp release approve {shlex.quote(name)}",
        )
    raise PermissionMissing(
        f"release {name!r} is never granted to analysts: its noise was seeded, or its method "
        "guarantees nothing",
        remedy="ask a curator for one by another method; `freqdp release list` shows which are for "
        "analysts",
    )


# Where an object is, for erasure requests: its builds and releases, and what its id is worth there.


_SYNTHETIC = "synthetic: nobody's trips are in it"
_PIECES = "in pieces, with ids that were drawn for the pieces: none is the object's"
_SWAPPED = (
    "swapped: a trajectory of this id begins with it; where it met others they may go on in it, and it "
    "in theirs"
)
_GROUPED = (
    "grouped: one trajectory with others, under the smallest of their ids, which may be another's; or "
    "left out"
)


@dataclass(frozen=True)
class Whereabouts:
    """A build that holds an object, or a release that was made from it."""

    dataset: str
    build_id: int
    trajectory_id: int
    release: str | None
    state: str | None
    released_id: int | None
    note: str | None
    """What the released id means, where the trajectory of that id is not the object's alone."""


def find_object(database: Database, object_key: str) -> list[Whereabouts]:
    """One for each build that holds the object, and for each release made from it."""
    return [_explained(row) for row in erasure.find_object(database, object_key)]


def _explained(row: ObjectRow) -> Whereabouts:
    released_id, note = _id_in(row)
    return Whereabouts(
        row.dataset, row.build_id, row.trajectory_id, row.release, row.state, released_id, note
    )


def _id_in(row: ObjectRow) -> tuple[int | None, str | None]:
    """The id of an object in a release, if it has one there, and what is to be said of it."""
    if row.method is None:
        return row.released_id, None
    method = find_method(row.method)
    steps = {step.name for step in method.steps}
    if method.kind in WITHOUT_SAMPLES:
        return None, _SYNTHETIC
    if steps & {"cut", "points"} or (row.parameters or {}).get("pieces") is not None:
        return None, _PIECES
    if "swap" in steps:
        return row.released_id, _SWAPPED
    return row.released_id, _GROUPED if method.makes_areas else None
