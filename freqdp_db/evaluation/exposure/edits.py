"""`edits.auc`: how well inserted samples can be told from true ones, by what the release shows."""

from __future__ import annotations

import numpy as np

from freqdp_db.evaluation.exposure.boosting import Features, train
from freqdp_db.evaluation.exposure.case import Case
from freqdp_db.evaluation.exposure.membership import area_under_curve
from freqdp_db.model import Flags, Ids, Ints

_MOST_ROWS = 200_000


def inserted_samples(case: Case) -> Flags:
    """Released samples that their object does not have in the original: place or time is new."""
    release, original = case.release, case.original
    fields = [("owner", np.int32), ("location", np.int32), ("at", np.int64)]
    before = np.empty(original.samples, fields)
    before["owner"] = np.repeat(np.arange(len(original), dtype=np.int32), original.lengths)
    before["location"], before["at"] = original.location, release.coarse(original.at)
    after = np.empty(release.trajectories.samples, fields)
    after["owner"] = release.owners
    after["location"] = case.pair.released.location
    after["at"] = release.trajectories.at
    _, number = np.unique(np.concatenate([before, after]), return_inverse=True)
    number = number.reshape(-1)
    true = np.zeros(int(number.max(initial=-1)) + 1, np.bool_)
    true[number[: len(before)]] = True
    inserted: Flags = ~true[number[len(before) :]]
    return inserted


def visible_features(case: Case) -> Features:
    """What the release shows of each sample, in rows.

    Gaps before and after, the share of the way and of the time that it lies at, speeds in and out,
    the turn, the distance from the straight line, and how often its place occurs: in the release,
    and in its own trajectory.
    """
    release = case.release
    side, x, y = release.trajectories, release.x, release.y
    here: Ints = np.arange(side.samples)
    head = here == side.offsets[:-1][release.trajectory]
    before, after = np.where(head, here, here - 1), np.where(release.ends, here, here + 1)
    gap_in, gap_out = (side.at[here] - side.at[before]) / 1e6, (side.at[after] - side.at) / 1e6
    way_in = np.hypot(x - x[before], y - y[before])
    way_out = np.hypot(x[after] - x, y[after] - y)
    chord = np.hypot(x[after] - x[before], y[after] - y[before])
    cross = (x[after] - x[before]) * (y - y[before]) - (y[after] - y[before]) * (x - x[before])
    often = np.bincount(side.location, minlength=len(release.places))[side.location]
    own = release.trajectory.astype(np.int64) * len(release.places) + side.location
    _, which, times = np.unique(own, return_inverse=True, return_counts=True)
    return np.column_stack(
        [
            gap_in,
            gap_out,
            gap_in / np.maximum(gap_in + gap_out, 1.0),
            way_in / np.maximum(way_in + way_out, 1.0),
            way_in / np.maximum(gap_in, 1.0),
            way_out / np.maximum(gap_out, 1.0),
            way_in + way_out - chord,
            np.abs(cross) / np.maximum(chord, 1.0),
            way_in,
            way_out,
            often,
            times[which.reshape(-1)],
            side.at // 1_000_000 % 60,
        ]
    ).astype(np.float64)


def edits_exposure(case: Case, rng: np.random.Generator) -> dict[str, float]:
    """Area under the curve on objects that the trees have not seen; nothing without insertions.

    Trained on half of the objects, tested on the other half, up to 200,000 samples each.
    """
    owner: Ids = case.release.owners
    if (owner < 0).any():  # nobody's: nothing was inserted into anything
        return {}
    inserted = inserted_samples(case)
    half = rng.random(int(owner.max(initial=-1)) + 1) < 0.5
    parts = []
    for mine in (half[owner], ~half[owner]):
        rows = np.flatnonzero(mine)
        if len(rows) > _MOST_ROWS:
            rows = np.sort(rng.choice(rows, _MOST_ROWS, replace=False))
        parts.append(rows)
    learn, test = parts
    if any(len(np.unique(inserted[rows])) < 2 for rows in parts):
        return {}
    features = visible_features(case)
    score = train(features[learn], inserted[learn]).score(features[test])
    answer = inserted[test]
    return {
        "edits.auc": area_under_curve(score[answer], score[~answer]),
        "edits.share": float(inserted.mean()),
    }
