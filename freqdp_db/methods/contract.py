"""What a method is: an ordered list of steps, and what it declares about itself.

A step is three things over arrays: it draws all that is random, it carries the draw out, and it
checks what it promises. The loop over steps is in `loop`, and nowhere else.

Modules of methods import compiled kernels where they run, not at their top: `freqdp --help` shows
the parameters of all methods, and to load the compiler takes a second.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from freqdp_db.engines.partitions import Partitions
from freqdp_db.engines.ranges import add
from freqdp_db.errors import VerificationFailed
from freqdp_db.methods.parameters import RELEASE, Parameter, parameters_of
from freqdp_db.methods.relations import AREAS, SAMPLES, TABLES, TRAJECTORIES, Kept, Relation
from freqdp_db.model.arrays import Groups, Ids, Ints
from freqdp_db.model.trajectories import Areas, Build, Clock, Locations, Shown, Trajectories
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
"""What a released trajectory is, and what an analyst may do with it."""
WITHOUT_SAMPLES: tuple[Kind, ...] = ("synthetic", "counts")
"""Kinds that are made from noisy counts alone: they hold nobody's samples."""
EXPOSES: dict[Kind, str] = {
    "edited": "nearly everybody can be found by who knows a few samples of them"
}
"""Kinds that are known to expose, whatever the parameters: what the risk is likely to be."""


@dataclass(frozen=True)
class Need:
    """A relation of the user's that a method reads: it is read before the steps run."""

    parameter: str
    """It names the relation."""
    reader: Literal["points", "roads", "zones"]
    """As what it is read: `Points`, a `Network` of roads, or `Zones`, which need be no relation."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Which parameters name columns of it: of points their `category`, of zones `zone`, `district`."""
    optional: bool = False
    """Whether the method does without, where the parameter is not given."""


@dataclass(frozen=True)
class StepContext:
    """What every step may read besides the state that is handed on."""

    build: Build
    search: Search | None = None
    """How the global insertion finds trajectories, if not in memory; the answer is the same."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """What the method needs, by the parameter that names it."""

    facts: Facts | None = None
    """What is public of the data, in the build's metres; None: nothing was said."""
    shown: Shown | None = None
    """How areas and points look in the release; None: as they are here."""
    told: ProgressCallback = ignore_progress
    """How much of its work a step has done, from 0 to 1: for who waits for a long one."""

    def public_facts(self, region: Any, period: Any) -> tuple[Region, Period]:
        """The region and the period that a release is made for."""
        assert self.facts is not None, "the request was let through without public facts"
        return self.facts(region, period)

    def tf_of(self, state: WorkingSet) -> Ids:
        """TF that is drawn from: of the build as SQL shows it, of what steps have changed as counted.

        `verify` counts both.
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
    """Times that were moved into one week or day."""

    begin_us: int
    span_us: int
    """When it begins, and how long it is."""
    at: Ints
    """The time of each sample with its date."""


@dataclass(frozen=True)
class WorkingSet:
    """Trajectories on their way from the build to the released table."""

    trajectories: Trajectories
    places: Locations
    """The build's, or the method's own."""
    key: Ints
    """Released id of each trajectory."""
    owner: Ids | None = None
    """The object of each sample; -1: several objects', and `members` says of how many its
    trajectory is. None: trajectory t is object t's."""
    areas: Areas | None = None
    members: Ints | None = None
    """How many objects each trajectory is of; None: no trajectory is several objects' at once."""
    part_of: Ids | None = None
    """The trajectory that each object is part of, -1: of none, where trajectories are several
    objects' and no object is part of two."""
    groups: Groups | None = None
    """Samples after which it was dealt anew who goes on as whom, for who judges attacks."""
    pieces: bool = False
    """Whether trajectories are pieces that go on under other ids."""
    undated: Undated | None = None
    """Where dates were left out: what times were, for who judges attacks."""
    made: Columns | None = None
    """What a method with relations of its own publishes, and that is no trajectories."""

    def owners(self) -> Ids:
        """The object of each sample."""
        return self.trajectories.owner if self.owner is None else self.owner

    @cached_property
    def partitions(self) -> Partitions[Partition]:
        """The trajectories where they are kept: with workers in ranges, or all of them here."""
        from freqdp_db.methods.frequency.partition import partitions_of

        return partitions_of(self.trajectories, self.places)

    @property
    def frequencies(self) -> Frequencies:
        """PF and TF, where all trajectories are here."""
        (whole,) = self.partitions
        return whole.frequencies

    @cached_property
    def tf(self) -> Ids:
        """How many trajectories visit each place."""
        from freqdp_db.methods.frequency.partition import tf_of

        total: Ids = add(list(self.partitions.map(tf_of)))
        return total

    @cached_property
    def rank(self) -> Ints:
        """Order of the released ids, for ties: by trajectory id they would favour the first."""
        return np.argsort(np.argsort(self.key))

    @property
    def samples(self) -> int:
        return self.trajectories.samples

    @cached_property
    def digest(self) -> str:
        """Hash of the trajectories' hashes: partitions of the trajectories can be hashed apart.

        It begins with the number of the rule that it is computed by.
        """
        whole = hashlib.sha256()
        more: list[NDArray[Any]] = []
        if self.owner is not None:
            more.append(self.owner)
        if self.places.source_x is None:
            location = self.trajectories.location
            more += [self.places.x[location], self.places.y[location]]
        if self.areas is not None:
            more += [getattr(self.areas, f.name) for f in fields(self.areas)]
        # columns of a method's own are there only where all trajectories are here, in one partition
        for hashes in self.partitions.map(_hashes_of, more):
            whole.update(hashes)
        if self.members is not None:
            whole.update(self.members.tobytes())
        if self.made is not None:
            for made in fields(self.made):
                whole.update(np.ascontiguousarray(getattr(self.made, made.name)).tobytes())
        return f"2:{whole.hexdigest()}"


def _hashes_of(partition: Partition, more: list[NDArray[Any]]) -> bytes:
    """The hash of each trajectory, one after the other."""
    t = partition.trajectories
    carried = [] if t.kept is None else [t.kept]
    columns = [np.ascontiguousarray(column) for column in (t.location, t.at, *carried, *more)]
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
class Nothing:
    """The log of a step whose draw says everything."""

    def __len__(self) -> int:
        return 0


Drawn = TypeVar("Drawn", bound=Columns)
Logged = TypeVar("Logged", bound=Columns)
Options = TypeVar("Options")


@dataclass(frozen=True)
class Recorded(Generic[Options, Drawn, Logged]):
    """A step as it is stored: what it drew and logged, and what it is done to."""

    world: StepContext
    before: WorkingSet
    drawn: Drawn
    logged: Logged
    options: Options


@dataclass(frozen=True)
class Taken(Recorded[Options, Drawn, Logged]):
    """A step that was carried out or replayed."""

    after: WorkingSet


class Step(ABC, Generic[Options, Drawn, Logged]):
    """One step of a method. Subclasses have no state of their own."""

    name: ClassVar[str]
    words: ClassVar[str]
    """What it changes, for the curator: `Step 1, <words>: ...`."""
    options: type[Options]
    draws: type[Drawn]
    logs: type[Logged]
    partitioned: ClassVar[bool] = False
    """Whether it works on the partitions of a state, wherever they are kept."""
    makes_areas: ClassVar[bool] = False
    """Whether a sample is somewhere in an area afterwards."""
    keeps_columns: ClassVar[bool] = False
    """Whether each sample afterwards has the values that one sample carried along."""
    checked: ClassVar[Mapping[str, str]] = {}
    """The counts of `check`, in words."""
    foreseen: ClassVar[bool] = False
    """Whether `expect` says what would come out, so that a plan reads no data."""
    not_replayable: ClassVar[frozenset[str]] = frozenset()
    """Versions of the software whose draws this one can no longer carry out."""

    @abstractmethod
    def draw(
        self, world: StepContext, state: WorkingSet, options: Options, source: RandomSource
    ) -> Drawn:
        """All that is random. It is committed before it is used."""

    @abstractmethod
    def carry_out(
        self, world: StepContext, state: WorkingSet, drawn: Drawn, options: Options
    ) -> tuple[Logged, WorkingSet]:
        """The same draw gives the same result, on any engine."""

    def replay(self, done: Recorded[Options, Drawn, Logged]) -> WorkingSet:
        """The result again, from what was stored."""
        return self.carry_out(done.world, done.before, done.drawn, done.options)[1]

    @abstractmethod
    def check(self, done: Taken[Options, Drawn, Logged]) -> dict[str, int]:
        """Recompute what the step promises, independently; raises VerificationFailed."""

    def require_possible(self, options: Options, objects: int, samples: int) -> None:
        """Refuse options that make no sense for data of this size; raises BadInput."""

    def require_inputs(self, options: Options, inputs: Mapping[str, Any], facts: Facts) -> None:
        """Refuse options that the inputs cannot fulfil; raises BadInput."""

    def require_drawn_from(self, world: StepContext, state: WorkingSet, drawn: Drawn) -> None:
        """Refuse a stored draw that was made from other data; raises VerificationFailed."""

    def counts(self, done: Taken[Options, Drawn, Logged]) -> Counts:
        """What was done, in numbers: recorded, shown to the curator, compared when it is replayed."""
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
        """How much would be drawn, its counts, and whether `earlier` was of use.

        From public numbers alone. objects: about how many there are, as declared. earlier: the draw of
        a published release. Only steps that are `foreseen` have it.
        """
        raise AssertionError(f"{self.name} is tried on the data, not foreseen")

    def later_counts(self, options: Options) -> frozenset[str]:
        """Counts that an earlier version, which made releases with such options, did not record."""
        return frozenset()

    def describe(self, drawn: int, counts: Counts) -> str:
        """The counts in words."""
        return f"{drawn:,} drawn; " + ", ".join(f"{n} {v:,.10g}" for n, v in counts.items())

    def errors(self, options: Options, counts: Counts) -> str:
        """How large the errors are that noise leaves, for analysts; empty: nothing to say."""
        return ""

    def column_comments(self, options: Options) -> dict[str, str]:
        """What columns of the released tables say with these options, where that is not as declared."""
        return {}

    def warnings(self, options: Options, counts: Counts) -> list[str]:
        """What the curator should know once the numbers are there."""
        return []

    def user_level(self, state: WorkingSet, drawn: Drawn, options: Options) -> dict[str, float]:
        """What a whole user costs: counted from the data, so for the curator only."""
        return {}


AnyStep: TypeAlias = Step[Any, Any, Any]


Spend: TypeAlias = Callable[[Mapping[str, Any]], Decimal]
"""What such a release books, in the currency of the method's unit."""


@dataclass(frozen=True)
class Method:
    """One way to turn a build into a release."""

    name: str
    summary: str
    steps: tuple[AnyStep, ...]
    kind: Kind
    guarantee: Declare
    unit: Unit | None = None
    """What its spend is counted for; None: it draws no noise that anything is claimed for."""
    grantable: bool = True
    """Whether a release may ever be granted to analysts."""
    after: frozenset[Kind] = field(default_factory=frozenset)
    """It may follow methods of these kinds: `lg+swap`."""
    explains: str | None = None
    """What a released trajectory is, where the kind's own words do not fit."""
    moves_objects: bool = False
    """Whether a released trajectory is one object's, moved: it links what another release unlinks."""
    needs: tuple[Need, ...] = ()
    """Relations that it reads besides the build."""
    books: Spend | None = None
    """None: the sum of the shares of its totals."""
    publishes: tuple[Relation, ...] = ()
    """Relations of its own; none: it publishes trajectories."""

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Those of all steps, then those that every method takes."""
        found: dict[str, Parameter] = {}
        for declared in (*(p for s in self.steps for p in parameters_of(s.options)), *RELEASE):
            found.setdefault(declared.name, declared)
        return tuple(found.values())

    def spend(self, values: Mapping[str, Any]) -> Decimal:
        """What a release with these values books on the ledger of its unit."""
        if self.books is not None:
            return self.books(values)
        shares = (values[p.name] for p in self.parameters if p.share_of is not None)
        return sum(shares, Decimal(0))

    @property
    def links(self) -> bool:
        """Whether a released trajectory is one object's from its beginning to its end."""
        return self.kind == "edited" or self.moves_objects

    @property
    def makes_areas(self) -> bool:
        return any(step.makes_areas for step in self.steps)

    @property
    def relations(self) -> tuple[Relation, ...]:
        """The tables and views that its releases may consist of."""
        return self.publishes or (AREAS if self.makes_areas else TRAJECTORIES)

    def relations_for(self, values: Mapping[str, Any], kept: Kept = ()) -> tuple[Relation, ...]:
        """Those of a release with these values. kept: columns that the build carries along."""
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
        """Whether workers can do all of its steps, each on its own trajectories."""
        return all(step.partitioned for step in self.steps) and not self.publishes

    @property
    def for_analysts(self) -> str:
        return self.explains or KINDS[self.kind]


def options_of(step: AnyStep, values: Mapping[str, Any]) -> Any:
    """The part of a request that one step reads."""
    return step.options(**{p.name: values.get(p.name) for p in parameters_of(step.options)})


def count_decreasing_times(t: Trajectories) -> int:
    """How many times of a trajectory go backwards."""
    begins = np.zeros(t.samples + 1, np.bool_)
    begins[t.offsets] = True
    return int(((t.at[1:] < t.at[:-1]) & ~begins[1 : t.samples]).sum())


def require_none_falling(falling: int) -> None:
    """Times of a trajectory never go backwards."""
    if falling:
        raise VerificationFailed(f"{falling:,} times go backwards")
