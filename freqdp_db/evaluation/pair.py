"""A dataset (D) and a release of it (D*) side by side, and the grids and clocks that the metrics count in.

Trajectory t of D* is the anonymized trajectory t of D: the private key has linked them. The grids of the
metrics cover the box of the 0.1 to 99.9 percentiles of D (TE and FFP: 1 to 99). Positions outside count in
the cells at the border: otherwise one bogus position on the other side of the globe would put a whole city
into one cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from freqdp_db.db.connection import Database
from freqdp_db.db.releases import ReleaseRow
from freqdp_db.errors import BadInput
from freqdp_db.methods.contract import Undated, WorkingSet
from freqdp_db.methods.registry import find_method
from freqdp_db.methods.unlinking.clock import in_grains, nearest_tick
from freqdp_db.methods.unlinking.samples import fold
from freqdp_db.model.arrays import Flags, Groups, Ids, Ints, Metres, offsets_from
from freqdp_db.model.days import DAY_US, HOUR_US, local_days, local_times
from freqdp_db.model.trajectories import Areas, Build, Codes, Locations, Trajectories
from freqdp_db.progress import Progress
from freqdp_db.release.request import Request
from freqdp_db.release.verification import load_released, require_published

WIDEST_M = 500.0
"""An area that is no wider tells where somebody was."""
_LONGEST_STEP_US = 3_600_000_000
"""A step of released times that is no longer tells when somebody was there."""


@dataclass(frozen=True)
class Pair:
    """D as built and D* as released, over the same places."""

    original: Trajectories
    released: Trajectories
    locations: Locations
    timezone: str = "UTC"
    time_step_us: int | None = None
    """What released times were coarsened to, if they were: it is public, so attackers know it."""
    made_up: bool = False
    """Whether released trajectories are nobody's: how many there are need not be D's number."""
    only_ends: bool = False
    """Whether released trajectories are trips of which only the ends are shown."""

    def __len__(self) -> int:
        return len(self.original)

    @property
    def on_both_sides(self) -> Flags:
        """Trajectories that are not empty in D nor in D*."""
        return (self.original.lengths > 0) & (self.released.lengths > 0)

    def coarse(self, at: Ints) -> Ints:
        """Times as the release shows them."""
        return at if self.time_step_us is None else at // self.time_step_us * self.time_step_us


def object_by_object(side: Trajectories, trajectory: Ids, start: Ints) -> Trajectories:
    """The trajectory of each object; -1: an empty one that starts at its time in `start`."""
    there = trajectory >= 0
    theirs = side.take(trajectory[there].astype(np.int64))
    lengths, start = np.zeros(len(trajectory), np.int64), start.copy()
    lengths[there], start[there] = theirs.lengths, theirs.start
    return Trajectories(offsets_from(lengths), theirs.location, theirs.at, start)


@dataclass(frozen=True)
class CellBox:
    """A box that is cut into equal cells; what lies outside belongs to the cells at its border."""

    west: float
    south: float
    east: float
    north: float

    @classmethod
    def of(cls, pair: Pair, percent: float) -> CellBox:
        """The box of D's samples from this percentile to its counterpart."""
        place = pair.original.location
        return cls.around(pair.locations.x[place], pair.locations.y[place], percent)

    @classmethod
    def around(cls, x: Metres, y: Metres, percent: float) -> CellBox:
        """The same of any positions."""
        if not len(x):
            return cls(0.0, 0.0, 0.0, 0.0)
        ends = (percent, 100.0 - percent)
        (west, east), (south, north) = np.percentile(x, ends), np.percentile(y, ends)
        return cls(float(west), float(south), float(east), float(north))

    def columns_and_rows(self, locations: Locations, side: int) -> tuple[Ids, Ids]:
        """Of each location, in a grid of side x side cells."""
        columns = _cut(locations.x, self.west, self.east, side)
        return columns, _cut(locations.y, self.south, self.north, side)

    def cells(self, locations: Locations, side: int) -> Ids:
        """Cell of each location: row by row from the south-west."""
        column, row = self.columns_and_rows(locations, side)
        return row * np.int32(side) + column


def _cut(values: Metres, low: float, high: float, side: int) -> Ids:
    width = (high - low) / side
    if width <= 0:
        return np.zeros(len(values), np.int32)
    return np.clip(np.floor((values - low) / width), 0, side - 1).astype(np.int32)


def share_of(which: Flags, of: Flags) -> float:
    """How many of these are so; 0 if there are none."""
    return float(which[of].mean()) if of.any() else 0.0


def hours_of_day(at: Ints, timezone: str) -> Ids:
    return (local_times(at, timezone) % DAY_US // HOUR_US).astype(np.int32)


def on_odd_days(at: Ints, timezone: str) -> Flags:
    """Whether each time falls on an odd day, counted from 2000-01-01 (day 0) in the zone."""
    odd: Flags = local_days(at, timezone) % 2 == 1
    return odd


@dataclass(frozen=True)
class Windows:
    """The windows of a series. No trajectory is in two of them."""

    begin: Ints
    """When each begins, in order of time."""
    moved_to: Ints
    """Where dates were left out: when the week or day begins that its times were moved into."""


@dataclass(frozen=True)
class ReleaseSeen:
    """A release as its readers have it, and whose each sample is, for who judges the attacks."""

    trajectories: Trajectories
    places: Locations
    owner: Ids | None = None
    """The object of each sample, -1: nobody's (synthetic); None: trajectory t is object t's."""
    areas: Areas | None = None
    time_step_us: int | None = None
    """What released times were coarsened to: public."""
    clock_us: int | None = None
    """The clock that released times are on: public, too."""
    grain_m: float | None = None
    """The side of the cells that released places are centres of, where the build's are not."""
    groups: Groups | None = None
    """Released samples after which identities may have been swapped. An attacker who knows the
    method finds most of them; here all are known, so that no attacker knows more."""
    pieces: bool = False
    """Whether released trajectories are pieces that go on under other ids."""
    members: Ints | None = None
    """How many objects each trajectory stands for, where that is several."""
    part_of: Ids | None = None
    """The trajectory that each object is in, -1: in none; None: in several, or as `owner` says."""
    undated: Undated | None = None
    """Where dates were left out: the week or day, which is public, and what times were, which is not."""
    timezone: str = "UTC"
    only_ends: bool = False
    """Whether trajectories are trips of which only the ends are shown."""
    quiet_us: int = 0
    """What is left out at least between two pieces: public."""
    windows: Windows | None = None
    """Where it is a series: all its windows."""

    @cached_property
    def trajectory(self) -> Ids:
        return self.trajectories.owner

    @property
    def owners(self) -> Ids:
        return self.trajectory if self.owner is None else self.owner

    @cached_property
    def x(self) -> Metres:
        """Of each sample."""
        return self.places.x[self.trajectories.location]

    @cached_property
    def y(self) -> Metres:
        """Of each sample."""
        return self.places.y[self.trajectories.location]

    @cached_property
    def kept(self) -> Codes:
        """A code for the values that each sample carries along; the same for all if it carries none."""
        codes = self.trajectories.kept
        return np.zeros(self.trajectories.samples, np.int16) if codes is None else codes

    def shown(self, x: Metres, y: Metres) -> tuple[Metres, Metres]:
        """Positions as the release shows them."""
        return (x, y) if self.grain_m is None else in_grains(x, y, self.grain_m)

    def coarse(self, at: Ints) -> Ints:
        """Times as the release shows them."""
        shown = nearest_tick(at, self.clock_us) if self.clock_us else at
        if self.undated is not None:
            moved_to: int | Ints = self.undated.begin_us
            if self.windows is not None:
                window = np.searchsorted(self.windows.begin, at, side="right") - 1
                moved_to = self.windows.moved_to[np.maximum(window, 0)]
            shown = fold(shown, self.timezone, moved_to, self.undated.span_us)
        step = self.time_step_us
        return shown if step is None else shown // step * step

    def quiet_after(self, at: Ints) -> Ints:
        """How long nothing follows what ends at these times: `quiet_us`, or up to the next window."""
        quiet = np.full(len(at), self.quiet_us, np.int64)
        if self.windows is None or self.undated is not None:
            return quiet
        following = np.searchsorted(self.windows.begin, at, side="right")
        there = following < len(self.windows.begin)
        border = self.windows.begin[following[there]]
        quiet[there] = np.minimum(quiet[there], border - at[there])
        return quiet

    @property
    def true_at(self) -> Ints:
        """Times of the samples with their dates, by which claims are judged."""
        return self.trajectories.at if self.undated is None else self.undated.at


@dataclass(frozen=True)
class Case:
    """Objects that are looked for, and the release they are looked for in."""

    original: Trajectories
    places: Locations
    release: ReleaseSeen
    timezone: str = "UTC"

    @classmethod
    def of(cls, build: Build, state: WorkingSet, values: Mapping[str, Any]) -> Case:
        """What a method made of a build, with these values of its parameters."""
        grain = values.get("grain")
        release = ReleaseSeen(
            state.trajectories, state.places, state.owner, state.areas, values.get("time_step"),
            values.get("clock"), grain if grain is None else float(grain), state.groups, state.pieces,
            state.members, state.part_of, state.undated, build.timezone,
            values.get("samples") == "ends", values.get("quiet") or 0,
        )  # fmt: skip
        return cls(build.trajectories, build.locations, release, build.timezone)

    def __len__(self) -> int:
        return len(self.original)

    def about(self, objects: Ints) -> Case:
        """Some of the objects, looked for in the same release: the samples of all others are nobody's."""
        number = np.full(len(self) + 1, -1, np.int32)
        number[objects] = np.arange(len(objects), dtype=np.int32)
        release = self.release
        part_of = None if release.part_of is None else release.part_of[objects]
        return replace(
            self,
            original=self.original.take(objects),
            release=replace(release, owner=number[release.owners], part_of=part_of),
        )

    @cached_property
    def x(self) -> Metres:
        """Of each original sample."""
        return self.places.x[self.original.location]

    @cached_property
    def y(self) -> Metres:
        """Of each original sample."""
        return self.places.y[self.original.location]

    @cached_property
    def kept(self) -> Codes:
        """The values that each original sample carries along, as the release has them."""
        codes = self.original.kept
        if codes is None or self.release.trajectories.kept is None:
            return np.zeros(self.original.samples, np.int16)
        return codes

    @cached_property
    def judged(self) -> tuple[Metres, Metres]:
        """Where claims have to find each original sample: x and y.

        That is its place; where the release shows centres of cells that are small enough to tell where
        somebody was, the centre of its cell.
        """
        grain = self.release.grain_m
        if grain is None or grain > WIDEST_M:
            return self.x, self.y
        return self.release.shown(self.x, self.y)

    @cached_property
    def judged_at(self) -> Ints:
        """When claims have to find each original sample.

        That is its time; where the release shows ticks of a clock or steps that are short enough to tell
        when somebody was there, its tick and the begin of its step. Where dates were left out, claims are
        judged by what times were before that: on the clock, in no steps.
        """
        release, at = self.release, self.original.at
        # a clock of 0 leaves times as they are
        if release.clock_us and release.clock_us <= _LONGEST_STEP_US:
            at = nearest_tick(at, release.clock_us)
        step = release.time_step_us
        if step is None or step > _LONGEST_STEP_US or release.undated is not None:
            return at
        return at // step * step

    @property
    def made_up(self) -> bool:
        """Whether released trajectories are nobody's."""
        owner = self.release.owner
        return self.release.members is None and owner is not None and bool((owner < 0).all())

    @cached_property
    def pair(self) -> Pair:
        """Both sides over the original places, for what compares places by number."""
        side = self.release.trajectories
        if self.release.places is not self.places:
            tree = cKDTree(np.column_stack([self.places.x, self.places.y]))
            points = np.column_stack([self.release.places.x, self.release.places.y])
            nearest: Ids = np.asarray(tree.query(points)[1], np.int32)
            side = replace(side, location=nearest[side.location])
        return Pair(
            self.original, side, self.places, self.timezone, self.release.time_step_us, self.made_up,
            self.release.only_ends,
        )  # fmt: skip


# Read from the database.


def require_measurable(release: ReleaseRow) -> None:
    """Refuse what is not published, or has no trajectories."""
    require_published(release, "measured")
    if find_method(release.method).publishes:
        raise BadInput(
            f"release {release.name!r} has no trajectories: there is nothing to measure them by",
            remedy="evaluate a release by another method",
        )


def load_case(database: Database, release: ReleaseRow, progress: Progress) -> Case:
    """D as built, and D* as it stands in the released table, which is what was verified."""
    require_measurable(release)
    world, state = load_released(database, release, progress)
    return Case.of(world.build, state, Request.of(release).values)
