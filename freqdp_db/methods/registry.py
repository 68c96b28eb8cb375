"""Methods by name. A method is an order of mechanisms and a guarantee."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeAlias

from freqdp_db.errors import BadInput

MechanismName: TypeAlias = Literal["global", "local"]
DEFAULT_METHOD = "lg"


@dataclass(frozen=True)
class Method:
    """One way to turn a build into anonymized trajectories."""

    name: str
    steps: tuple[MechanismName, ...]
    summary: str

    def split(
        self, total: Decimal | None, for_global: Decimal | None, for_local: Decimal | None
    ) -> tuple[Decimal, Decimal]:
        """The epsilons of the two mechanisms: as given, else the total, in halves where both run."""
        given = {"global": for_global, "local": for_local}
        for mechanism, epsilon in given.items():
            if epsilon is not None and mechanism not in self.steps:
                raise BadInput(
                    f"--epsilon-{mechanism} {epsilon}: {self.name} has no {mechanism} mechanism",
                    remedy=f"leave --epsilon-{mechanism} out",
                )
        if for_global is None and for_local is None:
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
    )
}


def find_method(name: str) -> Method:
    if name not in METHODS:
        raise BadInput(f"--method {name!r} is not known", remedy="use one of " + ", ".join(METHODS))
    return METHODS[name]
