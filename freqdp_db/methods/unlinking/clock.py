"""One clock for all: no device is known by the instants at which it sends.

A device sends at a fraction of a second, or at a second of the minute, of its own, and at an interval
of its own. Whoever joins what was unlinked by these needs neither place nor velocity. So `swap` and
`cut` put what comes in on a common clock before they do anything else: each time moves to the nearest
tick, by half the time between two ticks at most, and of samples of one trajectory that come to one
tick, the one nearest to it stays. Then everybody who sends at least as often as the clock ticks has
the same instants and the same intervals. What the steps promise holds for the times on the clock,
which are the released ones.

One grain for all places: no device is known by the digits that it writes.

Where the places of a build are exact (`--snap exact`), a device that writes four decimals is told from
one that writes six. So `swap` and `cut` then move places to the centres of cells of one grid, as a build
with `--snap grid` does; other builds have such places already.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Protocol

import numpy as np

from freqdp_db.errors import VerificationFailed
from freqdp_db.methods.contract import Counts, WorkingSet
from freqdp_db.methods.kinds import US_PER_S
from freqdp_db.model.arrays import Flags, Ids, Ints, Metres, new_rows, owners
from freqdp_db.model.trajectories import Locations, Trajectories

# --- One grain for all places: no device is known by the digits that it writes ---


GRAIN = Decimal(20)
"""Metres: coarser than what four decimals of a degree tell."""


def grain_for(snap: str) -> Decimal | None:
    """The grain for a build with places of this kind; None: they have one."""
    return GRAIN if snap == "exact" else None


def cells_of(places: Locations, grain_m: float) -> tuple[Locations, Ids]:
    """The centres of all cells that have places, and the cell of each place."""
    column, row = (np.floor(c / grain_m) for c in (places.x, places.y))
    order = np.lexsort((row, column))
    fresh = new_rows(column[order], row[order])
    cell = np.empty(len(order), np.int32)
    cell[order] = np.cumsum(fresh) - 1
    first = order[fresh]
    return Locations((column[first] + 0.5) * grain_m, (row[first] + 0.5) * grain_m), cell


def in_grains(x: Metres, y: Metres, grain_m: float) -> tuple[Metres, Metres]:
    """Positions as a release of this grain shows them."""
    return (np.floor(x / grain_m) + 0.5) * grain_m, (np.floor(y / grain_m) + 0.5) * grain_m


def put_in_grains(state: WorkingSet, grain: Decimal | None) -> WorkingSet:
    """Places to the centres of their cells; no grain leaves all as it is."""
    if grain is None:
        return state
    places, cell = cells_of(state.places, float(grain))
    side = replace(state.trajectories, location=cell[state.trajectories.location])
    return replace(state, trajectories=side, places=places)


def check_grains(before: WorkingSet, after: WorkingSet, grain: Decimal | None) -> None:
    """Refuse unless every sample lies at the centre of the cell of a common grid that it was in.

    Raises:
        VerificationFailed: a place that is no centre, or half a cell away from where the sample was.
    """
    if grain is None:
        return
    side = float(grain)
    old, new = before.trajectories, after.trajectories
    if len(old.location) != len(new.location) or not np.array_equal(old.at, new.at):
        raise VerificationFailed("samples were lost or moved in time with their places")
    for was, there in ((before.places.x, after.places.x), (before.places.y, after.places.y)):
        shown = there[new.location]
        # double precision at the size of coordinates
        near = 1e-9 * np.maximum(np.abs(shown), 1.0)
        if (np.abs((shown / side - 0.5) - np.round(shown / side - 0.5)) * side > near).any():
            raise VerificationFailed("a place is not the centre of a cell")
        if (np.abs(was[old.location] - shown) > side / 2 + near).any():
            raise VerificationFailed("a place is not in the cell that it was in")


# --- One clock for all: no device is known by the instants at which it sends ---


_TICKS_S = (1, 2, 5, 10, 15, 20, 30, 60, 120, 180, 300, 600, 900, 1200, 1800, 3600)
"""Divisors of an hour, so that ticks are whole seconds or minutes of any day."""


_HARDLY_SLOWER = 1.2
"""Whoever sends at most so much more seldom than the clock ticks misses few ticks: hardly a rhythm."""
_FEW_SLOW = 0.1
"""More than this part of the trajectories that are slower than the clock is worth a warning."""


def clock_for(median_gap_us: int) -> int:
    """The clock for data with this median time between samples: the next round one, hardly shorter.

    A device that sends every 61 s has nearly all its samples on a clock of 60 s, and half on one of 120.
    """
    longer = (tick for tick in _TICKS_S if tick * US_PER_S * _HARDLY_SLOWER >= median_gap_us)
    return next(longer, _TICKS_S[-1]) * US_PER_S


def nearest_tick(at: Ints, clock_us: int) -> Ints:
    """The tick nearest to each time; from halfway, the earlier one."""
    ticks: Ints = (at + (clock_us - 1) // 2) // clock_us * clock_us
    return ticks


class Hides(Protocol):
    """Options of a step that hides devices."""

    @property
    def clock(self) -> int | None: ...

    @property
    def grain(self) -> Decimal | None: ...


def hide_devices(state: WorkingSet, options: Hides) -> WorkingSet:
    """What comes into a step, without what devices are known by: places in grains, times on the clock."""
    return put_on_clock(put_in_grains(state, options.grain), options.clock)


def hide_samples(state: WorkingSet, options: Hides) -> WorkingSet:
    """The same without leaving any out: of single samples nobody sees at which ticks an object has one."""
    state = put_in_grains(state, options.grain)
    if not options.clock:
        return state
    side = state.trajectories
    at, start = (nearest_tick(times, options.clock) for times in (side.at, side.start))
    return replace(state, trajectories=replace(side, at=at, start=start))


def check_hidden_samples(before: WorkingSet, after: WorkingSet, options: Hides) -> None:
    """Refuse unless each sample is on the nearest tick and at the centre of its cell.

    Raises:
        VerificationFailed: a sample that was lost, has another place, or is not on the nearest tick.
    """
    coarse = put_in_grains(before, options.grain)
    check_grains(before, coarse, options.grain)
    old, new = coarse.trajectories, after.trajectories
    columns = ((old.offsets, new.offsets), (old.location, new.location))
    if not all(np.array_equal(was, there) for was, there in columns):
        raise VerificationFailed("a sample was lost, or has another place")
    clock = options.clock or 1
    if (new.at % clock != 0).any() or (2 * np.abs(new.at - old.at) > clock).any():
        raise VerificationFailed("a time is not on the nearest tick of the clock")


def check_hidden(before: WorkingSet, after: WorkingSet, options: Hides) -> None:
    """Refuse unless `after` is what comes in, with devices hidden; raises VerificationFailed."""
    coarse = put_in_grains(before, options.grain)
    check_grains(before, coarse, options.grain)
    check_clock(coarse, after, options.clock)


def put_on_clock(state: WorkingSet, clock_us: int | None) -> WorkingSet:
    """Times to the nearest tick, one sample of a trajectory for each; no clock leaves all as it is."""
    if not clock_us:
        return state
    side = state.trajectories
    ticks = nearest_tick(side.at, clock_us)
    kept = _nearest_to_tick(side, ticks)
    moved = replace(side, at=ticks, start=nearest_tick(side.start, clock_us)).where(kept)
    owner = None if state.owner is None else state.owner[kept]
    groups = state.groups
    if groups is not None and not kept.all():
        groups = groups.moved(np.where(kept, np.cumsum(kept) - 1, -1))
    return replace(state, trajectories=moved, owner=owner, groups=groups)


def _nearest_to_tick(side: Trajectories, ticks: Ints) -> Flags:
    """Whether each sample is the nearest of its trajectory to its tick; of equals, the first."""
    kept = np.zeros(side.samples, np.bool_)
    if not side.samples:
        return kept
    begins = new_rows(ticks)
    begins[side.offsets[:-1][side.lengths > 0]] = True
    first = np.flatnonzero(begins)
    off = np.abs(side.at - ticks)
    run = np.cumsum(begins) - 1
    nearest = np.flatnonzero(off == np.minimum.reduceat(off, first)[run])
    _, chosen = np.unique(run[nearest], return_index=True)
    kept[nearest[chosen]] = True
    return kept


def clock_counts(before: WorkingSet, clocked: WorkingSet, clock_us: int | None) -> Counts:
    """For the curator: the clock, what it left out, and who sends more seldom than it ticks."""
    if clock_us is None:
        return {}
    return {
        "clock_s": clock_us / US_PER_S,
        "left_out_by_clock": before.samples - clocked.samples,
        "slower_than_clock": rarer_than_clock(before.trajectories, clock_us) if clock_us else 0,
        "clocked": int((before.trajectories.lengths > 0).sum()),
    }


def clock_in_words(counts: Counts) -> str:
    if "clock_s" not in counts:
        return ""
    if not counts["clock_s"]:
        return "; times are as they were"
    return (
        f"; times are on a clock of {counts['clock_s']:g} s, which left out "
        f"{int(counts['left_out_by_clock']):,} samples"
    )


def clock_warnings(counts: Counts) -> list[str]:
    """Where the clock does not hide when devices send."""
    if "clock_s" not in counts:
        return []
    if not counts["clock_s"]:
        return [
            "With --clock 0s times are published as they were: devices that send at a second, or at a "
            "fraction of a second, of their own are known by it, and so are all their samples."
        ]
    slow, of = int(counts["slower_than_clock"]), int(counts["clocked"])
    if slow <= _FEW_SLOW * of:
        return []
    return [
        f"{slow:,} of {of:,} trajectories have samples more seldom than the clock ticks "
        f"({counts['clock_s']:g} s): at which ticks they have some may tell them apart. A longer --clock "
        "hides that, and leaves out more samples."
    ]


def rarer_than_clock(side: Trajectories, clock_us: int) -> int:
    """Trajectories whose median interval is much longer than the clock's: their own rhythm still shows."""
    owner = side.owner
    same = owner[1:] == owner[:-1]
    gap, whose = np.diff(side.at)[same], owner[1:][same]
    order = np.lexsort((gap, whose))
    count = np.bincount(whose, minlength=len(side))
    some = np.flatnonzero(count)
    middle = (np.cumsum(count) - count)[some] + (count[some] - 1) // 2
    return int((gap[order][middle] > _HARDLY_SLOWER * clock_us).sum())


def check_clock(before: WorkingSet, after: WorkingSet, clock_us: int | None) -> None:
    """Refuse unless every time is a tick, with the sample of the input that is nearest to it.

    Raises:
        VerificationFailed: a time off the clock, two samples of a trajectory on one tick, a tick without
            its sample, a sample that is not the nearest, or that is not in the input.
    """
    if not clock_us:
        return
    old, new = before.trajectories, after.trajectories
    if (new.at % clock_us != 0).any():
        raise VerificationFailed("a time is not on the clock")
    same = np.diff(new.owner) == 0
    if (np.diff(new.at)[same] <= 0).any():
        raise VerificationFailed("two samples of a trajectory are on one tick of the clock")
    # by distance from the tick, instead of run by run: first of each (trajectory, tick)
    back = old.at % clock_us
    late = 2 * back > clock_us
    tick = old.at - back + np.where(late, clock_us, 0)
    off = np.where(late, clock_us - back, back)
    owner = owners(old.offsets)
    order = np.lexsort((np.arange(old.samples), off, tick, owner))
    rows = order[new_rows(tick[order], owner[order])]
    if not (np.array_equal(owner[rows], new.owner) and np.array_equal(tick[rows], new.at)):
        raise VerificationFailed("a tick has no sample, or not the one nearest to it")
    check_samples(before, after, rows)


def check_samples(before: WorkingSet, after: WorkingSet, rows: Ints) -> None:
    """Refuse unless each sample is one of the input: of its place and object, with what it carries along.

    rows: the sample of the input that each is.

    Raises:
        VerificationFailed: a sample that has another place, object or other values, or lost them.
    """
    old, new = before.trajectories, after.trajectories
    for column, was, there in (
        ("place", old.location[rows], new.location),
        ("object", before.owners()[rows], after.owners()),
        ("value that it carries along", old.kept_of(rows), new.kept),
    ):
        if not np.array_equal(was, there):  # type: ignore[arg-type]
            raise VerificationFailed(f"a sample has another {column} than it had")
