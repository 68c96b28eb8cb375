"""The rules of the edits a second time: loops over lists, exact rational distances.

Edits are dictionaries from (trajectory, location) to a list of (position, loss in mm), positions
being those of the mechanism's input.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import pairwise
from math import floor, isqrt

from small_worlds import SmallWorld, as_lists

from freqdp_db.columns.edits import EditRuns, PfTargets, TfTargets

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


def segments(
    world: SmallWorld, samples: list[tuple[int, int, int]], place: int
) -> list[tuple[int, int, bool]]:
    """(position, loss, whether it has a free time step); one sample is a segment of length 0."""
    if len(samples) == 1:
        i, here, _ = samples[0]
        return [(i, loss_mm(world, place, here, here), True)]
    step = world.clock.step_us
    return [
        (i, loss_mm(world, place, a, b), has_free_step(start, end, step))
        for (i, a, start), (_, b, end) in pairwise(samples)
    ]


def has_free_step(start: int, end: int, step: int) -> bool:
    """Whether a multiple of the step lies strictly between."""
    return any(t % step == 0 for t in range(start + 1, min(end, start + step + 1)))


def insert_globally(world: SmallWorld, thinned: Thinned, targets: TfTargets) -> Edits:
    result: Edits = {}
    for place, tf, target in zip(
        targets.location.tolist(), targets.tf.tolist(), targets.target.tolist(), strict=True
    ):
        found = []
        for t, samples in enumerate(thinned):
            if samples and all(p != place for _, p, _ in samples):
                position, loss, _ = min(segments(world, samples, place), key=lambda s: (s[1], s[0]))
                found.append((loss, int(world.rank[t]), t, position))
        empty = sorted((t for t, s in enumerate(thinned) if not s), key=lambda t: world.rank[t])
        nearest = [(t, position, loss) for loss, _, t, position in sorted(found)]
        nearest += [(t, -1, 0) for t in empty]
        for t, position, loss in nearest[: max(target - tf, 0)]:
            result[t, place] = [(position, loss)]
    return dict(sorted(result.items()))


def insert_locally(
    world: SmallWorld, thinned: Thinned, targets: PfTargets, spread_mm: int | None
) -> Edits:
    """Rounds over the usable segments, nearest first; spread None is the paper's rule."""
    result: Edits = {}
    for t, place, pf, target in zip(
        targets.trajectory.tolist(), targets.location.tolist(),
        targets.pf.tolist(), targets.target.tolist(), strict=True,
    ):  # fmt: skip
        wanted = target - pf
        if wanted <= 0:
            continue
        if not thinned[t]:
            result[t, place] = [(-1, 0)] * wanted
            continue
        found = segments(world, thinned[t], place)
        if spread_mm is None:
            order = sorted(found, key=lambda s: (not s[2], s[1], s[0]))
        else:
            reach = max(spread_mm, min(loss for _, loss, _ in found))
            near = [s for s in found if s[1] <= reach]
            usable = [s for s in near if s[2]] or near
            order = sorted(usable, key=lambda s: (s[1], s[0]))
        taken = Counter(order[i % len(order)] for i in range(wanted))
        result[t, place] = [
            (position, loss) for (position, loss, _), n in sorted(taken.items()) for _ in range(n)
        ]
    return dict(sorted(result.items()))
