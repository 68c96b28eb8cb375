"""The rules of the edits a second time: loops over lists, exact rational distances.

Edits are dictionaries from (trajectory, location) to a list of (position, loss in mm), positions
being those of the mechanism's input.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import floor, isqrt

from small_worlds import SmallWorld, as_lists

from freqdp_db.model.trajectories import EditRuns, PfTargets, TfTargets

Point = tuple[Fraction, Fraction]
Samples = list[tuple[int, int]]
Edits = dict[tuple[int, int], list[tuple[int, int]]]


def as_edits(runs: EditRuns) -> Edits:
    result: Edits = {}
    for run in range(len(runs)):
        part = slice(runs.offsets[run], runs.offsets[run + 1])
        key = (int(runs.trajectory[run]), int(runs.location[run]))
        assert key not in result
        result[key] = list(
            zip(runs.position[part].tolist(), runs.loss_mm[part].tolist(), strict=True)
        )
    assert list(result) == sorted(result)
    return result


def point(world: SmallWorld, place: int) -> Point:
    return Fraction(float(world.locations.x[place])), Fraction(float(world.locations.y[place]))


def projection(q: Point, a: Point, b: Point) -> Fraction:
    """Where on the segment q falls; 1/2 on one of length 0."""
    dx, dy = b[0] - a[0], b[1] - a[1]
    if dx == dy == 0:
        return Fraction(1, 2)
    t = ((q[0] - a[0]) * dx + (q[1] - a[1]) * dy) / (dx * dx + dy * dy)
    return min(Fraction(1), max(Fraction(0), t))


def distance_mm(q: Point, a: Point, b: Point) -> int:
    """Exactly floor(1000 d + 1/2)."""
    t = projection(q, a, b)
    ex, ey = q[0] - (a[0] + t * (b[0] - a[0])), q[1] - (a[1] + t * (b[1] - a[1]))
    return (isqrt(floor(4_000_000 * (ex * ex + ey * ey))) + 1) // 2


def loss_mm(world: SmallWorld, q: int, a: int, b: int) -> int:
    return distance_mm(point(world, q), point(world, a), point(world, b))


def deletion_losses(world: SmallWorld, samples: Samples, place: int) -> list[tuple[int, int]]:
    """(position, loss) of every occurrence of the place."""
    result = []
    for i, (here, _) in enumerate(samples):
        if here != place:
            continue
        before = next((p for p, _ in reversed(samples[:i]) if p != place), None)
        after = next((p for p, _ in samples[i:] if p != place), None)
        if before is None and after is None:
            result.append((i, 0))
        else:
            a = after if before is None else before
            b = before if after is None else after
            assert a is not None and b is not None
            result.append((i, loss_mm(world, place, a, b)))
    return result


def delete_locally(world: SmallWorld, targets: PfTargets) -> Edits:
    lists = as_lists(world.trajectories)
    result: Edits = {}
    for t, place, pf, target in zip(
        targets.trajectory.tolist(), targets.location.tolist(),
        targets.pf.tolist(), targets.target.tolist(), strict=True,
    ):  # fmt: skip
        if target < pf:
            losses = deletion_losses(world, lists[t], place)
            cheapest = sorted(losses, key=lambda e: (e[1], e[0]))[: pf - target]
            result[t, place] = sorted(cheapest)
    return result


def delete_globally(world: SmallWorld, targets: TfTargets) -> Edits:
    lists = as_lists(world.trajectories)
    result: Edits = {}
    for place, tf, target in zip(
        targets.location.tolist(), targets.tf.tolist(), targets.target.tolist(), strict=True
    ):
        having = [t for t, samples in enumerate(lists) if any(p == place for p, _ in samples)]
        losses = {t: deletion_losses(world, lists[t], place) for t in having}
        having.sort(key=lambda t: (sum(loss for _, loss in losses[t]), world.rank[t]))
        for t in having[: max(tf - target, 0)]:
            result[t, place] = losses[t]
    return result


Thinned = list[list[tuple[int, int, int]]]
"""(position in the input, location, time) of what the deletions left."""


def thin(world: SmallWorld, deletions: Edits) -> Thinned:
    gone = {(t, i) for (t, _), edits in deletions.items() for i, _ in edits}
    return [
        [(i, place, at) for i, (place, at) in enumerate(samples) if (t, i) not in gone]
        for t, samples in enumerate(as_lists(world.trajectories))
    ]


@dataclass(frozen=True)
class Segment:
    """A segment of a thinned trajectory, as one place sees it."""

    position: int
    loss: int
    free: int
    """Multiples of the time step strictly between its ends."""
    length: int
    """Microseconds that the drive by way of the place leaves."""


def segments(world: SmallWorld, samples: list[tuple[int, int, int]], place: int) -> list[Segment]:
    """One sample is a segment of length 0."""
    if len(samples) == 1:
        i, here, _ = samples[0]
        return [Segment(i, loss_mm(world, place, here, here), 0, 0)]
    step = world.clock.step_us
    return [
        Segment(
            i, loss_mm(world, place, a, b), free_steps(start, end, step),
            end - start - detour_us(world, a, place, b),
        )
        for (i, a, start), (_, b, end) in pairwise(samples)
    ]  # fmt: skip


def free_steps(start: int, end: int, step: int) -> int:
    """How many multiples of the step lie strictly between."""
    first = next(t for t in range(start + 1, start + step + 1) if t % step == 0)
    return len(range(first, end, step))


def detour_us(world: SmallWorld, a: int, place: int, b: int) -> int:
    """At 15 metres a second."""
    way = loss_mm(world, a, place, place) + loss_mm(world, place, b, b)
    return way * 1000 // 15


def usual_gap(world: SmallWorld, samples: list[tuple[int, int, int]]) -> int:
    gaps = sorted(b - a for (_, _, a), (_, _, b) in pairwise(samples) if b > a)
    return gaps[len(gaps) // 2] if gaps else world.clock.median_gap_us


def insert_globally(world: SmallWorld, thinned: Thinned, targets: TfTargets) -> Edits:
    result: Edits = {}
    for place, tf, target in zip(
        targets.location.tolist(), targets.tf.tolist(), targets.target.tolist(), strict=True
    ):
        found = []
        for t, samples in enumerate(thinned):
            if samples and all(p != place for _, p, _ in samples):
                nearest = min(segments(world, samples, place), key=lambda s: (s.loss, s.position))
                found.append((nearest.loss, int(world.rank[t]), t, nearest.position))
        empty = sorted((t for t, s in enumerate(thinned) if not s), key=lambda t: world.rank[t])
        carriers = [(t, position, loss) for loss, _, t, position in sorted(found)]
        carriers += [(t, -1, 0) for t in empty]
        for t, position, loss in carriers[: max(target - tf, 0)]:
            result[t, place] = [(position, loss)]
    return _with_room(world, thinned, dict(sorted(result.items())))


def _with_room(world: SmallWorld, thinned: Thinned, chosen: Edits) -> Edits:
    """Where the nearest segment is full: the nearest with a free step.

    At most 500 m farther where not even a usual gap has one.
    """
    taken: Counter[tuple[int, int]] = Counter()
    result: Edits = {}
    for (t, place), [(position, loss)] in chosen.items():
        found = segments(world, thinned[t], place) if len(thinned[t]) > 1 else []
        nearby = usual_gap(world, thinned[t]) < 2 * world.clock.step_us
        open_ = [
            s
            for s in found
            if taken[t, s.position] < s.free and (not nearby or s.loss <= loss + 500_000)
        ]
        if open_ and position not in {s.position for s in open_}:
            other = min(open_, key=lambda s: (s.loss, s.position))
            position, loss = other.position, other.loss
        taken[t, position] += 1
        result[t, place] = [(position, loss)]
    return result


def insert_locally(
    world: SmallWorld, thinned: Thinned, targets: PfTargets, spread_mm: int | None
) -> Edits:
    """One by one into the segment that comes next; spread None is the paper's rule."""
    result: Edits = {}
    taken: Counter[tuple[int, int]] = Counter()
    wanted = {
        (t, place): target - pf
        for t, place, pf, target in zip(
            targets.trajectory.tolist(), targets.location.tolist(),
            targets.pf.tolist(), targets.target.tolist(), strict=True,
        )
        if target > pf
    }  # fmt: skip
    for (t, place), count in sorted(wanted.items()):
        if not thinned[t]:
            result[t, place] = [(-1, 0)] * count
            continue
        found = segments(world, thinned[t], place)
        usual = usual_gap(world, thinned[t])
        there = {s: taken[t, s.position] for s in found}
        usable = (
            found
            if spread_mm is None
            else _near(found, there, spread_mm, count, usual < 2 * world.clock.step_us)
        )
        new: Counter[Segment] = Counter()
        for _ in range(count):
            best = min(usable, key=lambda s: _turn(s, there[s], new[s], spread_mm, usual))
            new[best] += 1
            there[best] += 1
        for segment, n in new.items():
            taken[t, segment.position] += n
        result[t, place] = sorted((s.position, s.loss) for s in new.elements())
    return result


def _near(
    found: list[Segment], there: dict[Segment, int], spread_mm: int, count: int, nearby: bool
) -> list[Segment]:
    """Within the spread; and beyond, nearby up to four times as far, until there are enough steps."""
    reach = max(spread_mm, min(s.loss for s in found))
    usable: list[Segment] = []
    for s in sorted(found, key=lambda s: (s.loss, s.position)):
        steps = sum(max(u.free - there[u], 0) for u in usable)
        if s.loss <= reach or (steps < count and (not nearby or s.loss <= 4 * reach)):
            usable.append(s)
    return usable


def _turn(
    s: Segment, there: int, new: int, spread_mm: int | None, usual: int
) -> tuple[bool, int, bool, int, int, int]:
    """Whose turn it is: first in rounds as long as there is room; then where it is least crowded."""
    room = s.free if spread_mm is None else min(s.free, s.length // usual - 1)
    if there < room:
        return False, new, False, 0, s.loss, s.position
    full = there >= s.free
    apart = s.length // (there + 2) if s.length > 0 else s.length * (there + 2)
    return True, 0, full, there if full else -apart, s.loss, s.position
