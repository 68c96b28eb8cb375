"""cut: a new released trajectory for every piece of a trip, with an id of its own.

Stays are left out, and a quiet time between two pieces of one trip; the ends of a piece are trimmed
back to places that several objects visit. What a few known samples of an object give away is then a
piece. No formal guarantee: pieces can be joined again by place, time and velocity, to a degree that
the exposure metrics measure.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from freqdp_db.errors import BadInput
from freqdp_db.mechanisms.noise import RandomSource, released_ids
from freqdp_db.methods.unlinking.cut_check import check_cut
from freqdp_db.methods.unlinking.meetings import Groups
from freqdp_db.methods.unlinking.state import State
from freqdp_db.methods.unlinking.trips import TripRule, Trips, find_trips, samples_of
from freqdp_db.model import Flags, Ints, Trajectories

_MINUTE_US = 60_000_000
_LONGEST_US = 7 * 24 * 60 * _MINUTE_US
_MOST_ENDS = 1_000_000


@dataclass(frozen=True)
class CutParameters:
    """Checked parameters of the step."""

    trips_us: int = 20 * _MINUTE_US
    pieces_us: int = 60 * _MINUTE_US
    quiet_us: int = 5 * _MINUTE_US
    ends: int = 5
    gap_us: int = 30 * _MINUTE_US

    def __post_init__(self) -> None:
        for option, value, low in (
            ("--trips", self.trips_us, _MINUTE_US),
            ("--pieces", self.pieces_us, _MINUTE_US),
            ("--quiet", self.quiet_us, 0),
            ("--gap", self.gap_us, _MINUTE_US),
        ):
            if not low <= value <= _LONGEST_US:
                least = "1 min" if low else "0"
                raise BadInput(
                    f"{option}: {value / _MINUTE_US:g} min is not between {least} and a week",
                    remedy=f"for example {option} 20min",
                )
        if not 1 <= self.ends <= _MOST_ENDS:
            raise BadInput(
                f"--ends {self.ends} is not between 1 and {_MOST_ENDS:,}",
                remedy="5 ends every piece at a place that at least five objects visit",
            )

    @property
    def rule(self) -> TripRule:
        return TripRule(self.trips_us, self.gap_us)


@dataclass(frozen=True)
class CutDraw:
    """A fresh id for every piece, in order of trajectories and time."""

    key: Ints


@dataclass(frozen=True)
class CutLog:
    """The pieces, as runs of samples of the step's input, in the order of the released ids."""

    first: Ints
    last: Ints


class Cut:
    """The step."""

    name = "cut"

    def draw(
        self, world: object, state: State, parameters: CutParameters, source: RandomSource
    ) -> CutDraw:
        return CutDraw(released_ids(source, len(find_pieces(state, parameters))))

    def carry_out(
        self, world: object, state: State, draw: CutDraw, parameters: CutParameters
    ) -> tuple[CutLog, State]:
        pieces = find_pieces(state, parameters)
        # by id, so that neither rows nor trajectories tell which pieces lay beside each other
        order = np.argsort(draw.key, kind="stable")
        log = CutLog(pieces.first[order], pieces.last[order])
        return log, self.replay(world, state, draw, log, parameters)

    def replay(
        self, world: object, state: State, draw: CutDraw, log: CutLog, parameters: CutParameters
    ) -> State:
        offsets, rows = samples_of(log.first, log.last)
        side = state.trajectories
        pieces = Trajectories(offsets, side.location[rows], side.at[rows], side.at[log.first])
        return State(pieces, state.places, np.sort(draw.key), state.owners()[rows])

    def check(
        self,
        world: object,
        before: State,
        draw: CutDraw,
        log: CutLog,
        after: State,
        parameters: CutParameters,
    ) -> dict[str, int]:
        return check_cut(
            before,
            after,
            rule=parameters.rule,
            longest_us=parameters.pieces_us,
            quiet_us=parameters.quiet_us,
            ends=parameters.ends,
            runs=(log.first, log.last),
        )


def find_pieces(state: State, parameters: CutParameters) -> Trips:
    """Trips, cut to the longest piece with quiet time between, and trimmed to places of several."""
    side = state.trajectories
    trips = find_trips(side, state.places, parameters.rule)
    kept, begins = np.zeros(side.samples, np.bool_), np.zeros(side.samples, np.bool_)
    _cut_trips(
        trips.first, trips.last, side.at, parameters.pieces_us, parameters.quiet_us, kept, begins
    )
    first = np.flatnonzero(begins)
    if not len(first):
        return Trips(first, first, np.zeros(0, np.int32))
    last = first + np.add.reduceat(kept.astype(np.int64), first) - 1
    _trim(first, last, side.location, shared_places(state, parameters.ends))
    there = last >= first
    first, last = first[there], last[there]
    owner = np.searchsorted(side.offsets, first, side="right") - 1
    return Trips(first, last, owner.astype(np.int32))


def groups_after(groups: Groups, samples: int, log: CutLog) -> Groups:
    """Groups of an earlier swap by positions in the result of the cut."""
    _, rows = samples_of(log.first, log.last)
    position = np.full(samples, -1, np.int64)
    position[rows] = np.arange(len(rows))
    return groups.moved(position)


def shared_places(state: State, objects: int) -> Flags:
    """Places with samples of at least so many objects."""
    pairs = state.trajectories.location.astype(np.int64) << 32 | state.owners().astype(np.int64)
    distinct = np.unique(pairs) >> 32
    shared: Flags = np.bincount(distinct, minlength=len(state.places)) >= objects
    return shared


@njit(nogil=True, cache=True)
def _cut_trips(first, last, at, longest, quiet, kept, begins):  # type: ignore[no-untyped-def]
    for trip in range(len(first)):
        i = first[trip]
        while i <= last[trip]:
            begins[i] = True
            start = at[i]
            while i <= last[trip] and at[i] - start <= longest:
                kept[i] = True
                i += 1
            end = at[i - 1]
            while i <= last[trip] and at[i] - end < quiet:
                i += 1


@njit(nogil=True, cache=True)
def _trim(first, last, location, shared):  # type: ignore[no-untyped-def]
    for p in range(len(first)):
        while first[p] <= last[p] and not shared[location[first[p]]]:
            first[p] += 1
        while last[p] >= first[p] and not shared[location[last[p]]]:
            last[p] -= 1


def summary(state: State, parameters: CutParameters) -> dict[str, float]:
    """For the curator: pieces, pieces of an object, and the share of samples that stay."""
    pieces = find_pieces(state, parameters)
    kept = int((pieces.last - pieces.first + 1).sum())
    filled = state.trajectories.lengths > 0
    each = np.bincount(pieces.trajectory, minlength=len(state.trajectories))[filled]
    return {
        "pieces": len(pieces),
        "pieces_per_trajectory_median": float(np.median(each)) if len(each) else 0.0,
        "trajectories_without_a_piece": int((each == 0).sum()),
        "samples_kept_share": kept / max(state.trajectories.samples, 1),
    }
