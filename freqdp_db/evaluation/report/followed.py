"""What the follower sees of one person: what it knows, what it follows right, what wrong.

It shows originals: for the curator alone. The person is nobody by name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from freqdp_db.columns.arrays import Flags, Ints
from freqdp_db.columns.days import HOUR_US
from freqdp_db.evaluation.attacks.exposure.case import Case, ReleaseSeen
from freqdp_db.evaluation.attacks.exposure.claims import boxes_of, right_ones, until_of
from freqdp_db.evaluation.attacks.exposure.following import follow_one
from freqdp_db.evaluation.attacks.exposure.joints import find_joints
from freqdp_db.evaluation.attacks.exposure.sightings import SightingIndex, draw_known
from freqdp_db.evaluation.report.maps import Map, RoadLines

HOURS = 3
_HORIZON_US = HOURS * HOUR_US
_LOOKED_AT = 200
"""So many persons are followed, to find a typical one."""
_ENOUGH = 12
"""Different places that a picture should have, if there is somebody with as many."""


@dataclass(frozen=True)
class Followed:
    """One person, and what the follower claims of them."""

    person: int
    """In the case that was followed."""
    known: int
    """Position of the known sample in the original."""
    claim: Ints
    """Positions in the release, in order of time."""
    right: Flags

    @property
    def share(self) -> float:
        return float(self.right.mean())


def follow_somebody(case: Case, seed: int) -> tuple[Case, Followed] | None:
    """Somebody typical: right in the follower's claim as in the median. None: nobody is found."""
    rng = np.random.default_rng([seed, 20])
    there = np.flatnonzero(case.original.lengths > 1)
    if not len(there) or not case.release.trajectories.samples:
        return None
    chosen = np.sort(rng.permutation(there)[:_LOOKED_AT])
    looked_at = replace(case, original=case.original.take(chosen))
    everybody = _follow_each(looked_at, rng)
    if not everybody:
        return None
    x, y = case.release.x, case.release.y

    def places(f: Followed) -> int:
        return len(np.unique(np.column_stack([x[f.claim], y[f.claim]]), axis=0))

    lively = [f for f in everybody if places(f) >= _ENOUGH] or everybody
    middle = float(np.median([f.share for f in everybody]))
    return looked_at, min(lively, key=lambda f: abs(f.share - middle))


def _follow_each(case: Case, rng: np.random.Generator) -> list[Followed]:
    release, side = case.release, case.release.trajectories
    joints, known = find_joints(release), draw_known(case, 1, rng)
    sighted = SightingIndex(release).find(case, known, rng)
    boxes, until = boxes_of(release), until_of(release)
    found = []
    for u in np.flatnonzero(sighted.where >= 0):
        claim, age = follow_one(
            u, known.offsets, sighted.where, release.x, release.y, side.at, side.offsets,
            release.ends, release.trajectory, joints.group, joints.offsets, joints.stop,
            joints.after, joints.before, False,
        )  # fmt: skip
        claim = claim[age <= _HORIZON_US]
        right = right_ones(
            u, case.original.offsets, case.x, case.y, case.original.at, claim, release.x,
            release.y, side.at, boxes, until,
        )  # fmt: skip
        found.append(Followed(int(u), int(known.position[u]), claim, right))
    return found


def followed_map(case: Case, seed: int, roads: RoadLines) -> tuple[str, str] | None:
    """A map and its words; None: the follower finds nobody."""
    found = follow_somebody(case, seed)
    if found is None:
        return None
    looked_at, one = found
    release = case.release
    x, y = release.x[one.claim], release.y[one.claim]
    near = np.arange(
        looked_at.original.offsets[one.person], looked_at.original.offsets[one.person + 1]
    )
    away = np.abs(looked_at.original.at[near] - looked_at.original.at[one.known])
    near = near[away <= _HORIZON_US]
    true_x, true_y = looked_at.x[near], looked_at.y[near]
    if release.areas is not None:
        # of areas, their corners
        areas = release.areas
        x = np.concatenate([areas.x_min[one.claim], areas.x_max[one.claim]])
        y = np.concatenate([areas.y_min[one.claim], areas.y_max[one.claim]])
    drawn = Map.around(np.concatenate([x, true_x]), np.concatenate([y, true_y]))
    drawn.roads(roads)
    drawn.way(true_x, true_y, "truth")
    (_draw_areas if release.areas is not None else _draw_ways)(drawn, release, one)
    drawn.star(looked_at.x[one.known], looked_at.y[one.known])
    if release.areas is None:
        drawn.crosses(x[~one.right], y[~one.right])
    right, wrong = int(one.right.sum()), int((~one.right).sum())
    told = (
        f"of {len(one.claim):,} samples that it claims, {right:,} tell where the person was (solid line) "
        f"and {wrong:,} do not (dashed, crossed)"
        if release.areas is None
        else f"of {len(one.claim):,} areas that it claims, {right:,} tell where the person was (filled) "
        f"and {wrong:,} do not, or not closely enough (dashed)"
    )
    words = (
        f"A typical person. The attacker knows one sample (the star) and follows the trace for {HOURS} "
        f"hours either way: {told}. Broad grey: where the person really was in that time."
    )
    return words, drawn.picture(words)


def _draw_ways(drawn: Map, release: ReleaseSeen, one: Followed) -> None:
    """What is right as a line, what is wrong dashed."""
    x, y = release.x[one.claim], release.y[one.claim]
    for begin, end, right in _stretches(one.right):
        # a stretch goes on to where the next one begins: no gap between them
        part = slice(begin, min(end + 1, len(x)))
        drawn.way(x[part], y[part], "way ink" if right else "way accent dashed")


def _draw_areas(drawn: Map, release: ReleaseSeen, one: Followed) -> None:
    """What is right filled, what is wrong dashed."""
    areas = release.areas
    assert areas is not None
    for row, right in zip(one.claim, one.right, strict=True):
        named = "area" if right else "area wrong"
        drawn.box_of(areas.x_min[row], areas.y_min[row], areas.x_max[row], areas.y_max[row], named)


def _stretches(right: Flags) -> list[tuple[int, int, bool]]:
    """Runs of claims that are right, or wrong: begin, end, which."""
    edges = np.flatnonzero(np.diff(right)) + 1
    bounds = [0, *edges.tolist(), len(right)]
    return [(a, b, bool(right[a])) for a, b in pairwise(bounds) if b > a]
