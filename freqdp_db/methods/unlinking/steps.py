"""The steps `swap` and `cut`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from freqdp_db.columns.arrays import Ids, Ints
from freqdp_db.columns.groups import Groups
from freqdp_db.columns.trajectories import Trajectories
from freqdp_db.mechanisms.noise import RandomSource, released_ids
from freqdp_db.methods.contract import Counts, State, Step, World
from freqdp_db.methods.unlinking.options import CutOptions, SwapOptions


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
        self, world: World, state: State, options: SwapOptions, source: RandomSource
    ) -> SwapDraw:
        from freqdp_db.methods.unlinking.dealing import deal
        from freqdp_db.methods.unlinking.meetings import find_groups

        groups = find_groups(state.trajectories, state.places, options.meeting)
        return SwapDraw(groups.offsets, groups.stop, groups.doubled, deal(groups.offsets, source))

    def carry_out(
        self, world: World, state: State, drawn: SwapDraw, options: SwapOptions
    ) -> tuple[SwapLog, State]:
        from freqdp_db.methods.unlinking.swap import never_meet

        unmixed = never_meet(state.trajectories, drawn.stop)
        dropped = np.flatnonzero(unmixed) if options.drop_unmixed else np.zeros(0, np.int64)
        logged = SwapLog(dropped.astype(np.int32))
        return logged, self.replay(world, state, drawn, logged, options)

    def replay(
        self, world: World, state: State, drawn: SwapDraw, logged: SwapLog, options: SwapOptions
    ) -> State:
        from freqdp_db.methods.unlinking.swap import groups_in_result, swapped_trajectories

        swapped, source = swapped_trajectories(state.trajectories, drawn)
        # whoever never meets is whole, and alone in a trajectory
        kept = ~np.isin(swapped.owner, logged.dropped)
        groups = groups_in_result(drawn, source, kept)
        owner = state.owners()[source[kept]]
        return replace(state, trajectories=swapped.where(kept), owner=owner, groups=groups)

    def check(
        self,
        world: World,
        before: State,
        drawn: SwapDraw,
        logged: SwapLog,
        after: State,
        options: SwapOptions,
    ) -> dict[str, int]:
        from freqdp_db.methods.unlinking.swap_check import check_swap

        return check_swap(before, drawn.groups, drawn.dealt, logged.dropped, after, options.meeting)

    def counts(self, drawn: SwapDraw, logged: SwapLog, before: State, after: State) -> Counts:
        from freqdp_db.methods.unlinking.swap import summary

        return {**summary(before, drawn), "left_out": len(logged.dropped)}

    def describe(self, drawn: int, counts: Counts) -> str:
        alone = int(counts["objects_that_never_meet"])
        return (
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
    options = CutOptions
    draws = CutDraw
    logs = CutLog
    checked: ClassVar[dict[str, str]] = {
        "pieces": "pieces no longer than they may be",
        "samples": "samples in place and time as they were",
        "largest_share_per_mille": "of 1,000 samples of an object under one id at most",
    }

    def draw(
        self, world: World, state: State, options: CutOptions, source: RandomSource
    ) -> CutDraw:
        from freqdp_db.methods.unlinking.cut import find_pieces

        return CutDraw(released_ids(source, len(find_pieces(state, options))))

    def carry_out(
        self, world: World, state: State, drawn: CutDraw, options: CutOptions
    ) -> tuple[CutLog, State]:
        from freqdp_db.methods.unlinking.cut import find_pieces

        pieces = find_pieces(state, options)
        # by id, so that neither rows nor trajectories tell which pieces lay beside each other
        order = np.argsort(drawn.key, kind="stable")
        logged = CutLog(pieces.first[order], pieces.last[order])
        return logged, self.replay(world, state, drawn, logged, options)

    def replay(
        self, world: World, state: State, drawn: CutDraw, logged: CutLog, options: CutOptions
    ) -> State:
        from freqdp_db.methods.unlinking.cut import groups_after
        from freqdp_db.methods.unlinking.trips import samples_of

        offsets, rows = samples_of(logged.first, logged.last)
        side = state.trajectories
        pieces = Trajectories(offsets, side.location[rows], side.at[rows], side.at[logged.first])
        groups = None
        if state.groups is not None:
            groups = groups_after(state.groups, side.samples, logged)
        return State(
            pieces, state.places, np.sort(drawn.key), state.owners()[rows], groups=groups,
            pieces=True,
        )  # fmt: skip

    def check(
        self,
        world: World,
        before: State,
        drawn: CutDraw,
        logged: CutLog,
        after: State,
        options: CutOptions,
    ) -> dict[str, int]:
        from freqdp_db.methods.unlinking.cut_check import check_cut

        return check_cut(
            before,
            after,
            rule=options.rule,
            longest_us=options.pieces,
            quiet_us=options.quiet,
            ends=options.ends,
            runs=(logged.first, logged.last),
        )

    def counts(self, drawn: CutDraw, logged: CutLog, before: State, after: State) -> Counts:
        from freqdp_db.methods.unlinking.cut import summary

        return summary(before, logged)

    def describe(self, drawn: int, counts: Counts) -> str:
        return (
            f"{int(counts['pieces']):,} pieces, {counts['pieces_per_trajectory_median']:,.0f} of a "
            f"trajectory in the median; {counts['samples_kept_share']:.0%} of the samples stay; "
            f"{int(counts['trajectories_without_a_piece']):,} trajectories have no piece"
        )
