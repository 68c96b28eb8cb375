"""From groups to what is released: one trajectory of areas and intervals for each."""

from __future__ import annotations

import numpy as np

from freqdp_db.columns.arrays import Flags, Ids, Ints
from freqdp_db.columns.ragged import offsets_from
from freqdp_db.columns.trajectories import Locations, Trajectories
from freqdp_db.methods.contract import Counts, State
from freqdp_db.methods.k_anonymity.boxes import CELL_M, MINUTE_US, SIDES, Origin
from freqdp_db.methods.places_and_times import Meet

SEVERAL = -1
"""The owner of a sample that is several objects'."""


def too_wide(bounds: Ids, widest: Meet | None) -> Flags:
    """Boxes that are left out."""
    if widest is None:
        return np.zeros(bounds.shape[1], np.bool_)
    x, y, t = (bounds[side + 1] - bounds[side].astype(np.int64) for side in (0, 2, 4))
    wide: Flags = (np.maximum(x, y) * CELL_M > float(widest.metres)) | (t * MINUTE_US > widest.us)
    return wide


def state_of_groups(
    rows: list[Ids],
    members: list[Ids],
    key: Ints,
    origin: Origin,
    widest: Meet | None,
    objects: int,
) -> State:
    """Groups in order of their released ids, so that their order says nothing else.

    objects: how many there are, in groups or not.
    """
    order = np.argsort(key, kind="stable")
    kept = [rows[g][:, ~too_wide(rows[g], widest)] for g in order]
    start = np.array([int(rows[g][4, 0]) for g in order], np.int64)
    bounds = np.concatenate([np.zeros((len(SIDES), 0), np.int32), *kept], axis=1)
    at, areas = origin.areas(bounds)
    places = Locations((areas.x_min + areas.x_max) / 2, (areas.y_min + areas.y_max) / 2)
    offsets = offsets_from(np.array([row.shape[1] for row in kept], np.int64))
    location = np.arange(len(at), dtype=np.int32)
    trajectories = Trajectories(offsets, location, at, (start + origin.minute) * MINUTE_US)
    return State(
        trajectories,
        places,
        key[order],
        np.full(len(at), SEVERAL, np.int32),
        areas=areas,
        members=np.array([len(members[g]) for g in order], np.int64),
        part_of=_part_of([members[g] for g in order], objects),
    )


def _part_of(members: list[Ids], objects: int) -> Ids | None:
    """The group of each object; None: pieces of some are in several."""
    found = np.full(objects, -1, np.int32)
    for number, group in enumerate(members):
        if (found[group] >= 0).any():
            return None
        found[group] = number
    return found


def summary(after: State) -> Counts:
    """For the curator: how many groups, how large, and how coarse their areas are."""
    assert after.members is not None and after.areas is not None
    areas = after.areas
    sides = (areas.x_max - areas.x_min + areas.y_max - areas.y_min) / 2
    minutes = (areas.until - after.trajectories.at) / MINUTE_US
    return {
        "groups": len(after.members),
        "largest_group": int(after.members.max(initial=0)),
        "groups_left_out": int((after.trajectories.lengths == 0).sum()),
        "areas": after.samples,
        "side_median_m": float(np.median(sides)) if len(sides) else 0.0,
        "side_mean_m": float(np.mean(sides)) if len(sides) else 0.0,
        "minutes_median": float(np.median(minutes)) if len(minutes) else 0.0,
        "minutes_mean": float(np.mean(minutes)) if len(minutes) else 0.0,
    }
