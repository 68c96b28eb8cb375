"""Releases as the catalogue shows them, and where one object is in them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from freqdp_db.dataset.text_values import Snap
from freqdp_db.db import releases
from freqdp_db.db.builds import find_build
from freqdp_db.db.connection import Database
from freqdp_db.db.datasets import get_dataset
from freqdp_db.db.names import format_name, format_relation
from freqdp_db.db.published import catalog_row, may_read, read_catalog
from freqdp_db.db.releases import ReleaseRow, ledger_head, list_steps
from freqdp_db.errors import PermissionMissing
from freqdp_db.methods import kinds
from freqdp_db.methods.contract import WITHOUT_SAMPLES, Kind
from freqdp_db.methods.registry import find_method
from freqdp_db.model.documents import Document, not_in_json
from freqdp_db.release.request import Request


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
    """The series that it belongs to."""
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
        row = catalog_row(connection, name)
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


# What analysts are told: in the comments on the tables, in the catalogue and beside exported files.
# Sentences are made from public values alone: the kind, its parameters, the time zone and the snapping.


_WINDOW_START = {"window_start": "First day of the window: what its series is partitioned by."}
_COUNTED: dict[Kind, str] = {
    "edited": "Samples were deleted and others inserted: numbers of samples are not exact, and a gap is no "
    "stay. No margin is known for them.",
    "unlinked": "Samples were left out: numbers of samples and of trips are lower than the truth, and ids "
    "cannot be counted as objects. No margin is known for them.",
    "generalised": "Objects and samples were left out where no group was found for them: numbers are lower "
    "than the truth. No margin is known for them.",
    "synthetic": "Numbers of trips are estimates from noisy counts. Trips under 1 km are not in them.",
    "counts": "Of each object only so many visits, trips and stays are counted: values are lower than the "
    "truth where objects do more. The margin is of the noise alone.",
}
"""What of the truth is missing in numbers."""


def notes_for(kind: Kind, values: Mapping[str, Any], timezone: str, snap: str) -> list[str]:
    """Sentences for a release of a kind, with these values of its parameters.

    snap: how the places of its build were made.
    """
    return [_times(kind, values, timezone), *_places(kind, values, snap), _COUNTED[kind]]


def _times(kind: Kind, values: Mapping[str, Any], timezone: str) -> str:
    if kind == "counts":
        return f"Time bins are in the time zone {timezone}."
    local = f"sampled_at AT TIME ZONE '{timezone}'"
    if values.get("dates") is not None:
        return f"Dates were left out. Hours are those of the time zone {timezone}: write {local}."
    said = f"Days and hours are those of the time zone {timezone}: write {local} before you group by them."
    if values.get("time_step") is not None:
        said += f" Times are rounded down to {values['time_step'] // 1_000_000} s."
    return said


def _places(kind: Kind, values: Mapping[str, Any], snap: str) -> list[str]:
    """What a position is, where it is a place of the build or of a grain of the method."""
    if kind not in ("edited", "unlinked"):
        return []
    grain, built = values.get("grain"), Snap.parse(snap)
    metres = float(grain) if grain is not None else built.metres
    if metres:
        return [f"Positions are centres of a grid of {metres:g} m: each stands for its whole cell."]
    if built.kind == "anchors":
        return ["Positions are the nearest of given points, not where somebody was measured."]
    return []


def catalogue_entry(
    database: Database, release: ReleaseRow, request: Request, rows: int, timezone: str
) -> tuple[dict[str, dict[str, str]], dict[str, Any]]:
    """The comments of each relation of a release, by its suffix, and its row of the catalogue."""
    with database.begin() as connection:
        steps = list_steps(connection, release.release_id)
    errors = request.remarks([step.counts for step in steps]).errors
    snap = find_build(database, release.build_id).snap
    notes = notes_for(request.method.kind, request.values, timezone, snap)
    for_analysts = " ".join([request.method.for_analysts, *notes, *errors])
    said, columns = (
        said_of(release.name, release.guarantee, for_analysts),
        request.column_comments(),
    )
    comments = {
        relation.suffix: relation.comments(said, timezone, columns)
        | ({} if not release.is_in_table or relation.view is not None else _WINDOW_START)
        for relation in request.relations
    }
    told = {"notes": notes} | ({"errors": errors} if errors else {})
    return comments, {
        "dataset": get_dataset(database, release.dataset_id).name,
        "method": release.method,
        "kind": release.kind,
        "parameters": request.published(),
        "guarantee": release.guarantee | told,
        "granted": release.granted,
        "rows": rows,
        "ledger_head": ledger_head(database, release),
        "time_window": release.window,
        "series": release.series,
    }


def said_of(name: str, guarantee: dict[str, Any], for_analysts: str) -> str:
    """What the comment of every relation of a release begins with."""
    said = (
        f"Release {name}, anonymized by freqdp with method {guarantee['method']}. "
        f"{for_analysts} {guarantee['plain']}"
    )
    users = "; ".join(
        f"{artefact.replace('_', ' ')}, epsilon {found['whole_user']}"
        for artefact, found in guarantee["artefacts"].items()
        if "whole_user" in found
    )
    return f"{said} For a whole user: {users}." if users else said


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
    found = []
    for row in releases.find_object(database, object_key):
        named, parameters, note = row.pop("method"), row.pop("parameters"), None
        if named is not None:
            method = find_method(named)
            steps = {step.name for step in method.steps}
            if method.kind in WITHOUT_SAMPLES:
                row["released_id"], note = None, _SYNTHETIC
            elif steps & {"cut", "points"} or parameters.get("pieces") is not None:
                row["released_id"], note = None, _PIECES
            elif "swap" in steps:
                note = _SWAPPED
            elif method.makes_areas:
                note = _GROUPED
        found.append(Whereabouts(**row, note=note))
    return found
