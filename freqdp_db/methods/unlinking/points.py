"""points: single samples without trajectories, in an order that was drawn.

Every row has an id of its own, and a time on the nearest tick of one clock for all. Nothing but places and
times says which rows belong together; where few move at a time, that may be much. `--share` publishes a
part of the samples, each drawn alike, so that there are gaps in whatever somebody follows.
"""

from __future__ import annotations

import numpy as np

from freqdp_db.errors import VerificationFailed
from freqdp_db.methods.contract import StepContext, WorkingSet
from freqdp_db.methods.unlinking.crowd import check_crowd, find_crowded
from freqdp_db.methods.unlinking.dates import check_dates
from freqdp_db.methods.unlinking.options import PointsOptions
from freqdp_db.methods.unlinking.steps import PointsDraw
from freqdp_db.model.arrays import Ints
from freqdp_db.privacy.noise import RandomSource

_WORDS = 2**63


def pick_points(
    world: StepContext, hidden: WorkingSet, options: PointsOptions, source: RandomSource
) -> Ints:
    """The samples to publish: those with a crowd, and of them a share that is drawn."""
    rows = np.flatnonzero(find_crowded(world, hidden, options))
    if options.share is None:
        return rows
    return rows[source.uniform_words(len(rows)) < int(options.share * _WORDS / 100)]


def check_points(
    world: StepContext,
    before: WorkingSet,
    drawn: PointsDraw,
    after: WorkingSet,
    options: PointsOptions,
) -> dict[str, int]:
    """Refuse unless the release is single samples of the input that may be published.

    Raises:
        VerificationFailed: two samples under one id, rows in another order than that of the ids, a
            sample that is not in the input or twice in the release, without its crowd, or left out for no
            reason.
    """
    old, new = before.trajectories, after.trajectories
    if (new.lengths != 1).any() or len(np.unique(after.key)) != len(new):
        raise VerificationFailed("points: two samples have one id")
    if (np.diff(after.key) < 0).any() or not np.array_equal(np.sort(drawn.key), after.key):
        raise VerificationFailed("points: the rows are not in the order of the ids that were drawn")
    rows = drawn.row
    if len(rows) != len(new) or not ((rows >= 0) & (rows < old.samples)).all():
        raise VerificationFailed("points: the draw names samples that do not exist")
    if (np.diff(rows) <= 0).any():
        raise VerificationFailed("points: a sample was drawn twice")
    sample = np.empty(len(rows), np.int64)
    sample[np.searchsorted(after.key, drawn.key)] = rows
    for column, was, there in (
        ("place", old.location, new.location),
        ("object", before.owners(), after.owners()),
    ):
        if not np.array_equal(was[sample], there):
            raise VerificationFailed(f"points: a sample has another {column} than it had")
    check_dates(world, old.at[sample], after, options.dates)
    drawn_ones = np.zeros(old.samples, np.bool_)
    drawn_ones[rows] = True
    if options.share is None:
        check_crowd(world, before, np.arange(old.samples), drawn_ones, options)
    else:
        check_crowd(world, before, rows, np.ones(len(rows), np.bool_), options)
    return {"points": len(new), "objects": len(np.unique(after.owners()))}
