"""`freqdp experiment --paper`: the runs of the paper's summary table and figures, on your own data.

The paper compares trajectory t with object t. Trajectories that are several objects' stand beside each
of them. Those that are nobody's are dealt out to the objects by number: what is linked then is chance,
as it is in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property

import numpy as np

from freqdp_db.db.connection import Database
from freqdp_db.errors import BadInput
from freqdp_db.evaluation.attacks.recovery import Truth
from freqdp_db.evaluation.metrics import measure
from freqdp_db.evaluation.pair import Case, Pair
from freqdp_db.evaluation.trials import Prepared, refusal, require_possible, run_trial
from freqdp_db.evaluation.utility import (
    diameter_error,
    frequent_patterns,
    in_trips,
    side_by_side,
    trip_error,
)
from freqdp_db.methods.contract import WorkingSet
from freqdp_db.methods.registry import find_method
from freqdp_db.model.arrays import offsets_from, rows_of
from freqdp_db.model.trajectories import Build, Locations, Trajectories
from freqdp_db.paper.runs import Run, some_objects
from freqdp_db.progress import Progress
from freqdp_db.release.request import Request
from freqdp_db.roads.network import Network

# The paper's summary table: what it compares, with which parameters, and the values it has.
#
# Jin, Hua, Ruan and Zhou, ICDE 2022, "A summary of effectiveness evaluation results": 1,000 taxis of
# T-Drive, epsilon 1. Its generated trajectories have no times and are on no roads, so that these two
# rows have gaps.


OBJECTS = 1000
EPSILON = "1"
COLUMNS = {
    "LA_s": "la_s.a.10",
    "LA_t": "la_t.a",
    "LA_st": "la_st.a.10",
    "LA_sq": "la_sq.a.10",
    "MI": "mi",
    "INF": "inf",
    "DE": "de",
    "TE": "te.trip",
    "FFP": "ffp",
    "Precision": "recovery.precision",
    "Recall": "recovery.recall",
    "F-score": "recovery.f",
    "RMF": "recovery.rmf",
    "Accuracy": "recovery.accuracy",
}
"""Titles of the paper, and what we call the same."""


@dataclass(frozen=True)
class PaperRow:
    """One method of the paper's table."""

    title: str
    method: str
    values: tuple[float | None, ...]
    """In the order of the columns."""
    given: Mapping[str, str] = field(default_factory=dict)
    """Its parameters, besides epsilon."""
    share: int = 1
    """PureG and PureL are one of the two mechanisms of GL: they get half of its epsilon."""


def _row(
    title: str, method: str, values: str, given: Mapping[str, str] | None = None, share: int = 1
) -> PaperRow:
    read = tuple(None if text == "-" else float(text) for text in values.split())
    return PaperRow(title, method, read, given or {}, share)


_K = {"k": "5"}
_SPREAD = {"spread": "paper"}
ROWS = (
    _row("SC", "sc",
         ".188 .206 .888 .206 .163 .656 .047 .385 .990 .610 .611 .611 .779 .162"),
    _row("RSC-0.1", "rsc",
         ".146 .253 .889 .129 .162 .663 .050 .380 .988 .610 .605 .608 .782 .162",
         {"radius": "100"}),
    _row("RSC-0.5", "rsc",
         ".098 .225 .869 .098 .158 .682 .064 .373 .983 .606 .578 .591 .798 .162",
         {"radius": "500"}),
    _row("RSC-1.0", "rsc",
         ".081 .122 .846 .075 .156 .704 .082 .370 .977 .598 .540 .568 .823 .162",
         {"radius": "1000"}),
    _row("RSC-3.0", "rsc",
         ".049 .068 .750 .043 .150 .784 .138 .333 .943 .561 .384 .456 .916 .160",
         {"radius": "3000"}),
    _row("RSC-5.0", "rsc",
         ".033 .024 .584 .032 .148 .853 .243 .308 .929 .535 .251 .342 .967 .152",
         {"radius": "5000"}),
    _row("W4M", "w4m",
         ".847 .164 .506 .860 .244 .285 .057 .330 .994 .276 .157 .179 .693 .035", _K),
    _row("GLOVE", "glove",
         ".370 .005 .116 .350 .385 .912 .587 .657 .416 .498 .307 .380 .516 .250", _K),
    _row("KLT", "klt",
         ".269 .002 .099 .324 .312 .929 .617 .686 .330 .435 .276 .338 .592 .218",
         {**_K, "l": "3", "t": "0.1"}),
    _row("DPT", "dpt",
         ".006 - - .009 .097 .986 .297 .375 .373 - - - - -"),
    _row("AdaTrace", "adatrace",
         ".000 - - .000 .057 .603 .291 .064 .908 - - - - -"),
    _row("PureG", "pure-g",
         ".922 .211 .928 .975 .184 .495 .004 .225 .980 .378 .481 .423 1.310 .395", share=2),
    _row("PureL", "pure-l",
         ".119 .028 .362 .026 .098 .635 .015 .365 .953 .307 .331 .318 1.342 .189", _SPREAD, 2),
    _row("GL", "gl",
         ".016 .022 .337 .015 .095 .642 .014 .331 .956 .309 .339 .324 1.420 .008", _SPREAD),
)  # fmt: skip
FIGURE = ("PureG", "PureL", "GL")
"""What the figure of epsilon compares."""


_OF_OBJECTS = frozenset(
    {"linking attacks", "mutual information", "information loss", "diameters", "trips",
     "frequent patterns"}
)  # fmt: skip


def paper_metrics(case: Case, state: WorkingSet, pair: Pair, seed: int) -> dict[str, float]:
    """The metrics of the paper's table that need no roads; `pair`: as `aligned` gives it.

    Whoever generates trips generates no weeks: how wide trajectories are, where they begin and end
    and how they go on is then compared trip by trip, on both sides.
    """
    found = measure(pair, seed, Progress(), _OF_OBJECTS)
    if is_nobodys(state):
        trips = in_trips(
            side_by_side(replace(pair, released=case.release.trajectories), state.places)
        )
        rng = np.random.default_rng(seed)
        found |= diameter_error(trips) | frequent_patterns(trips)
        found["te.trip"] = trip_error(trips, rng)["te.trajectory"]
    return found


def is_nobodys(state: WorkingSet) -> bool:
    """Whether its trajectories are made up."""
    return state.owner is not None and state.members is None


def aligned(case: Case, state: WorkingSet) -> Pair:
    """Both sides over the original places, object by object."""
    pair, objects = case.pair, len(case.original)
    if state.part_of is not None:
        return replace(pair, released=_repeated(pair.released, state))
    if is_nobodys(state):
        return replace(pair, released=_dealt(pair.released, objects))
    return pair


def _repeated(side: Trajectories, state: WorkingSet) -> Trajectories:
    """The trajectory of each object's group; whoever is in none has an empty one."""
    assert state.part_of is not None
    there = state.part_of >= 0
    rows, _ = rows_of(side.offsets, state.part_of[there].astype(np.int64))
    lengths = np.where(there, side.lengths[state.part_of], 0) if len(side) else there * 0
    start = np.where(there, side.start[state.part_of], 0) if len(side) else there * 0
    return Trajectories(offsets_from(lengths), side.location[rows], side.at[rows], start)


def _dealt(side: Trajectories, objects: int) -> Trajectories:
    """Trips to objects in turn, each object's in the order of their times."""
    owner = side.owner.astype(np.int64) % objects
    order = np.lexsort((side.at, owner))
    offsets = offsets_from(np.bincount(owner, minlength=objects))
    at = side.at[order]
    start = np.zeros(objects, np.int64)
    filled = offsets[1:] > offsets[:-1]
    start[filled] = at[offsets[:-1][filled]]
    return Trajectories(offsets, side.location[order], at, start)


FIGURE_EPSILONS = ("0.1", "1", "10")
Searches = Callable[[Database, Trajectories, Locations], dict[str, float]]
"""Microseconds that each way to search takes for a query of the global step."""


@dataclass(frozen=True)
class PaperDesign:
    """What is run: the table for the largest size, the times for all."""

    sizes: Sequence[int]
    epsilons: Sequence[str]
    seeds: Sequence[int]
    poi: tuple[str, str | None] | None
    """A table of points of interest and its column of categories."""

    def request(self, row: PaperRow, epsilon: str, seed: int) -> Request:
        given = dict(row.given)
        known = {p.name for p in find_method(row.method).parameters}
        if find_method(row.method).unit is not None:
            given["epsilon"] = f"{Decimal(epsilon) / row.share:f}"
        if "poi" in known and self.poi is not None:
            given["poi"] = self.poi[0]
            if self.poi[1] is not None:
                given["category"] = self.poi[1]
        return Request.parse(row.method, seed=str(seed), **given)

    def asked(self) -> list[tuple[PaperRow, str, int]]:
        """Every run of the table, then those that only the figure of epsilon needs."""
        table = [
            (row, EPSILON, seed)
            for row in ROWS
            for seed in (self.seeds if find_method(row.method).unit else self.seeds[:1])
        ]
        figure = [
            (row, epsilon, self.seeds[0])
            for row in ROWS
            if row.title in FIGURE
            for epsilon in self.epsilons
            if Decimal(epsilon) != Decimal(EPSILON)
        ]
        return table + figure


@dataclass(frozen=True)
class StepTimes:
    """How long the steps of GL take, and a query of each search, for one number of objects."""

    objects: int
    steps: dict[str, float]
    """Seconds."""
    searches: dict[str, float]
    """Microseconds."""


@dataclass(frozen=True)
class PaperResult:
    runs: list[Run]
    """`method` is the title of the paper."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Rows that could not be run, and what would help."""
    times: list[StepTimes] = field(default_factory=list)


@dataclass
class PaperRuns:
    """The runs of the table and of the figures; nothing is published and nothing spent."""

    database: Database
    build: Build
    network: Network
    design: PaperDesign
    prepared: Prepared
    searches: Searches

    @cached_property
    def _original(self) -> Build:
        """The objects of the table."""
        size = max(self.design.sizes)
        return self.build.with_trajectories(some_objects(self.build.trajectories, size))

    @cached_property
    def _truth(self) -> Truth:
        build = self._original
        return Truth.of(self.network, build.trajectories, build.locations, Progress())

    def run(self, row: PaperRow, epsilon: str, seed: int) -> Run | str:
        """A run of the table or of the figure of epsilon; text: why it cannot be run."""
        original = self._original
        try:
            request = self.design.request(row, epsilon, seed)
            require_possible(request, original.trajectories)
            request, world = self.prepared(request)
        except BadInput as error:
            return refusal(error)
        state, seconds = run_trial(request, world, seed, original.trajectories)
        case = Case.of(original, state, request.values)
        pair = aligned(case, state)
        found = paper_metrics(case, state, pair, seed)
        if not is_nobodys(state):
            found |= self._truth.recovered(pair, Progress())
        values = {name: found[name] for name in COLUMNS.values() if name in found}
        shown = epsilon if request.method.unit else None
        return Run(row.title, shown, len(original.trajectories), seed, None, seconds, values)

    def time(self, count: int) -> StepTimes:
        """GL by step, in memory, and the searches of its global step."""
        row = next(row for row in ROWS if row.title == "GL")
        original = some_objects(self.build.trajectories, count)
        request, world = self.prepared(self.design.request(row, EPSILON, self.design.seeds[0]))
        shown = Progress()
        run_trial(request, world, self.design.seeds[0], original, shown)
        steps = {
            name: sum(shown.seconds.get(f"{name} {part}", 0.0) for part in ("draw", "work"))
            for name in (step.name for step in request.method.steps)
        }
        searched = self.searches(self.database, original, self.build.locations)
        return StepTimes(count, steps, searched)


def mean_of(runs: Sequence[Run], title: str, epsilon: str, metric: str) -> float | None:
    """Over the seeds; None: it was not measured."""
    found = [
        run.values[metric]
        for run in runs
        if run.method == title and run.epsilon in (None, epsilon) and metric in run.values
    ]
    return float(np.mean(found)) if found else None
