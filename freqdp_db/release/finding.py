"""Where an object is, for erasure requests: its builds and releases, and what its id is worth there."""

from __future__ import annotations

from dataclasses import dataclass

from freqdp_db.methods.registry import find_method
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.records import erasure
from freqdp_db.storage.records.erasure import ObjectRow

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
    if method.kind == "synthetic":
        return None, _SYNTHETIC
    if "cut" in steps or (row.parameters or {}).get("pieces") is not None:
        return None, _PIECES
    if "swap" in steps:
        return row.released_id, _SWAPPED
    return row.released_id, _GROUPED if method.makes_areas else None
