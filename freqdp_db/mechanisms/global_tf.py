"""Global TF randomization (Alg. 1, lines 1-6)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from freqdp_db.columns.arrays import Flags, Ids
from freqdp_db.columns.edits import TfTargets
from freqdp_db.mechanisms.mechanism import Mechanism
from freqdp_db.mechanisms.noise import RandomSource


def tf_mechanism(epsilon: Fraction) -> Mechanism:
    """The mechanism of `perturb_tf`. One incidence moves one component by 1."""
    return Mechanism(
        artefact="tf_vector",
        input="TF of every candidate location",
        unit="one (object, location) incidence",
        assumes="the candidate locations and the number of objects are fixed",
        whole_user="the number of candidates that the user visits",
        sensitivity=1,
        epsilon=epsilon,
    )


def perturb_tf(
    tf: Ids, trajectories: int, candidates: Flags, epsilon: Fraction, source: RandomSource
) -> TfTargets:
    """Draw a target for the TF of every candidate: l* = clamp(l + noise(1/eps), 0, |D|).

    Input: the TF vector over the candidates, which are taken as fixed.
    Protected change: one (object, location) incidence added or removed.
    Sensitivity: 1, in one component.
    Guarantee: the vector of targets is eps-DP for that change; clamping is post-processing.
    Paper: Algorithm 1, lines 1-6.
    """
    location = np.flatnonzero(candidates).astype(np.int32)
    tf = tf[location]
    noise = source.discrete_laplace(tf_mechanism(epsilon).scale, len(location))
    target = np.clip(tf + noise, 0, trajectories).astype(np.int32)
    return TfTargets(location, tf, target)
