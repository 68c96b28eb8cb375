"""The membership attack on counts: sure where nothing is hidden, about chance where noise is."""

from __future__ import annotations

import numpy as np
import pytest

from freqdp_db.evaluation.counts import (
    Counted,
    KnownCells,
    at_least_some,
    crowd_of,
    log_ratio,
    membership_in_counts,
)
from freqdp_db.model.arrays import offsets_from

ZONES, BINS, PERSONS = 200, 24, 600
DISTRICT = (np.arange(ZONES) // 20).astype(np.int32)


def _crowd(seed: int):  # type: ignore[no-untyped-def]
    """Persons with a home, a place of work and hours of their own, and what they make together."""
    rng = np.random.default_rng(seed)
    busy = rng.zipf(1.6, ZONES).astype(float) ** 0.5
    zone, bin, sizes = [], [], []
    for _ in range(PERSONS):
        places = rng.choice(ZONES, 4, replace=False, p=busy / busy.sum())
        hours = np.clip(rng.normal((7, 13, 18, 21), 2), 0, 23).astype(int)
        cells = {
            (int(z), int((h + k) % 24))
            for z, h in zip(places, hours, strict=True)
            for k in range(3)
        }
        zone += [z for z, _ in sorted(cells)]
        bin += [b for _, b in sorted(cells)]
        sizes.append(len(cells))
    true = np.zeros((ZONES, BINS))
    np.add.at(true, (zone, bin), 1.0)
    return true, offsets_from(np.array(sizes)), np.array(zone), np.array(bin)


def _counted(true: np.ndarray, deviation: float, seed: int) -> Counted:  # type: ignore[type-arg]
    noisy = (
        true + np.random.default_rng(seed).normal(0, deviation, true.shape) if deviation else true
    )
    by_district = np.stack([noisy[d == DISTRICT].sum(axis=0) for d in range(DISTRICT.max() + 1)])
    return Counted(noisy, deviation, crowd_of(noisy.sum(axis=1), by_district, DISTRICT))


def test_unprotected_counts_give_members_away() -> None:
    true, *cells = _crowd(1)
    found = membership_in_counts(
        _counted(true, 0.0, 1), KnownCells.of(*cells), np.random.default_rng(1)
    )
    assert found["auc"] > 0.95 and found["tpr1"] > 0.4


def test_noise_of_a_guarantee_hides_them() -> None:
    """A person with 12 cells at rho 0.02 (epsilon 1): noise of sqrt(12 / 0.04) = 17."""
    true, *cells = _crowd(2)
    auc = [
        membership_in_counts(
            _counted(true, 17.0, seed), KnownCells.of(*cells), np.random.default_rng(seed)
        )["auc"]
        for seed in range(3)
    ]
    assert np.mean(auc) < 0.6


@pytest.mark.parametrize(
    ("deviation", "least", "most"), [(0, 0.95, 1), (0.5, 0.9, 1), (60, 0, 0.6)]
)
def test_totals_of_zones_are_attacked_where_bins_are_not_shown(
    deviation: float, least: float, most: float
) -> None:
    """Very many zones, so that persons have most of theirs alone: each is in three, twice in each."""
    rng, zones, persons = np.random.default_rng(4), 5_000, 100
    zone = np.repeat(rng.integers(0, zones, 3 * persons), 2)
    known = KnownCells.of(np.arange(0, 6 * persons + 1, 6), zone, zone % 24, by_bin=False)
    assert known.times.sum() == len(zone) and not known.bin.any()
    total = np.bincount(zone, minlength=zones)[:, None] + rng.normal(0, deviation, (zones, 1))
    crowd = at_least_some(np.full((zones, 1), len(zone) / zones))
    found = membership_in_counts(Counted(total, deviation, crowd), known, rng)
    assert least <= found["auc"] <= most


def test_less_noise_hides_less() -> None:
    true, *cells = _crowd(3)
    rng = np.random.default_rng(1)
    auc = [
        membership_in_counts(_counted(true, s, 1), KnownCells.of(*cells), rng)["auc"]
        for s in (0.0, 0.3, 1.0, 5.0)
    ]
    assert auc == sorted(auc, reverse=True) and auc[1] > 0.9 > auc[3]


def test_the_ratio_is_that_of_the_likelihoods() -> None:
    """By simulation: E over the crowd without the target of the ratio is 1."""
    rng = np.random.default_rng(5)
    for expected, deviation in ((0.2, 1.0), (5.0, 2.0), (100.0, 3.0)):
        value = rng.poisson(expected, 20_000) + rng.normal(0, deviation, 20_000)
        ratio = np.exp(log_ratio(value, np.full(len(value), expected), deviation))
        assert ratio.mean() == pytest.approx(1.0, abs=0.02)


def test_an_empty_cell_proves_absence() -> None:
    assert log_ratio(np.array([0.0]), np.array([0.5]), 0.0)[0] == -50.0


def test_nobody_and_everybody_alike() -> None:
    true, _, zone, bin = _crowd(6)
    nobody = membership_in_counts(
        _counted(true, 1.0, 1),
        KnownCells.of(np.zeros(4, np.int64), zone[:0], bin[:0]),
        np.random.default_rng(1),
    )
    assert nobody["tpr1"] == 0.01
