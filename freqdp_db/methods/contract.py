"""What a method is: an ordered list of steps, and what it declares about itself.

A step has three functions over arrays: `draw` makes everything that is random, `carry_out` applies
the draw, and `check` recomputes what the step promises. `loop.run_steps` is the only caller.

Modules of methods import compiled kernels inside functions, not at their top: `freqdp --help` shows
the parameters of all methods, and loading the compiler takes a second.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from freqdp_db.engines.partitions import Partitions
from freqdp_db.engines.ranges import add
from freqdp_db.errors import VerificationFailed
from freqdp_db.methods.parameters import RELEASE, Parameter, parameters_of
from freqdp_db.methods.relations import AREAS, SAMPLES, TABLES, TRAJECTORIES, Kept, Relation
from freqdp_db.model.arrays import Groups, Ids, Ints
from freqdp_db.model.trajectories import (
    Areas,
    Build,
    Clock,
    Locations,
    ReleaseCoordinates,
    Trajectories,
)
from freqdp_db.privacy.guarantee import Declare
from freqdp_db.privacy.noise import RandomSource
from freqdp_db.progress import ProgressCallback, ignore_progress

if TYPE_CHECKING:
    from freqdp_db.methods.frequency.counts import Frequencies
    from freqdp_db.methods.frequency.insertion import Search
    from freqdp_db.methods.frequency.partition import Partition
    from freqdp_db.methods.synthesis.public import Period, Region

Kind: TypeAlias = Literal["edited", "unlinked", "generalised", "synthetic", "counts"]
Unit: TypeAlias = Literal["occurrence", "person"]
Counts: TypeAlias = dict[str, float]
Facts: TypeAlias = "Callable[[Any, Any], tuple[Region, Period]]"

KINDS: dict[Kind, str] = {
    "edited": "Each trajectory is one object's, edited: samples were taken out and others put in. "
    "Count places, times and flows; do not look for persons.",
    "unlinked": "The samples are true, the trajectories are not: each is a piece of one object's way "
    "or is pieced together from several. Count places, times and flows; do not follow one "
    "trajectory for long.",
    "generalised": "Each trajectory stands for several objects, whose samples lie in its areas, at times "
    "in the intervals of these, but for those left out. Do not count objects by areas, and do "
    "not read the points as positions.",
    "synthetic": "Each trajectory is a trip made up from noisy counts of trips of at least 1 km, and is "
    "nobody's. Use it for distributions: where, when, how far, how long; not for single trips.",
    "counts": "Each row is a noisy count, of persons in a zone or of trips between zones, in a time bin, "
    "with half of its 95 % interval (margin). A missing row means fewer than the noise lets one see, not "
    "none. Take totals from the rows of districts and of the city, not from sums of many zones.",
}
"""For each kind, what a released trajectory is and what an analyst may do with it."""
WITHOUT_SAMPLES: tuple[Kind, ...] = ("synthetic", "counts")
"""Kinds that are computed from noisy counts alone and contain no original sample."""
EXPOSES: dict[Kind, str] = {
    "edited": "anyone who knows a few of a person's positions can usually re-identify that person"
}
"""Kinds that expose people whatever the parameters are, with the sentence that says so."""


@dataclass(frozen=True)
class Need:
    """A public relation of the user's that a method reads; it is read before the first step runs."""

    parameter: str
    """The parameter that names the relation."""
    reader: Literal["points", "roads", "zones"]
    """The type that it is read into: `Points`, a `Network` or `Zones`. Zones may also be a grid or H3."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Parameters that name its columns: `category` of points; `zone` and `district` of zones."""
    optional: bool = False
    """Whether the method also runs without this relation."""


@dataclass(frozen=True)
class StepContext:
    """What every step may read besides the working set."""

    build: Build
    search: Search | None = None
    """The search that the global insertion uses. None: an index in memory. The answers are the same."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """The relations of `Method.needs`, by parameter."""

    facts: Facts | None = None
    """Converts a region and a period to the build's metres and microseconds. None: the dataset has none."""
    coordinates: ReleaseCoordinates | None = None
    """Converts metres to the coordinates of the release. None: the release is in the build's metres."""
    report_progress: ProgressCallback = ignore_progress
    """A long step calls this with the share of its work that is done, from 0 to 1."""

    def public_facts(self, region: Any, period: Any) -> tuple[Region, Period]:
        """The public region and period of a release, in metres and microseconds."""
        assert self.facts is not None, "the request was let through without public facts"
        return self.facts(region, period)

    def tf_of(self, state: WorkingSet) -> Ids:
        """TF of every place, from which a step draws.

        For the build this is the stored column that the SQL views show; once a step has edited the
        trajectories it is counted. `verify` counts both.
        """
        stored = self.build.tf if state.trajectories is self.build.trajectories else None
        return state.tf if stored is None else stored

    @property
    def locations(self) -> Locations:
        return self.build.locations

    @property
    def clock(self) -> Clock:
        return self.build.clock


@dataclass(frozen=True)
class Undated:
    """Released times that were moved into one week or one day."""

    begin_us: int
    span_us: int
    """Begin and length of that week or day."""
    at: Ints
    """Original time of each sample, with its date."""


@dataclass(frozen=True)
class WorkingSet:
    """The trajectories between two steps: the first step gets the build's, the last gives the released
    ones."""

    trajectories: Trajectories
    places: Locations
    """The build's places, or those that a method made."""
    key: Ints
    """Released id of each trajectory."""
    owner: Ids | None = None
    """The object of each sample. None: all samples of trajectory t are object t's. -1: the sample
    belongs to several objects, whose number is in `members`, or to nobody."""
    areas: Areas | None = None
    members: Ints | None = None
    """How many objects each trajectory stands for. None: no trajectory stands for several at once."""
    part_of: Ids | None = None
    """The trajectory that each object was merged into, or -1. None: objects were not merged, or some
    object is in two trajectories."""
    groups: Groups | None = None
    """Groups of samples after which `swap` exchanged objects. The evaluation of attacks reads them."""
    pieces: bool = False
    """Whether one object's way is split over several trajectories with ids of their own."""
    undated: Undated | None = None
    """Original times, where dates were left out. The evaluation of attacks reads them."""
    tables: Columns | None = None
    """The rows of a method that publishes other relations than trajectories (`Method.publishes`)."""

    def owners(self) -> Ids:
        """The object of each sample."""
        return self.trajectories.owner if self.owner is None else self.owner

    @cached_property
    def partitions(self) -> Partitions[Partition]:
        """The trajectories as partitions: one for each range at the workers, or a single one in this
        process."""
        from freqdp_db.methods.frequency.partition import partitions_of

        return partitions_of(self.trajectories, self.places)

    @property
    def frequencies(self) -> Frequencies:
        """PF and TF. Only for a working set with a single partition in this process."""
        (whole,) = self.partitions
        return whole.frequencies

    @cached_property
    def tf(self) -> Ids:
        """How many trajectories visit each place."""
        total: Ids = add(list(self.partitions.map(attrgetter("frequencies.tf"))))
        return total

    @cached_property
    def rank(self) -> Ints:
        """Rank of each trajectory by released id. Breaks ties: trajectory ids would favour the first
        objects."""
        return np.argsort(np.argsort(self.key))

    @property
    def samples(self) -> int:
        return self.trajectories.samples

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the hash of each trajectory, so that partitions can be hashed separately.

        The number before the colon is the version of this computation.
        """
        whole = hashlib.sha256()
        more_columns: list[NDArray[Any]] = []
        if self.owner is not None:
            more_columns.append(self.owner)
        if self.places.source_x is None:
            location = self.trajectories.location
            more_columns += [self.places.x[location], self.places.y[location]]
        if self.areas is not None:
            more_columns += [getattr(self.areas, f.name) for f in fields(self.areas)]
        # only methods that run in one partition make columns of their own
        for hashes in self.partitions.map(_hashes_of, more_columns):
            whole.update(hashes)
        if self.members is not None:
            whole.update(self.members.tobytes())
        if self.tables is not None:
            for column in fields(self.tables):
                whole.update(np.ascontiguousarray(getattr(self.tables, column.name)).tobytes())
        return f"2:{whole.hexdigest()}"


def _hashes_of(partition: Partition, more_columns: list[NDArray[Any]]) -> bytes:
    """Concatenated SHA-256 of each trajectory: its locations, times and `more_columns`."""
    t = partition.trajectories
    carried = [] if t.kept is None else [t.kept]
    columns = [
        np.ascontiguousarray(column) for column in (t.location, t.at, *carried, *more_columns)
    ]
    packed = [(column.view(np.uint8).data, column.itemsize) for column in columns]
    found = bytearray()
    for begin, end in pairwise(t.offsets.tolist()):
        one = hashlib.sha256()
        for data, width in packed:
            one.update(data[begin * width : end * width])
        found += one.digest()
    return bytes(found)


class Columns(Protocol):
    """A draw or a log: a frozen dataclass of arrays, stored by the names of its fields."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __len__(self) -> int: ...


@dataclass(frozen=True)
class EmptyLog:
    """The log of a step that is fully described by its draw."""

    def __len__(self) -> int:
        return 0


Drawn = TypeVar("Drawn", bound=Columns)
Logged = TypeVar("Logged", bound=Columns)
Options = TypeVar("Options")


@dataclass(frozen=True)
class StoredStep(Generic[Options, Drawn, Logged]):
    """A step as it is stored: its input, options, draw and log."""

    world: StepContext
    before: WorkingSet
    drawn: Drawn
    logged: Logged
    options: Options


@dataclass(frozen=True)
class CompletedStep(StoredStep[Options, Drawn, Logged]):
    """A step that was carried out or replayed: the stored step and its result."""

    after: WorkingSet


class Step(ABC, Generic[Options, Drawn, Logged]):
    """One step of a method. Subclasses are stateless: everything is in the arguments."""

    name: ClassVar[str]
    words: ClassVar[str]
    """What the step changes, as shown to the curator: `Step 1, <words>: ...`."""
    options: type[Options]
    draws: type[Drawn]
    logs: type[Logged]
    partitioned: ClassVar[bool] = False
    """Whether it only uses `state.partitions`, so that workers can run it."""
    makes_areas: ClassVar[bool] = False
    """Whether its result has areas instead of positions."""
    keeps_columns: ClassVar[bool] = False
    """Whether each sample afterwards has the values that one sample carried along."""
    checked: ClassVar[Mapping[str, str]] = {}
    """For each count that `check` returns, its meaning in words."""
    foreseen: ClassVar[bool] = False
    """Whether the step implements `expect`, so that `plan` reads no data."""
    not_replayable: ClassVar[frozenset[str]] = frozenset()
    """Versions of freqdp whose stored draws this version cannot replay."""

    @abstractmethod
    def draw(
        self, world: StepContext, state: WorkingSet, options: Options, source: RandomSource
    ) -> Drawn:
        """Draw everything random. The loop commits the draw before `carry_out` sees it."""

    @abstractmethod
    def carry_out(
        self, world: StepContext, state: WorkingSet, drawn: Drawn, options: Options
    ) -> tuple[Logged, WorkingSet]:
        """Apply the draw. Deterministic: the same draw gives the same result on every engine."""

    def replay(self, done: StoredStep[Options, Drawn, Logged]) -> WorkingSet:
        """Compute the result again from the stored draw and log."""
        return self.carry_out(done.world, done.before, done.drawn, done.options)[1]

    @abstractmethod
    def check(self, done: CompletedStep[Options, Drawn, Logged]) -> dict[str, int]:
        """Recompute what the step promises without using its code; raises VerificationFailed."""

    def require_possible(self, options: Options, objects: int, samples: int) -> None:
        """Refuse options that are impossible for data of this size; raises BadInput."""

    def require_inputs(self, options: Options, inputs: Mapping[str, Any], facts: Facts) -> None:
        """Refuse options that the inputs cannot fulfil; raises BadInput."""

    def require_drawn_from(self, world: StepContext, state: WorkingSet, drawn: Drawn) -> None:
        """Refuse a stored draw that was made from other data; raises VerificationFailed."""

    def counts(self, done: CompletedStep[Options, Drawn, Logged]) -> Counts:
        """Numbers that describe what was done. They are stored, shown, and compared after a replay."""
        return {"samples": done.before.samples, "rows": done.after.samples}

    def expect(
        self,
        options: Options,
        inputs: Mapping[str, Any],
        facts: Facts,
        timezone: str,
        objects: int | None,
        earlier: Drawn | None,
    ) -> tuple[int, Counts, bool]:
        """Predict, from public numbers alone, how many numbers would be drawn and the `counts`.

        objects: the declared approximate number of objects. earlier: the draw of a published release.
        The last value says whether `earlier` could be used. Only `foreseen` steps implement this.
        """
        raise AssertionError(f"{self.name} is tried on the data, not foreseen")

    def later_counts(self, options: Options) -> frozenset[str]:
        """Names of counts that releases with these options lack because an earlier version made them."""
        return frozenset()

    def describe(self, drawn: int, counts: Counts) -> str:
        """A sentence for the curator that contains the counts."""
        return f"{drawn:,} drawn; " + ", ".join(f"{n} {v:,.10g}" for n, v in counts.items())

    def errors(self, options: Options, counts: Counts) -> str:
        """Sentences for analysts about the size of the noise; may be empty."""
        return ""

    def column_comments(self, options: Options) -> dict[str, str]:
        """Comments of released columns whose meaning these options change."""
        return {}

    def warnings(self, options: Options, counts: Counts) -> list[str]:
        """Warnings for the curator that follow from the counts."""
        return []

    def user_level(self, state: WorkingSet, drawn: Drawn, options: Options) -> dict[str, float]:
        """What a whole user costs. Counted from the data, so it is shown to the curator only."""
        return {}


AnyStep: TypeAlias = Step[Any, Any, Any]


Spend: TypeAlias = Callable[[Mapping[str, Any]], Decimal]
"""The amount that a release with these values books on the ledger of the method's unit."""


@dataclass(frozen=True)
class Method:
    """One way to turn a build into a release."""

    name: str
    summary: str
    steps: tuple[AnyStep, ...]
    kind: Kind
    guarantee: Declare
    unit: Unit | None = None
    """The unit of its ledger. None: no guarantee is claimed for its noise, and nothing is booked."""
    grantable: bool = True
    """Whether a release may ever be granted to analysts."""
    after: frozenset[Kind] = field(default_factory=frozenset)
    """Kinds of methods that it may follow, as in `lg+swap`."""
    explains: str | None = None
    """What a released trajectory is, if the sentence of `KINDS` does not fit."""
    moves_objects: bool = False
    """Whether each released trajectory is one object's moved trajectory. Such a release links what
    another unlinks."""
    needs: tuple[Need, ...] = ()
    """Public relations that it reads besides the build."""
    books: Spend | None = None
    """Computes what a release books. None: the sum of all parameters that are shares of a total."""
    publishes: tuple[Relation, ...] = ()
    """The relations of its releases. Empty: tables of trajectories, or of areas."""

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters of all steps, then those that every method takes."""
        found: dict[str, Parameter] = {}
        for declared in (*(p for s in self.steps for p in parameters_of(s.options)), *RELEASE):
            found.setdefault(declared.name, declared)
        return tuple(found.values())

    def spend(self, values: Mapping[str, Any]) -> Decimal:
        """What a release with these values books on the ledger of the unit."""
        if self.books is not None:
            return self.books(values)
        shares = (values[p.name] for p in self.parameters if p.share_of is not None)
        return sum(shares, Decimal(0))

    @property
    def links(self) -> bool:
        """Whether every released trajectory is one object's from begin to end."""
        return self.kind == "edited" or self.moves_objects

    @property
    def makes_areas(self) -> bool:
        return any(step.makes_areas for step in self.steps)

    @property
    def relations(self) -> tuple[Relation, ...]:
        """The tables and views that its releases may consist of."""
        return self.publishes or (AREAS if self.makes_areas else TRAJECTORIES)

    def relations_for(self, values: Mapping[str, Any], kept: Kept = ()) -> tuple[Relation, ...]:
        """The relations of a release with these values.

        kept: columns that the build carries along.
        """
        wanted = {
            "",
            *values.get(TABLES, ()),
            *(name for name, v in values.items() if v is not None),
        }
        found = tuple(relation for relation in self.relations if relation.chosen_by in wanted)
        if not self.keeps_columns:
            return found
        return tuple(r.with_kept(kept) if r.suffix == SAMPLES else r for r in found)

    @property
    def keeps_columns(self) -> bool:
        """Whether released samples have the columns that the dataset keeps."""
        return all(step.keeps_columns for step in self.steps) and not self.publishes

    @property
    def partitioned(self) -> bool:
        """Whether workers can run all of its steps, each on its own trajectories."""
        return all(step.partitioned for step in self.steps) and not self.publishes

    @property
    def for_analysts(self) -> str:
        return self.explains or KINDS[self.kind]


def options_of(step: AnyStep, values: Mapping[str, Any]) -> Any:
    """The options of one step, taken from the values of a request."""
    return step.options(**{p.name: values.get(p.name) for p in parameters_of(step.options)})


def count_decreasing_times(t: Trajectories) -> int:
    """How many samples are earlier than the sample before them in their trajectory."""
    begins = np.zeros(t.samples + 1, np.bool_)
    begins[t.offsets] = True
    return int(((t.at[1:] < t.at[:-1]) & ~begins[1 : t.samples]).sum())


def require_ascending_times(decreasing: int) -> None:
    """Refuse a result in which any time goes backwards; raises VerificationFailed."""
    if decreasing:
        raise VerificationFailed(f"{decreasing:,} times go backwards")
