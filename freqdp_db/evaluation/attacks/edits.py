"""`edits.auc`: how well inserted samples can be told from true ones, by what the release shows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from freqdp_db.evaluation.attacks.claims import area_under_curve
from freqdp_db.evaluation.attacks.known_samples import absent_from
from freqdp_db.evaluation.attacks.learning import Features, trees
from freqdp_db.evaluation.pair import Case
from freqdp_db.methods.frequency.counts import count_frequencies
from freqdp_db.model.arrays import Flags, Ids, Ints, owners

_MOST_ROWS = 200_000
_COUNTED = slice(10, 12)
"""Of the visible features: how often the place occurs in the release and in the trajectory."""


def inserted_samples(case: Case) -> Flags:
    """Released samples that their object does not have in the original."""
    shown = replace(case.original, at=case.release.coarse(case.original.at))
    return absent_from(shown, case.pair.released, case.release.owners)


def visible_features(case: Case, rows: Ints) -> Features:
    """What the release shows of these samples, in rows.

    Gaps before and after, the share of the way and of the time that it lies at, speeds in and out,
    the detour and the distance from the straight line, how often its place occurs in the release
    and in its own trajectory, and the second of the minute.
    """
    release = case.release
    side, x, y, at = release.trajectories, release.x, release.y, release.trajectories.at
    trajectory = release.trajectory[rows]
    before = np.where(rows == side.offsets[:-1][trajectory], rows, rows - 1)
    after = np.where(release.ends[rows], rows, rows + 1)
    gap_in, gap_out = (at[rows] - at[before]) / 1e6, (at[after] - at[rows]) / 1e6
    way_in = np.hypot(x[rows] - x[before], y[rows] - y[before])
    way_out = np.hypot(x[after] - x[rows], y[after] - y[rows])
    dx, dy = x[after] - x[before], y[after] - y[before]
    chord = np.hypot(dx, dy)
    cross = dx * (y[rows] - y[before]) - dy * (x[rows] - x[before])
    often = np.bincount(side.location, minlength=len(release.places))[side.location[rows]]
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
            _visits(case, rows),
            at[rows] // 1_000_000 % 60,
        ]
    ).astype(np.float32)


def _visits(case: Case, rows: Ints) -> Ids:
    """How often the trajectory of each of these samples is at its place."""
    release = case.release
    counted = count_frequencies(release.trajectories, len(release.places))
    owner = owners(counted.offsets).astype(np.int64)
    codes = owner * len(release.places) + counted.location
    wanted = release.trajectory[rows].astype(np.int64) * len(release.places)
    return counted.pf[np.searchsorted(codes, wanted + release.trajectories.location[rows])]


def edits_exposure(case: Case, rng: np.random.Generator) -> dict[str, float]:
    """Area under the curve on objects that the trees have not seen; nothing without insertions.

    Trained on half of the objects, tested on the other half, up to 200,000 samples each.
    `edits.auc.visits` is the same with nothing but how often each place occurs: a method that is to
    change how often places are visited cannot hide that.
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
    seen, shown = visible_features(case, learn), visible_features(case, test)
    found = {"edits.share": float(inserted.mean())}
    for name, columns in (("edits.auc", slice(None)), ("edits.auc.visits", _COUNTED)):
        score = trees(seen[:, columns], inserted[learn])(shown[:, columns])
        answer = inserted[test]
        found[name] = area_under_curve(score[answer], score[~answer])
    return found
