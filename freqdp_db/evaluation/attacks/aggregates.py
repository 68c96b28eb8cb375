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
from scipy.special import gammaln

from freqdp_db.evaluation.attacks.claims import area_under_curve, found_at
from freqdp_db.model.arrays import Ids, Ints, offsets_from, owners

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
class KnownCells:
    """The cells that each person was counted in: the attacker knows them all, nobody knows more."""

    offsets: Ints
    """Where the cells of each person begin, as in `Trajectories`."""
    zone: Ints
    bin: Ints
    times: Ints
    """How often the person was counted there."""

    @classmethod
    def of(cls, offsets: Ints, zone: Ints, bin: Ints, *, by_bin: bool = True) -> KnownCells:
        """Each once; or, of tables without single bins, by zone and how often in all bins together."""
        if by_bin:
            return cls(offsets, zone, bin, np.ones(len(zone), np.int64))
        (whose, place), times = np.unique(
            np.stack([owners(offsets), zone]), axis=1, return_counts=True
        )
        starts = offsets_from(np.bincount(whose, minlength=len(offsets) - 1))
        return cls(starts, place, np.zeros_like(place), times)


@dataclass(frozen=True)
class Counted:
    """Counts by zone and time bin, as they are published or as they would be without noise."""

    value: Table
    """Zones by bins, or one column: all bins together, where single bins are not all shown."""
    deviation: float
    """Of the noise of one count, from the published margin; 0: none."""
    expected: Table
    """What a crowd like the published one has there: from coarser levels."""


def at_least_some(crowd: Table) -> Table:
    """Expected counts, none of them below what can be known from noise."""
    return np.maximum(crowd, _FEWEST)


def shares_of_bins(by_district: Table) -> Table:
    """How the counts of each district are spread over bins. by_district: districts by bins."""
    profile = np.maximum(by_district, _FEWEST)
    shares: Table = profile / profile.sum(axis=1, keepdims=True)
    return shares


def crowd_of(by_zone: Table, by_district: Table, district: Ids) -> Table:
    """Expected counts: what a zone has in all bins, spread over bins as its district has it.

    by_zone: of each zone in all bins. by_district: districts by bins.
    """
    return at_least_some(np.maximum(by_zone, 0.0)[:, None] * shares_of_bins(by_district)[district])


def membership_in_counts(
    counted: Counted, known: KnownCells, rng: np.random.Generator, part: Table | None = None
) -> dict[str, float]:
    """`auc` and `tpr1`: chance is 0.5 and 0.01.

    part: for how much each person counts wherever it is counted; None: for 1.
    """
    part = np.ones(len(known.offsets) - 1) if part is None else part
    there, gone = (
        scores(counted, known, rng.spawn(1)[0], part, gone=gone) for gone in (False, True)
    )
    return attack_rates(there, gone)


def attack_rates(members: Table, others: Table) -> dict[str, float]:
    """How well scores tell members from others: area under the curve, and hits at 1 % false alarms."""
    return {
        "auc": area_under_curve(members, others),
        "tpr1": found_at(members, others, _FALSE_ALARMS),
    }


def scores(
    counted: Counted,
    known: KnownCells,
    rng: np.random.Generator,
    part: Table,
    *,
    gone: bool = False,
) -> Table:
    """For each person, the logarithm of the likelihood ratio that they were counted.

    gone: subtract the person's own contribution first, as if they were not in the data.
    """
    persons = np.flatnonzero(np.diff(known.offsets) > 0)
    if len(persons) > MOST_TARGETS:
        persons = np.sort(rng.choice(persons, MOST_TARGETS, replace=False))
    return scores_of(counted, known, persons, part, gone=gone)


def scores_of(
    counted: Counted, known: KnownCells, persons: Ints, part: Table, *, gone: bool = False
) -> Table:
    """The same for these persons; 0 for those who were not counted."""
    found = np.zeros(len(persons))
    for i, person in enumerate(persons):
        own = slice(known.offsets[person], known.offsets[person + 1])
        cell = known.zone[own], known.bin[own]
        mine: Table = float(part[person]) * known.times[own].astype(np.float64)
        value, expected = counted.value[cell] - mine * gone, counted.expected[cell]
        found[i] = log_ratio(value, expected, counted.deviation, mine).sum()
    return found


def log_ratio(value: Table, expected: Table, deviation: float, part: Table | float = 1.0) -> Table:
    """How much likelier counts are if the target is among them and counts for `part`, in logarithms."""
    part = np.broadcast_to(part, value.shape)
    if deviation == 0.0:
        # Poisson(value - part) over Poisson(value), which is 0 where the value is less than the part
        rest = np.maximum(value - part, 0.0)
        exact: Table = gammaln(value + 1) - gammaln(rest + 1) - part * np.log(expected)
        return np.maximum(np.where(value < part, _NEVER, exact), _NEVER)
    found = part * (value - expected - part / 2) / (expected + deviation**2)
    few = expected < _MANY
    if few.any():
        most = int(stats.poisson.isf(1e-9, _MANY)) + 2
        number = np.arange(most)
        crowd = stats.poisson.pmf(number[None, :], expected[few][:, None])
        with_target, without = (
            (crowd * stats.norm.pdf(value[few][:, None], number + own, deviation)).sum(axis=1)
            for own in (part[few][:, None], 0.0)
        )
        known = (with_target > 0) & (without > 0)
        ratio = np.log(with_target, where=known, out=np.zeros(len(known)))
        ratio -= np.log(without, where=known, out=np.zeros(len(known)))
        found[few] = np.where(known, ratio, found[few])
    return found
