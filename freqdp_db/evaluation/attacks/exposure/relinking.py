"""relink: how many of the joints that a method made the follower undoes."""

from __future__ import annotations

import numpy as np
from numba import njit

from freqdp_db.columns.arrays import Ints
from freqdp_db.engines.ranges import add, map_ranges, merged
from freqdp_db.evaluation.attacks.exposure.case import ReleaseSeen
from freqdp_db.evaluation.attacks.exposure.following import FOLLOWERS, next_sample
from freqdp_db.evaluation.attacks.exposure.joints import Joints


@njit(nogil=True, cache=True)
def _relink_swaps(  # type: ignore[no-untyped-def]
    first, last, offsets, stop, owner, prior_of, x, y, at, ends, trajectory, group, after,
    by_rhythm,
):  # fmt: skip
    """Asked and answered right, where the object goes on from the group."""
    asked = right = 0
    for g in range(first, last):
        for m in range(offsets[g], offsets[g + 1]):
            p = stop[m]
            goes_on = False
            for k in range(offsets[g], offsets[g + 1]):
                s = stop[k]
                goes_on |= not ends[s] and owner[s + 1] == owner[p]
            if goes_on:
                prior = prior_of[p]
                earlier = prior_of[prior] if prior >= 0 else -1
                chosen = next_sample(
                    p, prior, earlier, x, y, at, ends, trajectory, group, offsets, stop, after,
                    by_rhythm,
                )  # fmt: skip
                asked += 1
                if chosen >= 0 and owner[chosen] == owner[p]:
                    right += 1
    return asked, right


def relink(release: ReleaseSeen, joints: Joints) -> dict[str, float]:
    """Share of the joints that the follower gets right: `relink`, and `relink.rhythm`.

    At a swap the follower has been right so far; beside the whole stand swaps and cuts alone. A
    release without joints has neither.
    """
    side, owner = release.trajectories, release.owners
    order = np.lexsort((side.at, owner))
    same = owner[order][1:] == owner[order][:-1]
    prior_of, next_of = (np.full(side.samples, -1, np.int64) for _ in range(2))
    prior_of[order[1:][same]] = order[:-1][same]
    next_of[order[:-1][same]] = order[1:][same]
    cuts, joined = _relink_cuts(release, joints, next_of) if release.pieces else (0, 0)
    found: dict[str, float] = {}
    for attack, by_rhythm in FOLLOWERS.items():
        name = "relink" if attack == "follow" else f"relink.{attack}"
        asked, right = _tally_swaps(release, joints, prior_of, by_rhythm=by_rhythm)
        if asked + cuts:
            found[name] = (right + joined) / (asked + cuts)
        if asked and cuts:
            found[f"{name}.swap"] = right / asked
            found[f"{name}.cut"] = joined / cuts
    return found


def _tally_swaps(
    release: ReleaseSeen, joints: Joints, prior_of: Ints, *, by_rhythm: bool
) -> tuple[int, int]:
    if len(joints.offsets) < 2:
        return 0, 0
    parts = map_ranges(
        _relink_swaps, joints.offsets, joints.offsets, joints.stop, release.owners, prior_of,
        release.x, release.y, release.trajectories.at, release.ends, release.trajectory,
        joints.group, joints.after, by_rhythm,
    )  # fmt: skip
    asked, right = merged(parts, add, add)
    return asked, right


def _relink_cuts(release: ReleaseSeen, joints: Joints, next_of: Ints) -> tuple[int, int]:
    """Piece ends whose object goes on in another piece, and those joined with that one."""
    tail = np.flatnonzero(release.ends)
    truth = next_of[tail]
    there = truth >= 0
    there[there] &= release.trajectory[truth[there]] != release.trajectory[tail[there]]
    chosen = joints.after[release.trajectory[tail[there]]]
    return int(there.sum()), int((chosen == truth[there]).sum())
