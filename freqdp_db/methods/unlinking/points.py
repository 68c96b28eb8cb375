"""points: single samples without trajectories, in an order that was drawn.

Every row has an id of its own. Nothing but places and times says which rows belong together; where few
move at a time, that may be much. `--every` publishes at most one sample of each object in each span of
time, drawn at random, so that no row has another of the same object close to it.
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


def pick_points(
    world: StepContext, hidden: WorkingSet, options: PointsOptions, source: RandomSource
) -> Ints:
    """The samples to publish: those with a crowd, and one of each object and span at most."""
    rows = np.flatnonzero(find_crowded(world, hidden, options))
    if options.every is None:
        return rows
    owner, span = hidden.owners()[rows], hidden.trajectories.at[rows] // options.every
    # the lowest word of each object and span: every sample of it is as likely
    order = np.lexsort((source.uniform_words(len(rows)), span, owner))
    first = np.ones(len(order), np.bool_)
    first[1:] = (np.diff(owner[order]) != 0) | (np.diff(span[order]) != 0)
    return np.sort(rows[order[first]])


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
            sample that is not in the input or twice in the release, without its crowd, too near in time to
            another of its object, or left out for no reason.
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
    if options.dates is not None:
        check_dates(world, old.at[sample], after)
    elif not np.array_equal(old.at[sample], new.at):
        raise VerificationFailed("points: a sample has another time than it had")
    _require_all(world, before, rows, options)
    return {"points": len(new), "objects": len(np.unique(after.owners()))}


def _require_all(
    world: StepContext, before: WorkingSet, rows: Ints, options: PointsOptions
) -> None:
    """Every sample that may be published is drawn, or one of the same object and span."""
    if options.every is None:
        drawn = np.zeros(before.samples, np.bool_)
        drawn[rows] = True
        check_crowd(world, before, np.arange(before.samples), drawn, options)
        return
    check_crowd(world, before, rows, np.ones(len(rows), np.bool_), options)
    at, owner = before.trajectories.at, before.owners()
    spans = at // options.every - int(at.min(initial=0)) // options.every
    code = owner.astype(np.int64) * (int(spans.max(initial=0)) + 1) + spans
    if len(np.unique(code[rows])) != len(rows):
        raise VerificationFailed("points: two samples of an object are in one span of time")
    wanted = code[find_crowded(world, before, options)]
    if len(np.setdiff1d(wanted, code[rows])):
        raise VerificationFailed(
            "points: an object has no sample in a span of time that it has one in"
        )
