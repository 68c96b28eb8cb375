"""Membership in released counts: was a person, whose places and times the attacker knows, counted?

The attacker has the released table and nothing else, as in the zero auxiliary knowledge attack on
aggregate locations (Guan, Guépin, Cretu, de Montjoye, PETS 2024): what the counts of everybody else are
like is told from the released margins (how busy a zone is, and when its district is). That attack learns
from simulated crowds whether the person's own cells hold one more than such crowds have. Here the same
question is answered by the likelihood ratio, which no learnt score exceeds if the crowd is as assumed:
independent persons, so Poisson counts, and noise of the published size.

The game is that of the guarantee: the person is in the data, or is not and all else is the same. Of linear
counts the table without the person is the table minus their contributions, with the noise as drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from freqdp_db.evaluation.attacks.claims import area_under_curve, found_at
from freqdp_db.model.arrays import Ids, Ints

Table = NDArray[np.float64]

MOST_TARGETS = 2_000
_FALSE_ALARMS = 0.01
_FEWEST = 0.05
"""No cell is thought to be emptier: a crowd that is known from noise alone is not known so well."""
_MANY = 30.0
"""From here on a Poisson count is as good as normal."""
_NEVER = -50.0
"""The logarithm of a ratio that is as good as 0."""


@dataclass(frozen=True)
class Counted:
    """Counts by zone and time bin, as they are published or as they would be without noise."""

    value: Table
    """Zones by bins; NaN: not shown."""
    deviation: float
    """Of the noise of one count, from the published margin; 0: none."""
    expected: Table
    """What a crowd like the published one has there: from coarser levels."""


def crowd_of(by_zone: Table, by_district: Table, district: Ids) -> Table:
    """Expected counts: what a zone has in all bins, spread over bins as its district has it.

    by_zone: of each zone in all bins. by_district: districts by bins.
    """
    profile = np.maximum(by_district, _FEWEST)
    profile = profile / profile.sum(axis=1, keepdims=True)
    crowd: Table = np.maximum(np.maximum(by_zone, 0.0)[:, None] * profile[district], _FEWEST)
    return crowd


def membership_in_counts(
    counted: Counted,
    offsets: Ints,
    zone: Ints,
    bin: Ints,
    rng: np.random.Generator,
    part: Table | None = None,
) -> dict[str, float]:
    """`auc` and `tpr1`: chance is 0.5 and 0.01.

    offsets, zone, bin: the cells that each person was counted in, as in `Trajectories`. part: for how much
    each person counts there; None: for 1. The attacker knows them all: nobody knows more.
    """
    part = np.ones(len(offsets) - 1) if part is None else part
    there, gone = (
        scores(counted, offsets, zone, bin, rng.spawn(1)[0], part, gone=gone)
        for gone in (False, True)
    )
    return told_apart(there, gone)


def told_apart(members: Table, others: Table) -> dict[str, float]:
    """How well scores of members and of others are told apart."""
    return {
        "auc": area_under_curve(members, others),
        "tpr1": found_at(members, others, _FALSE_ALARMS),
    }


def scores(
    counted: Counted,
    offsets: Ints,
    zone: Ints,
    bin: Ints,
    rng: np.random.Generator,
    part: Table,
    *,
    gone: bool = False,
) -> Table:
    """How likely it is that each of some persons was counted: logarithms of ratios.

    gone: of counts from which the person's own is taken first.
    """
    persons = np.flatnonzero(np.diff(offsets) > 0)
    if len(persons) > MOST_TARGETS:
        persons = np.sort(rng.choice(persons, MOST_TARGETS, replace=False))
    return scores_of(counted, offsets, zone, bin, persons, part, gone=gone)


def scores_of(
    counted: Counted,
    offsets: Ints,
    zone: Ints,
    bin: Ints,
    persons: Ints,
    part: Table,
    *,
    gone: bool = False,
) -> Table:
    """The same of these persons; 0 of who was not counted."""
    found = np.zeros(len(persons))
    for i, person in enumerate(persons):
        own = slice(offsets[person], offsets[person + 1])
        cell = zone[own], bin[own]
        mine = float(part[person])
        value, expected = counted.value[cell] - mine * gone, counted.expected[cell]
        found[i] = np.nansum(log_ratio(value, expected, counted.deviation, mine))
    return found


def log_ratio(value: Table, expected: Table, deviation: float, part: float = 1.0) -> Table:
    """How much likelier counts are if the target is among them and counts for `part`, in logarithms."""
    if deviation == 0.0:
        # Poisson(value - 1) over Poisson(value)
        with np.errstate(divide="ignore"):
            exact: Table = np.log(np.maximum(value, 0.0) / expected)
        return np.maximum(exact, _NEVER)
    found = part * (value - expected - part / 2) / (expected + deviation**2)
    few = expected < _MANY
    if few.any():
        most = int(stats.poisson.isf(1e-9, _MANY)) + 2
        number = np.arange(most)
        crowd = stats.poisson.pmf(number[None, :], expected[few][:, None])
        with_target, without = (
            (crowd * stats.norm.pdf(value[few][:, None], number + own, deviation)).sum(axis=1)
            for own in (part, 0.0)
        )
        known = (with_target > 0) & (without > 0)
        ratio = np.log(with_target, where=known, out=np.zeros(len(known)))
        ratio -= np.log(without, where=known, out=np.zeros(len(known)))
        found[few] = np.where(known, ratio, found[few])
    return found
