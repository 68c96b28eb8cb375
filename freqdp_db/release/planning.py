"""`freqdp plan`: what a release would spend, edit and take.

From a trial draw that is thrown away, or, of counts, from public numbers alone.
"""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass, field
from typing import Any

from freqdp_db.dataset.building import build_of_window
from freqdp_db.dataset.facts import facts_in
from freqdp_db.dataset.memory import load_build
from freqdp_db.dataset.reading import late_rows
from freqdp_db.db.builds import BuildRow, Window, find_build, sparse_objects
from freqdp_db.db.connection import Database
from freqdp_db.db.datasets import DatasetRow
from freqdp_db.db.ledger import Budget, budget_of, per_unit
from freqdp_db.db.releases import list_releases, load_columns, request_hash, same_request
from freqdp_db.db.source import definition_of
from freqdp_db.engines.partitions import LOCAL, Engine
from freqdp_db.errors import BadInput
from freqdp_db.methods.contract import WITHOUT_SAMPLES, options_of
from freqdp_db.methods.loop import StepSummary, Trial, run_steps
from freqdp_db.methods.registry import require_partitioned
from freqdp_db.privacy.guarantee import ProtectedUnit
from freqdp_db.privacy.noise import SeededSource
from freqdp_db.progress import Progress
from freqdp_db.release.catalogue import not_protected_lines, risk_hint, size_warnings, whole_user
from freqdp_db.release.conflicts import not_covered_by_guarantee, refuse_conflicting_releases
from freqdp_db.release.inputs import (
    DEFAULT_MEMORY,
    make_world,
    notes_for_persons,
    notes_on_columns,
    read_inputs,
    require_public_inputs,
    search_within,
)
from freqdp_db.release.request import Request

_TRIAL_SEED = 0
# Rows a second that writing, indexing and verifying a release takes, on a modest machine.
_ROWS_PER_SECOND = 150_000
# Samples a second that are read and counted.
_SAMPLES_PER_SECOND = 500_000


@dataclass(frozen=True)
class Plan:
    """What `anonymize` would do, estimated."""

    dataset: str
    request: Request
    budget: Budget
    steps: list[StepSummary]
    samples: int
    rows: int
    objects: int
    sparse: int
    seconds: float
    earlier: int
    """Published releases of the same dataset."""
    protected: ProtectedUnit
    window: str | None
    """The day, week or month that it would be of; None: all data."""
    late: int
    """Rows of the window that came after it was read."""
    not_covered: list[str]
    """What a guarantee for an object does not cover, beside other releases of the same objects."""
    refused: str | None
    """Why `anonymize` would refuse it beside another release; None: it would not."""
    basis: str
    """Where the numbers come from."""
    notes: list[str] = field(default_factory=list)
    """Of methods for persons: what the curator should know beforehand."""

    @property
    def allowed(self) -> bool:
        return self.request.spend <= self.budget.remaining

    def document(self) -> dict[str, Any]:
        guarantee = self.request.guarantee(self.protected, self.not_covered)
        remarks = self.request.remarks([taken.counts for taken in self.steps])
        return {
            "dataset": self.dataset,
            "window": self.window,
            "late_rows": self.late,
            "method": self.request.method.name,
            "kind": self.request.method.kind,
            "parameters": self.request.published(),
            "epsilon": guarantee.get("epsilon", "0"),
            "spend": self.request.spend,
            "unit": self.request.method.unit,
            "budget": asdict(self.budget),
            "allowed": self.allowed,
            "steps": [
                {
                    "mechanism": taken.step.name,
                    "drawn": taken.drawn,
                    **taken.counts,
                    "user_level": taken.user_level or None,
                }
                for taken in self.steps
            ],
            "samples": self.samples,
            "rows": self.rows,
            "trajectories": self.objects,
            "objects_with_fewer_than_2m_places": self.sparse,
            "seconds": self.seconds,
            "earlier_releases": self.earlier,
            "warnings": [str(remark) for remark in remarks.warnings],
            "refused": self.refused,
            "notes": self.notes,
            "basis": self.basis,
            "guarantee": guarantee,
        }

    def lines(self) -> list[str]:
        of = self.dataset if self.window is None else f"{self.dataset} in {self.window}"
        lines = [f"{of}, method {self.request.method.name}: {self._money()}"]
        if self.late:
            lines.append(
                f"{self.late:,} rows came into {self.window} after it was read: they are not in it. To "
                f"read it again: freqdp dataset build {shlex.quote(self.dataset)} --window {self.window}; "
                "a further release of it costs again."
            )
        for taken in self.steps:
            costs = whole_user(taken.user_level)
            lines.append(
                f"  {taken.step.name}: {taken.step.describe(taken.drawn, taken.counts)}"
                + (f"; a whole user costs {costs}" if costs else "")
            )
        lines.append(
            f"About {self.rows:,} rows from {self.objects:,} objects "
            f"(now {self.samples:,} samples), in about {max(self.seconds, 1):.0f} s."
        )
        remarks = self.request.remarks([taken.counts for taken in self.steps])
        lines += [f"Errors: {text}" for text in remarks.errors]
        lines += [f"Warning: {remark.text}" for remark in remarks.warnings]
        lines += size_warnings(self.request.method, self.samples, self.rows)
        if self.sparse:
            lines.append(
                f"{self.sparse:,} objects have fewer than {2 * self.request.values['signature']} "
                "places: the method leaves little of them."
            )
        if self.earlier:
            lines.append(
                f"Releases of this dataset that are out already: {self.earlier:,}. Whoever has several "
                "learns more: untouched samples join them, and each further one exposes more of the edits."
            )
        lines += not_protected_lines(self.not_covered)
        if self.refused is not None:
            lines.append(f"REFUSED by anonymize: {self.refused}.")
        lines += self.notes
        lines.append(f"{self.basis}; nothing was spent.")
        return [*lines, *risk_hint(self.request.method, self.dataset)]

    def _money(self) -> str:
        if self.request.method.unit is None:
            return "would spend nothing."
        spend, left = self.request.spend, self.budget.remaining - self.request.spend
        price = f"{self.budget.currency} {spend:f} {per_unit(self.budget.unit, self.protected)}"
        return f"would spend {price} of the {self.budget.remaining:f} " + (
            f"that are left, leaving {left:f}."
            if left >= 0
            else f"that are left: REFUSED, short by {-left:f}."
        )


def make_plan(
    database: Database,
    dataset: DatasetRow,
    request: Request,
    progress: Progress,
    engine: Engine = LOCAL,
    window: Window | None = None,
    objects: int | None = None,
) -> Plan:
    """What would come out. window: of this one; built if it is not yet. objects: as declared."""
    require_partitioned(request.method, engine)
    foreseen = all(step.foreseen for step in request.method.steps)
    if objects is not None and (objects < 1 or not foreseen):
        raise BadInput(
            f"[[objects]] {objects}: "
            + ("at least one" if foreseen else f"{request.method.name} is tried on the data"),
            remedy="give about how many objects there are" if foreseen else "leave it out",
        )
    if window is None:
        row = find_build(database, dataset.require_build())
    else:
        row = build_of_window(database, dataset, window, progress, engine)
    request.require_possible(row)
    request = request.with_facts(dataset, row)
    with database.begin() as connection:
        require_public_inputs(connection, dataset, row, request)
    if foreseen:
        steps, basis = _foreseen(database, dataset, row, request, objects)
        rows, seconds = int(steps[0].counts["rows"]), row.samples / _SAMPLES_PER_SECOND
    else:
        basis = "Numbers from a trial draw that was thrown away"
        steps, rows = _tried(database, row, request, progress, engine)
        seconds = sum(progress.seconds.values())
    signature = request.values.get("signature")
    with database.begin() as connection:
        not_covered = not_covered_by_guarantee(connection, dataset, row, request.method)
        refused = None
        asked = request_hash(connection, row.build_id, request.method.name, request.document())
        try:
            if same_request(connection, asked, None) is None:
                refuse_conflicting_releases(connection, dataset, request, False, build=row)
        except BadInput as error:
            refused = f"{error.message} ({error.remedy})"
    return Plan(
        dataset=dataset.name,
        request=request,
        budget=budget_of(database, dataset.account_id, request.method.unit, row),
        window=row.time_window,
        late=0 if window is None else late_rows(database, dataset, row),
        steps=steps,
        samples=row.samples,
        rows=rows,
        objects=row.trajectories,
        sparse=0 if signature is None else sparse_objects(database, row.build_id, signature),
        seconds=seconds + rows / _ROWS_PER_SECOND,
        earlier=sum(
            r.dataset_id == dataset.dataset_id
            and r.state == "published"
            and r.kind not in WITHOUT_SAMPLES
            and request.method.kind not in WITHOUT_SAMPLES
            for r in list_releases(database)
        ),
        protected=dataset.protected,
        not_covered=not_covered,
        refused=refused,
        basis=basis,
        notes=notes_for_persons(database, dataset, row, request) + notes_on_columns(request),
    )


def _tried(
    database: Database, row: BuildRow, request: Request, progress: Progress, engine: Engine
) -> tuple[list[StepSummary], int]:
    """What the steps do on a trial draw, and how many rows come out."""
    build = load_build(database, row.build_id, progress, engine)
    # one stream for all steps, as nobody resumes a trial
    source = SeededSource(_TRIAL_SEED)
    trial = Trial(lambda number: source, counted=True)
    search = None if engine.remote else search_within(database, row.build_id, build, DEFAULT_MEMORY)
    world = make_world(database, build, request.method, request.values, search)
    state = run_steps(request.method, request.values, world, trial, progress)
    return trial.summaries, state.samples if state.tables is None else len(state.tables)


def _foreseen(
    database: Database, dataset: DatasetRow, row: BuildRow, request: Request, objects: int | None
) -> tuple[list[StepSummary], str]:
    """What the only step would give by public numbers, and by the noisy ones of an earlier release."""
    (step,) = request.method.steps
    timezone = dataset.mapping.timezone
    earlier = [
        release
        for release in list_releases(database, "published")
        # the noise of a seeded one, which is not grantable, is known
        if release.dataset_id == dataset.dataset_id
        and release.method == request.method.name
        and release.grantable
    ]
    inputs = read_inputs(database, row, timezone, request.method, request.values)
    with database.begin(snapshot=True) as connection:
        facts = facts_in(row.srid, definition_of(connection, row.srid, "SRID"), timezone)
        drawn = None
        if earlier:
            newest = earlier[-1].release_id
            drawn = load_columns(connection, newest, 1, "draw", step.draws)
    options = options_of(step, request.values)
    size, counts, used = step.expect(options, inputs, facts, timezone, objects, drawn)
    basis = f"Margins as expected for {counts['noisy_objects']:,.0f} objects"
    if used:
        basis += f", by the noisy numbers of release {earlier[-1].name}"
    else:
        basis += " with 12 visits, 3 trips and 4 stays a day each"
        basis += "" if objects else " (--objects says how many)"
    return [StepSummary(step, size, counts, {})], f"{basis}, without reading the data"
