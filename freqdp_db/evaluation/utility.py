"""What analysts lose. From the paper: points (INF), diameters (DE), trips (TE) and frequent patterns (FFP);
besides plausibility, range queries, hotspots, density, flows, speeds and moves between cells.

For FFP, trajectories become sequences of cells on a 6 x 6 grid: repeats dropped, jumps filled with the
cells along the straight way from centre to centre (through a corner: x first). A pattern is 2 to 8
consecutive cells.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import ConvexHull, QhullError
from scipy.spatial.distance import pdist
from scipy.special import rel_entr
from scipy.stats import entropy, kendalltau

from freqdp_db.evaluation.pair import CellBox, Pair, hours_of_day
from freqdp_db.methods.frequency.counts import count_frequencies
from freqdp_db.methods.trips import TripRule, find_trips, samples_of
from freqdp_db.model.arrays import Ids, Ints, Metres, offsets_from, owners, within
from freqdp_db.model.trajectories import Locations, Trajectories

# Dataset and release cut into trips alike, so that weeks, pieces and synthetic trips compare.


def side_by_side(pair: Pair, released_places: Locations) -> Pair:
    """The same pair over one list of places, where the release has places of its own."""
    if released_places is pair.locations:
        return pair
    both = Locations(
        np.concatenate([pair.locations.x, released_places.x]),
        np.concatenate([pair.locations.y, released_places.y]),
    )
    moved = pair.released.location + np.int32(len(pair.locations))
    return replace(pair, released=replace(pair.released, location=moved), locations=both)


def in_trips(pair: Pair) -> Pair:
    """Both sides as trips of at least two samples, each a trajectory of its own."""
    original = cut_into_trips(pair.original, pair.locations)
    if pair.only_ends:
        released = pair.released.take(np.flatnonzero(pair.released.lengths > 1))
    else:
        released = cut_into_trips(pair.released, pair.locations)
    return replace(pair, original=original, released=released)


def cut_into_trips(side: Trajectories, places: Locations) -> Trajectories:
    """Trips of at least two samples."""
    trips = find_trips(side, places, TripRule())
    moves = trips.last > trips.first
    offsets, rows = samples_of(trips.first[moves], trips.last[moves])
    return Trajectories(offsets, side.location[rows], side.at[rows], side.at[trips.first[moves]])


def inside(side: Trajectories) -> Ints:
    """Samples that another one of the same trajectory follows."""
    return np.flatnonzero(~side.ends)


def step_lengths(side: Trajectories, places: Locations, step: Ints) -> Metres:
    """Metres from each of these samples to the next."""
    a, b = side.location[step], side.location[step + 1]
    return np.hypot(places.x[b] - places.x[a], places.y[b] - places.y[a])


# How far apart two distributions are, and how much one tells about the other. Natural logarithms.


_EDGE_PERCENT = 0.1
_MI_SIDE = 32
_BINS = 20


def jensen_shannon(a: NDArray[Any], b: NDArray[Any]) -> float:
    """Divergence of two histograms of counts: 0 if alike, ln 2 if disjoint. An empty one is unlike
    all but another empty one."""
    if not a.sum() or not b.sum():
        return 0.0 if a.sum() == b.sum() else float(np.log(2.0))
    p, q = a / a.sum(), b / b.sum()
    middle = (p + q) / 2
    return max(float(rel_entr(p, middle).sum() + rel_entr(q, middle).sum()) / 2, 0.0)


def binned_divergence(before: Metres, after: Metres, top: float) -> float:
    """Of two columns of numbers, over 20 equal bins from 0 to `top`; the last one has no end."""
    width = top / _BINS or 1.0

    def histogram(values: Metres) -> Ints:
        return np.bincount(np.minimum(values // width, _BINS - 1).astype(np.int64), minlength=_BINS)

    return jensen_shannon(histogram(before), histogram(after))


def same_order(before: NDArray[Any], after: NDArray[Any]) -> float:
    """Kendall's rank correlation of two columns of counts."""
    if np.ptp(before) == 0 or np.ptp(after) == 0:  # no order to keep
        return float(np.array_equal(before, after))
    return float(kendalltau(before, after).statistic)


def same_members(before: Ints, after: Ints) -> float:
    """F1 of two lists without repeats; both empty are the same."""
    size = len(before) + len(after)
    return 2 * len(np.intersect1d(before, after)) / size if size else 1.0


def mutual_information(pair: Pair) -> dict[str, float]:
    """MI of the cells (32 x 32) of the same object at the same instants in D and in D*.

    D*'s cell is that of the last released sample at or before each of D's times; instants before
    the first one are left out. `mi` is divided by sqrt(H(X) H(Y)), `mi.nats` is not.
    """
    cells = CellBox.of(pair, _EDGE_PERCENT).cells(pair.locations, _MI_SIDE).astype(np.int64)
    last = last_at_or_before(pair)
    seen = last >= 0
    x = cells[pair.original.location[seen]]
    y = cells[pair.released.location[last[seen]]]
    size = _MI_SIDE * _MI_SIDE
    if not len(x):
        return {"mi": 0.0, "mi.nats": 0.0}
    joint = np.bincount(x * size + y)
    of_x, of_y = (float(entropy(np.bincount(side))) for side in (x, y))
    nats = max(of_x + of_y - float(entropy(joint)), 0.0)
    scale = float(np.sqrt(of_x * of_y))
    return {"mi": nats / scale if scale > 0 else 0.0, "mi.nats": nats}


def last_at_or_before(pair: Pair) -> Ints:
    """For each sample of D, the same trajectory's last sample of D* not after it; -1 if there is none.

    Both sides merged by (trajectory, time), released samples first among equals.
    """
    released, original = pair.released, pair.original
    owner = np.concatenate([released.owner, original.owner])
    at = np.concatenate([released.at, original.at])
    is_original = np.zeros(len(at), np.bool_)
    is_original[released.samples :] = True
    order = np.lexsort((is_original, at, owner))
    # the running maximum of positions in D* is the last one met, if it is of the same trajectory
    met = np.where(is_original[order], -1, order)
    met = np.maximum.accumulate(met) if len(met) else met
    same = (met >= 0) & (owner[met] == owner[order])
    result = np.full(original.samples, -1, np.int64)
    mine = is_original[order]
    result[order[mine] - released.samples] = np.where(same, met, -1)[mine]
    return result


SIDE = 6
LONGEST = 8
MOST_FREQUENT = 100
_INNER_EDGE_PERCENT = 1.0
_CELLS = SIDE * SIDE


def cell_sequences(
    side: Trajectories, column: Ids, row: Ids, cells_along: int = SIDE
) -> tuple[Ints, Ids]:
    """The cells that each trajectory passes, one after the other, with offsets by trajectory.

    column, row: of each place, in a grid of so many cells along each side.
    """
    x, y, filled = column[side.location], row[side.location], side.lengths > 0
    goes_on = ~side.ends[:-1]
    step = np.flatnonzero(goes_on & ((x[1:] != x[:-1]) | (y[1:] != y[:-1])))
    to_x, to_y = x[step + 1].astype(np.int64) - x[step], y[step + 1].astype(np.int64) - y[step]
    wide, high = np.abs(to_x), np.abs(to_y)
    # On the straight way from centre to centre, border n of x comes at (2 n + 1) / (2 wide). Borders of
    # both kinds are put in order as whole numbers, by the common denominator 2 wide high; at a corner, x.
    across, up = offsets_from(wide), offsets_from(high)
    of_x, of_y = owners(across), owners(up)
    of = np.concatenate([of_x, of_y])
    when = np.concatenate(
        [(2 * within(across) + 1) * high[of_x], (2 * within(up) + 1) * wide[of_y]]
    )
    moved = np.concatenate([np.sign(to_x)[of_x], cells_along * np.sign(to_y)[of_y]])
    order = np.lexsort((np.arange(len(of)) >= len(of_x), when, of))
    borders = np.bincount(side.owner[step], wide + high, len(side)).astype(np.int64)
    offsets = offsets_from(borders + filled)
    change, begin = np.zeros(offsets[-1], np.int64), offsets[:-1][filled]
    later = np.ones(len(change), np.bool_)
    later[begin] = False
    change[later] = moved[order]
    passed = np.cumsum(change)
    first = side.offsets[:-1][filled]
    own = y[first] * np.int64(cells_along) + x[first] - passed[begin]
    return offsets, (passed + np.repeat(own, np.diff(offsets)[filled])).astype(np.int32)


def most_frequent(offsets: Ints, cells: Ids, *, by_occurrence: bool) -> Ints:
    """Codes of the most frequent patterns; ties go to shorter ones and lower cell numbers."""
    codes, support = [], []
    owner = owners(offsets)
    code = cells.astype(np.int64)
    for length in range(2, LONGEST + 1):
        # one more cell at the end of every pattern that does not run into the next trajectory
        whole = owner[: -(length - 1)] == owner[length - 1 :]
        code = code[: len(whole)] * _CELLS + cells[length - 1 :]
        if not whole.any():
            continue
        known, which = np.unique(code[whole], return_inverse=True)
        if not by_occurrence:
            carriers = np.unique(which.astype(np.int64) * len(offsets) + owner[: len(whole)][whole])
            which = carriers // len(offsets)
        codes.append(known + length * _CELLS**LONGEST)
        support.append(np.bincount(which, minlength=len(known)))
    if not codes:
        return np.zeros(0, np.int64)
    every, count = np.concatenate(codes), np.concatenate(support)
    return every[np.lexsort((every, -count))[:MOST_FREQUENT]]


def frequent_patterns(pair: Pair, box: CellBox | None = None) -> dict[str, float]:
    """F1 of the 100 most frequent patterns of D and D*: by trajectories, and by occurrences.

    box: what the cells cover; None: most of D.
    """
    box = box or CellBox.of(pair, _INNER_EDGE_PERCENT)
    column, row = box.columns_and_rows(pair.locations, SIDE)
    before = cell_sequences(pair.original, column, row)
    after = cell_sequences(pair.released, column, row)
    found = {}
    for name, by_occurrence in (("ffp", False), ("ffp.occurrence", True)):
        old = most_frequent(*before, by_occurrence=by_occurrence)
        new = most_frequent(*after, by_occurrence=by_occurrence)
        found[name] = same_members(old, new)
    return found


_TRIP_GAP_US = 30 * 60 * 1_000_000
_TRIP_SIDE = 6
_HOTSPOT_SIDE = 15
_QUERIES = 500
_QUERY_SIDES = (1 / 64, 1 / 8)
_QUERY_FLOOR = 0.01
_FAST_M_PER_US = 120_000 / 3_600 / 1e6
_FEW_POINTS = 64
"""Of more, the widest pair is looked for on their hull."""


def information_loss(pair: Pair) -> dict[str, float]:
    """INF: mean share of D's points that are gone. `inf.sym` counts what was put in as well."""
    places = len(pair.locations)
    before, after = (count_frequencies(s, places) for s in (pair.original, pair.released))
    here, there = (
        owners(f.offsets).astype(np.int64) * places + f.location for f in (before, after)
    )
    common, old, new = np.intersect1d(here, there, assume_unique=True, return_indices=True)
    kept = np.minimum(before.pf[old], after.pf[new])
    shared = np.bincount(common // max(places, 1), kept, len(pair))
    filled = pair.original.lengths > 0
    if not filled.any():
        return {"inf": 0.0, "inf.sym": 0.0}
    lengths, released = pair.original.lengths[filled], pair.released.lengths[filled]
    return {
        "inf": float((1 - shared[filled] / lengths).mean()),
        "inf.sym": float((1 - shared[filled] / np.maximum(lengths, released)).mean()),
    }


def diameters(side: Trajectories, locations: Locations) -> Metres:
    """Largest distance of two samples, of every trajectory that is not empty."""
    visited = count_frequencies(side, len(locations))
    points = np.column_stack([locations.x, locations.y])[visited.location]
    parts = np.split(points, visited.offsets[1:-1])
    return np.array([_widest(part) for part in parts if len(part)])


def _widest(points: Metres) -> float:
    if len(points) > _FEW_POINTS:
        with suppress(QhullError):  # all on one line
            points = points[ConvexHull(points).vertices]
    return float(pdist(points).max(initial=0.0))


def diameter_error(pair: Pair) -> dict[str, float]:
    """DE: divergence of the distributions of diameters, 20 buckets up to D's largest."""
    before = diameters(pair.original, pair.locations)
    after = diameters(pair.released, pair.locations)
    return {"de": binned_divergence(before, after, float(before.max(initial=0.0)))}


def trip_error(
    pair: Pair, rng: np.random.Generator, box: CellBox | None = None
) -> dict[str, float]:
    """TE: divergence of (start cell, end cell), by trip and by trajectory.

    The same number for a resample of D's own trajectories stands beside each: what chance does.
    box: what the cells cover; None: most of D.
    """
    box = box or CellBox.of(pair, _INNER_EDGE_PERCENT)
    cells = box.cells(pair.locations, _TRIP_SIDE).astype(np.int64)
    weight = np.bincount(rng.integers(0, max(len(pair), 1), len(pair)), minlength=len(pair))
    found = {}
    for name, gap in (("te.trip", _TRIP_GAP_US), ("te.trajectory", None)):
        before, owner = _ends(pair.original, cells, gap)
        after, _ = _ends(pair.released, cells, gap)
        size = (_TRIP_SIDE * _TRIP_SIDE) ** 2
        original = np.bincount(before, minlength=size)
        found[name] = jensen_shannon(original, np.bincount(after, minlength=size))
        again = np.bincount(before, weights=weight[owner], minlength=size).astype(np.int64)
        found[f"{name}.chance"] = jensen_shannon(original, again)
    return found


def _ends(side: Trajectories, cells: Ints, gap_us: int | None) -> tuple[Ints, Ids]:
    """Start and end cell of each trip as one number, and whose trip it is."""
    owner = side.owner
    begins = np.ones(side.samples, np.bool_)
    begins[1:] = owner[1:] != owner[:-1]
    if gap_us is not None:
        begins[1:] |= np.diff(side.at) > gap_us
    ends = np.ones(side.samples, np.bool_)
    ends[:-1] = begins[1:]
    first, last = cells[side.location[begins]], cells[side.location[ends]]
    return first * (_TRIP_SIDE * _TRIP_SIDE) + last, owner[begins]


def plausibility(pair: Pair, places: Locations | None = None) -> dict[str, float]:
    """Share of segments faster than 120 km/h and total length, in D* and in D.

    places: those of D*, if it has its own. The nearest ones of D would add jumps to what was made up,
    and tell of D where only D* may be counted.
    """
    fast, length = _movement(pair.released, pair.locations if places is None else places)
    fast_before, length_before = _movement(pair.original, pair.locations)
    return {
        "plausibility.fast": fast,
        "plausibility.fast.original": fast_before,
        "plausibility.length_km": length / 1_000,
        "plausibility.length_km.original": length_before / 1_000,
        "plausibility.length_ratio": length / length_before if length_before > 0 else 1.0,
    }


def _movement(side: Trajectories, locations: Locations) -> tuple[float, float]:
    step = inside(side)
    metres = step_lengths(side, locations, step)
    # no time at all is too little for any distance
    fast = metres > np.diff(side.at)[step] * _FAST_M_PER_US
    return (float(fast.mean()) if len(fast) else 0.0), float(metres.sum())


def query_error(pair: Pair, rng: np.random.Generator) -> dict[str, float]:
    """Median (and mean) relative error of 500 range queries that count distinct trajectories.

    Squares around random samples of D, sides 1/64 to 1/8 of the smaller side of the box of D's 1 to
    99 percentiles; errors are divided by at least 1 % of the trajectories. Where released trajectories
    are nobody's, both sides are trips, and their shares are compared.
    """
    if not pair.original.samples:
        return {"query_error": 0.0, "query_error.mean": 0.0}
    squares = query_squares(pair, rng)
    counts = np.zeros((2, _QUERIES), np.int64)
    for of_side, side in zip(counts, (pair.original, pair.released), strict=True):
        visited = count_frequencies(side, len(pair.locations))
        begins = visited.offsets[:-1][side.lengths > 0]
        for query, (west, south, east, north) in enumerate(squares):
            x, y = pair.locations.x, pair.locations.y
            inside = (west <= x) & (x <= east) & (south <= y) & (y <= north)
            of_side[query] = np.logical_or.reduceat(inside[visited.location], begins).sum()
    floor = _QUERY_FLOOR * len(pair)
    alike = len(pair.original) / max(len(pair.released), 1) if pair.made_up else 1.0
    error = np.abs(counts[1] * alike - counts[0]) / np.maximum(counts[0], floor)
    return {"query_error": float(np.median(error)), "query_error.mean": float(error.mean())}


def query_squares(pair: Pair, rng: np.random.Generator) -> NDArray[np.float64]:
    """West, south, east and north of each square."""
    box = CellBox.of(pair, _INNER_EDGE_PERCENT)
    middle = pair.original.location[rng.integers(0, pair.original.samples, _QUERIES)]
    reach = min(box.east - box.west, box.north - box.south) * rng.uniform(*_QUERY_SIDES, _QUERIES)
    x, y = pair.locations.x[middle], pair.locations.y[middle]
    return np.column_stack([x - reach / 2, y - reach / 2, x + reach / 2, y + reach / 2])


def hotspot_correlation(pair: Pair) -> dict[str, float]:
    """Kendall's rank correlation of how many samples lie in each cell of a 15 x 15 grid."""
    cells = CellBox.of(pair, _EDGE_PERCENT).cells(pair.locations, _HOTSPOT_SIDE)
    size = _HOTSPOT_SIDE * _HOTSPOT_SIDE
    before = np.bincount(cells[pair.original.location], minlength=size)
    after = np.bincount(cells[pair.released.location], minlength=size)
    return {"hotspot": same_order(before, after)}


# Utility for every kind of release: density, flows, extents, speeds and moves between cells.
#
# Density is counted on samples, everything else on trips that both sides are cut into.


DENSITY_CELL_M = 500.0
MOVE_CELL_M = 1_000.0
BUSIEST = 100
_HOURS = 24
_FEW_CODES = 1 << 24
"""Up to so many are counted in a table of all; more are sorted."""
_LEAST_MOVES = 20
_KM_H = 3_600.0


def numbered_cells(places: Locations, side_m: float) -> tuple[Ints, Ints, Ints]:
    """Number of each place's cell, and column and row of each place: only cells with places."""
    column = np.floor(places.x / side_m).astype(np.int64)
    row = np.floor(places.y / side_m).astype(np.int64)
    south, north = (int(row.min()), int(row.max())) if len(row) else (0, 0)
    _, number = np.unique(column * (north - south + 1) + (row - south), return_inverse=True)
    return number.astype(np.int64), column, row


def counts_alike(
    a: Ints, b: Ints, weights: NDArray[Any] | None = None
) -> tuple[Ints, NDArray[Any]]:
    """How often each code occurs on both sides, over the codes of either. weights: of b."""
    most = max(int(a.max(initial=-1)), int(b.max(initial=-1))) + 1
    if most > _FEW_CODES:
        # number the codes that there are, in their order
        codes, number = np.unique(np.concatenate([a, b]), return_inverse=True)
        a, b, most = number[: len(a)], number[len(a) :], len(codes)
    before, after = np.bincount(a, minlength=most), np.bincount(b, weights, most)
    there = (before != 0) | (after != 0)
    return before[there], after[there]


def largest_errors(name: str, before: Ints, after: NDArray[Any]) -> dict[str, float]:
    """Mean relative error of the 100 largest counts of D, as counts and as shares of the whole."""
    top = np.argsort(-before, kind="stable")[:BUSIEST]
    top = top[before[top] > 0]
    if not len(top):
        return {f"{name}.counts": 0.0, f"{name}.shares": 0.0}
    scale = before.sum() / after.sum() if after.sum() else 0.0
    return {
        f"{name}.counts": float((np.abs(after[top] - before[top]) / before[top]).mean()),
        f"{name}.shares": float((np.abs(scale * after[top] - before[top]) / before[top]).mean()),
    }


def density_error(pair: Pair) -> dict[str, float]:
    """`density` by (cell of 500 m, hour of the day) and `density.map` by cell: divergences.

    Beside each the mean relative error of the 100 busiest, as counts and as shares.
    """
    cell, _, _ = numbered_cells(pair.locations, DENSITY_CELL_M)
    where = [cell[side.location] for side in (pair.original, pair.released)]
    when = [hours_of_day(side.at, pair.timezone) for side in (pair.original, pair.released)]
    found: dict[str, float] = {}
    for name, codes in (
        ("density", [c * _HOURS + h for c, h in zip(where, when, strict=True)]),
        ("density.map", where),
    ):
        before, after = counts_alike(*codes)
        found[name] = jensen_shannon(before, after)
        found |= largest_errors(f"{name}.busiest", before, after)
    return found


def speed_error(trips: Pair) -> dict[str, float]:
    """`speed`: median error, in km/h, of the mean speed by cell of 500 m with enough moves."""
    cell, _, _ = numbered_cells(trips.locations, DENSITY_CELL_M)
    size = int(cell.max(initial=-1)) + 1
    speeds, enough = [], np.ones(size, np.bool_)
    for side in (trips.original, trips.released):
        step = inside(side)
        step = step[side.at[step + 1] > side.at[step]]
        at = cell[side.location[step]]
        metres = np.bincount(at, step_lengths(side, trips.locations, step), minlength=size)
        time = np.bincount(at, (side.at[step + 1] - side.at[step]).astype(np.float64), size)
        enough &= np.bincount(at, minlength=size) >= _LEAST_MOVES
        speeds.append(metres / np.maximum(time, 1.0) * _KM_H * 1_000.0)
    if not enough.any():
        return {}
    return {"speed": float(np.median(np.abs(speeds[1] - speeds[0])[enough]))}


def transition_error(trips: Pair) -> dict[str, float]:
    """`transitions`: divergence of the moves between neighbouring cells of 1 km."""
    number, column, row = numbered_cells(trips.locations, MOVE_CELL_M)
    cells = int(number.max(initial=-1)) + 1

    def moves(side: Trajectories) -> Ints:
        step = inside(side)
        a, b = side.location[step], side.location[step + 1]
        wide, high = np.abs(column[b] - column[a]), np.abs(row[b] - row[a])
        beside = np.maximum(wide, high) == 1
        codes: Ints = number[a[beside]] * cells + number[b[beside]]
        return codes

    return {
        "transitions": jensen_shannon(*counts_alike(moves(trips.original), moves(trips.released)))
    }


_TAIL_PERCENT = 99.0


def flow_error(trips: Pair) -> dict[str, float]:
    """`flow` by (start cell, end cell) of 1 km, `flow.hour` with the hour of the start.

    The value is the mean relative error of the 100 largest of D as shares of all trips; beside it
    the same in counts, and `.f1`: how many of the 100 largest are the same.
    """
    cell, _, _ = numbered_cells(trips.locations, MOVE_CELL_M)
    cells = int(cell.max(initial=-1)) + 1
    codes, hours = [], []
    for side in (trips.original, trips.released):
        first, last = side.offsets[:-1], side.offsets[1:] - 1
        codes.append(cell[side.location[first]] * cells + cell[side.location[last]])
        hours.append(hours_of_day(side.at[first], trips.timezone))
    found: dict[str, float] = {}
    for name, both in (
        ("flow", codes),
        ("flow.hour", [c * _HOURS + h for c, h in zip(codes, hours, strict=True)]),
    ):
        before, after = counts_alike(*both)
        errors = largest_errors(name, before, after)
        found |= {
            name: errors[f"{name}.shares"],
            f"{name}.counts": errors[f"{name}.counts"],
            f"{name}.f1": same_largest(before, after),
        }
    return found


def same_largest(before: NDArray[Any], after: NDArray[Any]) -> float:
    """F1 of the 100 largest of both sides; ties go to the lower code."""
    tops = []
    for counts in (before, after):
        top = np.argsort(-counts, kind="stable")[:BUSIEST]
        tops.append(top[counts[top] > 0])
    return same_members(*tops)


def trip_lengths(side: Trajectories, places: Locations) -> Metres:
    """Metres along each trip."""
    step = inside(side)
    metres: Metres = np.bincount(
        side.owner[step], weights=step_lengths(side, places, step), minlength=len(side)
    ).astype(np.float64)
    return metres


def extent_errors(trips: Pair) -> dict[str, float]:
    """`length` and `duration`: divergences over 20 bins up to the 99th percentile of D's trips."""
    found = {}
    for name, values in (
        ("length", [trip_lengths(s, trips.locations) for s in (trips.original, trips.released)]),
        ("duration", [_durations(s) for s in (trips.original, trips.released)]),
    ):
        # a bogus position must not stretch the bins
        top = float(np.percentile(values[0], _TAIL_PERCENT)) if len(values[0]) else 0.0
        found[name] = binned_divergence(values[0], values[1], top)
    return found


def _durations(side: Trajectories) -> Metres:
    lasting: Metres = (side.at[side.offsets[1:] - 1] - side.at[side.offsets[:-1]]) / 1e6
    return lasting


def usefulness(pair: Pair, released_places: Locations) -> dict[str, float]:
    """Every metric of this kind. `pair.released` counts its places in `released_places`."""
    both = side_by_side(pair, released_places)
    trips = in_trips(both)
    return {
        **density_error(both),
        **flow_error(trips),
        **extent_errors(trips),
        **speed_error(trips),
        **transition_error(trips),
    }
