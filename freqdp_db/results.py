"""What the verbs give back: frozen documents. `document()` of one is what `--json` prints.

Types of other rooms are imported where they are used, so that a command loads its own rooms alone.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from freqdp_db.dataset.text_values import in_percent
from freqdp_db.db.builds import BuildRow
from freqdp_db.db.datasets import DatasetRow
from freqdp_db.errors import Remark
from freqdp_db.methods.relations import FEWEST_OBJECTS
from freqdp_db.model.documents import Document, not_in_json

if TYPE_CHECKING:
    from freqdp_db.dataset.facts import Coverage
    from freqdp_db.dataset.findings import Findings
    from freqdp_db.db.ledger import Budget
    from freqdp_db.doctor import Finding
    from freqdp_db.evaluation.report.words import JoinedWindows, Verdict
    from freqdp_db.evaluation.rules import RuleResult

EXIT_NOT_SO, EXIT_REFUSED, EXIT_FAILED, EXIT_PUT_OFF = 3, 4, 5, 6


@dataclass(frozen=True)
class Script(Document):
    """What a DBA may run."""

    sql: str
    from_revision: str | None


@dataclass(frozen=True)
class ExtensionFiles(Document):
    """What `init --extension` wrote."""

    files: list[Path]
    version: str
    statements: list[str]
    """To run in the database, once the files are on the server."""


@dataclass(frozen=True)
class Diagnosis(Document):
    """What a working installation needs, and whether it is there."""

    ok: bool
    findings: list[Finding]

    @property
    def exit_code(self) -> int:
        """How `doctor` ends."""
        return 0 if self.ok else 1


@dataclass(frozen=True)
class MethodShown(Document):
    """A method that can be asked for, and what it declares."""

    name: str
    summary: str
    kind: str
    unit: str | None
    """What one unit of its epsilon or rho protects; None: it spends nothing."""
    after: list[str]
    """Kinds of methods that it may follow: `lg+swap`."""
    spends: list[str]
    reads: list[str]
    """Parameters that name a table or view."""
    grantable: bool
    """Whether analysts may be given its releases."""
    keeps_columns: bool
    """Whether its samples can carry columns of the source along."""
    parameters: dict[str, dict[str, Any]]
    relations: list[dict[str, Any]]
    """The tables and views that its releases consist of: suffix, columns, key, indexes, and for a view the
    function that makes it."""


def describe_build(build: BuildRow) -> list[str]:
    """What is in a build, and what was left out of it."""
    from freqdp_db.dataset.cleaning import REASONS

    left_out = sum(build.excluded.values())
    lines = [
        f"Build {build.build_id}: {build.samples:,} samples of {build.trajectories:,} objects at "
        f"{build.locations:,} places ({build.snap}), {build.segments:,} distinct segments.",
        f"Read {build.rows:,} rows as of {build.snapshot_at:%Y-%m-%d %H:%M:%S %Z}; metres in SRID "
        f"{build.srid}, times in steps of {build.time_step_us / 1e6:g} s.",
    ]
    if left_out:
        lines.append(f"Left out {left_out:,} rows ({left_out / build.rows:.1%}):")
        lines += [
            f"  {build.excluded[reason]:>12,}  {words}"
            for reason, words in REASONS.items()
            if build.excluded.get(reason)
        ]
    if build.kept is not None:
        lines.append(_kept_in_words(build.kept))
    return lines


def _kept_in_words(kept: dict[str, Any]) -> str:
    """What samples carry along."""
    names = ", ".join(name for name, _ in kept["columns"])
    shown, left_out = len(kept["values"]) - 1, kept["left_out"]
    if not left_out["combinations"]:
        return f"Samples carry {names} along: {shown:,} combinations of values."
    return (
        f"Samples carry {names} along: {shown:,} of {shown + left_out['combinations']:,} combinations of "
        f"values. {left_out['samples']:,} samples have NULL instead: fewer than {FEWEST_OBJECTS} objects "
        "have their combination, or it would reveal such a one."
    )


@dataclass(frozen=True, kw_only=True)
class Dataset(DatasetRow, Document):
    """A dataset with its budgets and its current build."""

    budget: Budget
    """For one occurrence."""
    other_units: list[Budget]
    build: BuildRow | None

    @property
    def limit_in_words(self) -> str:
        """With which measured exposure its releases are granted."""
        if self.max_exposure is None:
            return "releases are granted to analysts however much they expose"
        return (
            "releases are held, and granted when they are measured to expose at most "
            f"{in_percent(self.max_exposure)} of a person"
        )

    def build_lines(self) -> list[str]:
        """The build in words."""
        if self.build is None:
            return [f"Not built yet. Next: freqdp dataset build {shlex.quote(self.name)}"]
        return describe_build(self.build)


@dataclass(frozen=True, kw_only=True)
class AddedDataset(DatasetRow, Document):
    """A dataset that was registered just now."""

    budget: Budget
    budget_is_new: bool
    """False: its source, or what that reads, had one already."""
    untraced: list[str]
    """What the budget cannot know of, in words: foreign tables, functions, likely copies."""
    budget_notes: list[str]
    """Budgets that were merged, and populations that are read from the same tables, in words."""
    warnings: list[Remark]
    """Where the source may choose rows by what other objects' rows are."""


@dataclass(frozen=True, kw_only=True)
class BuiltDataset(BuildRow, Document):
    """A build that was made just now."""

    seconds: dict[str, float]
    objects_with_fewer_than_20_places: int
    findings: Findings
    dataset: str
    coverage: Coverage | None
    """How many samples the declared region and period hold; None: they are not declared."""

    def lines(self) -> list[str]:
        """In words."""
        covered = [] if self.coverage is None else self.coverage.lines(self.dataset)
        return [*describe_build(self), *self.findings.lines(), *covered]


@dataclass(frozen=True)
class DroppedDataset(Document):
    dropped: str
    builds_removed: list[int]
    releases_published: int
    """How many of its releases stay where they are."""


@dataclass(frozen=True)
class Verification(Document):
    """A release that is what its log gives."""

    release: str
    verified: bool
    rows: int
    trajectories: int
    checked: dict[str, int]
    seconds: dict[str, float]
    words: list[str] = not_in_json()


@dataclass(frozen=True)
class Withdrawn(Document):
    withdrawn: str
    was: str
    waits_for: str | None
    """What keeps its tables from being dropped. None: they are gone."""


@dataclass(frozen=True)
class Approved(Document):
    """A release that analysts may read from now on."""

    release: str
    approved_at: datetime | None
    approved_by: str | None
    max_exposure: float | None
    """The limit of its dataset; None: it has none."""
    exposure: float | None
    """What the best attacker learns of a person on average, as measured; None: never measured."""
    exposure_half: float | None
    """Share of persons of whom an attacker learns more than half."""
    not_covered: list[str]
    """What a guarantee for an object does not cover, beside other releases of the same objects."""

    def lines(self) -> list[str]:
        """In words."""
        from freqdp_db.release.catalogue import not_protected_lines

        return [*self._measured(), *not_protected_lines(self.not_covered)]

    def _measured(self) -> list[str]:
        said = f"Approved {self.release}: analysts may read it."
        if self.exposure is None:
            return [f"{said} What it exposes was never measured: freqdp evaluate {self.release}"]
        found = (
            f"Measured: an attacker learns {self.exposure:.1%} of a person's samples on average, and of "
            f"{self.exposure_half:.1%} of the persons more than half"
        )
        limit = (
            "" if self.max_exposure is None else f" (the limit is {in_percent(self.max_exposure)})"
        )
        return [said, f"{found}{limit}. A measurement, not a guarantee."]


@dataclass(frozen=True)
class LedgerVerified(Document):
    """The ledger's chains are whole."""

    valid: bool
    heads: int
    head_found: bool | None


@dataclass(frozen=True)
class Evaluated(Document):
    """A release against its originals; or a series, by what attackers learn who have several windows."""

    release: str
    metrics: dict[str, float]
    publishable: list[str]
    """Which of them read nothing but the released table."""
    verdicts: list[Verdict]
    seed: int
    seconds: dict[str, float]
    rules: list[RuleResult]
    """What was found of the rule books that were asked for."""
    windows: list[JoinedWindows]
    """Of a series: what they learn, by how many windows they have."""

    @property
    def exit_code(self) -> int:
        """How `evaluate` ends: a rule that is broken is for scripts, too."""
        return EXIT_NOT_SO if any(rule.passed is False for rule in self.rules) else 0

    def in_words(self) -> dict[str, list[tuple[str, float, str, bool]]]:
        """The main metrics by group: what each is, its value, its name, whether it may be published."""
        # here: only who evaluates waits for them
        from freqdp_db.evaluation.report.words import main_by_group, meaning_of

        return {
            group: [(meaning_of(n).what, self.metrics[n], n, n in self.publishable) for n in names]
            for group, names in main_by_group(self.metrics).items()
        }


@dataclass(frozen=True)
class EvaluatedTable(Evaluated):
    """A table that was made elsewhere, against a dataset. `release` is its name."""

    against: str
    """The dataset."""
    kind: str
    rows: int
    rows_left_out: int
    trajectories: int
    attributed: int
    """How many trajectories are taken for somebody's."""
    objects: int
    """Of how many objects these are."""
    key: str
    """How that was found: `given`, or `matched`."""
    time_step_us: int | None
    file: Path | None
    """The page that was written."""
    words: list[str] = not_in_json()
    """How the table was read."""


@dataclass(frozen=True)
class Experiment(Document):
    """Methods side by side."""

    dataset: str
    files: list[Path]
    runs: int
    seconds: dict[str, float]
    markdown: str = not_in_json()


@dataclass(frozen=True)
class EndedSchedule(Document):
    schedule_id: int
    name: str
    dataset: str
    ended: bool


@dataclass(frozen=True)
class CancelledJob(Document):
    job_id: int
    state: str


@dataclass(frozen=True)
class Worked(Document):
    """What a worker has done."""

    done: int
    refused: int
    failed: int
    put_off: int
    cancelled: int
    seconds: float
    once: bool = not_in_json()

    @property
    def exit_code(self) -> int:
        """How `worker --once` ends: whoever started it wants to know what became of the jobs."""
        if not self.once:
            return 0
        if self.failed:
            return EXIT_FAILED
        if self.refused:
            return EXIT_REFUSED
        return EXIT_PUT_OFF if self.put_off else 0
