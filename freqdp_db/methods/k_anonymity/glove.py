"""The step of `glove`: groups of objects that are released as one trajectory of areas."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np

from freqdp_db.columns.arrays import Ints
from freqdp_db.mechanisms.noise import RandomSource, released_ids
from freqdp_db.methods.contract import Counts, State, Step, World
from freqdp_db.methods.k_anonymity.options import GloveOptions, require_enough

if TYPE_CHECKING:
    from freqdp_db.methods.k_anonymity.boxes import Origin
    from freqdp_db.methods.k_anonymity.greedy import Shaping


@dataclass(frozen=True)
class GloveDraw:
    """Nothing is random but ids, where pieces need some of their own."""

    key: Ints
    """A fresh id for every piece; none where whole trajectories are grouped."""

    def __len__(self) -> int:
        return len(self.key)


@dataclass(frozen=True)
class GloveLog:
    """What was made alike, and the merges: nothing has to be searched again."""

    first: Ints
    last: Ints
    """Runs of samples of the step's input."""
    merged_first: Ints
    merged_second: Ints
    """Numbers of runs, or of earlier merges, which count on from the runs."""

    def __len__(self) -> int:
        return len(self.merged_first)


Asked = TypeVar("Asked", bound=GloveOptions)
Kept = TypeVar("Kept", bound=GloveLog)


class Grouping(Step[Asked, GloveDraw, Kept]):
    """What `glove` and `klt` have in common."""

    draws = GloveDraw
    makes_areas = True

    def shaping(self, world: World, origin: Origin, options: Asked) -> Shaping | None:
        """What is done to a merged row before it goes on."""
        return None

    @abstractmethod
    def log(self, world: World, runs: tuple[Ints, Ints], merges: tuple[Ints, Ints]) -> Kept:
        """What is kept of runs of samples and merges."""

    def draw(self, world: World, state: State, options: Asked, source: RandomSource) -> GloveDraw:
        if options.pieces is None:
            return GloveDraw(np.zeros(0, np.int64))
        from freqdp_db.methods.k_anonymity.rows import cut_rows

        return GloveDraw(released_ids(source, len(cut_rows(state, options)[0])))

    def carry_out(
        self, world: World, state: State, drawn: GloveDraw, options: Asked
    ) -> tuple[Kept, State]:
        from freqdp_db.methods.k_anonymity.rows import cut_rows, group_all, make_rows, whole_rows

        runs = whole_rows(state) if options.pieces is None else cut_rows(state, options)
        rows = make_rows(state, *runs, options)
        shaping = self.shaping(world, rows.boxes.origin, options)
        merges = group_all(rows, options, shaping, world.told)
        logged = self.log(world, runs, (merges.first, merges.second))
        return logged, self.replay(world, state, drawn, logged, options)

    def replay(
        self, world: World, state: State, drawn: GloveDraw, logged: Kept, options: Asked
    ) -> State:
        from freqdp_db.methods.k_anonymity.greedy import Merges, replay_merges
        from freqdp_db.methods.k_anonymity.release import state_of_groups
        from freqdp_db.methods.k_anonymity.rows import make_rows

        rows = make_rows(state, logged.first, logged.last, options)
        found = replay_merges(
            rows.boxes,
            rows.object,
            self._keys(state, drawn, logged),
            Merges(logged.merged_first, logged.merged_second),
            self.shaping(world, rows.boxes.origin, options),
            world.told,
        )
        large = [g for g in found if len(g.objects) >= options.k]
        return state_of_groups(
            [g.bounds for g in large],
            [g.objects for g in large],
            np.array([g.key for g in large], np.int64),
            rows.boxes.origin,
            options.widest,
            len(state.trajectories),
        )

    def _keys(self, state: State, drawn: GloveDraw, logged: Kept) -> Ints:
        """The released id of each run: of several that become one, the smallest is taken."""
        if len(drawn):
            return drawn.key
        return state.key[state.trajectories.owner[logged.first]]

    def check(
        self,
        world: World,
        before: State,
        drawn: GloveDraw,
        logged: Kept,
        after: State,
        options: Asked,
    ) -> dict[str, int]:
        from freqdp_db.methods.k_anonymity.glove_check import check_groups

        return check_groups(
            before,
            (logged.first, logged.last),
            (logged.merged_first, logged.merged_second),
            self._keys(before, drawn, logged),
            after,
            options.k,
            options.widest,
        )

    def require_possible(self, options: Asked, objects: int, samples: int) -> None:
        require_enough(options.k, objects)

    def counts(
        self, drawn: GloveDraw, logged: Kept, before: State, after: State, options: Asked
    ) -> Counts:
        from freqdp_db.methods.k_anonymity.release import summary

        return {"made_alike": len(logged.first), **summary(after)}

    def describe(self, drawn: int, counts: Counts) -> str:
        gone = int(counts.get("groups_left_out", 0))
        return (
            f"{int(counts['made_alike']):,} trajectories in {int(counts['groups']):,} groups of up "
            f"to {int(counts['largest_group']):,} objects; {int(counts['areas']):,} areas of "
            f"{counts['side_median_m']:,.0f} m and {counts['minutes_median']:,.0f} min in the median"
            + (f"; {gone:,} groups have none" if gone else "")
        )


class GloveStep(Grouping[GloveOptions, GloveLog]):
    name = "glove"
    words = "objects that become one trajectory of areas"
    options = GloveOptions
    logs = GloveLog
    checked: ClassVar[dict[str, str]] = {
        "groups": "trajectories stand for at least k objects each",
        "samples_inside": "samples lie in the areas of their trajectory",
        "samples_left_out": "samples were left out",
    }

    def log(self, world: World, runs: tuple[Ints, Ints], merges: tuple[Ints, Ints]) -> GloveLog:
        return GloveLog(*runs, *merges)
