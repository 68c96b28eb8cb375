"""What `anonymize` was asked for: checked, and the same request recognised as the same."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from freqdp_db.columns.edits import MM_PER_M
from freqdp_db.dataset.registration import check_name, epsilon_number, positive_decimal
from freqdp_db.edits.insertion import PAPER_SPREAD_MM
from freqdp_db.errors import BadInput
from freqdp_db.methods.registry import DEFAULT_METHOD, Method, find_method
from freqdp_db.storage.records.builds import BuildRow

MAX_NAME_BYTES = 55
DEFAULT_SPREAD = "500"
MAX_SIGNATURE = 10_000
_UNITS_S = {"us": Decimal("1e-6"), "ms": Decimal("1e-3"), "s": Decimal(1), "min": Decimal(60),
            "m": Decimal(60), "h": Decimal(3600), "d": Decimal(86400)}  # fmt: skip
_DURATION = re.compile(r"^\s*([0-9.]+)\s*(us|ms|s|min|m|h|d)?\s*$")
MAX_EPSILON = Decimal(1000)
_WIDEST_M = Decimal(10_000_000)
_MANY_INSERTIONS = 10_000_000
_INSERTIONS_PER_SAMPLE = 50


@dataclass(frozen=True)
class Request:
    """A checked request."""

    method: Method
    epsilon_global: Decimal
    epsilon_local: Decimal
    signature: int
    spread: str
    time_step_us: int | None
    seed: int | None
    radius: str | None = None

    @classmethod
    def parse(
        cls,
        *,
        method: str = DEFAULT_METHOD,
        epsilon: str | None = None,
        epsilon_global: str | None = None,
        epsilon_local: str | None = None,
        signature: int = 10,
        spread: str = DEFAULT_SPREAD,
        time_step: str | None = None,
        seed: int | None = None,
        radius: str | None = None,
    ) -> Request:
        chosen = find_method(method)
        parts = chosen.split(
            _epsilon("--epsilon", epsilon),
            _epsilon("--epsilon-global", epsilon_global),
            _epsilon("--epsilon-local", epsilon_local),
        )
        if not 1 <= signature <= MAX_SIGNATURE:
            raise BadInput(
                f"--signature {signature} is not between 1 and {MAX_SIGNATURE:,}",
                remedy="the paper uses 10",
            )
        if seed is not None and not 0 <= seed < 2**63:
            raise BadInput(
                f"--seed {seed} is not a whole number from 0 to 2^63 - 1",
                remedy="for example --seed 1",
            )
        return cls(
            chosen,
            *parts,
            signature,
            _spread(spread),
            duration_us("--time-step", time_step),
            seed,
            _radius(chosen, radius),
        )

    @property
    def epsilon(self) -> Decimal:
        return self.epsilon_global + self.epsilon_local

    @property
    def spread_mm(self) -> int:
        if self.spread == "paper":
            return PAPER_SPREAD_MM
        return int(Decimal(self.spread) * int(MM_PER_M))

    @property
    def radius_m(self) -> float:
        return 0.0 if self.radius is None else float(self.radius)

    @property
    def private(self) -> bool:
        """Whether noise was drawn that nobody can draw again."""
        return self.seed is None and self.method.draws_noise

    def require_possible(self, build: BuildRow) -> None:
        """Refuse noise so wide that the samples to insert would dwarf the data many times over."""
        if not self.epsilon_local:
            return
        # up to 2m points of a trajectory, and max(0, Laplace(1/eps)) is 1/(2 eps) on average
        listed = min(2 * self.signature * build.trajectories, build.samples)
        insertions = listed / (2 * self.epsilon_local)
        most = _MANY_INSERTIONS + _INSERTIONS_PER_SAMPLE * build.samples
        if insertions > most:
            least = Decimal(listed) / (2 * most)
            raise BadInput(
                f"--epsilon-local (or its share of --epsilon) of {self.epsilon_local:f} would insert "
                f"about {insertions:,.0f} samples into {build.samples:,}",
                remedy=f"with --signature {self.signature} it takes at least {least:.1g}",
            )

    def options(self) -> dict[str, Any]:
        """What the record keeps besides method, epsilons and m."""
        return {
            "spread": self.spread,
            "time_step_us": self.time_step_us,
            "seed": self.seed,
            "radius": self.radius,
        }

    def published_parameters(self) -> dict[str, Any]:
        """What the catalogue shows."""
        return {
            "epsilon_global": format(self.epsilon_global.normalize(), "f"),
            "epsilon_local": format(self.epsilon_local.normalize(), "f"),
            "signature": self.signature,
            "spread": self.spread if self.spread == "paper" else f"{self.spread} m",
            **({} if self.radius is None else {"radius": f"{self.radius} m"}),
            "time_step_s": None if self.time_step_us is None else self.time_step_us / 1e6,
        }

    def hash(self, build: BuildRow) -> str:
        """Equal for equal requests on equal data."""
        document = {
            "fingerprint": build.fingerprint,
            "dataset": build.dataset_id,
            "method": self.method.name,
            "epsilon": [str(e.normalize()) for e in (self.epsilon_global, self.epsilon_local)],
            "signature": self.signature,
            **self.options(),
        }
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def check_release_name(name: str) -> str:
    """A name that leaves room for `_line` and is not one of ours."""
    check_name("--as", name, MAX_NAME_BYTES)
    if name == "catalog" or name.endswith(("_line", "_current")):
        raise BadInput(
            f"--as {name!r} is reserved",
            remedy="choose a name that is not `catalog` and does not end in _line or _current",
        )
    return name


def _epsilon(option: str, text: str | None) -> Decimal | None:
    return None if text is None else epsilon_number(option, text, MAX_EPSILON)


def _radius(method: Method, text: str | None) -> str | None:
    if method.default_radius is None:
        if text is not None:
            raise BadInput(
                f"--radius {text}: {method.name} has no radius", remedy="leave --radius out"
            )
        return None
    metres = positive_decimal("--radius", (text or method.default_radius).removesuffix("m").strip())
    if metres > _WIDEST_M:
        raise BadInput(f"--radius {text} is wider than the Earth", remedy="for example 500")
    return format(metres.normalize(), "f")


def _spread(text: str) -> str:
    if text == "paper":
        return text
    try:
        metres = positive_decimal("--spread", text.removesuffix("m").strip())
    except BadInput:
        raise BadInput(
            f"--spread {text!r} is not a number of metres above 0, nor `paper`",
            remedy="for example --spread 500",
        ) from None
    if metres > _WIDEST_M:
        raise BadInput(f"--spread {text} is wider than the Earth", remedy="use --spread paper")
    return format(metres.normalize(), "f")


def duration_us(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    match = _DURATION.match(text)
    try:
        number = positive_decimal(option, match[1] if match else "")
    except BadInput:
        raise BadInput(
            f"{option} {text!r} is not a duration above 0",
            remedy=f"for example {option} 60s, 5min or 1h",
        ) from None
    us = number * _UNITS_S[(match and match[2]) or "s"] * 1_000_000
    if us != us.to_integral_value() or us > 366 * 86_400 * 1_000_000:
        raise BadInput(
            f"{option} {text!r} is not a whole number of microseconds up to a year",
            remedy=f"for example {option} 60s, 5min or 1h",
        )
    return int(us)
