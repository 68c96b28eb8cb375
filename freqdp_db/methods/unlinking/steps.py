"""`swap`, `cut` and `points`: the samples stay true, the trajectories do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from freqdp_db.errors import VerificationFailed
from freqdp_db.methods.contract import (
    CompletedStep,
    Counts,
    EmptyLog,
    Kind,
    Method,
    Need,
    Step,
    StepContext,
    StoredStep,
    WorkingSet,
)
from freqdp_db.methods.unlinking.clock import (
    check_hidden,
    check_hidden_samples,
    check_samples,
    clock_counts,
    clock_in_words,
    clock_warnings,
    hide_devices,
    hide_samples,
    put_in_grains,
)
from freqdp_db.methods.unlinking.options import CutOptions, PointsOptions, SwapOptions
from freqdp_db.methods.unlinking.samples import (
    check_crowd,
    check_dates,
    check_dominance,
    column_comments,
    find_crowded,
    leave_out_dates,
    within_dominance,
)
from freqdp_db.model.arrays import Groups, Ids, Ints
from freqdp_db.model.trajectories import Trajectories
from freqdp_db.privacy.guarantee import NOTHING_CLAIMED, Declare, Guarantee, ProtectedUnit
from freqdp_db.privacy.noise import RandomSource, released_ids


@dataclass(frozen=True)
class SwapDraw:
    """The permutation of each group: all that is random, and who it was dealt to."""

    offsets: Ints
    stop: Ints
    doubled: Ids
    dealt: Ids
    """Member i of a group goes on as member dealt[i] of it did; counted from 0 in the group."""

    def __len__(self) -> int:
        return len(self.dealt)

    @property
    def groups(self) -> Groups:
        return Groups(self.offsets, self.stop, self.doubled)


@dataclass(frozen=True)
class SwapLog:
    """What the step did besides the draw."""

    dropped: Ids
    """Input trajectories that were left out because they never meet anybody."""

    def __len__(self) -> int:
        return len(self.dropped)


class SwapStep(Step[SwapOptions, SwapDraw, SwapLog]):
    name = "swap"
    words = "who goes on where, wherever some meet"
    options = SwapOptions
    draws = SwapDraw
    logs = SwapLog
    checked: ClassVar[dict[str, str]] = {
        "groups": "groups met where and when they may",
        "members": "passages dealt among them",
        "seams": "seams inside their group, none too fast",
    }

    def draw(
        self, world: StepContext, state: WorkingSet, options: SwapOptions, source: RandomSource
    ) -> SwapDraw:
        from freqdp_db.methods.unlinking.swap import deal, find_groups

        state = hide_devices(state, options)
        groups = find_groups(state.trajectories, state.places, options.meeting)
        return SwapDraw(groups.offsets, groups.stop, groups.doubled, deal(groups.offsets, source))

    def carry_out(
        self, world: StepContext, state: WorkingSet, drawn: SwapDraw, options: SwapOptions
    ) -> tuple[SwapLog, WorkingSet]:
        from freqdp_db.methods.unlinking.swap import never_meet

        unmixed = never_meet(hide_devices(state, options).trajectories, drawn.stop)
        dropped = np.flatnonzero(unmixed) if options.drop_unmixed else np.zeros(0, np.int64)
        logged = SwapLog(dropped.astype(np.int32))
        return logged, self.replay(StoredStep(world, state, drawn, logged, options))

    def replay(self, done: StoredStep[SwapOptions, SwapDraw, SwapLog]) -> WorkingSet:
        from freqdp_db.methods.unlinking.swap import groups_in_result, swapped_trajectories

        state = done.before
        state = hide_devices(state, done.options)
        swapped, source = swapped_trajectories(state.trajectories, done.drawn)
        # whoever never meets is whole, and alone in a trajectory
        kept = ~np.isin(swapped.owner, done.logged.dropped)
        groups = groups_in_result(done.drawn, source, kept)
        owner = state.owners()[source[kept]]
        return replace(state, trajectories=swapped.where(kept), owner=owner, groups=groups)

    def check(self, done: CompletedStep[SwapOptions, SwapDraw, SwapLog]) -> dict[str, int]:
        from freqdp_db.methods.unlinking.swap import check_swap

        hidden = hide_devices(done.before, done.options)
        check_hidden(done.before, hidden, done.options)
        return check_swap(
            hidden,
            done.drawn.groups,
            done.drawn.dealt,
            done.logged.dropped,
            done.after,
            done.options.meeting,
        )

    def counts(self, done: CompletedStep[SwapOptions, SwapDraw, SwapLog]) -> Counts:
        from freqdp_db.methods.unlinking.swap import summary

        hidden = hide_devices(done.before, done.options)
        return {
            **summary(hidden, done.drawn, done.after),
            "left_out": len(done.logged.dropped),
            **clock_counts(done.before, hidden, done.options.clock),
        }

    def later_counts(self, options: SwapOptions) -> frozenset[str]:
        # they came with the clock, which every release has had since
        return frozenset({"trajectories", "pieced_together"} if options.clock is None else ())

    def describe(self, drawn: int, counts: Counts) -> str:
        alone = int(counts["objects_that_never_meet"])
        text = (
            f"{int(counts['groups']):,} meetings of 2 to {int(counts['largest_group']):,}; an object "
            f"meets others {counts['meetings_per_object_median']:,.0f} times in the median; "
            f"{alone:,} of {int(counts['objects']):,} objects never meet anybody"
            + (
                " and are left out"
                if counts["left_out"]
                else " and stay as they are"
                if alone
                else ""
            )
        )
        if "pieced_together" in counts:
            text += (
                f"; {int(counts['pieced_together']):,} of {int(counts['trajectories']):,} trajectories "
                "are pieced together from several objects"
            )
        return text + clock_in_words(counts)

    def warnings(self, options: SwapOptions, counts: Counts) -> list[str]:
        mixed, of = counts.get("pieced_together", 0.0), counts.get("trajectories", 0.0)
        if 2 * mixed > of or "trajectories" not in counts:
            return clock_warnings(counts)
        return [
            f"Only {int(mixed):,} of {int(of):,} trajectories are pieced together from several objects; "
            "the others are each one object's, and swap unlinks nothing of them. Wider meetings "
            "(--meet, --widen) mix more, --drop-unmixed leaves out who meets nobody, and cut needs no "
            "meetings.",
            *clock_warnings(counts),
        ]


@dataclass(frozen=True)
class CutDraw:
    """A fresh id for every piece, in order of trajectories and time."""

    key: Ints

    def __len__(self) -> int:
        return len(self.key)


@dataclass(frozen=True)
class CutLog:
    """The pieces, as runs of samples of the step's input, in the order of the released ids."""

    first: Ints
    last: Ints

    def __len__(self) -> int:
        return len(self.first)


class CutStep(Step[CutOptions, CutDraw, CutLog]):
    name = "cut"
    words = "each trip in pieces with ids of their own"
    keeps_columns = True
    options = CutOptions
    draws = CutDraw
    logs = CutLog
    checked: ClassVar[dict[str, str]] = {
        "pieces": "pieces no longer than they may be",
        "samples": "samples in place as they were, and in time on the clock",
        "largest_share_per_mille": "of 1,000 samples of an object under one id at most",
    }

    def draw(
        self, world: StepContext, state: WorkingSet, options: CutOptions, source: RandomSource
    ) -> CutDraw:
        from freqdp_db.methods.unlinking.cut import pieces_on_clock

        return CutDraw(released_ids(source, len(pieces_on_clock(world, state, options))))

    def carry_out(
        self, world: StepContext, state: WorkingSet, drawn: CutDraw, options: CutOptions
    ) -> tuple[CutLog, WorkingSet]:
        from freqdp_db.methods.unlinking.cut import pieces_on_clock

        pieces = pieces_on_clock(world, state, options)
        # by id, so that neither rows nor trajectories tell which pieces lay beside each other
        order = np.argsort(drawn.key, kind="stable")
        logged = CutLog(pieces.first[order], pieces.last[order])
        return logged, self.replay(StoredStep(world, state, drawn, logged, options))

    def replay(self, done: StoredStep[CutOptions, CutDraw, CutLog]) -> WorkingSet:
        from freqdp_db.methods.unlinking.cut import groups_after, rows_of_pieces

        state = done.before
        state = hide_devices(state, done.options)
        offsets, rows = rows_of_pieces(done.world, state, done.logged, done.options)
        side = state.trajectories
        at = side.at[rows]
        start, kept = at[offsets[:-1]], side.kept_of(rows)
        pieces = Trajectories(offsets, side.location[rows], at, start, kept)
        groups = None
        if state.groups is not None:
            groups = groups_after(state.groups, side.samples, rows)
        after = WorkingSet(
            pieces, state.places, np.sort(done.drawn.key), state.owners()[rows], groups=groups,
            pieces=True,
        )  # fmt: skip
        return leave_out_dates(done.world, after, done.options.dates)

    def check(self, done: CompletedStep[CutOptions, CutDraw, CutLog]) -> dict[str, int]:
        from freqdp_db.methods.unlinking.cut import check_cut

        hidden = hide_devices(done.before, done.options)
        check_hidden(done.before, hidden, done.options)
        visits = hidden
        if done.options.ends_in_source:
            source = WorkingSet(
                done.world.build.trajectories, done.world.locations, done.before.key
            )
            visits = put_in_grains(source, done.options.grain)
        return check_cut(done.world, hidden, done.after, visits, done.logged, done.options)

    def require_possible(self, options: CutOptions, objects: int, samples: int) -> None:
        options.require_crowd(objects)

    def column_comments(self, options: CutOptions) -> dict[str, str]:
        return column_comments(options.dates)

    def counts(self, done: CompletedStep[CutOptions, CutDraw, CutLog]) -> Counts:
        from freqdp_db.methods.unlinking.cut import summary

        hidden = hide_devices(done.before, done.options)
        return {
            **summary(done.before.samples, hidden, done.logged, done.after),
            **clock_counts(done.before, hidden, done.options.clock),
        }

    def describe(self, drawn: int, counts: Counts) -> str:
        return (
            f"{int(counts['pieces']):,} pieces, {counts['pieces_per_trajectory_median']:,.0f} of a "
            f"trajectory in the median; {counts['samples_kept_share']:.0%} of the samples stay; "
            f"{int(counts['trajectories_without_a_piece']):,} trajectories have no piece"
            + clock_in_words(counts)
        )

    def warnings(self, options: CutOptions, counts: Counts) -> list[str]:
        return clock_warnings(counts)


@dataclass(frozen=True)
class PointsDraw:
    """Which samples are published, and a fresh id for each of them."""

    row: Ints
    """Of the step's input with devices hidden, in its order."""
    key: Ints

    def __len__(self) -> int:
        return len(self.row)


_WORDS = 2**63


def pick_points(
    world: StepContext, hidden: WorkingSet, options: PointsOptions, source: RandomSource
) -> Ints:
    """The samples to publish: those with a crowd, of them a share that is drawn, and of these what nobody
    dominates."""
    rows = np.flatnonzero(find_crowded(world, hidden, options))
    if options.share is not None:
        rows = rows[source.uniform_words(len(rows)) < int(options.share * _WORDS / 100)]
    if options.dominance is not None:
        order = source.uniform_words(len(rows))
        rows = rows[within_dominance(hidden, world.build.timezone, rows, options.dominance, order)]
    return rows


def check_points(
    world: StepContext,
    before: WorkingSet,
    drawn: PointsDraw,
    after: WorkingSet,
    options: PointsOptions,
) -> dict[str, int]:
    """Refuse unless the release is single samples of the input that may be published.

    Raises:
        VerificationFailed: two samples under one id, rows in another order than that of the ids, a
            sample that is not in the input or twice in the release, without its crowd, against the
            dominance rule, or left out for no reason.
    """
    old, new = before.trajectories, after.trajectories
    if (new.lengths != 1).any() or len(np.unique(after.key)) != len(new):
        raise VerificationFailed("points: two samples have one id")
    if (np.diff(after.key) < 0).any() or not np.array_equal(np.sort(drawn.key), after.key):
        raise VerificationFailed("points: the rows are not in the order of the ids that were drawn")
    rows = drawn.row
    if len(rows) != len(new) or not ((rows >= 0) & (rows < old.samples)).all():
        raise VerificationFailed("points: the draw names samples that do not exist")
    if (np.diff(rows) <= 0).any():
        raise VerificationFailed("points: a sample was drawn twice")
    sample = np.empty(len(rows), np.int64)
    sample[np.searchsorted(after.key, drawn.key)] = rows
    check_samples(before, after, sample)
    check_dates(world, old.at[sample], after, options.dates)
    drawn_ones = np.zeros(old.samples, np.bool_)
    drawn_ones[rows] = True
    asked = np.ones(old.samples, np.bool_) if options.share is None else drawn_ones
    if options.dominance is not None:
        may = asked & find_crowded(world, before, options)
        some = np.flatnonzero(may)
        check_dominance(world, before, some, drawn_ones[some], options.dominance)
        asked = asked & (drawn_ones | ~may)
    chosen = np.flatnonzero(asked)
    check_crowd(world, before, chosen, drawn_ones[chosen], options)
    return {"points": len(new), "objects": len(np.unique(after.owners()))}


class PointsStep(Step[PointsOptions, PointsDraw, EmptyLog]):
    """Single samples, each with an id of its own and a time on the nearest tick of one clock for all.

    Nothing but places and times says which rows belong together; where few move at a time, that may be
    much. `--share` publishes a part of the samples, each drawn alike, so that there are gaps in whatever
    somebody follows.
    """

    name = "points"
    words = "single samples, each with an id of its own"
    keeps_columns = True
    options = PointsOptions
    draws = PointsDraw
    logs = EmptyLog
    checked: ClassVar[dict[str, str]] = {
        "points": "samples alone under their ids, in an order that was drawn",
        "objects": "objects with samples among them",
    }

    def draw(
        self, world: StepContext, state: WorkingSet, options: PointsOptions, source: RandomSource
    ) -> PointsDraw:
        row = pick_points(world, hide_samples(state, options), options, source)
        return PointsDraw(row, released_ids(source, len(row)))

    def carry_out(
        self, world: StepContext, state: WorkingSet, drawn: PointsDraw, options: PointsOptions
    ) -> tuple[EmptyLog, WorkingSet]:
        state = hide_samples(state, options)
        # by id, so that the order of the rows tells as little as the ids
        order = np.argsort(drawn.key, kind="stable")
        rows = drawn.row[order]
        side = state.trajectories
        at = side.at[rows]
        offsets, kept = np.arange(len(rows) + 1), side.kept_of(rows)
        points = Trajectories(offsets, side.location[rows], at, at, kept)
        after = WorkingSet(
            points, state.places, drawn.key[order], state.owners()[rows], pieces=True
        )
        return EmptyLog(), leave_out_dates(world, after, options.dates)

    def check(self, done: CompletedStep[PointsOptions, PointsDraw, EmptyLog]) -> dict[str, int]:
        hidden = hide_samples(done.before, done.options)
        check_hidden_samples(done.before, hidden, done.options)
        return check_points(done.world, hidden, done.drawn, done.after, done.options)

    def require_possible(self, options: PointsOptions, objects: int, samples: int) -> None:
        options.require_crowd(objects)

    def column_comments(self, options: PointsOptions) -> dict[str, str]:
        return column_comments(options.dates)

    def counts(self, done: CompletedStep[PointsOptions, PointsDraw, EmptyLog]) -> Counts:
        return {
            "points": done.after.samples,
            "samples_kept_share": done.after.samples / max(done.before.samples, 1),
            "objects_without_a_point": len(np.setdiff1d(done.before.owners(), done.after.owners())),
        }

    def describe(self, drawn: int, counts: Counts) -> str:
        return (
            f"{int(counts['points']):,} single samples; {counts['samples_kept_share']:.0%} of the samples "
            f"stay; {int(counts['objects_without_a_point']):,} objects have none"
            + clock_in_words(counts)
        )


# --- What unlinking guarantees: nothing that is proved; what it does is checked and measured ---


def unlinking_guarantee(what: str, remains: str, table: str = "trajectories") -> Declare:
    """`what`: a sentence on what was done. `remains`: whose samples can still be told apart.

    table: what its rows are.
    """

    def declare(values: Mapping[str, Any], protected: ProtectedUnit) -> Guarantee:
        return Guarantee(
            plain=[
                what,
                *left_out(values, protected),
                "Nothing about it is proved. How much of an object an attacker learns who knows a few of "
                "its samples is measured (freqdp evaluate).",
            ],
            artefacts={
                "trajectories": {
                    **NOTHING_CLAIMED,
                    "assumes": f"nothing is claimed for the table of {table}",
                }
            },
            titles={"trajectories": f"The table of {table}"},
            assumed_public=["the parameters of the release"],
            not_protected=[
                "single samples: they are published with their place, and their time on the clock",
                "that somebody was at a place, for whoever watches the place",
                remains,
                "the join with another release of the same source through its true samples",
                *(
                    f"the unlinking, from whoever has {other} as well: true samples join the two, "
                    "which was accepted"
                    for other in accepted_beside(values)
                ),
            ],
        )

    return declare


_WHEN = {"ever": "", "hour": ", in the same hour of some day", "day": ", on the same day"}

_TIMES = {
    "hour-of-week": "the weekday, hour and minute, all in one week",
    "hour-of-day": "the hour and minute, all on one day",
}


def left_out(values: Mapping[str, Any], protected: ProtectedUnit) -> list[str]:
    """What the crowd rule and the dates mean, for who reads the table."""
    said = []
    if values.get("crowd") is not None:
        when = _WHEN[values.get("crowd_within") or "ever"]
        said.append(
            f"Only samples at places where at least {values['crowd']:,} {protected.noun}s of the data were"
            f"{when}, are in it; this is no differential privacy."
        )
    if values.get("roads") is not None:
        said.append(
            "Nothing of a trip is in it until it is 500 m in a straight line, 650 m by road and 8 "
            "junctions from where it begins, at the latest 2,500 m, nor from there on before it ends."
        )
    if values.get("samples") == "ends":
        said.append("Of each piece only the first and the last sample are in it.")
    if values.get("share") is not None:
        said.append(f"A random {values['share']:f} % of the samples are in it.")
    if values.get("dominance") is not None:
        said.append(
            f"Of its samples of a place and hour of the day, at most {values['dominance']:f} % are one "
            f"{protected.noun}'s; this is no differential privacy."
        )
    if values.get("dates") is not None:
        said.append(
            f"Dates were left out: times are {_TIMES[values['dates']]}, which is not when they happened."
        )
    return said


def accepted_beside(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Releases beside which this one may stand although true samples join them (`--beside`)."""
    return tuple(name.strip() for name in (values.get("beside") or "").split(",") if name.strip())


_EDITED: frozenset[Kind] = frozenset({"edited"})

UNLINKING = (
    Method(
        "swap",
        "where paths cross, shuffles which object continues along which",
        (SwapStep(),),
        kind="unlinked",
        guarantee=unlinking_guarantee(
            "Where objects met, it was drawn which of them continues along which path; an object that "
            "met no other keeps its own path.",
            "objects that seldom meet others: all samples under one id may be theirs",
        ),
        after=_EDITED,
        explains="Trajectories are pieced together from several objects wherever these met, at true "
        "places of theirs, with times on one clock for all. Count places, times and flows; do not follow "
        "one trajectory for long.",
    ),
    Method(
        "cut",
        "cuts trips into pieces with ids of their own",
        (CutStep(),),
        kind="unlinked",
        needs=(Need("roads", "roads", optional=True),),
        guarantee=unlinking_guarantee(
            "Trips were cut into pieces, each with an id of its own. Stays were left out, and some minutes "
            "between two pieces.",
            "a whole piece, from anyone who knows one of its samples; and pieces that few others could "
            "continue",
        ),
        after=_EDITED | {"unlinked"},
        explains="Each trajectory is a piece of a trip, without stays, with times on one clock for all. "
        "Count places, times and flows within pieces. No id says which pieces belong together; "
        "places and times may.",
    ),
    Method(
        "points",
        "publishes single samples without trajectories",
        (PointsStep(),),
        kind="unlinked",
        guarantee=unlinking_guarantee(
            "Every row is one sample, with an id of its own; no id joins two of them.",
            "objects that few others are near: the samples that follow each other in place and time may "
            "all be theirs",
            "single samples",
        ),
        after=_EDITED,
        explains="Each row is a single sample, with its time on one clock for all: there are no "
        "trajectories. Count places and times. No id says which samples belong together; places and times "
        "may.",
    ),
)
