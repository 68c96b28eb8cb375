"""Releases in words and as documents: for analysts as the catalogue shows them, for the curator in full.

And where one object is in them.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from freqdp_db.dataset.text_values import Snap
from freqdp_db.db import releases
from freqdp_db.db.builds import BuildRow, find_build
from freqdp_db.db.connection import Database
from freqdp_db.db.datasets import get_dataset
from freqdp_db.db.names import format_name, format_relation
from freqdp_db.db.published import CatalogRow, catalog_row, may_read, read_catalog
from freqdp_db.db.releases import ReleaseRow, StepRow, ledger_head, list_steps, measured_value
from freqdp_db.errors import PermissionMissing
from freqdp_db.methods import kinds
from freqdp_db.methods.contract import EXPOSES, WITHOUT_SAMPLES, Kind, Method
from freqdp_db.methods.registry import find_method
from freqdp_db.methods.relations import FEWEST_OBJECTS
from freqdp_db.model.documents import Document, not_in_json, plain
from freqdp_db.privacy.accounting import rounded_up
from freqdp_db.privacy.guarantee import ProtectedUnit, in_short
from freqdp_db.progress import Progress
from freqdp_db.release.conflicts import not_covered_by_guarantee
from freqdp_db.release.request import Request

if TYPE_CHECKING:
    from freqdp_db.release.pipeline import Outcome
    from freqdp_db.release.verification import Verified


@dataclass(frozen=True)
class Published(CatalogRow, Document):
    """A row of the catalogue, or a series as one."""

    schema: str = not_in_json()

    @property
    def is_series(self) -> bool:
        """Whether this is a series, told as one release: what is said is its newest window's."""
        return self.series == self.name

    @property
    def _version(self) -> str:
        return "a series" if self.is_series else f"version {self.version}"

    def lines(self) -> list[str]:
        """In words."""
        table = format_relation(self.schema, self.relations[0])
        method = find_method(self.method)
        kind_of = {p.name: p.kind for p in method.parameters}
        parameters = ", ".join(
            f"{name.replace('_', ' ')} {_with_unit(kind_of[name], value)}"
            for name, value in self.parameters.items()
        )
        return [
            f"{table}, {self._version}: {self.rows:,} rows of dataset {self.dataset}"
            f"{f' in {self.time_window}' if self.time_window else ''}, "
            f"{'newest ' if self.is_series else ''}published {self.published_at:%Y-%m-%d %H:%M}.",
            f"Method {self.method}" + (f": {parameters}." if parameters else "."),
            f"What it is: {method.for_analysts}",
            *(f"Note: {text}" for text in self.guarantee.get("notes", [])),
            *(f"Errors: {text}" for text in self.guarantee.get("errors", [])),
            f"Guarantee{' of each window' if self.is_series else ''}: {self.guarantee['plain']}",
            "Tables and views: "
            + ", ".join(format_relation(self.schema, relation) for relation in self.relations)
            + ".",
        ]


def _with_unit(kind: kinds.Kind, value: Any) -> str:
    """A parameter as the curator sees it: 60s, yes. The catalogue has numbers as text."""
    return kind.show(kind.from_text(value) if isinstance(value, str) else kind.from_json(value))


def published(database: Database) -> list[Published]:
    """All rows of the catalogue, oldest first."""
    schema = database.settings.release_schema
    return [Published(**vars(row), schema=schema) for row in read_catalog(database)]


def find_published(database: Database, name: str) -> Published:
    """A row of the catalogue, or a series as one; raises NotFound."""
    row = catalog_row(database, name)
    return Published(**vars(row), schema=database.settings.release_schema)


def may_be_granted(guarantee: dict[str, Any]) -> bool:
    """Whether analysts may ever be granted a release: then it is only held, if it is not."""
    return not guarantee["seeded"] and find_method(guarantee["method"]).grantable


def require_readable(database: Database, name: str) -> None:
    """Refuse whoever may not read a release, with whom to ask.

    Never with a GRANT on its table: that would go round the approval.
    """
    release = find_published(database, name)
    if may_read(database, (release.schema, name)):
        return
    if release.granted:
        raise PermissionMissing(
            f"release {name!r} is for analysts, and this login is none",
            remedy=f"an administrator can: GRANT {format_name(database.settings.role('analyst'))} "
            f"TO {format_name(database.user or 'your_login')}",
        )
    if may_be_granted(release.guarantee):
        raise PermissionMissing(
            f"release {name!r} is held: its curator has not approved it for analysts yet",
            remedy=f"ask a curator, who can approve it: freqdp release approve {shlex.quote(name)}",
        )
    raise PermissionMissing(
        f"release {name!r} is never granted to analysts: its noise was seeded, or its method "
        "guarantees nothing",
        remedy="ask a curator for one by another method; `freqdp release list` shows which are for "
        "analysts",
    )


# What analysts are told: in the comments on the tables, in the catalogue and beside exported files.
# Sentences are made from public values alone: the kind, its parameters, the time zone and the snapping.


_WINDOW_START = {"window_start": "First day of the window: what its series is partitioned by."}
_COUNTED: dict[Kind, str] = {
    "edited": "Samples were deleted and others inserted: numbers of samples are not exact, and a gap is no "
    "stay. No margin is known for them.",
    "unlinked": "Samples were left out: numbers of samples and of trips are lower than the truth, and ids "
    "cannot be counted as objects. No margin is known for them.",
    "generalised": "Objects and samples were left out where no group was found for them: numbers are lower "
    "than the truth. No margin is known for them.",
    "synthetic": "Numbers of trips are estimates from noisy counts. Trips under 1 km are not in them.",
    "counts": "Of each object only so many visits, trips and stays are counted: values are lower than the "
    "truth where objects do more. The margin is of the noise alone.",
}
"""What of the truth is missing in numbers."""


def notes_for(
    kind: Kind, values: Mapping[str, Any], timezone: str, snap: str, kept: Sequence[str] = ()
) -> list[str]:
    """Sentences for a release of a kind, with these values of its parameters.

    snap: how the places of its build were made. kept: columns that its samples carry along.
    """
    carried = []
    if kept:
        carried = [
            f"{', '.join(kept)}: values of the source. NULL where the source has none, or fewer than "
            f"{FEWEST_OBJECTS} objects have the combination."
        ]
        if kind == "edited":
            carried[0] += " An inserted sample has those of the sample before it."
    return [_times(kind, values, timezone), *_places(kind, values, snap), *carried, _COUNTED[kind]]


def _times(kind: Kind, values: Mapping[str, Any], timezone: str) -> str:
    if kind == "counts":
        return f"Time bins are in the time zone {timezone}."
    local = f"sampled_at AT TIME ZONE '{timezone}'"
    if values.get("dates") is not None:
        return f"Dates were left out. Hours are those of the time zone {timezone}: write {local}."
    said = f"Days and hours are those of the time zone {timezone}: write {local} before you group by them."
    if values.get("time_step") is not None:
        said += f" Times are rounded down to {values['time_step'] // 1_000_000} s."
    return said


def _places(kind: Kind, values: Mapping[str, Any], snap: str) -> list[str]:
    """What a position is, where it is a place of the build or of a grain of the method."""
    if kind not in ("edited", "unlinked"):
        return []
    grain, built = values.get("grain"), Snap.parse(snap)
    metres = float(grain) if grain is not None else built.metres
    if metres:
        return [f"Positions are centres of a grid of {metres:g} m: each stands for its whole cell."]
    if built.kind == "anchors":
        return ["Positions are the nearest of given points, not where somebody was measured."]
    return []


def catalogue_entry(
    database: Database, release: ReleaseRow, request: Request, rows: int, timezone: str
) -> tuple[dict[str, dict[str, str]], dict[str, Any]]:
    """The comments of each relation of a release, by its suffix, and its row of the catalogue."""
    steps = list_steps(database, release.release_id)
    errors = request.remarks([step.counts for step in steps]).errors
    snap = find_build(database, release.build_id).snap
    notes = notes_for(request.method.kind, request.values, timezone, snap, request.kept_names)
    for_analysts = " ".join([request.method.for_analysts, *notes, *errors])
    said, columns = (
        release_comment(release.name, release.guarantee, for_analysts),
        request.column_comments(),
    )
    comments = {
        relation.suffix: relation.comments(said, timezone, columns)
        | ({} if not release.is_in_table or relation.view is not None else _WINDOW_START)
        for relation in request.relations
    }
    told = {"notes": notes} | ({"errors": errors} if errors else {})
    return comments, {
        "dataset": get_dataset(database, release.dataset_id).name,
        "method": release.method,
        "kind": release.kind,
        "parameters": request.published(),
        "guarantee": release.guarantee | told,
        "granted": release.granted,
        "rows": rows,
        "ledger_head": ledger_head(database, release),
        "time_window": release.window,
        "series": release.series,
    }


def release_comment(name: str, guarantee: dict[str, Any], for_analysts: str) -> str:
    """What the comment of every relation of a release begins with."""
    said = (
        f"Release {name}, anonymized by freqdp with method {guarantee['method']}. "
        f"{for_analysts} {guarantee['plain']}"
    )
    users = "; ".join(
        f"{artefact.replace('_', ' ')}, epsilon {found['whole_user']}"
        for artefact, found in guarantee["artefacts"].items()
        if "whole_user" in found
    )
    return f"{said} For a whole user: {users}." if users else said


# What the curator is told.

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
        steps = list_steps(database, release.release_id)
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

    @cached_property
    def _request(self) -> Request:
        return Request.of(self)

    def document(self) -> dict[str, Any]:
        """With exact numbers as text, as the catalogue and `plan` have them."""
        request = self._request
        return super().document() | {
            "parameters": request.readable(),
            "relations": [f"{self.schema}.{name}" for name in self.relation_names],
            "warnings": plain(request.remarks([done.counts for done in self.steps]).warnings),
        }

    @property
    def price(self) -> str:
        """What it has spent, in words."""
        return self._request.price(self.protected)

    def lines(self) -> list[str]:
        """What it is, what was edited, what it guarantees."""
        request = self._request
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
            lines += size_warnings(request.method, self.build.samples, self.rows or 0)
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
        request = self._request
        remarks = request.remarks([recorded.counts for recorded in self.steps])
        lines = [self._head(), *self._in_series(), *self._unused()]
        lines += [f"Warning: {remark.text}" for remark in remarks.warnings]
        lines += size_warnings(request.method, self.build.samples, self.rows or 0)
        lines += self._gone(request.method)
        if self.verified is not None:
            lines.append(f"Verified: {self.verified.rows:,} rows are what the stored draws give.")
        lines.append(f"Guarantee: {in_short(self.guarantee)}")
        lines += not_protected_lines(self.not_covered)
        lines += risk_hint(request.method, self.dataset)
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


def size_warnings(method: Method, samples: int, rows: int) -> list[str]:
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


def risk_hint(method: Method, dataset: str) -> list[str]:
    """One line where a release of this kind is known to expose: the likely risk, and what to do."""
    if method.kind not in EXPOSES:
        return []
    return [
        f"Risk: in a release of this kind, {EXPOSES[method.kind]}. "
        f"Which method avoids that: freqdp recommend {shlex.quote(dataset)}"
    ]


def not_covered_beside(database: Database, release: ReleaseRow) -> list[str]:
    """What a guarantee for an object does not cover, beside other releases of the same objects."""
    dataset, build = (
        get_dataset(database, release.dataset_id),
        find_build(database, release.build_id),
    )
    method = Request.of(release).method
    return not_covered_by_guarantee(database, dataset, build, method, release.name)


def not_protected_lines(not_covered: Sequence[str]) -> list[str]:
    """The same in sentences."""
    return [f"Not protected: {what}." for what in not_covered]


def whole_user(cost: Mapping[str, float]) -> str:
    """What a whole user costs, in words; nothing where nothing is counted."""
    if not cost:
        return ""
    mean, most = cost["epsilon_per_user_mean"], cost["epsilon_per_user_max"]
    return f"epsilon {mean:,.1f} on average and {float(rounded_up(most, 1)):,.1f} at most"


# Where an object is, for erasure requests: its builds and releases, and what its id is worth there.


_SYNTHETIC = "synthetic: nobody's trips are in it"
_PIECES = "in pieces, with ids that were drawn for the pieces: none is the object's"
_SWAPPED = (
    "swapped: a trajectory of this id begins with it; where it met others they may go on in it, and it "
    "in theirs"
)
_GROUPED = (
    "grouped: one trajectory with others, under the smallest of their ids, which may be another's; or "
    "left out"
)


@dataclass(frozen=True)
class ObjectRecord:
    """A build that holds an object, or a release that was made from it."""

    dataset: str
    build_id: int
    trajectory_id: int
    release: str | None
    state: str | None
    released_id: int | None
    note: str | None
    """What the released id means, where the trajectory of that id is not the object's alone."""


def find_object(database: Database, object_key: str) -> list[ObjectRecord]:
    """One for each build that holds the object, and for each release made from it."""
    found = []
    for row in releases.find_object(database, object_key):
        named, parameters, note = row.pop("method"), row.pop("parameters"), None
        if named is not None:
            method = find_method(named)
            steps = {step.name for step in method.steps}
            if method.kind in WITHOUT_SAMPLES:
                row["released_id"], note = None, _SYNTHETIC
            elif steps & {"cut", "points"} or parameters.get("pieces") is not None:
                row["released_id"], note = None, _PIECES
            elif "swap" in steps:
                note = _SWAPPED
            elif method.makes_areas:
                note = _GROUPED
        found.append(ObjectRecord(**row, note=note))
    return found
