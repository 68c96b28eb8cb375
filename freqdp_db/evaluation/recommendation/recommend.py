"""`freqdp recommend` from a dataset's name to a page.

Candidates are tried in memory within the time given. Nearly all objects make a trial release, because a
crowd hides only if all of it is there; some hundred of them are looked for in it, and others are held out.
What is left out is said, with the reason. A candidate that one attacker learns more from than the limit
allows is not attacked further: it cannot be recommended. Of candidates that show less and less, those
around the limit are tried first.
"""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import freqdp_db
from freqdp_db.dataset.facts import facts_of
from freqdp_db.dataset.memory import load_build
from freqdp_db.dataset.text_values import parse_share
from freqdp_db.db.builds import BuildRow, find_build
from freqdp_db.db.connection import Database
from freqdp_db.db.datasets import DatasetRow, find_dataset
from freqdp_db.db.releases import releases_of_same_rows
from freqdp_db.engines.ranges import SingleThread, use
from freqdp_db.errors import BadInput
from freqdp_db.evaluation.attacks.exposure import EXPOSURES, measure_exposure, measure_membership
from freqdp_db.evaluation.counts import measure_trial
from freqdp_db.evaluation.evaluate import (
    check_seed,
    refusal,
    require_possible,
    run_trial,
    with_headlines,
)
from freqdp_db.evaluation.figures import (
    ACCENT,
    GOOD,
    INK,
    LINE,
    PAPER,
    QUIET,
    ZONE,
    files_in,
    in_page_style,
    new_figure,
    render,
)
from freqdp_db.evaluation.pair import Case
from freqdp_db.evaluation.recommendation.choosing import (
    ALIKE,
    FOR_THE_CURATOR,
    HEAVIEST,
    TRIALS,
    TYPICAL,
    Candidate,
    Chosen,
    Climb,
    Ladder,
    LeftOut,
    MethodToTry,
    Purpose,
    Recommendation,
    choose,
    contender,
    find_purpose,
    frontier,
    guaranteed,
    is_out,
    judged,
    ladders_for,
    never_tried,
    percent,
    price_of_histories,
    share,
    steps_to_climb,
    within,
)
from freqdp_db.evaluation.utility import information_loss, usefulness
from freqdp_db.methods.contract import StepContext
from freqdp_db.model.arrays import Ints, Metres
from freqdp_db.model.trajectories import Build, Trajectories
from freqdp_db.privacy.guarantee import ProtectedUnit
from freqdp_db.progress import Progress
from freqdp_db.release.conflicts import linkable_releases
from freqdp_db.release.inputs import make_world, require_public_inputs
from freqdp_db.release.request import Request

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAGE = "recommendation.html"
LEAST_OBJECTS = 4
_MOST_MINUTES = 1_440


@dataclass(frozen=True)
class RecommendOptions:
    risk: float
    purpose: Purpose
    objects: int | None
    """None: as many as fit into the time."""
    minutes: float
    seed: int
    roads: str | None
    """A public table of roads, for methods that keep to some."""
    out: Path | None
    overwrite: bool

    @classmethod
    def parse(
        cls,
        *,
        risk: str | float | Decimal,
        purpose: str,
        objects: int | None,
        minutes: str | float | Decimal,
        seed: int,
        roads: str | None,
        out: Path | str | None,
        force: bool,
    ) -> RecommendOptions:
        check_seed(seed)
        return cls(
            risk=parse_share("[[risk]]", str(risk)),
            purpose=find_purpose(purpose),
            objects=objects,
            minutes=parse_minutes(str(minutes)),
            seed=seed,
            roads=roads,
            out=None if out is None else Path(out),
            overwrite=force,
        )

    def require_possible(self, objects: int) -> None:
        """Refuse a number of objects that there is not."""
        if objects < LEAST_OBJECTS:
            raise BadInput(
                f"the dataset has {objects} objects: there is nobody to hold out",
                remedy=f"it takes at least {LEAST_OBJECTS}, and hundreds to mean something",
            )
        if self.objects is not None and not LEAST_OBJECTS <= self.objects <= objects:
            raise BadInput(
                f"[[objects]] {self.objects} is not possible: the dataset has {objects:,}",
                remedy=f"give a number from {LEAST_OBJECTS} to {objects}; some of them are held out",
            )


def parse_minutes(text: str) -> float:
    try:
        value = Decimal(text.strip())
    except InvalidOperation:
        value = Decimal("nan")
    if not value.is_finite() or not 0 < value <= _MOST_MINUTES:
        raise BadInput(
            f"[[minutes]] {text} is not a number of minutes above 0, up to {_MOST_MINUTES:,}",
            remedy="for example [[minutes]] 10",
        )
    return float(value)


# How many objects fit into the time, and which candidates.

_USED = 0.8
"""Of the time, what is planned for: what was measured on few objects is a guess for many."""
_FEW = 20
_WARMING_UP = 8
"""Objects of the trial that loads the kernels, or compiles them."""
_FINDING_OUT = 1 / 100
"""Of the time, what a trial takes at least that tells how long one on more objects takes."""
_MORE = 4
"""Each has so many times the objects of the one before."""
_AGAIN = 2
"""So many candidates are planned to be tried again."""
_PLANNED = 4
"""So many ladders, the most promising, are planned to be climbed."""
_LESS_USEFUL = "less useful than one that is within the risk, so it was not attacked"
_NO_TIME = "no time left; allow more --minutes, or fewer --objects"


@dataclass
class TimeBudget:
    """The time that there is, and what has been learnt of how long a candidate takes."""

    seconds: float
    typical: float = 0.0
    """Seconds for a candidate of a pace that is not known."""
    paces: dict[str, float] = field(default_factory=dict)
    """Seconds for a candidate of each pace that is known."""
    clock: Callable[[], float] = time.monotonic
    started: float = field(init=False)

    def __post_init__(self) -> None:
        self.started = self.clock()

    @property
    def used(self) -> float:
        return self.clock() - self.started

    def expected(self, variants: Sequence[MethodToTry]) -> float:
        """Seconds for all of these."""
        return sum(self.paces.get(v.pace, self.typical) for v in variants)

    def allows(self, variant: MethodToTry) -> bool:
        """Whether it will end in time, by what is known so far."""
        return self.used + self.expected([variant]) <= self.seconds

    def took(self, variant: MethodToTry, seconds: float, *, complete: bool) -> None:
        """Learn from one with all attackers: halfway from what was thought to what was seen."""
        if complete:
            self.paces[variant.pace] = (self.expected([variant]) + seconds) / 2


def line_through(samples: Sequence[float], seconds: Sequence[float]) -> Metres:
    """Seconds that a trial takes in any case, and for each sample: from the last two of some trials.

    Those of several trials are the sum of their lines.
    """
    (s, more), (t, longer) = samples[-2:], seconds[-2:]
    slope = (longer - t) / max(more - s, 1.0)
    # a hiccup in the smaller one must not make the larger one look free
    slope = min(max(slope, longer / more / 2), longer / more)
    return np.array([longer - slope * more, slope])


def objects_within(seconds: float, samples: Ints, line: Metres) -> int:
    """How many objects fit, if a trial may take so long; a round number.

    samples: for one object, for two, and so on. They are what takes time, and objects may differ in
    them a thousandfold.
    """
    most = len(samples)
    may = (_USED * seconds - line[0]) / max(line[1], 1e-12)
    fitting = int(np.searchsorted(samples, may, side="right"))
    if fitting < most:
        step = 10 ** max(len(str(fitting)) - 2, 0)
        fitting = max(fitting // step * step, min(_FEW, most))
    return fitting


def how_long(needed: float, allowed: float) -> str:
    """What to expect: the time it takes, or that what does not fit is left out."""
    if needed > allowed:
        return (
            f"about {span(needed)} for all of them; those that do not fit into {span(allowed)} "
            "(--minutes) are left out and listed"
        )
    return f"about {span(needed)}, at most {span(allowed)}"


def span(seconds: float) -> str:
    if seconds < 90:
        return f"{max(round(seconds), 1)} s"
    return f"{round(seconds / 60)} min"


# One trial.

_FEW_SAMPLES = 400_000
"""Up to so many, one thread is quicker than many that each count all places."""
_QUICK_FIRST = sorted(EXPOSURES, key=("traces", "points", "likeness", "habits", "edits").index)
"""Attackers: first those who learn most of what is out, and quickly."""
_HELD_OUT, _MOST_HELD_OUT = 5, 200
"""Every fifth object, up to so many."""
_MOST_ATTACKED = 300


@dataclass(frozen=True)
class Split:
    """Objects that the method sees, those of them who are looked for, and others that it does not see."""

    members: Trajectories
    attacked: Ints
    """By number among the members."""
    controls: Trajectories


def chosen(objects: int, seed: int) -> Ints:
    """The order in which objects are taken for a trial."""
    return np.random.default_rng([seed, objects]).permutation(objects)


def held_out(objects: int) -> int:
    return min(max(objects // _HELD_OUT, 1), _MOST_HELD_OUT)


def split(trajectories: Trajectories, objects: int, seed: int) -> Split:
    """A random choice of objects, without one on both sides; the same seed, the same ones."""
    order = chosen(len(trajectories), seed)[:objects]
    out = held_out(objects)
    attacked = np.sort(np.random.default_rng([seed, 1]).permutation(objects - out)[:_MOST_ATTACKED])
    return Split(
        trajectories.take(np.sort(order[out:])), attacked, trajectories.take(np.sort(order[:out]))
    )


@dataclass(frozen=True)
class TrialRelease:
    """A method that was run on the members, and what analysts keep of it."""

    request: Request
    sides: Split
    seed: int
    found: dict[str, float]
    case: Case | None
    """The release, to be attacked; None: of counts, which are attacked already."""

    def attack(self, limit: float | None = None) -> tuple[dict[str, float], bool]:
        """What attackers learn, and what analysts keep.

        limit: once an attacker has learnt more of somebody's samples, the others are left out. Also returns
        whether all were tried.
        """
        found, case = dict(self.found), self.case
        if case is None:
            return found, True

        def enough(found: Mapping[str, float]) -> bool:
            return limit is not None and is_out(found, limit)

        with _threads_for(self.sides):
            for attack in _QUICK_FIRST:
                found |= measure_exposure(case, self.seed, only=[attack], enough=enough)
                if enough(found):
                    return found, False
            if self.request.method.kind == "synthetic":
                found |= measure_membership(case, self.seed, self.sides.controls)
        return with_headlines(found), True


def _threads_for(sides: Split) -> AbstractContextManager[object]:
    return use(SingleThread()) if sides.members.samples <= _FEW_SAMPLES else nullcontext()


def run_on(world: StepContext, sides: Split, request: Request, seed: int) -> TrialRelease:
    """Run a method on the members, and measure what analysts keep."""
    with _threads_for(sides):
        state, _ = run_trial(request, world, seed, sides.members)
        if request.method.kind == "counts":
            made = (sides.members, sides.controls, state.tables)
            found = measure_trial(world, *made, request, seed)
            return TrialRelease(request, sides, seed, found, None)
        case = Case.of(world.build.with_trajectories(sides.members), state, request.values)
        found = usefulness(replace(case.pair, released=state.trajectories), state.places)
        if request.method.kind == "edited":
            found |= information_loss(case.pair)
        return TrialRelease(request, sides, seed, found, case.about(sides.attacked))


# All of them.


@dataclass
class _Measured:
    """What was measured of one candidate so far."""

    variant: MethodToTry
    request: Request
    trials: list[dict[str, float]] = field(default_factory=list)
    complete: bool = True
    seconds: float = 0.0


@dataclass
class CandidateTrials:
    """Candidates as they are tried, on whom, and what is left out."""

    dataset: DatasetRow
    options: RecommendOptions
    world: StepContext
    sides: Split
    budget: TimeBudget
    worlds: dict[str, StepContext] = field(default_factory=dict)
    """Of candidates that read more than the build, by label: roads, or the zones of counts."""
    left_out: list[tuple[MethodToTry, str]] = field(default_factory=list)
    """Each with the reason."""
    _measured: dict[str, _Measured] = field(default_factory=dict)
    _less_useful: set[str] = field(default_factory=set)
    """Labels of what was not attacked so far, because something more useful keeps the limit."""

    def try_all(
        self, ladders: Sequence[Ladder], requests: Mapping[str, Request], progress: Progress
    ) -> None:
        """All that fit into the time: those around the limit, the best of them again, the others.

        requests: by label; what is missing is left out already.
        """
        rest = [method for ladder in ladders for method in ladder if method.label in requests]
        with progress.stage("recommend", len(rest), "candidates") as stage:
            for ladder in ladders:
                climb = Climb([method for method in ladder if method.label in requests])
                while (method := climb.next()) is not None:
                    keeps = self._try_first(method, requests[method.label], only_if_better=True)
                    if keeps is not None:
                        rest.remove(method)
                    climb.tried(method, within=keeps is not False)
                    stage.advance(1)
        self._try_again(progress)
        with progress.stage("try the others", len(rest), "candidates") as stage:
            for method in rest:
                self._try_first(method, requests[method.label])
                stage.advance(1)
        self._try_again(progress)

    def _try_first(
        self, variant: MethodToTry, request: Request, *, only_if_better: bool = False
    ) -> bool | None:
        """Whether it may keep the limit; what is left out does not.

        only_if_better: None, and not attacked, if something more useful keeps the limit.
        """
        try:
            require_possible(request, self.sides.members)
        except BadInput as error:
            self.left_out.append((variant, refusal(error)))
            return False
        # the first with a guarantee and the first without one are tried however little time
        # there is: else there is nothing to say
        known = {measured.variant.is_for_an_object for measured in self._measured.values()}
        if variant.is_for_an_object in known and not self.budget.allows(variant):
            why = _NO_TIME if variant.label not in self._less_useful else _LESS_USEFUL
            self.left_out.append((variant, why))
            return False
        measured = _Measured(variant, request)
        if not self._try(measured, only_if_better=only_if_better):
            self._less_useful.add(variant.label)
            return None
        candidate = self._judged(measured)
        return within(candidate.risk_high, candidate.half_high, self.options.risk)

    def _try_again(self, progress: Progress) -> None:
        """What has to be sure before it is chosen."""
        with progress.stage("try again"):
            while (best := contender(self.candidates, self.options.risk)) is not None:
                measured = self._measured[best.label]
                if not self.budget.allows(measured.variant):
                    return
                self._try(measured)

    def _try(self, measured: _Measured, *, only_if_better: bool = False) -> bool:
        """One trial; the first of each on the same objects, each further one on others.

        False: it was not attacked, because something more useful keeps the limit.
        """
        variant, request = measured.variant, measured.request
        limit = None
        if not measured.complete:
            measured.trials, measured.complete = [], True
        elif not measured.trials and self._may_stop(request):
            limit = self.options.risk
        seed, sides = self.options.seed + len(measured.trials), self.sides
        if measured.trials:
            objects = len(sides.members) + len(sides.controls)
            sides = split(self.world.build.trajectories, objects, seed)
        started = time.monotonic()
        world = self.worlds.get(variant.label, self.world)
        trial = run_on(world, sides, request, seed)
        if only_if_better and self._is_less_useful(trial):
            return False
        found, measured.complete = trial.attack(limit)
        took = time.monotonic() - started
        measured.trials.append(found)
        measured.seconds += took
        self.budget.took(variant, took, complete=measured.complete)
        self._measured[variant.label] = measured
        return True

    def _is_less_useful(self, trial: TrialRelease) -> bool:
        """Whether something keeps the limit that is so much more useful that this cannot be chosen."""
        best, purpose = choose(self.candidates, self.options.risk).recommended, self.options.purpose
        serves = trial.request.method.kind in purpose.kinds
        if best is None or best.usefulness is None or not serves:
            return False
        return purpose.score(trial.found) < best.usefulness - ALIKE

    def _may_stop(self, request: Request) -> bool:
        """Whether its risk matters only if it is within the limit.

        What cannot serve the purpose says what the purpose costs, and of made-up trips what chance does
        is taken off at the end.
        """
        kind = request.method.kind
        return kind in self.options.purpose.kinds and kind != "synthetic"

    @property
    def candidates(self) -> list[Candidate]:
        return [self._judged(measured) for measured in self._measured.values()]

    def _judged(self, m: _Measured) -> Candidate:
        # without the dataset's public facts: anonymize fills them in itself
        asked = m.variant.request().command()
        command = f"freqdp anonymize {shlex.quote(self.dataset.name)} {asked}"
        return judged(
            m.variant, m.request, m.trials, self.options.purpose, self.options.risk, command,
            round(m.seconds, 2), self.dataset.protected, complete=m.complete,
        )  # fmt: skip


def try_all(
    database: Database,
    dataset: DatasetRow,
    row: BuildRow,
    build: Build,
    options: RecommendOptions,
    budget: TimeBudget,
    progress: Progress,
) -> CandidateTrials:
    """Every candidate that is possible and fits into the time."""
    ladders = ladders_for(options.purpose, options.roads)
    requests: dict[str, Request] = {}
    left_out: list[tuple[MethodToTry, str]] = []
    with database.begin() as connection:
        for variant in (method for ladder in ladders for method in ladder):
            try:
                request = variant.request().with_facts(dataset, row)
                require_public_inputs(connection, dataset, row, request)
                requests[variant.label] = request
            except BadInput as error:
                left_out.append((variant, refusal(error)))
    world = StepContext(build, facts=facts_of(build))
    # what they read is read first, and roads once: a wrong name is refused before the long work
    worlds: dict[str, StepContext] = {}
    on_roads: StepContext | None = None
    for label, request in requests.items():
        if "roads" in request.values:
            if on_roads is None:
                with progress.stage("read roads"):
                    on_roads = make_world(database, build, request.method, request.values)
            worlds[label] = on_roads
        elif request.method.kind == "counts":
            worlds[label] = make_world(database, build, request.method, request.values)
    possible = [[m for m in ladder if m.label in requests] for ladder in ladders]
    sides = _prepare(world, possible, requests, worlds, options, budget, progress)
    trials = CandidateTrials(dataset, options, world, sides, budget, worlds, left_out)
    trials.try_all(possible, requests, progress)
    return trials


def _prepare(
    world: StepContext,
    ladders: Sequence[Ladder],
    requests: Mapping[str, Request],
    worlds: Mapping[str, StepContext],
    options: RecommendOptions,
    budget: TimeBudget,
    progress: Progress,
) -> Split:
    """Find out how long it takes, how many objects fit into the time, and say so."""
    build = world.build
    in_all = len(build.trajectories)
    most = options.objects or in_all
    samples = np.cumsum(build.trajectories.lengths[chosen(in_all, options.seed)])
    # of each ladder what shows most, which takes longest
    promising = [ladder[0] for ladder in ladders if ladder][:_PLANNED]
    lines: dict[str, Metres] = {}
    with progress.stage("get ready") as stage:
        few = split(build.trajectories, min(most, _WARMING_UP), options.seed)
        run_on(world, few, HEAVIEST.request(), options.seed).attack()
        for variant in (TYPICAL, *promising):
            if variant.pace not in lines:
                request = requests.get(variant.label, variant.request())
                known = worlds.get(variant.label, world)
                lines[variant.pace] = _time_trials(known, request, options, samples[:most])
                stage.advance(1)
    typical = lines[TYPICAL.pace]
    # what is recommended is tried again, and perhaps another one or two after it
    likeliest = next((method for method in promising if not method.is_for_an_object), TYPICAL)
    again = [likeliest] * (_AGAIN * (TRIALS - 1))
    planned = [
        lines.get(variant.pace, typical)
        for variant in (*steps_to_climb(ladders[:_PLANNED]), *again)
    ]
    left = budget.seconds - budget.used
    objects = options.objects or objects_within(left, samples, np.sum(planned, axis=0))
    in_trial = np.array([1.0, samples[objects - 1]])
    budget.typical = float(typical @ in_trial)
    budget.paces = {pace: float(line @ in_trial) for pace, line in lines.items()}
    sides = split(build.trajectories, objects, options.seed)
    variants = [method for ladder in ladders for method in ladder]
    needed = budget.used + budget.expected([*variants, *again])
    progress.note(
        f"Trying {len(variants)} candidates on {len(sides.members):,} objects, of which "
        f"{len(sides.attacked):,} are attacked, with {len(sides.controls):,} others held out (of "
        f"{in_all:,}): {how_long(needed, budget.seconds)}."
    )
    return sides


def _time_trials(
    world: StepContext, request: Request, options: RecommendOptions, samples: Ints
) -> Metres:
    """How long trials on more and more objects take, until one takes long enough.

    samples: for one object, for two, and so on.
    """
    most = len(samples)
    objects, tried, seconds = min(most, _WARMING_UP), [0.0], [0.0]
    while True:
        started = time.monotonic()
        sides = split(world.build.trajectories, objects, options.seed)
        run_on(world, sides, request, options.seed).attack()
        tried.append(float(samples[objects - 1]))
        seconds.append(time.monotonic() - started)
        enough = seconds[-1] >= _FINDING_OUT * 60 * options.minutes
        if objects == most or (objects >= _FEW and enough):
            return line_through(tried, seconds)
        objects = min(objects * _MORE, most)


# The recommendation, and its page.

_FEW_ATTACKED = 100


def recommend_on(
    database: Database, name: str, options: RecommendOptions, begin: Callable[[], Progress]
) -> Recommendation:
    """Try the grid on the current build of a dataset, choose, and write the page.

    begin: called when nothing is left to refuse; compiles what is not compiled yet.
    """
    dataset = find_dataset(database, name)
    row = find_build(database, dataset.require_build())
    options.require_possible(row.trajectories)
    folder = options.out or Path(f"recommend_{name}")
    (file,) = files_in(folder, [PAGE], overwrite=options.overwrite)
    progress = begin()
    budget = TimeBudget(60 * options.minutes)
    build = load_build(database, row.build_id, progress)
    trials = try_all(database, dataset, row, build, options, budget, progress)
    candidates, sides = trials.candidates, trials.sides
    choice = choose(candidates, options.risk)
    picked = choice.picked
    found = Recommendation(
        dataset=name,
        purpose=options.purpose.name,
        risk=options.risk,
        objects=len(sides.members),
        held_out=len(sides.controls),
        attacked=len(sides.attacked),
        objects_in_all=row.trajectories,
        seed=options.seed,
        minutes=options.minutes,
        seconds=round(trials.budget.used, 1),
        recommended=choice.recommended.label if choice.recommended else None,
        nearest=choice.nearest.label if choice.nearest else None,
        why=choice.why,
        command=None if picked is None else picked.command,
        guarantee=_guarantee(candidates, trials.left_out, options.purpose, dataset.protected),
        candidates=candidates,
        left_out=[
            *_by_reason(trials.left_out),
            *(LeftOut(names, why) for names, why in never_tried(options.purpose)),
        ],
        notes=_notes(database, dataset, choice, candidates, sides, row.trajectories),
        file=file.resolve(),
    )
    with progress.stage("draw"):
        write_page(found, options.purpose)
    return found


def _guarantee(
    candidates: Sequence[Candidate],
    left_out: Sequence[tuple[MethodToTry, str]],
    purpose: Purpose,
    protected: ProtectedUnit,
) -> str:
    """What can be had that is proved, and if nothing can, why."""
    best = guaranteed(candidates)
    if best is not None:
        return (
            f"With a guarantee for {protected.words}: {best.label}. {best.guarantee} Usefulness "
            f"{share(best.usefulness)} ({best.use_words}). No measurement replaces a guarantee: "
            f"these numbers do not cover future attacks. {best.command}"
        )
    none = (
        f"None of these guarantees anything for {protected.words}, and no measurement replaces a "
        "guarantee."
    )
    if "synthetic" not in purpose.kinds:
        return f"{none} Methods that do (strict) generate synthetic trips, which keep nobody's history."
    reason = next((why for method, why in left_out if method.is_for_an_object), None)
    return none if reason is None else f"{none} To include such a method: {reason}"


def _by_reason(left_out: Sequence[tuple[MethodToTry, str]]) -> list[LeftOut]:
    """What was left out for the same reason, said once."""
    labels: dict[str, list[str]] = {}
    for method, why in left_out:
        labels.setdefault(why, []).append(method.label)
    return [LeftOut("; ".join(those), why) for why, those in labels.items()]


def _notes(
    database: Database,
    dataset: DatasetRow,
    choice: Chosen,
    candidates: Sequence[Candidate],
    sides: Split,
    in_all: int,
) -> list[str]:
    members, attacked = len(sides.members), len(sides.attacked)
    price = price_of_histories(candidates)
    notes = [] if price is None else [price]
    if attacked < _FEW_ATTACKED:
        notes.append(
            f"Measured on only {attacked} objects: one object is {percent(1 / max(attacked, 1))} of them, "
            "so smaller differences mean nothing."
        )
    if members + len(sides.controls) < in_all:
        notes.append(
            f"Trial releases are of {members:,} of {in_all:,} objects. In the crowd of all of them, whom a "
            "method hides in a crowd or under noise is hidden better: allow more --minutes. If samples are "
            "seconds apart, register a view with one a minute of each object."
        )
    if any(not candidate.complete for candidate in candidates):
        notes.append(
            "A candidate that one attacker learns too much from is not attacked further: what is learnt "
            'of it is "at least" so much.'
        )
    if choice.picked is not None and choice.picked.kind == "unlinked":
        out = linkable_releases(releases_of_same_rows(database, dataset.account_id))
        if out:
            notes.append(
                f"{out[0].name} ({out[0].method}) is a published release of the same source: "
                "anyone who has both can join them by their true samples and undo the unlinking. Withdraw "
                "it first: "
                f"freqdp release withdraw {shlex.quote(out[0].name)}"
            )
    return notes


def write_page(found: Recommendation, purpose: Purpose) -> None:
    ordered = found.ordered()
    title = (
        f"Risk against usefulness of {len(ordered)} candidates for {found.dataset}; "
        f"{found.recommended or 'none'} is recommended"
    )
    context = {
        "found": found,
        "purpose": purpose,
        "ordered": ordered,
        "frontier": draw_frontier(title, ordered, found.picked, found.risk, purpose.asks),
        "percent": percent,
        "share": share,
        "took": span(found.seconds),
        "curator": FOR_THE_CURATOR,
        "software": freqdp_db.__version__,
    }
    found.file.parent.mkdir(parents=True, exist_ok=True)
    found.file.write_text(render("recommendation.html", context), "utf-8")


# The picture: risk against usefulness. Shapes tell the kinds apart.

_TICKS = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0)
_MARK = 10.0
WIDTH, LABELS = 940.0, 440.0
"""Of the picture, and of the column of labels to its right; pixels."""
NAMED = 16
"""So many candidates have their names in the picture: those that a choice is about."""
_HEIGHT, _BESIDE, _BELOW, _ABOVE, _LINE = 500.0, 66.0, 56.0, 34.0, 17.0
"""Of the picture; left of the plot, below and above it; and the height of a label."""
SHAPES = {"edited": "o", "unlinked": "s", "generalised": "^", "synthetic": "D", "counts": "P"}
"""matplotlib's markers."""
KIND_WORDS = {
    "edited": "edited trajectories",
    "unlinked": "true samples, unlinked",
    "generalised": "shared areas",
    "synthetic": "synthetic trips",
    "counts": "noisy counts",
}


@in_page_style
def draw_frontier(
    candidates: Sequence[Candidate], picked: Candidate | None, limit: float, useful_for: str
) -> Figure:
    """Candidates by number (as in `candidates`, from 1) and name, the limit, and the frontier.

    If there are more than `NAMED`, the names are those of the picked one, of the frontier, of those within
    the limit, and of those with the least risk.
    """
    shown = [c for c in candidates if c.usefulness is not None]
    figure = new_figure(WIDTH, _HEIGHT)
    width, height = WIDTH - _BESIDE - LABELS, _HEIGHT - _BELOW - _ABOVE
    axes = figure.add_axes((_BESIDE / WIDTH, _BELOW / _HEIGHT, width / WIDTH, height / _HEIGHT))
    _draw_scales(axes, shown, limit, useful_for)
    best = frontier(shown)
    axes.step([c.use for c in best], [c.risk for c in best], where="pre", color=QUIET, ls=":")
    for kind in dict.fromkeys(c.kind for c in shown):
        axes.plot(
            [], [], SHAPES[kind], ms=_MARK, mfc=PAPER, mec=INK, mew=1.8, label=KIND_WORDS[kind]
        )
    for c in shown:
        colour, face = (GOOD, GOOD) if c.meets else (INK, PAPER)
        axes.plot(c.use, c.risk, SHAPES[c.kind], ms=_MARK, mfc=face, mec=colour, mew=1.8,
                  clip_on=False, zorder=4)  # fmt: skip
    if picked is not None and picked in shown:
        axes.plot(picked.use, picked.risk, "o", ms=22, mfc="none", mec=GOOD, mew=2.4,
                  clip_on=False, zorder=3)  # fmt: skip
    if shown:
        figure.legend(loc="upper left", ncols=len(SHAPES), fontsize=11, handletextpad=0.2)
    numbers = {c.label: n for n, c in enumerate(candidates, start=1)}
    named = sorted(shown, key=lambda c: (c is not picked, c not in best, not c.meets, c.risk))[
        :NAMED
    ]
    # an arrow: not all attackers were tried, and the point may lie higher
    names = [f"{numbers[c.label]} {c.label}{'' if c.complete else ' ↑'}" for c in named]
    _draw_labels(axes, named, names, picked)
    return figure


def _root(risk: Metres) -> Metres:
    return np.sqrt(np.maximum(risk, 0.0))


def _draw_scales(axes: Axes, shown: Sequence[Candidate], limit: float, useful_for: str) -> None:
    """Risk upwards by its square root, because small risks are what it is about; the limit."""
    least = min((c.use for c in shown), default=0.0)
    low = max(min(math.floor(least * 10 - 1.5) / 10, 0.8), 0.0)
    most = max([limit * 1.5, *(c.risk * 1.05 for c in shown)])
    top = next((t for t in _TICKS if t >= most), 1.0)
    axes.set_yscale("function", functions=(_root, np.square))
    axes.set(xlim=(low, 1.0), ylim=(0.0, top))
    ticks = [tick for tick in _TICKS if tick <= top]
    axes.set_yticks(ticks, [percent(tick) for tick in ticks])
    steps = range(round(low * 10), 11)
    axes.set_xticks([n / 10 for n in steps], [f"{n / 10:g}" for n in steps])
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", length=0, pad=10)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="y", color=LINE)
    axes.axhspan(0, limit, color=ZONE, zorder=0)
    axes.axhline(limit, color=ACCENT, lw=2, ls=(0, (4, 2)))
    axes.annotate(f"limit {percent(limit)}", (low, limit), (4, 3), textcoords="offset points",
                  color=ACCENT, weight="bold")  # fmt: skip
    axes.set_xlabel(f"more useful for {useful_for} →", color=QUIET, loc="right")
    axes.set_ylabel("what an attacker learns of a person (lower is safer)", color=QUIET)


def _draw_labels(
    axes: Axes, shown: Sequence[Candidate], names: Sequence[str], picked: Candidate | None
) -> None:
    """Names in a column to the right of the plot, each on a line of its own, joined to its point.

    They are as high as their points if there is room: nothing ever overlaps, however points crowd.
    """
    points = [axes.transData.transform((c.use, c.risk)) for c in shown]
    order = sorted(range(len(shown)), key=lambda n: (points[n][1], points[n][0]))
    line = min(_LINE, (_HEIGHT - 4) / max(len(shown), 1))
    # each at least a line above the one before, and all of them inside the picture
    lines = line * np.arange(len(order))
    wanted = np.array([points[n][1] for n in order]) - line / 2
    heights = lines + np.maximum(np.maximum.accumulate(wanted - lines), 0.0)
    heights = np.minimum(heights, _HEIGHT - 2 - line - lines[::-1])
    for n, height in zip(order, heights.tolist(), strict=True):
        bold = shown[n] is picked
        arrow = {"arrowstyle": "-", "color": INK if bold else QUIET, "lw": 0.7, "shrinkB": 5,
                 "relpos": (0, 0.5)}  # fmt: skip
        axes.annotate(
            names[n],
            (shown[n].use, shown[n].risk),
            (WIDTH - LABELS + 18, height + line / 2),
            textcoords="figure pixels",
            va="center",
            weight="bold" if bold else "normal",
            arrowprops=arrow,
            annotation_clip=False,
        )
