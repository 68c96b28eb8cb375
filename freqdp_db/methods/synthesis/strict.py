"""`strict`: from the draw to synthetic trips, and their checks.

Only `vectors.draw` reads the data; everything here is a function of the draw and of public inputs. The
tables that trips are sampled from are logged, so that a replay does not estimate them again: estimates may
differ in the last digit between machines, samples from given tables do not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
from threadpoolctl import threadpool_limits

from freqdp_db.errors import VerificationFailed
from freqdp_db.methods.synthesis.estimation import Model, Tables, estimated
from freqdp_db.methods.synthesis.plan import (
    FIRST_ROUND,
    HEADINGS,
    SCALE,
    ClipLoss,
    Draw,
    MeasurementPlan,
    in_counts,
    plan_of,
    spent,
)
from freqdp_db.methods.synthesis.public import (
    LARGEST_SIZE,
    MOST_ROWS,
    USUAL_TRIP_US,
    Parameters,
    Period,
    Region,
)
from freqdp_db.methods.synthesis.roads import RoadNet, sample_on_roads
from freqdp_db.methods.synthesis.sampling import (
    FASTEST_M_PER_S,
    fit_walks,
    restrict_to_region,
    sample,
)
from freqdp_db.model.arrays import Ints
from freqdp_db.model.kernels import SEED_WORDS, key
from freqdp_db.model.trajectories import Locations, Trajectories

_ESTIMATE_TOLERANCE = 1e-6
"""Largest relative difference between the estimates of two machines."""


@dataclass(frozen=True)
class Log(Tables):
    """The tables that trips were sampled from, and the number of trips."""

    roads: Ints
    """`RoadNet.digest` of the network; empty if trips keep to no roads."""
    count: Ints
    """Number of trips."""
    errors: Ints
    """The result of `errors_of`."""

    def __len__(self) -> int:
        return int(self.count[0])


_TABLES = tuple(f.name for f in fields(Tables))


@dataclass(frozen=True)
class Synthetic:
    """The released trips."""

    trajectories: Trajectories
    places: Locations


def released_size(draw: Draw, plan: MeasurementPlan, parameters: Parameters) -> int:
    """Number of trips to sample: as requested, or their noisy number, corrected for the clips."""
    if parameters.size is not None:
        return parameters.size
    objects, trips = int(draw.objects[0]) // SCALE, int(draw.trips[0]) // SCALE
    loss = ClipLoss.of(draw.sizes // SCALE, plan)
    most = MOST_ROWS // (USUAL_TRIP_US // parameters.every_us + 1)
    return min(loss.corrected(trips, objects), LARGEST_SIZE, most)


def errors_of(draw: Draw, plan: MeasurementPlan, parameters: Parameters) -> Ints:
    """Errors from noise alone, in thousandths: twice the standard errors, at most 1000.

    Of the number of trips (relative), and of the shares of trips that begin in a zone and in an hour of the
    day. The errors of clips and of the model are not included.
    """
    noisy = in_counts(draw, plan, parameters)
    trips = max(float(noisy.values["trips"][0]), 1.0)
    loss = ClipLoss.of(draw.sizes // SCALE, plan).error(noisy.sigma["sizes"])
    found = [math.hypot(noisy.sigma["trips"] / trips, loss)]
    found += [noisy.sigma[n] / max(float(noisy.values[n].sum()), 1.0) for n in ("origins", "hours")]
    return np.array([min(math.ceil(2000 * error), 1000) for error in found], np.int64)


def carry_out(
    draw: Draw,
    region: Region,
    period: Period,
    parameters: Parameters,
    roads: RoadNet | None = None,
) -> tuple[Log, Synthetic]:
    """Estimate the model, fit its walks and sample trips. Deterministic."""
    plan = plan_of(draw, region, period, parameters)
    model = _fitted(draw, plan, parameters)
    log = Log(
        roads=_digest_of(roads),
        count=np.array([released_size(draw, plan, parameters)], np.int64),
        errors=errors_of(draw, plan, parameters),
        **{name: np.ravel(getattr(model, name)) for name in _TABLES},
    )
    return log, replay(draw, log, region, period, parameters, roads)


def _digest_of(roads: RoadNet | None) -> Ints:
    return np.zeros(0, np.int64) if roads is None else roads.digest()


def _fitted(draw: Draw, plan: MeasurementPlan, parameters: Parameters) -> Model:
    # with several threads, small linear algebra is slower, and its last digits vary
    with threadpool_limits(1, "blas"):
        model = estimated(in_counts(draw, plan, parameters), plan.grids)
        model = restrict_to_region(model, plan.grids, parameters.every_us)
        return fit_walks(model, plan.grids, key(draw.seed, "fit"))


def replay(
    draw: Draw,
    log: Log,
    region: Region,
    period: Period,
    parameters: Parameters,
    roads: RoadNet | None = None,
) -> Synthetic:
    """Sample the trips again from the seed of the draw and the logged tables."""
    if not np.array_equal(log.roads, _digest_of(roads)):
        raise VerificationFailed(
            "the roads are not those that the trips were made on",
            remedy="give back the road table that [[roads]] names, as it was",
        )
    plan = plan_of(draw, region, period, parameters)
    arguments = (
        _model(log), plan.grids, period, int(log.count[0]), parameters.every_us,
        key(draw.seed, "sample"),
    )  # fmt: skip
    return Synthetic(*(sample(*arguments) if roads is None else sample_on_roads(*arguments, roads)))


def check(
    draw: Draw,
    log: Log,
    released: Synthetic,
    region: Region,
    period: Period,
    parameters: Parameters,
    roads: RoadNet | None = None,
) -> dict[str, int]:
    """Check the budget, the logged tables, and that all trips are possible; raises VerificationFailed."""
    plan = plan_of(draw, region, period, parameters)
    _require_within_budget(plan, parameters)
    _require_shape(draw, plan)
    model = _fitted(draw, plan, parameters)
    for name in _TABLES:
        again, stored = np.ravel(getattr(model, name)), getattr(log, name)
        if again.shape != stored.shape or not np.allclose(
            again, stored, rtol=_ESTIMATE_TOLERANCE, atol=0
        ):
            raise VerificationFailed(f"the logged {name} do not follow from the draw")
    if int(log.count[0]) != released_size(draw, plan, parameters):
        raise VerificationFailed("the number of trips does not follow from the draw")
    if not np.array_equal(log.errors, errors_of(draw, plan, parameters)):
        raise VerificationFailed("the logged errors do not follow from the draw")
    if roads is not None and (off := roads.off_road(released.places)):
        raise VerificationFailed(f"{off:,} places lie on no road")
    return check_trips(released, int(log.count[0]), region, period, parameters)


def check_trips(
    released: Synthetic, count: int, region: Region, period: Period, parameters: Parameters
) -> dict[str, int]:
    """Check that trips lie in the region and period, at the requested interval, and are never too fast."""
    t, places = released.trajectories, released.places
    if len(t) != count:
        raise VerificationFailed(f"{len(t):,} trips instead of {count:,}")
    inside = region.holds(places.x, places.y)
    if not inside.all():
        raise VerificationFailed(f"{int((~inside).sum()):,} places lie outside the region")
    if t.samples and (t.at.min() < period.begin or t.at.max() >= period.end):
        raise VerificationFailed("a sample lies outside the period")
    within = np.ones(max(t.samples - 1, 0), np.bool_)
    within[t.offsets[1:-1] - 1] = False
    if (np.diff(t.at)[within] != parameters.every_us).any():
        raise VerificationFailed("samples are not in the rhythm that was asked for")
    x, y = places.x[t.location], places.y[t.location]
    metres = np.hypot(np.diff(x), np.diff(y))[within]
    if (metres > FASTEST_M_PER_S * parameters.every_us / 1e6 + 1e-6).any():
        raise VerificationFailed("a segment is faster than 110 km/h")
    return {"trips": len(t), "samples": t.samples, "segments": len(metres)}


def _require_within_budget(plan: MeasurementPlan, parameters: Parameters) -> None:
    cost = spent(parameters, [*FIRST_ROUND, *plan.statistics])
    if cost > parameters.whole:
        raise VerificationFailed(
            f"the plan costs {float(cost):g}, booked {float(parameters.whole):g}"
        )


def _require_shape(draw: Draw, plan: MeasurementPlan) -> None:
    for statistic in [*FIRST_ROUND, *plan.statistics]:
        if len(getattr(draw, statistic.name)) != statistic.size:
            raise VerificationFailed(f"{statistic.name} does not have the length of the plan")
    if len(draw.seed) != SEED_WORDS or draw.seed.min() < 0 or draw.seed.max() >= 2**32:
        raise VerificationFailed("the seed is not 256 bits")


def _model(log: Log) -> Model:
    columns = {name: getattr(log, name) for name in _TABLES}
    columns["moves"] = columns["moves"].reshape(-1, HEADINGS)
    return Model(**columns)
