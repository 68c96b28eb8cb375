"""A release in words and as a document, for the curator."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Self

from freqdp_db.db.builds import BuildRow, find_build
from freqdp_db.db.connection import Database
from freqdp_db.db.datasets import get_dataset
from freqdp_db.db.names import format_relation
from freqdp_db.db.releases import ReleaseRow, StepRow, list_steps, measured_value
from freqdp_db.methods.contract import EXPOSES, Method
from freqdp_db.model.documents import Document, not_in_json, plain
from freqdp_db.privacy.accounting import rounded_up
from freqdp_db.privacy.guarantee import ProtectedUnit, in_short
from freqdp_db.progress import Progress
from freqdp_db.release.conflicts import said_of_others
from freqdp_db.release.request import Request

if TYPE_CHECKING:
    from freqdp_db.release.pipeline import Outcome
    from freqdp_db.release.verification import Verified

_MUCH = 10
"""More than so many times the samples is noise."""
_LITTLE = 0.01
"""Less than this part of the samples is hardly a release."""


@dataclass(frozen=True, kw_only=True)
class Release(ReleaseRow, Document):
    """Everything the curator may know about a release."""

    spend: Decimal
    unit: str | None
    table: str
    """The first of its relations."""
    readers: str
    """Who may read it: analysts, or curators only."""
    exposure: float | None
    """What the best attacker learns of a person on average, as measured; None: never measured."""
    steps: list[StepRow]
    dataset: str
    build: BuildRow = not_in_json()
    schema: str = not_in_json()
    protected: ProtectedUnit = not_in_json()

    @classmethod
    def of(cls, database: Database, release: ReleaseRow, **more: Any) -> Self:
        schema, request = database.settings.release_schema, Request.of(release)
        dataset = get_dataset(database, release.dataset_id)
        build = find_build(database, release.build_id)
        with database.begin() as connection:
            steps = list_steps(connection, release.release_id)
        return cls(
            **vars(release),
            spend=request.spend,
            unit=request.method.unit,
            table=f"{schema}.{release.name}{request.relations[0].suffix}",
            readers=_readers(release),
            exposure=measured_value(database, release.release_id, "exposure"),
            steps=steps,
            dataset=dataset.name,
            protected=dataset.protected,
            build=build,
            schema=schema,
            **more,
        )

    def document(self) -> dict[str, Any]:
        """With exact numbers as text, as the catalogue and `plan` have them."""
        request = Request.of(self)
        return super().document() | {
            "parameters": request.readable(),
            "relations": [f"{self.schema}.{name}" for name in self.relation_names],
            "warnings": plain(request.remarks([done.counts for done in self.steps]).warnings),
        }

    @property
    def price(self) -> str:
        """What it has spent, in words."""
        return Request.of(self).price(self.protected)

    def lines(self) -> list[str]:
        """What it is, what was edited, what it guarantees."""
        request = Request.of(self)
        parameters = ", ".join(f"{name} {value}" for name, value in request.shown())
        lines = [
            self._head(),
            *self._in_series(),
            f"Method {self.method}" + (f": {parameters}." if parameters else "."),
        ]
        for step, recorded in zip(request.method.steps, self.steps, strict=False):
            if recorded.counts is None:
                done = f"{recorded.drawn:,} drawn, not carried out yet"
            else:
                done = step.describe(recorded.drawn, recorded.counts)
            lines.append(f"Step {recorded.step}, {step.words}: {done}.")
        remarks = request.remarks([recorded.counts for recorded in self.steps])
        lines += [f"Errors: {text}" for text in remarks.errors]
        lines += [f"Warning: {remark.text}" for remark in remarks.warnings]
        lines += self._left(request.method)
        if self.state == "published":
            lines += odd_size(request.method, self.build.samples, self.rows or 0)
        if request.method.publishes and self.relation_names:
            named = (format_relation(self.schema, relation) for relation in self.relation_names)
            lines.append("Tables and views: " + ", ".join(named) + ".")
        lines += [f"What it is: {request.method.for_analysts}"]
        lines += ["Guarantee: " + self.guarantee["plain"]]
        for mechanism, cost in (self.user_level or {}).items():
            lines.append(
                f"For a whole user the {mechanism} mechanism costs {whole_user(cost)} (curator only)."
            )
        return lines

    def _head(self) -> str:
        """Its table, in which state, with how many rows, from what."""
        table = format_relation(self.schema, [*self.relation_names, self.name][0])
        head = f"{table}: {self.state}"
        if self.state == "published":
            verb = (
                "Published" if self.granted else "Held" if self.held else "Published for curators"
            )
            head = f"{verb} {table}, version {self.version}: {self._shown()}"
        window = f" in {self.window}" if self.window else ""
        return (
            f"{head} (from {self.build.samples:,} samples of {self.build.trajectories:,} objects"
            f"{window}, build {self.build_id})."
        )

    def _shown(self) -> str:
        return f"{self.rows:,} rows"

    def _in_series(self) -> list[str]:
        if self.series is None or self.state != "published" or not self.granted:
            return []
        if self.window is None:
            first = [*(self.relations or ()), ""][0]
            newest = format_relation(self.schema, f"{self.series}_current{first}")
            return [f"It belongs to series {self.series}: {newest} shows the newest of these."]
        return [f"It is part of {format_relation(self.schema, self.series)}."]

    def _left(self, method: Method) -> list[str]:
        """How much of the original is left, where trajectories are the objects'."""
        done = [step.counts for step in self.steps if step.counts is not None]
        if method.kind != "edited" or not done or not all("deletions" in c for c in done):
            return []
        deleted = sum(int(counts["deletions"]) for counts in done)
        left = max(self.build.samples - deleted, 0) / max(self.build.samples, 1)
        # a later step may have taken out what an earlier one put in
        least = "at least " if any(counts["insertions"] for counts in done[:-1]) else ""
        return [f"Of the original samples {least}{left:.1%} are left."]


@dataclass(frozen=True, kw_only=True)
class Anonymized(Release):
    """A release, and what was done for it just now."""

    existed: bool
    resumed: bool
    verified: Verified | None
    name_not_used: str | None
    """What it was to be called, if the release that answers is called otherwise."""
    seconds: dict[str, float]
    not_covered: list[str]
    """What a guarantee for an object does not cover, beside other releases of the same objects."""

    @classmethod
    def by(
        cls, database: Database, outcome: Outcome, progress: Progress, asked: str | None = None
    ) -> Self:
        return cls.of(
            database,
            outcome.release,
            name_not_used=None if asked == outcome.release.name else asked,
            existed=outcome.existed,
            resumed=outcome.resumed,
            verified=outcome.verified,
            seconds=progress.seconds,
            not_covered=not_covered_beside(database, outcome.release),
        )

    def lines(self) -> list[str]:
        """What a newcomer should read when `anonymize` is done."""
        table = format_relation(self.schema, [*self.relation_names, self.name][0])
        if self.existed:
            return [
                f"{table} answers this request already (published {self.published_at:%Y-%m-%d %H:%M}, "
                f"for {self.readers}).",
                "Nothing was drawn and nothing spent. --new-draw asks for another one.",
                *self._unused(),
                *not_protected_lines(self.not_covered),
                *self._next(),
            ]
        request = Request.of(self)
        remarks = request.remarks([recorded.counts for recorded in self.steps])
        lines = [self._head(), *self._in_series(), *self._unused()]
        lines += [f"Warning: {remark.text}" for remark in remarks.warnings]
        lines += odd_size(request.method, self.build.samples, self.rows or 0)
        lines += self._gone(request.method)
        if self.verified is not None:
            lines.append(f"Verified: {self.verified.rows:,} rows are what the stored draws give.")
        lines.append(f"Guarantee: {in_short(self.guarantee)}")
        lines += not_protected_lines(self.not_covered)
        lines += way_out(request.method, self.dataset)
        lines.append(f"Look at it: SELECT * FROM {table} LIMIT 10;")
        lines.append(f"All about it: freqdp release show {shlex.quote(self.name)}")
        return [*lines, *self._next()]

    def _unused(self) -> list[str]:
        if self.name_not_used is None:
            return []
        return [
            f"--as {self.name_not_used} was not used: the release that answers is called {self.name}."
        ]

    def _shown(self) -> str:
        if self.verified is None:
            return super()._shown()
        of = (
            f" of {self.verified.trajectories:,} trajectories" if self.verified.trajectories else ""
        )
        return f"{self.rows:,} rows{of}"

    def _gone(self, method: Method) -> list[str]:
        """How many objects have nothing left, where trajectories are the objects'."""
        objects = self.build.trajectories
        gone = 0 if self.verified is None else objects - self.verified.trajectories
        if method.kind != "edited" or not gone:
            return []
        have = "has" if gone == 1 else "have"
        return [f"Warning: {gone:,} of the {objects:,} objects {have} no sample left."]

    def _next(self) -> list[str]:
        """What to do now."""
        if self.state != "published":
            return []
        name = shlex.quote(self.name)
        if not self.held:
            return [f"Next: freqdp evaluate {name}"]
        return [
            "Held: analysts cannot read it. "
            f"Next: freqdp evaluate {name}, then freqdp release approve {name}"
        ]


def _readers(release: ReleaseRow) -> str:
    """Who may read a release; nobody where there is none."""
    if release.state != "published":
        return "nobody"
    if release.granted:
        return "analysts"
    return "curators (held)" if release.held else "curators"


def odd_size(method: Method, samples: int, rows: int) -> list[str]:
    """A warning where hardly anything came out, or far too much; areas are few by their nature."""
    if method.kind == "synthetic" and rows > _MUCH * samples:
        return [
            f"Warning: {rows:,} rows, {rows / max(samples, 1):,.0f} times the samples: noise made them "
            "many. Say how many trips it should be with --size, or give a longer --every."
        ]
    if method.kind in ("generalised", "counts") or rows >= _LITTLE * samples:
        return []
    more = {
        "synthetic": "a larger --epsilon, or more objects, give more",
        "unlinked": "longer pieces, or fewer that must share a place (--ends, --crowd), leave more",
        "edited": "a smaller --signature leaves more",
    }[method.kind]
    return [
        f"Warning: {rows:,} rows of {samples:,} samples: hardly anything can be counted in it; {more}."
    ]


def way_out(method: Method, dataset: str) -> list[str]:
    """One line where a release of this kind is known to expose: the likely risk, and what to do."""
    if method.kind not in EXPOSES:
        return []
    return [
        f"Risk: in a release of this kind {EXPOSES[method.kind]}. "
        f"Which method avoids that: freqdp recommend {shlex.quote(dataset)}"
    ]


def not_covered_beside(database: Database, release: ReleaseRow) -> list[str]:
    """What a guarantee for an object does not cover, beside other releases of the same objects."""
    dataset, build = (
        get_dataset(database, release.dataset_id),
        find_build(database, release.build_id),
    )
    method = Request.of(release).method
    with database.begin() as connection:
        return said_of_others(connection, dataset, build, method, release.name)


def not_protected_lines(not_covered: Sequence[str]) -> list[str]:
    """The same in sentences."""
    return [f"Not protected: {what}." for what in not_covered]


def whole_user(cost: Mapping[str, float]) -> str:
    """What a whole user costs, in words; nothing where nothing is counted."""
    if not cost:
        return ""
    mean, most = cost["epsilon_per_user_mean"], cost["epsilon_per_user_max"]
    return f"epsilon {mean:,.1f} on average and {float(rounded_up(most, 1)):,.1f} at most"
