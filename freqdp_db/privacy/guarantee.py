"""What a release guarantees: as data, and in words. Formulas only, no count from the data."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

# What a guarantee, a price or a budget is for: one value of the object column of a source.


@dataclass(frozen=True)
class ProtectedUnit:
    """One object with all its data, or what of it lies in one stretch of time.

    It is a person only where the owner said so.
    """

    object_column: str
    relation: str
    """Both as they can be typed in SQL."""
    persons: str | None = None
    """The population whose persons the objects are, as the owner declared it."""
    stretch: str | None = None
    """day, week or month: what is protected at a time. None: all data of an object."""
    timezone: str = "UTC"
    """Whose days, weeks and months these are."""

    @property
    def noun(self) -> str:
        """What an object is called: a bike is not a person."""
        return "object" if self.persons is None else "person"

    @property
    def column(self) -> str:
        return f"column {self.object_column} of {self.relation}"

    @property
    def words(self) -> str:
        """`one bike (column bike of fleet.ride)`, `one person of drivers (column driver of ...)`."""
        what = self.object_column if self.persons is None else f"person of {self.persons}"
        if self.stretch is None:
            return f"one {what} ({self.column})"
        return f"one {what} and {self.stretch} ({self.column}; {self.stretch}s in {self.timezone})"

    @property
    def extent(self) -> str:
        """Which of its data is protected at a time."""
        return "all its data" if self.stretch is None else f"all its data of that {self.stretch}"

    @property
    def unit(self) -> str:
        """As the owner says it."""
        return "person" if self.stretch is None else f"person-{self.stretch}"

    def together(self, windows: int, epsilon: str, delta: str) -> str:
        """What a guarantee for a stretch of time means for somebody who is in several."""
        return (
            f"for one with data in all of {windows} {self.stretch}s that are released so, epsilon "
            f"{epsilon} at delta {delta}"
        )


NOTHING_CLAIMED: dict[str, Any] = {
    "unit": "none",
    "neighbouring": "none",
    "claimed_epsilon": None,
    "accounted_epsilon": None,
    "assumes": "nothing is claimed for the table of trajectories",
}
TABLE_NOT_DP = (
    "The table of trajectories itself is not differentially private: samples that were not edited "
    "are published as they are, with their place and time."
)
SAME_DATABASE = (
    "A login in the database that releases are made in can read how many rows private tables have, and "
    "their sizes (pg_stat_all_tables, pg_class): analysts need a database of their own."
)
WINDOWS_TOGETHER = {"day": 30, "week": 52, "month": 12}
"""For how many windows in a row a guarantee says what it comes to."""
DELTA = Decimal("0.000001")
"""What an object's epsilon is stated at, unless a release says otherwise."""
_SEEDED = "The noise was seeded and can be subtracted: do not publish."
_WOULD_HOLD = "Nothing is guaranteed. Without the seed this would hold:"


@dataclass(frozen=True)
class Guarantee:
    """What holds, for which artefact, in which unit; and what does not."""

    plain: Sequence[str]
    """Sentences."""
    artefacts: dict[str, dict[str, Any]]
    """By name: unit, neighbouring relation, claimed and accounted epsilon, what it assumes."""
    titles: dict[str, str]
    """What each artefact is, in words."""
    assumed_public: Sequence[str] = ()
    not_protected: Sequence[str] = ()
    noise: str = "none"
    spends: dict[str, str] = field(default_factory=dict)
    """What is booked: `epsilon` and its parts, or `rho`."""
    origin: str = ""
    """Where the method comes from."""

    def followed_by(self, other: Guarantee) -> Guarantee:
        """Of two methods, one after the other: what each says holds for its own part."""
        return Guarantee(
            plain=_once(self.plain, other.plain),
            artefacts={**self.artefacts, **other.artefacts},
            titles={**self.titles, **other.titles},
            assumed_public=_once(self.assumed_public, other.assumed_public),
            not_protected=_once(self.not_protected, other.not_protected),
            noise=self.noise if other.noise == "none" else other.noise,
            spends={**self.spends, **other.spends},
            origin=" ".join(_once([self.origin], [other.origin])).strip(),
        )

    def document(
        self,
        method: str,
        kind: str,
        unit: str | None,
        protected: ProtectedUnit,
        *,
        seeded: bool,
        others: Sequence[str] = (),
    ) -> dict[str, Any]:
        """As it is stored, published in the catalogue and written beside files.

        seeded: whoever knows the seed subtracts the noise, so that nothing is accounted for.
        others: what other releases of the same objects show, which is not protected either.
        """
        claims = any(a["claimed_epsilon"] is not None for a in self.artefacts.values())
        first = [_SEEDED, *([_WOULD_HOLD] if claims else [])] if seeded else []
        none = {"accounted_epsilon": None} if seeded else {}
        together = self._together(protected) if unit == "person" else None
        said = [*first, *self.plain, *([] if together is None else [together["plain"]])]
        if not any(protected.words in sentence for sentence in said):
            said.append(f"An object is {protected.words}.")
        return {
            "method": method,
            "kind": kind,
            "unit": protected.unit if unit == "person" else unit,
            "object": protected.words,
            **self.spends,
            "noise": "seeded: reproducible, therefore not private"
            if seeded and self.noise != "none"
            else self.noise,
            "seeded": seeded,
            "artefacts": {
                name: {"title": self.titles[name], **artefact, **none}
                for name, artefact in self.artefacts.items()
            },
            "assumed_public": list(self.assumed_public),
            "not_protected": _once([*self.not_protected, SAME_DATABASE], others),
            "origin": self.origin,
            "plain": " ".join(said),
        } | ({} if together is None else {"together": together})

    def _together(self, protected: ProtectedUnit) -> dict[str, Any] | None:
        """What it comes to for somebody who is in many windows; None: all data is protected at once."""
        from freqdp_db.privacy.accounting import epsilon_together, rounded_up

        if protected.stretch is None:
            return None
        claims = [a for a in self.artefacts.values() if a.get("rho") is not None]
        windows = WINDOWS_TOGETHER[protected.stretch]
        deltas = [Decimal(a["delta"]) for a in claims if a.get("delta") is not None]
        delta, pure = max(deltas, default=DELTA), not deltas
        epsilon = rounded_up(
            epsilon_together(
                Fraction(self.spends["rho"]),
                windows,
                Fraction(delta),
                Fraction(self.spends["epsilon"]) if pure else None,
            )
        )
        words = protected.together(windows, epsilon, f"{delta:f}")
        return {
            "windows": windows,
            "epsilon": epsilon,
            "delta": f"{delta:f}",
            "plain": f"That is for one {protected.stretch}: {words}.",
        }


Declare: TypeAlias = Callable[[Mapping[str, Any], ProtectedUnit], Guarantee]
"""The guarantee of a method with these values of its parameters, for such objects."""


def stands_for(document: Mapping[str, Any]) -> int | None:
    """At least so many objects that each released trajectory stands for; None: it is not several's."""
    k: int | None = document["artefacts"].get("trajectories", {}).get("k")
    return k


_NOT_PRIVATE = {
    "edited": "samples that were not edited are published as they are.",
    "unlinked": "what attackers learn of a person is measured, and nothing about it is proved.",
    "generalised": "what is proved is that several objects share each released trajectory.",
}


def in_short(document: Mapping[str, Any]) -> str:
    """A guarantee in one sentence: that it is differentially private, for whom; or that it is not."""
    kind = document["kind"]
    if kind in _NOT_PRIVATE and not document["seeded"]:
        return f"Not differentially private: {_NOT_PRIVATE[kind]}"
    first: str = re.split(r"(?<=\.)\s(?=[A-Z])", document["plain"], maxsplit=1)[0]
    return first


def _once(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """Both, in order, nothing twice."""
    return list(dict.fromkeys([*first, *second]))
