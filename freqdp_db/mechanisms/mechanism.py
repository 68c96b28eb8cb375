"""A mechanism as a value: what it reads, what it protects, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from freqdp_db.mechanisms.noise import privacy_loss, scale_for


@dataclass(frozen=True)
class Mechanism:
    """Discrete Laplace noise on a vector of counts."""

    artefact: str
    """What comes out, as the guarantee calls it."""
    input: str
    unit: str
    """The protected change: neighbouring inputs differ by one of these, added or removed."""
    assumes: str
    whole_user: str
    """What epsilon is multiplied with for all that one user contributes."""
    sensitivity: int
    """How far one unit moves the input: in L1, in steps of the lattice of the noise."""
    epsilon: Fraction

    @property
    def scale(self) -> float:
        """Scale of the noise, in steps of its lattice."""
        return scale_for(self.sensitivity, self.epsilon)

    def privacy_loss(self, units: int = 1) -> Fraction:
        """The epsilon of so many units, at the scale that is really drawn."""
        return privacy_loss(units * self.sensitivity, self.scale)
