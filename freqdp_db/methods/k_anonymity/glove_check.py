"""What `glove` promises, counted in its input: no kernel of the method takes part.

Every released trajectory stands for at least k objects: each sample that they had in what was made
alike lies in the area of its time, or its trajectory has no area at that time because it was left out.
Not that every area holds a sample of each of them: intervals that overlapped were cut apart, and one
of the parts may hold samples of some of them only.
"""

from __future__ import annotations

import numpy as np

from freqdp_db.columns.arrays import Flags, Ints
from freqdp_db.errors import VerificationFailed
from freqdp_db.methods.contract import State
from freqdp_db.methods.places_and_times import Meet


def groups_of(rows: int, first: Ints, second: Ints) -> Ints:
    """The group of each row, named by its last merge; what was never merged is alone."""
    made = rows + np.arange(len(first))
    if not ((first < made) & (second < made) & (first >= 0) & (second >= 0)).all():
        raise VerificationFailed("the log merges rows before they are there")
    into = np.arange(rows + len(first))
    both = np.concatenate([first, second])
    if len(np.unique(both)) != len(both):
        raise VerificationFailed("the log merges a row twice")
    into[first], into[second] = made, made
    # each leads to a later one: follow until nothing changes
    while True:
        further = into[into]
        if np.array_equal(further, into):
            return into[:rows]
        into = further


def check_groups(
    before: State,
    runs: tuple[Ints, Ints],
    merges: tuple[Ints, Ints],
    keys: Ints,
    after: State,
    k: int,
    widest: Meet | None,
) -> dict[str, int]:
    """`runs`: the first and last sample of what was made alike; `keys`: the id that each had.

    Raises:
        VerificationFailed: a trajectory of too few objects, an area over the widest, a sample that
            is not in the area of its time, or one that has none though nothing was left out.
    """
    first, last = runs
    old, new, areas = before.trajectories, after.trajectories, after.areas
    if areas is None or after.members is None:
        raise VerificationFailed("the result has no areas")
    _require_runs(before, first, last, len(keys))
    group = groups_of(len(first), *merges)
    named, index = np.unique(group, return_inverse=True)
    objects = before.owners()[first]
    pair = np.unique(index.astype(np.int64) << 32 | objects)
    sizes = np.bincount(pair >> 32, minlength=len(named))
    enough = sizes >= k
    smallest = np.full(len(named), np.iinfo(np.int64).max)
    np.minimum.at(smallest, index, keys)
    if not np.array_equal(np.sort(smallest[enough]), after.key):
        raise VerificationFailed("the released trajectories are not the groups of at least k")
    place = np.argsort(smallest[enough])
    if not np.array_equal(sizes[enough][place], after.members):
        raise VerificationFailed("a group has another number of objects than is recorded")
    if len(after.members) and int(after.members.min()) < k:
        raise VerificationFailed("a group has fewer objects than k")
    number = np.full(len(named), -1)
    number[np.flatnonzero(enough)[place]] = np.arange(int(enough.sum()))
    _require_disjoint(after)
    if widest is not None:
        wide = np.maximum(areas.x_max - areas.x_min, areas.y_max - areas.y_min)
        if (wide > float(widest.metres)).any() or (areas.until - new.at > widest.us).any():
            raise VerificationFailed("an area is wider or longer than the widest")
    # each sample of what was made alike, and whose trajectory it is now
    lengths = last - first + 1
    rows = np.repeat(np.arange(len(first)), lengths)
    begins = np.cumsum(lengths) - lengths
    samples = np.arange(len(rows)) - begins[rows] + first[rows]
    of = number[index[rows]]
    samples, of = samples[of >= 0], of[of >= 0]
    there, inside = _inside(before, samples, of, after)
    strays = int((there & ~inside).sum())
    if strays:
        raise VerificationFailed(f"{strays:,} samples lie outside the area of their time")
    missing = int((~inside).sum())
    if missing and widest is None:
        raise VerificationFailed(f"{missing:,} samples lie in no area of their group")
    return {
        "groups": len(after.members),
        "samples_inside": int(inside.sum()),
        "samples_left_out": old.samples - int(inside.sum()),
    }


def _require_runs(before: State, first: Ints, last: Ints, keys: int) -> None:
    old = before.trajectories
    known = len(first) == len(last) == keys
    if not known or not ((first >= 0) & (last >= first) & (last < old.samples)).all():
        raise VerificationFailed("the log names samples that do not exist")
    if (old.owner[first] != old.owner[last]).any():
        raise VerificationFailed("what was made alike has samples of two trajectories")
    order = np.argsort(first)
    if (first[order][1:] <= last[order][:-1]).any():
        raise VerificationFailed("a sample was made alike twice")


def _require_disjoint(after: State) -> None:
    new, areas = after.trajectories, after.areas
    assert areas is not None
    if (areas.until <= new.at).any():
        raise VerificationFailed("an interval ends before it begins")
    same = new.owner[1:] == new.owner[:-1]
    if (same & (new.at[1:] < areas.until[:-1])).any():
        raise VerificationFailed("two intervals of a trajectory overlap")
    if (areas.x_max <= areas.x_min).any() or (areas.y_max <= areas.y_min).any():
        raise VerificationFailed("an area is empty")


def _inside(before: State, samples: Ints, of: Ints, after: State) -> tuple[Flags, Flags]:
    """Whether each sample's trajectory has an area at the sample's time, and whether it lies in it."""
    old, new, areas = before.trajectories, after.trajectories, after.areas
    assert areas is not None
    if not new.samples or not len(samples):
        nowhere = np.zeros(len(samples), np.bool_)
        return nowhere, nowhere
    at = old.at[samples]
    origin = min(int(at.min()), int(new.at.min()))
    span = max(int(at.max()), int(new.at.max())) - origin + 1
    boxes = new.owner.astype(np.int64) * span + (new.at - origin)
    box = np.searchsorted(boxes, of * span + (at - origin), side="right") - 1
    there: Flags = (box >= 0) & (new.owner[box] == of) & (at < areas.until[box])
    x, y = (c[old.location[samples]] for c in (before.places.x, before.places.y))
    inside = there & (areas.x_min[box] <= x) & (x < areas.x_max[box])
    inside &= (areas.y_min[box] <= y) & (y < areas.y_max[box])
    return there, inside
