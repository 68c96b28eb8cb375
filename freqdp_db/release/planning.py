"""`freqdp plan`: what a release would spend, edit and take, from a trial draw that is thrown away."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from freqdp_db.mechanisms.noise import SeededSource, released_ids
from freqdp_db.methods.guarantee import guarantee
from freqdp_db.progress import Progress
from freqdp_db.release import steps
from freqdp_db.release.request import Request
from freqdp_db.release.verification import load_build
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.records.builds import sparse_objects
from freqdp_db.storage.records.datasets import DatasetRow
from freqdp_db.storage.records.ledger import Budget, find_budget
from freqdp_db.storage.records.releases import list_releases

_TRIAL_SEED = 0
# Rows a second that writing, indexing and verifying a release takes, on a modest machine.
_ROWS_PER_SECOND = 150_000


@dataclass(frozen=True)
class StepPlan:
    mechanism: str
    targets: int
    deletions: int
    insertions: int
    deletion_loss_m: float
    insertion_loss_m: float
    user_level: dict[str, float] | None
    """None: nothing is drawn, so nothing is accounted."""


@dataclass(frozen=True)
class Plan:
    """What `anonymize` would do, estimated."""

    dataset: str
    request: Request
    budget: Budget
    steps: list[StepPlan]
    samples: int
    rows: int
    trajectories: int
    sparse: int
    seconds: float
    earlier: int
    """Published releases of the same dataset."""

    @property
    def allowed(self) -> bool:
        return self.request.epsilon <= self.budget.remaining

    def document(self) -> dict[str, Any]:
        return {
            "dataset": self.dataset,
            "method": self.request.method.name,
            "epsilon": self.request.epsilon,
            "epsilon_global": self.request.epsilon_global,
            "epsilon_local": self.request.epsilon_local,
            "budget": asdict(self.budget),
            "allowed": self.allowed,
            "steps": [asdict(s) for s in self.steps],
            "samples": self.samples,
            "rows": self.rows,
            "trajectories": self.trajectories,
            "objects_with_fewer_than_2m_places": self.sparse,
            "seconds": self.seconds,
            "earlier_releases": self.earlier,
            "guarantee": guarantee(
                self.request.method,
                self.request.epsilon_global,
                self.request.epsilon_local,
                private=True,
            ),
        }

    def lines(self) -> list[str]:
        left = self.budget.remaining - self.request.epsilon
        lines = [
            f"{self.dataset}, method {self.request.method.name}: would spend epsilon "
            f"{self.request.epsilon:f} of the {self.budget.remaining:f} that are left"
            + (f", leaving {left:f}." if left >= 0 else f": REFUSED, short by {-left:f}."),
        ]
        for step in self.steps:
            lines.append(
                f"  {step.mechanism}: {step.targets:,} targets, about {step.deletions:,} samples "
                f"deleted and {step.insertions:,} inserted "
                f"(mean loss {_mean(step.insertion_loss_m, step.insertions)})" + _whole_user(step)
            )
        lines.append(
            f"About {self.rows:,} rows of {self.trajectories:,} objects "
            f"(now {self.samples:,} samples), in about {max(self.seconds, 1):.0f} s."
        )
        if self.sparse:
            lines.append(
                f"{self.sparse:,} objects have fewer than {2 * self.request.signature} places: the "
                "method leaves little of them."
            )
        if self.earlier:
            lines.append(
                f"{self.earlier} release(s) of this dataset are out already. They can be joined "
                "through their untouched samples; each further one exposes more of the edits."
            )
        lines.append("Numbers from a trial draw that was thrown away; nothing was spent.")
        return lines


def _whole_user(step: StepPlan) -> str:
    cost = step.user_level
    if cost is None:
        return ""
    return (
        f"; a whole user costs epsilon {cost['epsilon_per_user_mean']:,.1f} on average, "
        f"{cost['epsilon_per_user_max']:,.1f} at most"
    )


def _mean(loss_m: float, count: int) -> str:
    return f"{loss_m / count:,.0f} m" if count else "none"


def make_plan(
    database: Database, dataset: DatasetRow, request: Request, progress: Progress
) -> Plan:
    """Run the mechanisms in memory on a seeded trial draw; write nothing."""
    loaded = load_build(database, dataset.require_build(), progress)
    request.require_possible(loaded.build)
    source = SeededSource(_TRIAL_SEED)
    rank = np.argsort(np.argsort(released_ids(source, len(loaded.trajectories))))
    state, planned = loaded.trajectories, []
    for mechanism in request.method.steps:
        with progress.stage(f"{mechanism} trial", state.samples) as stage:
            frequencies = steps.count(state, loaded.world)
            targets = steps.draw(mechanism, frequencies, loaded.world.locations, request, source)
            costs = None
            if request.method.draws_noise:
                costs = steps.user_level(frequencies, targets, request)
            edits, state = steps.edit(state, frequencies, targets, loaded.world, request, rank)
            stage.advance(state.samples)
        planned.append(
            StepPlan(
                mechanism,
                len(targets),
                edits.deletions.edits,
                edits.insertions.edits,
                edits.deletions.loss_m,
                edits.insertions.loss_m,
                costs,
            )
        )
    return Plan(
        dataset=dataset.name,
        request=request,
        budget=find_budget(database, dataset.account_id),
        steps=planned,
        samples=loaded.trajectories.samples,
        rows=state.samples,
        trajectories=len(loaded.trajectories),
        sparse=sparse_objects(database, loaded.build.build_id, request.signature),
        seconds=sum(progress.seconds.values()) + state.samples / _ROWS_PER_SECOND,
        earlier=sum(
            r.dataset_id == dataset.dataset_id and r.state == "published"
            for r in list_releases(database)
        ),
    )
