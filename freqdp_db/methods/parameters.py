"""Parameters of methods: declared once, as fields of a step's options.

The declaration is parsed from the command line and from JSON, shown by `--help`, stored as one
document, hashed as the identity of a request, and checked in SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from typing import Any, Protocol

from freqdp_db.errors import BadInput, named, option_of
from freqdp_db.methods.kinds import Duration, Kind, NotAcceptable, Number, Whole

_METADATA = "parameter"


class KnownOfBuild(Protocol):
    """What a default may depend on, besides what is declared."""

    @property
    def median_gap_us(self) -> int: ...

    @property
    def snap(self) -> str: ...


@dataclass(frozen=True)
class Parameter:
    """One parameter of a method."""

    name: str
    kind: Kind
    help: str
    default: Any = None
    """None: there is no value unless one is given."""
    share_of: str | None = None
    """A total may be given instead; it is split evenly among its shares."""
    public: bool = True
    """Whether the catalogue shows it."""
    of_build: Callable[[KnownOfBuild], Any] | None = None
    """The value for a build, where none is given; a release that was made before has none."""

    @property
    def option(self) -> str:
        return option_of(self.name)

    @property
    def named(self) -> str:
        """As messages name it."""
        return named(self.name)

    def parse(self, value: Any, *, text: bool, recorded: bool = False) -> Any:
        """A value from the command line (`text`) or from JSON; or a refusal that names the option."""
        kind = self.kind
        if recorded and isinstance(kind, Number) and kind.recorded is not None:
            kind = replace(kind, high=kind.recorded)
        try:
            return kind.from_text(value) if text else kind.from_json(value)
        except NotAcceptable as error:
            raise BadInput(
                f"{self.named} {value} is not {error}",
                remedy=f"for example {self.named} {self.kind.example}",
            ) from None

    def declaration(self) -> dict[str, Any]:
        """What SQL checks by."""
        return {
            **self.kind.declaration(),
            "default": None if self.default is None else self.kind.to_json(self.default),
            "share_of": self.share_of,
            "example": self.kind.example,
            "help": self.help,
        }


def parameter(
    kind: Kind,
    help: str,
    default: Any = None,
    *,
    share_of: str | None = None,
    public: bool = True,
    of_build: Callable[[KnownOfBuild], Any] | None = None,
) -> Any:
    """Declare a field of a step's options; its name becomes the parameter's."""
    declared = Parameter("", kind, help, default, share_of, public, of_build)
    return field(metadata={_METADATA: declared}, kw_only=True)


def parameters_of(options: type) -> tuple[Parameter, ...]:
    """What a step's options declare."""
    return tuple(replace(f.metadata[_METADATA], name=f.name) for f in fields(options))


MAX_EPSILON = Decimal(1000)
TOTALS = {
    "epsilon": Parameter(
        "epsilon",
        Number(MAX_EPSILON, "1.0"),
        "Total, split evenly among the mechanisms that draw noise.",
        Decimal(1),
    )
}
"""What may be given instead of its shares."""

RELEASE = (
    Parameter("time_step", Duration(), "Coarsen released times: 60s, 5min, 1h."),
    Parameter(
        "seed",
        Whole(0, 2**63 - 1, "1"),
        "Reproducible noise, for tests: the release is never granted to analysts.",
        public=False,
    ),
)
"""What every method takes."""


def read(
    declared: tuple[Parameter, ...],
    given: Mapping[str, Any],
    method: str,
    *,
    text: bool,
    recorded: bool = False,
) -> dict[str, Any]:
    """Values of all parameters that have one: as given, else shares of a total, else defaults.

    `recorded`: they are those of a release that is there.
    """
    given = {name: value for name, value in given.items() if value is not None}
    known = {p.name: p for p in declared}
    for name in given:
        if name not in known and name not in TOTALS:
            raise BadInput(
                f"{named(name)}: {method} has no such option", remedy=f"leave {named(name)} out"
            )
    values = {
        name: known[name].parse(value, text=text, recorded=recorded)
        for name, value in given.items()
        if name in known
    }
    for total in TOTALS.values():
        if total.name not in known:
            _share(total, [p for p in declared if p.share_of == total.name], given, values, method,
                   text=text)  # fmt: skip
    return {
        p.name: values.get(p.name, p.default)
        for p in declared
        if values.get(p.name, p.default) is not None
    }


def _share(
    total: Parameter,
    shares: list[Parameter],
    given: Mapping[str, Any],
    values: dict[str, Any],
    method: str,
    *,
    text: bool,
) -> None:
    parts = [p for p in shares if p.name in values]
    if total.name in given and not shares:
        raise BadInput(
            f"{total.named}: {method} draws no noise, so it takes no {total.name}",
            remedy=f"leave {total.named} out, or choose another [[method]]",
        )
    if total.name in given and parts:
        raise BadInput(
            f"{total.named} and {'/'.join(p.named for p in parts)} are given",
            remedy="give the total, or the parts",
        )
    if parts and len(parts) < len(shares):
        raise BadInput(
            f"{method} needs " + " and ".join(p.named for p in shares),
            remedy=f"give all of them, or {total.named} for the total",
        )
    if not parts and shares:
        amount = total.parse(given[total.name], text=text) if total.name in given else total.default
        for share in shares:
            values[share.name] = amount / len(shares)


def document(declared: tuple[Parameter, ...], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as they are stored and hashed: JSON, numbers exact."""
    return {p.name: p.kind.to_json(values[p.name]) for p in declared if p.name in values}
