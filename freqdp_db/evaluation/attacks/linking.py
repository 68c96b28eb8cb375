"""Linking attacks: whose is this trajectory? By places, times, places in time, and movements.

An attacker holds D and a release and links each released trajectory to the most similar original.
Protocol A takes the whole period on both sides; B the released odd days and D's even days, so that
nothing is linked by the very same samples. With m' = 10 a method that removes the ten strongest
places scores 0 by construction, while the attacker who uses all of them still links many: both
are measured.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from freqdp_db.columns.arrays import Flags, Ids
from freqdp_db.columns.ragged import offsets_from
from freqdp_db.columns.trajectories import Trajectories
from freqdp_db.evaluation.attacks.vectors import (
    Links,
    Weights,
    most_alike,
    most_alike_clocks,
    weigh,
)
from freqdp_db.evaluation.pair import CellBox, Pair, hours_of_day, on_odd_days, share_of
from freqdp_db.frequency.counts import count_frequencies

STRONGEST = 10
_EDGE_PERCENT = 0.1
_GRID_SIDE = 300
_HOURS = 24
_WINDOWS = 12
HOURS_PER_WINDOW = 2
FARTHEST_HOURS = 12.0
PROTOCOLS = ("a", "b")
KINDS = ("s", "st", "sq")


def linking_attacks(pair: Pair) -> dict[str, float]:
    """LA_s, LA_st, LA_sq and LA_t; `.none` is the share that is like nothing at all."""
    found: dict[str, float] = {}
    for protocol in PROTOCOLS:
        met = pair if protocol == "a" else days_apart(pair)
        linkable = met.on_both_sides
        for kind in KINDS:
            original, released, dimensions = dimensions_of(met, kind)
            counted = [count_frequencies(side, dimensions) for side in (released, original)]
            for length, strongest in ((str(STRONGEST), STRONGEST), ("full", None)):
                shown, true = (weigh(side, strongest) for side in counted)
                links = most_alike(shown, true, dimensions)
                _add(found, f"la_{kind}.{protocol}.{length}", links, linkable)
        _add(found, f"la_t.{protocol}", _by_time_of_day(met), linkable)
    return found


def _add(found: dict[str, float], name: str, links: Links, linkable: Flags) -> None:
    found[name] = share_of(links.right(), linkable)
    found[f"{name}.none"] = share_of(links.none(), linkable)


def days_apart(pair: Pair) -> Pair:
    """Protocol B: released odd days, D's even days."""
    odd = on_odd_days(pair.released.at, pair.timezone)
    even = ~on_odd_days(pair.original.at, pair.timezone)
    return replace(pair, original=pair.original.where(even), released=pair.released.where(odd))


def dimensions_of(pair: Pair, kind: str) -> tuple[Trajectories, Trajectories, int]:
    """D and D* with what the attack counts in place of locations, and how many of it there are."""
    if kind == "s":
        return pair.original, pair.released, len(pair.locations)
    if kind == "st":
        # only cells with a location in them, numbered as they lie: of a small city most have none
        used, number = np.unique(
            CellBox.of(pair, _EDGE_PERCENT).cells(pair.locations, _GRID_SIDE), return_inverse=True
        )
        cells: Ids = number.astype(np.int32)

        def in_hours(side: Trajectories) -> Trajectories:
            hour = hours_of_day(side.at, pair.timezone)
            return replace(side, location=cells[side.location] * np.int32(_HOURS) + hour)

        return in_hours(pair.original), in_hours(pair.released), len(used) * _HOURS
    return _movements(pair)


def _movements(pair: Pair) -> tuple[Trajectories, Trajectories, int]:
    """Unordered pairs of consecutive different locations, numbered over both sides."""
    parts, times = [], []
    for side in (pair.original, pair.released):
        owner = side.owner
        a, b = side.location[:-1].astype(np.int64), side.location[1:].astype(np.int64)
        moves = (owner[:-1] == owner[1:]) & (a != b)
        code = np.minimum(a, b)[moves] * len(pair.locations) + np.maximum(a, b)[moves]
        parts.append((code, owner[:-1][moves], side))
        times.append(side.at[:-1][moves])
    codes, number = np.unique(np.concatenate([p[0] for p in parts]), return_inverse=True)
    number_of: Ids = number.astype(np.int32)
    cut = len(parts[0][0])
    sides = [
        # a release may have more trajectories than there are objects
        Trajectories(offsets_from(np.bincount(owner, minlength=len(side))), which, at, side.start)
        for (_, owner, side), at, which in zip(
            parts, times, (number_of[:cut], number_of[cut:]), strict=True
        )
    ]
    return sides[0], sides[1], len(codes)


def _by_time_of_day(pair: Pair) -> Links:
    """LA_t: shares of twelve two-hour windows; likeness = 1 - earth mover's hours / 12."""
    shown, true = (windows_of_day(side, pair.timezone) for side in (pair.released, pair.original))
    filled = pair.released.lengths > 0, pair.original.lengths > 0
    return most_alike_clocks(shown, true, filled, HOURS_PER_WINDOW / FARTHEST_HOURS)


def windows_of_day(side: Trajectories, timezone: str) -> Weights:
    """Share of a trajectory's samples in each of twelve two-hour windows."""
    window = hours_of_day(side.at, timezone) // HOURS_PER_WINDOW
    counts = np.bincount(
        side.owner.astype(np.int64) * _WINDOWS + window, minlength=len(side) * _WINDOWS
    ).reshape(len(side), _WINDOWS)
    shares: Weights = counts / np.maximum(side.lengths, 1)[:, np.newaxis]
    return shares
