"""`glove`: groups of at least k objects that are released as one trajectory of areas.

A sample is a box: a cell of 100 m and a minute. A trajectory is a row of boxes. All bounds are whole
numbers of cells and minutes, so that costs are whole numbers, too, and rounding never decides which pair
is the cheapest. Released areas are therefore at least a cell wide and do not reveal positions within a
cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from freqdp_db.errors import BadInput, VerificationFailed
from freqdp_db.methods.contract import (
    CompletedStep,
    Counts,
    Method,
    Step,
    StepContext,
    StoredStep,
    WorkingSet,
)
from freqdp_db.methods.kinds import Choice, Duration, Meet, MeetingPlace, Whole
from freqdp_db.methods.parameters import parameter
from freqdp_db.methods.unlinking.options import CutOptions
from freqdp_db.model.arrays import Flags, Ids, Ints, new_rows, offsets_from, owners, within
from freqdp_db.model.trajectories import Areas, Locations, Trajectories
from freqdp_db.privacy.guarantee import Guarantee, ProtectedUnit
from freqdp_db.privacy.noise import RandomSource, released_ids

if TYPE_CHECKING:
    from freqdp_db.methods.k_anonymity.greedy import Group, Shaping


LARGEST_K = 100
CELL_M = 100.0
MINUTE_US = 60_000_000
SIDES = X_LOW, X_HIGH, Y_LOW, Y_HIGH, T_LOW, T_HIGH = range(6)
"""Rows of a table of boxes. The high bounds are exclusive."""
_LARGEST_SUM = 1 << 31
"""Costs are computed with 32 bits."""


@dataclass(frozen=True)
class Origin:
    """Cell and minute from which bounds are counted, to keep the numbers small."""

    x: int
    y: int
    minute: int

    def areas(self, bounds: Ids) -> tuple[Ints, Areas]:
        """Begins (microseconds), and areas with their ends."""
        begin, until = (
            (bounds[side].astype(np.int64) + self.minute) * MINUTE_US for side in (T_LOW, T_HIGH)
        )
        x_min, x_max = ((bounds[side] + float(self.x)) * CELL_M for side in (X_LOW, X_HIGH))
        y_min, y_max = ((bounds[side] + float(self.y)) * CELL_M for side in (Y_LOW, Y_HIGH))
        return begin, Areas(x_min, y_min, x_max, y_max, until)


@dataclass(frozen=True)
class Boxes:
    """Rows of distinct boxes, each in order of time."""

    offsets: Ints
    """Row r has the boxes offsets[r] to offsets[r + 1] - 1."""
    bounds: Ids
    """[side, box]."""
    origin: Origin

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def row(self, number: int) -> Ids:
        """The boxes of one row."""
        return self.bounds[:, self.offsets[number] : self.offsets[number + 1]]


def first_boxes(trajectories: Trajectories, places: Locations, largest: int) -> Boxes:
    """The cell and minute of every sample. largest: largest number of objects that a row may get."""
    x = np.floor(places.x / CELL_M).astype(np.int64)[trajectories.location]
    y = np.floor(places.y / CELL_M).astype(np.int64)[trajectories.location]
    minute = trajectories.at // MINUTE_US
    origin = Origin(*(int(c.min()) if len(c) else 0 for c in (x, y, minute)))
    x, y, minute = x - origin.x, y - origin.y, minute - origin.minute
    _require_room(x, y, minute, largest)
    owner = trajectories.owner
    order = np.lexsort((y, x, minute, owner))
    order = order[new_rows(x[order], y[order], minute[order], owner[order])]
    bounds = np.empty((len(SIDES), len(order)), np.int32)
    for side, column in zip((X_LOW, Y_LOW, T_LOW), (x, y, minute), strict=True):
        bounds[side], bounds[side + 1] = column[order], column[order] + 1
    lengths = np.bincount(owner[order], minlength=len(trajectories))
    return Boxes(offsets_from(lengths), bounds, origin)


def _require_room(x: Ints, y: Ints, minute: Ints, largest: int) -> None:
    """Refuse data in which the weighted growth of a box to another could exceed 32 bits; raises
    BadInput."""
    if not len(x):
        return
    # klt lets boxes grow beyond all samples, for which the factor 2 leaves room
    widest = max(2 * int(x.max() + y.max() + 4), int(minute.max()) + 2)
    if 4 * largest * widest >= _LARGEST_SUM:
        raise BadInput(
            f"the data reach too far in space or time for groups of {largest:,}",
            remedy="choose a smaller [[k]], or a dataset of fewer years",
        )


@dataclass(frozen=True)
class GloveOptions:
    k: int = parameter(Whole(2, LARGEST_K, "5"), "So many objects are made alike at least.", 5)
    widest: Meet | None = parameter(
        MeetingPlace("6km/2h"),
        "Leave out, for the whole group, what would be wider or longer than this: 6km/2h.",
    )
    pieces: int | None = parameter(
        Duration("30min"),
        "First cut trips into pieces of at most so long, and make pieces of the same time alike.",
    )
    leftovers: str = parameter(
        Choice(("join", "suppress")),
        "Whoever finds fewer than k others joins the nearest group, or is left out.",
        "join",
    )

    @property
    def cutting(self) -> CutOptions | None:
        """How trips are cut into pieces: as `cut` does, but with ends at any place. None: they are not
        cut."""
        if self.pieces is None:
            return None
        return CutOptions(
            trips=20 * MINUTE_US,
            pieces=self.pieces,
            quiet=5 * MINUTE_US,
            ends=1,
            silence="apart",
            samples=None,
            gap=30 * MINUTE_US,
            crowd=None,
            crowd_within=None,
            dates=None,
            clock=None,
            grain=None,
            beside=None,
            roads=None,
        )


def require_enough(k: int, objects: int) -> None:
    """Refuse a k above the number of objects; raises BadInput. A window without objects is accepted."""
    if objects and k > objects:
        raise BadInput(
            f"[[k]] {k} is more than the {objects:,} objects that there are",
            remedy=f"choose [[k]] of at most {objects:,}, or a dataset of more objects",
        )


@dataclass(frozen=True)
class GloveDraw:
    """Grouping is deterministic; only the ids of pieces are random."""

    key: Ints
    """A fresh id for every piece; empty if whole trajectories are grouped."""

    def __len__(self) -> int:
        return len(self.key)


@dataclass(frozen=True)
class GloveLog:
    """The runs of samples and their merges, so that a replay need not search."""

    first: Ints
    last: Ints
    """First and last sample of each run, in the step's input."""
    merged_first: Ints
    merged_second: Ints
    """The rows that each merge joined; runs are numbered first, then merges."""

    def __len__(self) -> int:
        return len(self.merged_first)


class GloveStep(Step[Any, GloveDraw, Any]):
    """`glove`, and the base of `klt`, which lets areas grow."""

    name = "glove"
    words = "objects that become one trajectory of areas"
    options: type[GloveOptions] = GloveOptions
    draws = GloveDraw
    logs: type[GloveLog] = GloveLog
    makes_areas = True
    checked: ClassVar[dict[str, str]] = {
        "groups": "trajectories stand for at least k objects each",
        "samples_inside": "samples lie in the areas of their trajectory",
        "samples_left_out": "samples were left out",
    }

    def shaping(self, world: StepContext, origin: Origin, options: Any) -> Shaping | None:
        """The function that changes merged rows; None: they stay as they are."""
        return None

    def log(self, world: StepContext, merges: GloveLog) -> GloveLog:
        """The log of the step, given that of the merges."""
        return merges

    def draw(
        self, world: StepContext, state: WorkingSet, options: Any, source: RandomSource
    ) -> GloveDraw:
        if options.pieces is None:
            return GloveDraw(np.zeros(0, np.int64))
        from freqdp_db.methods.k_anonymity.greedy import cut_rows

        return GloveDraw(released_ids(source, len(cut_rows(state, options)[0])))

    def carry_out(
        self, world: StepContext, state: WorkingSet, drawn: GloveDraw, options: Any
    ) -> tuple[GloveLog, WorkingSet]:
        from freqdp_db.methods.k_anonymity.greedy import cut_rows, group_all, make_rows, whole_rows

        runs = whole_rows(state) if options.pieces is None else cut_rows(state, options)
        rows = make_rows(state, *runs, options)
        shaping = self.shaping(world, rows.boxes.origin, options)
        merges = group_all(rows, options, shaping, world.report_progress)
        logged = self.log(world, GloveLog(*runs, merges.first, merges.second))
        return logged, self.replay(StoredStep(world, state, drawn, logged, options))

    def replay(self, done: StoredStep[Any, GloveDraw, Any]) -> WorkingSet:
        from freqdp_db.methods.k_anonymity.greedy import Merges, make_rows, replay_merges

        rows = make_rows(done.before, done.logged.first, done.logged.last, done.options)
        found = replay_merges(
            rows.boxes,
            rows.object,
            _keys(done.before, done.drawn, done.logged),
            Merges(done.logged.merged_first, done.logged.merged_second),
            self.shaping(done.world, rows.boxes.origin, done.options),
            done.world.report_progress,
        )
        large = [group for group in found if len(group.objects) >= done.options.k]
        objects = len(done.before.trajectories)
        return _state_of_groups(large, rows.boxes.origin, done.options.widest, objects)

    def check(self, done: CompletedStep[Any, GloveDraw, Any]) -> dict[str, int]:
        keys = _keys(done.before, done.drawn, done.logged)
        return _check_groups(done.before, done.logged, keys, done.after, done.options)

    def require_possible(self, options: Any, objects: int, samples: int) -> None:
        require_enough(options.k, objects)

    def counts(self, done: CompletedStep[Any, GloveDraw, Any]) -> Counts:
        """Number and size of groups, and size of their areas."""
        after = done.after
        assert after.members is not None and after.areas is not None
        areas = after.areas
        sides = (areas.x_max - areas.x_min + areas.y_max - areas.y_min) / 2
        minutes = (areas.until - after.trajectories.at) / MINUTE_US
        return {
            "made_alike": len(done.logged.first),
            "groups": len(after.members),
            "largest_group": int(after.members.max(initial=0)),
            "groups_left_out": int((after.trajectories.lengths == 0).sum()),
            "areas": after.samples,
            "side_median_m": float(np.median(sides)) if len(sides) else 0.0,
            "side_mean_m": float(np.mean(sides)) if len(sides) else 0.0,
            "minutes_median": float(np.median(minutes)) if len(minutes) else 0.0,
            "minutes_mean": float(np.mean(minutes)) if len(minutes) else 0.0,
        }

    def describe(self, drawn: int, counts: Counts) -> str:
        gone = int(counts.get("groups_left_out", 0))
        return (
            f"{int(counts['made_alike']):,} trajectories in {int(counts['groups']):,} groups of up "
            f"to {int(counts['largest_group']):,} objects; {int(counts['areas']):,} areas of "
            f"{counts['side_median_m']:,.0f} m and {counts['minutes_median']:,.0f} min in the median"
            + (f"; {gone:,} groups have none" if gone else "")
        )


def _keys(state: WorkingSet, drawn: GloveDraw, logged: GloveLog) -> Ints:
    """The id of each run. A group is released under the smallest id of its runs."""
    if len(drawn):
        return drawn.key
    return state.key[state.trajectories.owner[logged.first]]


# --- From groups to what is released: one trajectory of areas and intervals for each ---


SEVERAL = -1
"""Owner of a sample that belongs to several objects."""


def _too_wide(bounds: Ids, widest: Meet | None) -> Flags:
    """Which boxes exceed the widest area or the longest interval, and are left out."""
    if widest is None:
        return np.zeros(bounds.shape[1], np.bool_)
    x, y, t = (bounds[side + 1] - bounds[side].astype(np.int64) for side in (0, 2, 4))
    wide: Flags = (np.maximum(x, y) * CELL_M > float(widest.metres)) | (t * MINUTE_US > widest.us)
    return wide


def _state_of_groups(
    groups: list[Group], origin: Origin, widest: Meet | None, objects: int
) -> WorkingSet:
    """The released trajectories of groups, in the order of their ids.

    objects: number of all objects, in groups or not.
    """
    groups = sorted(groups, key=lambda group: group.key)
    kept = [group.bounds[:, ~_too_wide(group.bounds, widest)] for group in groups]
    start = np.array([int(group.bounds[T_LOW, 0]) for group in groups], np.int64)
    bounds = np.concatenate([np.zeros((len(SIDES), 0), np.int32), *kept], axis=1)
    at, areas = origin.areas(bounds)
    places = Locations((areas.x_min + areas.x_max) / 2, (areas.y_min + areas.y_max) / 2)
    offsets = offsets_from(np.array([row.shape[1] for row in kept], np.int64))
    location = np.arange(len(at), dtype=np.int32)
    trajectories = Trajectories(offsets, location, at, (start + origin.minute) * MINUTE_US)
    return WorkingSet(
        trajectories,
        places,
        np.array([group.key for group in groups], np.int64),
        np.full(len(at), SEVERAL, np.int32),
        areas=areas,
        members=np.array([len(group.objects) for group in groups], np.int64),
        part_of=_part_of([group.objects for group in groups], objects),
    )


def _part_of(members: list[Ids], objects: int) -> Ids | None:
    """The group of each object, or -1. None: an object is in several groups."""
    found = np.full(objects, -1, np.int32)
    for number, group in enumerate(members):
        if (found[group] >= 0).any():
            return None
        found[group] = number
    return found


# --- Checks, on the input of the step: they use no kernel of the method ---


def _groups_of(rows: int, first: Ints, second: Ints) -> Ints:
    """The group of each row, named by its last merge, or by the row itself if it was never merged."""
    made = rows + np.arange(len(first))
    if not ((first < made) & (second < made) & (first >= 0) & (second >= 0)).all():
        raise VerificationFailed("the log merges rows before they are there")
    into = np.arange(rows + len(first))
    both = np.concatenate([first, second])
    if len(np.unique(both)) != len(both):
        raise VerificationFailed("the log merges a row twice")
    into[first], into[second] = made, made
    # pointer jumping: each leads to a later row
    while True:
        further = into[into]
        if np.array_equal(further, into):
            return into[:rows]
        into = further


def _check_groups(
    before: WorkingSet, logged: GloveLog, keys: Ints, after: WorkingSet, options: GloveOptions
) -> dict[str, int]:
    """Check the released groups. keys: the id of each run.

    Raises:
        VerificationFailed: a trajectory of too few objects, an area over the widest, a sample that
            is not in the area of its time, or one that has none though nothing was left out.
    """
    first, last, k, widest = logged.first, logged.last, options.k, options.widest
    old, new, areas = before.trajectories, after.trajectories, after.areas
    if areas is None or after.members is None:
        raise VerificationFailed("the result has no areas")
    _require_runs(before, first, last, len(keys))
    group = _groups_of(len(first), logged.merged_first, logged.merged_second)
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
    offsets = offsets_from(last - first + 1)
    rows = owners(offsets)
    samples = within(offsets) + first[rows]
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


def _require_runs(before: WorkingSet, first: Ints, last: Ints, keys: int) -> None:
    old = before.trajectories
    known = len(first) == len(last) == keys
    if not known or not ((first >= 0) & (last >= first) & (last < old.samples)).all():
        raise VerificationFailed("the log names samples that do not exist")
    if (old.owner[first] != old.owner[last]).any():
        raise VerificationFailed("what was made alike has samples of two trajectories")
    order = np.argsort(first)
    if (first[order][1:] <= last[order][:-1]).any():
        raise VerificationFailed("a sample was made alike twice")


def _require_disjoint(after: WorkingSet) -> None:
    new, areas = after.trajectories, after.areas
    assert areas is not None
    if (areas.until <= new.at).any():
        raise VerificationFailed("an interval ends before it begins")
    same = new.owner[1:] == new.owner[:-1]
    if (same & (new.at[1:] < areas.until[:-1])).any():
        raise VerificationFailed("two intervals of a trajectory overlap")
    if (areas.x_max <= areas.x_min).any() or (areas.y_max <= areas.y_min).any():
        raise VerificationFailed("an area is empty")


def _inside(before: WorkingSet, samples: Ints, of: Ints, after: WorkingSet) -> tuple[Flags, Flags]:
    """Whether the trajectory of each sample has an area at its time, and whether the sample lies in it."""
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


# --- The guarantee ---

ASSUMED_PUBLIC = ["the parameters of the release"]
_NOT_DP = (
    "It is not differential privacy: it says nothing about somebody who knows what the others of "
    "a group did."
)
_NOT_PROTECTED = [
    "what the areas say of every object of a group: if it was recorded at a time of an interval, it "
    "was in that interval's area",
    "that an object is in the data, for whoever knows all its movements",
    "the join with another release of the same source, whose groups may differ",
]


def object_artefact(k: Any, what: str) -> dict[str, Any]:
    return {
        "unit": "object",
        "neighbouring": "none",
        "claimed_epsilon": None,
        "accounted_epsilon": None,
        "k": k,
        "assumes": what,
    }


def glove_guarantee(values: Mapping[str, Any], protected: ProtectedUnit) -> Guarantee:
    k = values["k"]
    plain = [
        f"Each trajectory stands for at least {k} objects: every sample of each of them that was not "
        "left out lies in one of its areas, at a time in that area's interval. It does not say which "
        "of them were in an area: it may have been some of them only.",
        _NOT_DP,
    ]
    if values.get("pieces") is not None:
        plain.insert(
            1,
            "This holds for each piece of a trip by itself: an object is in other groups with "
            "other objects before and after.",
        )
    if values.get("widest") is not None:
        plain.append(
            "Areas that would be too wide or too long were left out for the whole group, and with "
            "them the samples that only they held."
        )
    return Guarantee(
        plain=plain,
        artefacts={"trajectories": object_artefact(k, "an object is one trajectory of the build")},
        titles={"trajectories": f"The table of trajectories, each for at least {k} objects"},
        assumed_public=ASSUMED_PUBLIC,
        not_protected=_NOT_PROTECTED,
        origin="Gramaglia, Fiore: Hiding mobile traffic fingerprints with GLOVE (CoNEXT 2015).",
    )


SHARED = (
    "Each trajectory stands for at least k objects: their samples, but for those left out, lie in its "
    "areas, at times in the intervals of these. An area may hold samples of some of them only: see "
    "where and when groups were, coarsely; do not count objects by areas, and do not read the points "
    "as positions."
)

GLOVE = Method(
    "glove",
    "makes trajectories of at least k objects one, of areas and intervals",
    (GloveStep(),),
    kind="generalised",
    guarantee=glove_guarantee,
    explains=SHARED,
)
