"""The recovery attack: put D and D* on the roads and see how much of what was driven comes back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from freqdp_db.errors import BadInput
from freqdp_db.evaluation.pair import Pair
from freqdp_db.evaluation.utility import last_at_or_before
from freqdp_db.model.arrays import Ints, Metres, owners
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.progress import Progress
from freqdp_db.roads.matching import Matched, match
from freqdp_db.roads.network import Candidates, Network, find_candidates


@dataclass(frozen=True)
class Truth:
    """D on the roads: matched once for all releases that are held against it."""

    network: Network
    candidates: Candidates
    matched: Matched

    @classmethod
    def of(
        cls, network: Network, original: Trajectories, locations: Locations, progress: Progress
    ) -> Truth:
        with progress.stage("roads near places", len(locations), "places") as stage:
            candidates = find_candidates(network, locations)
            stage.advance(len(locations))
        matched = match(network, candidates, original, locations, progress, "match original")
        return cls(network, candidates, matched)

    def recovered(self, pair: Pair, progress: Progress) -> dict[str, float]:
        """Precision, recall, F, RMF and accuracy of the matched release."""
        attack = match(
            self.network, self.candidates, pair.released, pair.locations, progress, "match release"
        )
        on_road = self.matched.road >= 0
        return {
            **route_scores(self.matched, attack, self.network.graph.length),
            "recovery.accuracy": road_accuracy(pair, self.matched, attack),
            "recovery.beta_m": self.matched.beta_m,
            "recovery.matched": float(on_road.mean()) if len(on_road) else 0.0,
        }


def recovery_attack(pair: Pair, network: Network, progress: Progress) -> dict[str, float]:
    """The same for one release alone."""
    return Truth.of(network, pair.original, pair.locations, progress).recovered(pair, progress)


def route_scores(truth: Matched, attack: Matched, length: Metres) -> dict[str, float]:
    """Of sets of roads, weighed by their lengths and summed over all trajectories."""
    driven, given = _pairs(truth, len(length)), _pairs(attack, len(length))
    both = np.intersect1d(driven, given, assume_unique=True)
    of_truth, of_attack, common = (
        float(length[pairs % len(length)].sum()) for pairs in (driven, given, both)
    )
    if of_truth == 0:
        raise BadInput(
            "no original trajectory could be put on these roads",
            remedy="give roads of the area the data is in",
        )
    precision = common / of_attack if of_attack > 0 else 0.0
    recall = common / of_truth
    return {
        "recovery.precision": precision,
        "recovery.recall": recall,
        "recovery.f": 2 * precision * recall / (precision + recall) if common > 0 else 0.0,
        "recovery.rmf": ((of_attack - common) + (of_truth - common)) / of_truth,
    }


def _pairs(matched: Matched, roads: int) -> Ints:
    """(trajectory, road) as one number."""
    owner = owners(matched.offsets)
    pairs: Ints = owner.astype(np.int64) * roads + matched.driven
    return pairs


def road_accuracy(pair: Pair, truth: Matched, attack: Matched) -> float:
    """Share of D's matched samples whose nearest sample of D* in time is on the same road."""
    before = last_at_or_before(pair)
    owner, of_released = pair.original.owner, pair.released.owner
    at = pair.original.at
    # the one after: the next, or the first of the trajectory where there is none before
    after = np.where(before >= 0, before + 1, pair.released.offsets[owner])
    has_after = after < pair.released.offsets[owner.astype(np.int64) + 1]
    after = np.where(has_after, after, 0)
    wait = np.full(len(at), np.iinfo(np.int64).max)
    since = wait.copy()
    if len(of_released):
        wait = np.where(has_after, pair.released.at[after] - at, wait)
        since = np.where(before >= 0, at - pair.released.at[np.maximum(before, 0)], since)
    # ties go to the earlier one
    nearest = np.where(since <= wait, before, after)
    found = (before >= 0) | has_after
    matched = truth.road >= 0
    if not matched.any():
        return 0.0
    right = np.zeros(len(at), np.bool_)
    right[found] = attack.road[nearest[found]] == truth.road[found]
    return float(right[matched].mean())
