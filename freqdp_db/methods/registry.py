"""Methods by name. A method is an order of mechanisms and a guarantee."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeAlias

from freqdp_db.errors import BadInput

MechanismName: TypeAlias = Literal["global", "local", "closure"]
DEFAULT_METHOD = "lg"


@dataclass(frozen=True)
class Method:
    """One way to turn a build into anonymized trajectories."""

    name: str
    steps: tuple[MechanismName, ...]
    summary: str
    default_radius: str | None = None
    """Metres, for a method that takes --radius."""

    @property
    def draws_noise(self) -> bool:
        return "closure" not in self.steps

    def split(
        self, total: Decimal | None, for_global: Decimal | None, for_local: Decimal | None
    ) -> tuple[Decimal, Decimal]:
        """The epsilons of the two mechanisms: as given, else the total, in halves where both run."""
        given = {"global": for_global, "local": for_local}
        if not self.draws_noise and (total is not None or any(given.values())):
            raise BadInput(
                f"{self.name} draws no noise: it has no epsilon to give it",
                remedy="leave --epsilon out, or choose another --method",
            )
        for mechanism, epsilon in given.items():
            if epsilon is not None and mechanism not in self.steps:
                raise BadInput(
                    f"--epsilon-{mechanism} {epsilon}: {self.name} has no {mechanism} mechanism",
                    remedy=f"leave --epsilon-{mechanism} out",
                )
        if for_global is None and for_local is None:
            if not self.draws_noise:
                return Decimal(0), Decimal(0)
            share = (total if total is not None else Decimal(1)) / len(self.steps)
            return (
                share if "global" in self.steps else Decimal(0),
                share if "local" in self.steps else Decimal(0),
            )
        if total is not None:
            raise BadInput(
                "--epsilon and --epsilon-global/--epsilon-local are given",
                remedy="give the total, or the two parts",
            )
        if any(given[m] is None for m in self.steps):
            raise BadInput(
                f"{self.name} needs both --epsilon-global and --epsilon-local",
                remedy="give both, or --epsilon for the total",
            )
        return for_global or Decimal(0), for_local or Decimal(0)


METHODS = {
    m.name: m
    for m in (
        Method("lg", ("local", "global"), "local PF randomization, then global TF randomization"),
        Method("gl", ("global", "local"), "global TF randomization, then local PF randomization"),
        Method("pure-g", ("global",), "global TF randomization only"),
        Method("pure-l", ("local",), "local PF randomization only"),
        Method("sc", ("closure",), "signature closure, for comparison: drops each signature"),
        Method(
            "rsc",
            ("closure",),
            "signature closure with a radius, for comparison: drops what lies near as well",
            default_radius="1000",
        ),
    )
}


def find_method(name: str) -> Method:
    if name not in METHODS:
        raise BadInput(f"--method {name!r} is not known", remedy="use one of " + ", ".join(METHODS))
    return METHODS[name]
