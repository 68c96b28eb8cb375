"""What analysts must know to read a release right: time zone, what a place is, what is undercounted.

Said in the comments on the tables, in the catalogue (`guarantee`, under `notes`) and beside exported files.
Sentences are made from public values alone: the kind, its parameters, the time zone and the snapping.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from freqdp_db.dataset.snapping import Snap
from freqdp_db.methods.contract import Kind

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
    local = f"at AT TIME ZONE '{timezone}'"
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
