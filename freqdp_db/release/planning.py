"""`freqdp plan`: what a release would spend, edit and take, from a trial draw that is thrown away."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from freqdp_db.dataset.memory import load_build
from freqdp_db.mechanisms.noise import SeededSource
from freqdp_db.methods.loop import StepTaken, Trial, run_steps
from freqdp_db.methods.registry import require_spread
from freqdp_db.progress import Progress
from freqdp_db.release.inputs import make_world
from freqdp_db.release.request import Request
from freqdp_db.release.summary import little_left, way_out, whole_user
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.records.builds import find_build, sparse_objects
from freqdp_db.storage.records.datasets import DatasetRow
from freqdp_db.storage.records.ledger import Budget, budget_of
from freqdp_db.storage.records.releases import list_releases

_TRIAL_SEED = 0
# Rows a second that writing, indexing and verifying a release takes, on a modest machine.
_ROWS_PER_SECOND = 150_000


@dataclass(frozen=True)
class Plan:
    """What `anonymize` would do, estimated."""

    dataset: str
    request: Request
    budget: Budget
    steps: list[StepTaken]
    samples: int
    rows: int
    objects: int
    sparse: int
    seconds: float
    earlier: int
    """Published releases of the same dataset."""

    @property
    def allowed(self) -> bool:
        return self.request.spend <= self.budget.remaining

    def document(self) -> dict[str, Any]:
        return {
            "dataset": self.dataset,
            "method": self.request.method.name,
            "kind": self.request.method.kind,
            "parameters": self.request.published(),
            "epsilon": self.request.guarantee().get("epsilon", "0"),
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
            "guarantee": self.request.guarantee(),
        }

    def lines(self) -> list[str]:
        lines = [f"{self.dataset}, method {self.request.method.name}: {self._money()}"]
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
        lines += little_left(self.request.method, self.samples, self.rows)
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
        lines.append("Numbers from a trial draw that was thrown away; nothing was spent.")
        return [*lines, *way_out(self.request.method, self.dataset)]

    def _money(self) -> str:
        if self.request.method.unit is None:
            return "would spend nothing."
        spend, left = self.request.spend, self.budget.remaining - self.request.spend
        price = f"{self.budget.currency} {spend:f} per {self.budget.unit}"
        return f"would spend {price} of the {self.budget.remaining:f} " + (
            f"that are left, leaving {left:f}."
            if left >= 0
            else f"that are left: REFUSED, short by {-left:f}."
        )


def make_plan(
    database: Database, dataset: DatasetRow, request: Request, progress: Progress
) -> Plan:
    """Run the steps on a trial draw that is thrown away."""
    require_spread(request.method)
    row = find_build(database, dataset.require_build())
    request.require_possible(row)
    request = request.with_facts(dataset, row)
    build = load_build(database, dataset.require_build(), progress)
    # one stream for all steps, as nobody resumes a trial
    source = SeededSource(_TRIAL_SEED)
    trial = Trial(lambda number: source, counted=True)
    world = make_world(database, build, request.method, request.values)
    state = run_steps(request.method, request.values, world, trial, progress)
    signature = request.values.get("signature")
    return Plan(
        dataset=dataset.name,
        request=request,
        budget=budget_of(database, dataset.account_id, request.method.unit),
        steps=trial.taken,
        samples=build.trajectories.samples,
        rows=state.samples,
        objects=len(build.trajectories),
        sparse=0
        if signature is None
        else sparse_objects(database, dataset.require_build(), signature),
        seconds=sum(progress.seconds.values()) + state.samples / _ROWS_PER_SECOND,
        earlier=sum(
            r.dataset_id == dataset.dataset_id
            and r.state == "published"
            and r.kind != "synthetic"
            and request.method.kind != "synthetic"
            for r in list_releases(database)
        ),
    )
