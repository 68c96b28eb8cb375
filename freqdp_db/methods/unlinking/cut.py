"""cut: a new released trajectory for every piece of a trip, with an id of its own.

Stays are left out, and a quiet time between two pieces; the ends of a piece are trimmed back to places
that several objects visit. One clock cuts the pieces of all objects, so that everybody is silent at the
same times: whoever joins a piece to the one after the silence has all the others to choose from, and not
only those whose trips began at the same time. What a few known samples of an object give away is then a
piece. No formal guarantee: pieces can be joined again by place, time and velocity, to a degree that
the exposure metrics measure.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from freqdp_db.engines.ranges import joined, map_ranges
from freqdp_db.errors import VerificationFailed
from freqdp_db.methods.contract import StepContext, WorkingSet
from freqdp_db.methods.trips import TripRule, TripRuns, find_trips, samples_of
from freqdp_db.methods.unlinking.clock import check_samples, hide_devices, put_in_grains
from freqdp_db.methods.unlinking.options import CutOptions
from freqdp_db.methods.unlinking.samples import (
    check_crowd,
    check_dates,
    find_crowded,
    new_spans,
)
from freqdp_db.methods.unlinking.steps import CutLog
from freqdp_db.methods.unlinking.trimming import check_trimmed, trim_trips
from freqdp_db.model.arrays import Flags, Groups, Ids, Ints, new_rows, offsets_from
from freqdp_db.model.trajectories import Trajectories
from freqdp_db.roads.network import Network

_NO_LIMIT = 2**62


def pieces_on_clock(world: StepContext, state: WorkingSet, options: CutOptions) -> TripRuns:
    """The pieces of what comes in, as runs of its samples on the clock."""
    visits = None
    if options.ends_in_source:
        # a visit that a method before has put in is nobody's
        source = WorkingSet(world.build.trajectories, world.locations, state.key)
        source = put_in_grains(source, options.grain)
        visits = source.trajectories.location, source.owners()
    hidden = hide_devices(state, options)
    fresh = None
    if options.dates is not None:
        fresh = new_spans(hidden.trajectories.at, world.build.timezone, options.dates)
    crowded = find_crowded(world, hidden, options)
    return find_pieces(hidden, options, visits, crowded, fresh, roads_of(world, options))


def roads_of(world: StepContext, options: CutOptions) -> Network | None:
    """The map that ends are trimmed by; None: by none."""
    return None if options.roads is None else world.inputs["roads"]


def find_pieces(
    state: WorkingSet,
    options: CutOptions,
    visits: tuple[Ids, Ids] | None = None,
    crowded: Flags | None = None,
    fresh: Flags | None = None,
    roads: Network | None = None,
) -> TripRuns:
    """Trips, cut to the longest piece with quiet time between, and trimmed to places of several.

    visits: places, and who was there; None: those of the state.
    crowded: samples that may be published; None: all. Others may lie inside a piece, and are left out.
    fresh: where a new piece begins in any case, of all samples but the first.
    roads: the map by which the ends of trips are trimmed.
    """
    side = state.trajectories
    location, whose = visits or (side.location, state.owners())
    shown = np.ones(side.samples, np.bool_) if crowded is None else crowded
    ending = shown & shared_places(location, whose, len(state.places), options.ends)[side.location]
    begins = np.zeros(side.samples, np.bool_)
    begins[1:] = False if fresh is None else fresh
    longest, quiet = options.pieces, options.quiet
    if options.one_clock:
        turn, silent = one_clock(side.at, longest, quiet)
        begins[1:] |= np.diff(turn) != 0
        shown, ending = shown & ~silent, ending & ~silent
        longest, quiet = _NO_LIMIT, 0
    # what is left out between two ends is no gap
    gap = _NO_LIMIT if options.samples == "ends" else options.gap
    trips = find_trips(side, state.places, options.rule)
    if roads is not None:
        trips = trim_trips(trips, side, state.places, roads)
    parts = map_ranges(
        _cut_trips, offsets_from(trips.last - trips.first + 1), trips.first, trips.last, side.at,
        begins, shown, ending, longest, quiet, gap,
    )  # fmt: skip
    first, last = joined(parts)
    owner = np.searchsorted(side.offsets, first, side="right") - 1
    return TripRuns(first, last, owner.astype(np.int32))


def one_clock(at: Ints, pieces_us: int, quiet_us: int) -> tuple[Ints, Flags]:
    """Turns of a clock that is the same for all objects and releases, and who is silent.

    A turn is as long as a piece and the quiet time after it, counted from 2000-01-01 00:00 UTC.
    """
    turn = at // (pieces_us + quiet_us)
    silent: Flags = at - turn * (pieces_us + quiet_us) >= pieces_us
    return turn, silent


def rows_of_pieces(
    world: StepContext, hidden: WorkingSet, log: CutLog, options: CutOptions
) -> tuple[Ints, Ints]:
    """Offsets by piece, and the samples of the hidden input that are published of all pieces.

    Those with a crowd; of these the first and the last alone, if so asked. A piece begins and ends with
    samples that have one.
    """
    offsets, rows = samples_of(log.first, log.last)
    shown = np.ones(len(rows), np.bool_)
    if options.crowd is not None:
        shown = find_crowded(world, hidden, options)[rows]
    if options.samples == "ends":
        shown = np.zeros(len(rows), np.bool_)
        shown[offsets[:-1]] = shown[offsets[1:] - 1] = True
    return offsets_from(shown)[offsets], rows[shown]


def groups_after(groups: Groups, samples: int, rows: Ints) -> Groups:
    """Groups of an earlier swap by positions in the result of the cut."""
    position = np.full(samples, -1, np.int64)
    position[rows] = np.arange(len(rows))
    return groups.moved(position)


def shared_places(location: Ids, owner: Ids, places: int, objects: int) -> Flags:
    """Places with samples of at least so many objects."""
    distinct = np.unique(location.astype(np.int64) << 32 | owner.astype(np.int64)) >> 32
    shared: Flags = np.bincount(distinct, minlength=places) >= objects
    return shared


@njit(nogil=True, cache=True)
def _cut_trips(first, last, heads, tails, at, begins, shown, ending, longest, quiet, gap):  # type: ignore[no-untyped-def]
    """First and last sample of each piece of the trips in a range, where anything is left of it."""
    most = 0
    for trip in range(first, last):
        most += tails[trip] - heads[trip] + 1
    firsts, lasts, k = np.empty(most, np.int64), np.empty(most, np.int64), 0
    for trip in range(first, last):
        i = heads[trip]
        while i <= tails[trip]:
            a, b, seen = i, i, i
            while (
                i <= tails[trip]
                and at[i] - at[a] <= longest
                and at[i] - at[seen] <= gap
                and (i == a or not begins[i])
            ):
                if shown[i]:
                    seen = i
                b = i
                i += 1
            while i <= tails[trip] and at[i] - at[b] < quiet:
                i += 1
            while a <= b and not ending[a]:
                a += 1
            while b >= a and not ending[b]:
                b -= 1
            if a <= b:
                firsts[k], lasts[k] = a, b
                k += 1
    return firsts[:k].copy(), lasts[:k].copy()


def summary(samples: int, state: WorkingSet, logged: CutLog, after: WorkingSet) -> dict[str, float]:
    """For the curator: pieces, pieces of a trajectory, and the share of so many samples that stays."""
    side = state.trajectories
    owner = np.searchsorted(side.offsets, logged.first, side="right") - 1
    each = np.bincount(owner, minlength=len(side))[side.lengths > 0]
    return {
        "pieces": len(logged),
        "pieces_per_trajectory_median": float(np.median(each)) if len(each) else 0.0,
        "trajectories_without_a_piece": int((each == 0).sum()),
        "samples_kept_share": after.samples / max(samples, 1),
    }


# --- What `cut` promises, looked up in its result: no kernel of the step takes part ---


_PER_MILLE = 1000


def check_cut(
    world: StepContext,
    before: WorkingSet,
    after: WorkingSet,
    visits: WorkingSet,
    runs: CutLog,
    options: CutOptions,
) -> dict[str, int]:
    """Refuse unless every piece is a run of its input and keeps the promises.

    visits: where who was, for the places that pieces may begin and end at.

    Returns:
        Counts, with the largest share of an object's samples that is under one id (per mille).

    Raises:
        VerificationFailed: a piece that is too long, spans a gap or a stay, ends at a place of too
            few, has samples in a silence, is too near to the piece before or to the end of its trip, or
            holds what the input does not; a sample without its crowd, or with another time.
    """
    old, new, rule = before.trajectories, after.trajectories, options.rule
    if len(after.key) != len(new) or len(np.unique(after.key)) != len(new):
        raise VerificationFailed("cut: two pieces have one id")
    if (new.lengths == 0).any():
        raise VerificationFailed("cut: a piece is empty")
    rows = _require_runs(world, before, after, runs, options)
    roads = roads_of(world, options)
    if roads is not None:
        check_trimmed(before, find_trips(old, before.places, rule), np.sort(rows), roads)
    at = old.at[rows]
    check_dates(world, at, after, options.dates)
    head, tail = new.offsets[:-1], new.offsets[1:] - 1
    if (at[tail] - at[head] > options.pieces).any():
        raise VerificationFailed("cut: a piece is longer than it may be")
    inside = np.ones(max(new.samples - 1, 0), np.bool_)
    inside[tail[:-1]] = False
    gap = np.diff(at)[inside]
    if (gap < 0).any() or (options.samples != "ends" and (gap > rule.gap_us).any()):
        raise VerificationFailed("cut: a piece spans a gap, or its times fall")
    stays = _stays_inside(before, runs, rule)
    if stays:
        raise VerificationFailed(f"cut: {stays:,} stays are part of a piece")
    few = ~_visited_by(visits, options.ends)
    if few[new.location[head]].any() or few[new.location[tail]].any():
        raise VerificationFailed("cut: a piece ends at a place of too few objects")
    if options.one_clock:
        _require_silence(at, head, tail, options)
    else:
        _require_quiet(old, runs, options.quiet)
    return {
        "pieces": len(new),
        "samples": new.samples,
        "largest_share_per_mille": largest_share(before, after),
    }


def _require_runs(
    world: StepContext, before: WorkingSet, after: WorkingSet, runs: CutLog, options: CutOptions
) -> Ints:
    """Each piece is its run of the input, but for samples without a crowd; no sample is in two.

    Returns the sample of the input that each released one is.
    """
    old, new, first, last = before.trajectories, after.trajectories, runs.first, runs.last
    known = len(first) == len(last) == len(new)
    if not known or not ((first >= 0) & (last >= first) & (last < old.samples)).all():
        raise VerificationFailed("cut: the log names samples that do not exist")
    owner = old.owner
    if (owner[first] != owner[last]).any():
        raise VerificationFailed("cut: a piece has samples of two trajectories")
    length = last - first + 1
    piece = np.repeat(np.arange(len(first)), length)
    rows: Ints = (
        first[piece] + np.arange(len(piece)) - np.repeat(np.cumsum(length) - length, length)
    )
    if len(np.unique(rows)) != len(rows):
        raise VerificationFailed("cut: a sample is in two pieces")
    kept = np.ones(len(rows), np.bool_)
    if options.crowd is not None:
        kept = find_crowded(world, before, options)[rows]
    check_crowd(world, before, rows, kept, options)
    if options.samples == "ends":
        kept &= (rows == first[piece]) | (rows == last[piece])
    if not np.array_equal(np.bincount(piece[kept], minlength=len(new)), new.lengths):
        raise VerificationFailed("cut: a piece has another length than its run")
    rows = rows[kept]
    check_samples(before, after, rows)
    return rows


def _require_silence(at: Ints, head: Ints, tail: Ints, options: CutOptions) -> None:
    """Nobody has a sample in a quiet time of the clock, and no piece goes across one."""
    turn = options.pieces + options.quiet
    if (at % turn >= options.pieces).any():
        raise VerificationFailed("cut: a sample lies where all are silent")
    if (at[head] - at[head] % turn != at[tail] - at[tail] % turn).any():
        raise VerificationFailed("cut: a piece goes on after a silence")


def _require_quiet(old: Trajectories, runs: CutLog, quiet_us: int) -> None:
    order = np.argsort(runs.first, kind="stable")
    following, ended = runs.first[order][1:], runs.last[order][:-1]
    same = old.owner[following] == old.owner[ended]
    if (same & (old.at[following] - old.at[ended] < quiet_us)).any():
        raise VerificationFailed("cut: two pieces of one trip follow without quiet time")


def _visited_by(before: WorkingSet, objects: int) -> Flags:
    location, owner = before.trajectories.location, before.owners()
    order = np.lexsort((owner, location))
    place = location[order]
    fresh = new_rows(place, owner[order])
    enough: Flags = np.bincount(place[fresh], minlength=len(before.places)) >= objects
    return enough


def _stays_inside(before: WorkingSet, runs: CutLog, rule: TripRule) -> int:
    """Samples from which a piece remains near for as long as a stay: all looked ahead together.

    With those of the piece that have no crowd: without them, two visits would look like a stay.
    """
    side = before.trajectories
    piece = np.full(side.samples, -1, np.int64)
    _, rows = samples_of(runs.first, runs.last)
    piece[rows] = np.repeat(np.arange(len(runs)), runs.last - runs.first + 1)
    x, y = before.places.x[side.location], before.places.y[side.location]
    looking, ahead = np.sort(rows), 0
    found = np.zeros(side.samples, np.bool_)
    while len(looking):
        ahead += 1
        looking = looking[looking + ahead < side.samples]
        far = looking + ahead
        near = piece[far] == piece[looking]
        near &= (x[far] - x[looking]) ** 2 + (y[far] - y[looking]) ** 2 <= rule.radius_m**2
        looking, far = looking[near], far[near]
        found[looking[side.at[far] - side.at[looking] >= rule.stay_us]] = True
    return int(found.sum())


def largest_share(before: WorkingSet, after: WorkingSet) -> int:
    """Of an object's samples, the most under one id, per mille, rounded up."""
    objects = before.owners()
    total = np.bincount(objects, minlength=int(objects.max(initial=0)) + 1)
    pair = after.trajectories.owner.astype(np.int64) << 32 | after.owners().astype(np.int64)
    both, count = np.unique(pair, return_counts=True)
    owner: Ids = (both & 0xFFFFFFFF).astype(np.int32)
    return int((-(-_PER_MILLE * count // total[owner])).max(initial=0))
