"""What was asked for: of `anonymize`, a method with its values; of a job, also what is around it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from decimal import Decimal
from typing import Any, NamedTuple

from freqdp_db.dataset.text_values import check_name
from freqdp_db.db.builds import BuildRow
from freqdp_db.db.datasets import DatasetRow
from freqdp_db.db.ledger import CURRENCIES, per_unit
from freqdp_db.db.releases import ReleaseRow
from freqdp_db.errors import BadInput, Remark
from freqdp_db.methods import parameters
from freqdp_db.methods.contract import Counts, Method, options_of
from freqdp_db.methods.kinds import Flag, Stretch, Whole, plain
from freqdp_db.methods.parameters import Parameter
from freqdp_db.methods.registry import find_method, require_named, suffixes
from freqdp_db.methods.relations import Kept, Relation
from freqdp_db.model.trajectories import KeptColumns
from freqdp_db.privacy.guarantee import ProtectedUnit

MAX_NAME_BYTES = 55
_PUBLIC = {"region": "WEST,SOUTH,EAST,NORTH", "period": "FROM/TO"}
"""What the owner says of a dataset where a guarantee needs it, and how it is written."""


class Remarks(NamedTuple):
    """What the numbers of a release mean once they are there."""

    errors: list[str]
    """How large errors are: for analysts, too."""
    warnings: list[Remark]


@dataclass(frozen=True)
class Request:
    """A checked request."""

    method: Method
    values: Mapping[str, Any]
    """Of every parameter that has one."""
    kept: Kept = ()
    """Columns that samples of the build carry along, once it is known."""

    @classmethod
    def parse(cls, method: str | None, **given: Any) -> Request:
        """From the command line or from Python: values as text, or as what is written so."""
        return cls._read(
            require_named(method), {k: _as_text(v) for k, v in given.items()}, text=True
        )

    @classmethod
    def from_json(cls, method: str, given: Mapping[str, Any]) -> Request:
        """From a JSON document; numbers must be int or Decimal."""
        return cls._read(method, given, text=False)

    @classmethod
    def _read(
        cls, method: str, given: Mapping[str, Any], *, text: bool, recorded: bool = False
    ) -> Request:
        chosen = find_method(method)
        values = parameters.read(chosen.parameters, given, method, text=text, recorded=recorded)
        return cls(chosen, values)

    @classmethod
    def of(cls, release: ReleaseRow) -> Request:
        """The request that a release records."""
        # the driver makes floats of JSON numbers; up to 15 digits come back exactly from their text
        exact = {
            name: Decimal(repr(value)) if isinstance(value, float) else value
            for name, value in release.parameters.items()
        }
        asked = cls._read(release.method, exact, text=False, recorded=True)
        return replace(asked, kept=tuple((name, kind) for name, kind in release.kept or ()))

    @property
    def relations(self) -> tuple[Relation, ...]:
        """The tables and views that the release consists of."""
        return self.method.relations_for(self.values, self.kept)

    @property
    def kept_names(self) -> list[str]:
        """The columns that released samples carry along."""
        return [name for name, _ in self.kept] if self.method.keeps_columns else []

    @property
    def spend(self) -> Decimal:
        """In the currency of the method's unit; 0 if it has none."""
        return self.method.spend(self.values)

    def price(self, protected: ProtectedUnit) -> str:
        """The spend with its currency and unit, in words."""
        if self.method.unit is None:
            return "nothing"
        amount = f"{CURRENCIES[self.method.unit]} {plain(self.spend)}"
        return f"{amount} {per_unit(self.method.unit, protected)}"

    @property
    def seed(self) -> int | None:
        seed: int | None = self.values.get("seed")
        return seed

    @property
    def grantable(self) -> bool:
        """Whether analysts may ever be granted it: a seeded release is for tests."""
        return self.method.grantable and self.seed is None

    def require_possible(self, build: BuildRow) -> None:
        """Refuse what makes no sense for data of this size."""
        for step in self.method.steps:
            step.require_possible(options_of(step, self.values), build.trajectories, build.samples)

    def remarks(self, counts: Sequence[Counts | None]) -> Remarks:
        """What the recorded counts of the steps mean; None: a step that was not carried out."""
        found = Remarks([], [])
        for step, recorded in zip(self.method.steps, counts, strict=False):
            if recorded is not None:
                options = options_of(step, self.values)
                found.errors.extend(filter(None, [step.errors(options, recorded)]))
                found.warnings.extend(map(Remark, step.warnings(options, recorded)))
        return found

    def column_comments(self) -> dict[str, str]:
        """What columns of the release say, where that is not as its relations declare it."""
        found: dict[str, str] = {}
        for step in self.method.steps:
            found |= step.column_comments(options_of(step, self.values))
        return found

    def with_facts(self, dataset: DatasetRow, build: BuildRow) -> Request:
        """What is known of the dataset and its build, filled in; refused where a guarantee needs it."""
        declared = {p.name: p for p in self.method.parameters}
        values, kept = dict(self.values), KeptColumns.of(build.kept)
        columns = () if kept is None else kept.columns
        for p in declared.values():
            if p.of_build is not None and p.name not in values:
                filled = p.of_build(build)
                values |= {} if filled is None else {p.name: filled}
        if self.method.unit != "person" or "region" not in declared:
            return replace(self, values=values, kept=columns)
        if build.window_begin is not None and build.window_end is not None:
            if "period" in self.values:
                raise BadInput(
                    "[[period]] and [[window]] are both given",
                    remedy="the window is the period: leave [[period]] out",
                )
            values["period"] = Stretch(
                build.window_begin.astimezone(UTC), build.window_end.astimezone(UTC)
            )
        for name in _PUBLIC:
            said = getattr(dataset, name)
            if name not in values and said is not None:
                values[name] = declared[name].kind.from_json(said)
        missing = [name for name in _PUBLIC if name not in values]
        if missing:
            raise BadInput(
                f"[[method]] {self.method.name} gives a guarantee for {dataset.protected.words}: the "
                f"{' and the '.join(missing)} of the data must be declared, and be public",
                remedy=f"freqdp dataset set {shlex.quote(dataset.name)} "
                + " ".join(f"--{name} {_PUBLIC[name]}" for name in missing),
            )
        if build.srid not in (dataset.srid, dataset.source_srid):
            raise BadInput(
                f"the projection of build {build.build_id} was chosen from the data",
                remedy=f"say the region (freqdp dataset set {shlex.quote(dataset.name)} --region ...), "
                f"then make a new one: freqdp dataset build {shlex.quote(dataset.name)}",
            )
        return replace(self, values=values, kept=columns)

    def document(self) -> dict[str, Any]:
        """The parameters as they are stored and hashed."""
        return parameters.document(self.method.parameters, self.values)

    def published(self) -> dict[str, Any]:
        """What the catalogue shows."""
        return self._readable(tuple(p for p in self.method.parameters if p.public))

    def readable(self) -> dict[str, Any]:
        """The same of all parameters, for the curator."""
        return self._readable(self.method.parameters)

    def _readable(self, shown: tuple[Parameter, ...]) -> dict[str, Any]:
        return {name: _readable(v) for name, v in parameters.document(shown, self.values).items()}

    def shown(self) -> list[tuple[str, str]]:
        """Each parameter's name in words and its value, for people."""
        return [
            (p.name.replace("_", " "), p.kind.show(self.values[p.name]))
            for p in self.method.parameters
            if p.name in self.values
        ]

    def command(self) -> str:
        """The options that ask for the same again."""
        options = [f"--method {self.method.name}"]
        for p in self.method.parameters:
            if p.name in self.values:
                value = self.values[p.name]
                if isinstance(value, bool):
                    options += [p.option] if value else []
                else:
                    options.append(f"{p.option} {p.kind.show(value)}")
        return " ".join(options)

    def guarantee(self, protected: ProtectedUnit, others: Sequence[str] = ()) -> dict[str, Any]:
        """For objects of such a source. `others`: what other releases of them show."""
        if self.kept_names:
            names = ", ".join(self.kept_names)
            others = [
                *others,
                f"the values of {names}: they are published as they are, and narrow down whose a sample is",
            ]
        return self.method.guarantee(self.values, protected).document(
            self.method.name,
            self.method.kind,
            self.method.unit,
            protected,
            seeded=self.seed is not None,
            others=others,
        )


def _as_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)


def _readable(value: Any) -> Any:
    """Exact numbers as text: whoever reads JSON would make floats of them."""
    return format(value, "f") if isinstance(value, Decimal) else value


_MAX_SERIES_BYTES = MAX_NAME_BYTES - len("_2024_05_06")


def check_series(series: str, name: str | None, option: str = "[[series]]") -> str:
    """A name for a series: a number, or the window, follows it in the names of its releases."""
    check_name(option, series, _MAX_SERIES_BYTES)
    if name is not None:
        raise BadInput(
            "[[series]] and [[name]] are both given: releases of a series are called after it",
            remedy="leave [[name]] out",
        )
    return check_release_name(series, option)


def check_release_name(name: str, option: str = "[[name]]") -> str:
    """A name that leaves room for the suffixes of relations and is not one of ours."""
    check_name(option, name, MAX_NAME_BYTES)
    *endings, last = (*filter(None, suffixes()), "_current")
    if name in ("catalog", "series") or name.endswith((*endings, last)):
        raise BadInput(
            f"{option} {name!r} is reserved",
            remedy="choose a name that is not `catalog` or `series` and does not end in "
            f"{', '.join(endings)} or {last}",
        )
    return name


# A job: the document that `request_document` checks in SQL.

MAX_KEEP = 10_000
_NEW_DRAW = Parameter("new_draw", Flag(), "Draw afresh.", False)
_REBUILD = Parameter("rebuild", Flag(), "Make a new build first.", False)
_HOLD = Parameter("hold", Flag(), "For curators only, until it is approved.", False)
_KEEP = Parameter("keep", Whole(1, MAX_KEEP, "7"), "How many releases to keep.")


def check_keep(keep: int | None) -> int | None:
    """How many releases of a schedule stay; None: all."""
    if keep is not None and not (isinstance(keep, int) and 1 <= keep <= MAX_KEEP):
        raise BadInput(
            f"[[keep]] {keep} is not between 1 and {MAX_KEEP:,}", remedy="for example [[keep]] 7"
        )
    return keep


@dataclass(frozen=True)
class JobRequest:
    """A request for a release, and what belongs around it; of a job, all of it."""

    request: Request
    name: str | None = None
    new_draw: bool = False
    rebuild: bool = False
    keep: int | None = None
    hold: bool = False
    """For curators only, until it is approved."""
    window: str | None = None
    """The window to release; of a schedule, what a window is: day, week or month."""
    series: str | None = None
    """The series that the release belongs to."""

    def asks_as(self, other: JobRequest) -> bool:
        """Whether one release answers both."""
        same = (self.request.method, self.request.values, self.window) == (
            other.request.method, other.request.values, other.window,
        )  # fmt: skip
        return same and not (self.new_draw or other.new_draw)

    def document(self) -> dict[str, Any]:
        """As `request_release` takes it, with exact numbers."""
        document = {
            "method": self.request.method.name,
            **self.request.document(),
            "as": self.name,
            "new_draw": self.new_draw,
            "rebuild": self.rebuild,
            "keep": self.keep,
            "hold": self.hold,
            "window": self.window,
            "series": self.series,
        }
        return {key: value for key, value in document.items() if value is not None}


def parse_job(document: dict[str, Any]) -> JobRequest:
    """Check a document as SQL does; numbers must be int or Decimal. Raises BadInput."""
    given = {key: value for key, value in document.items() if value is not None}
    method, name = require_named(given.pop("method", None)), given.pop("as", None)
    if name is not None and not isinstance(name, str):
        raise BadInput(f"[[name]] {name!r} is not a name", remedy="for example [[name]] city_1")
    window, series = given.pop("window", None), given.pop("series", None)
    for option, text in (("[[window]]", window), ("[[series]]", series)):
        if text is not None and not isinstance(text, str):
            raise BadInput(f"{option} {text!r} is not a text", remedy="for example yesterday")
    if series is not None:
        check_series(series, name)
    own = {
        p.name: p.parse(given.pop(p.name), text=False) if p.name in given else p.default
        for p in (_NEW_DRAW, _REBUILD, _KEEP, _HOLD)
    }
    return JobRequest(
        Request.from_json(method, given),
        None if name is None else check_release_name(name),
        window=window,
        series=series,
        **own,
    )
