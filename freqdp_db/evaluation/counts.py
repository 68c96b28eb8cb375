"""Measure a release of counts against its originals: margins, errors, and the membership attack.

For curators: all of it is counted in the original data.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freqdp_db.dataset.memory import load_build
from freqdp_db.db.connection import Database
from freqdp_db.db.draws import load_columns
from freqdp_db.db.releases import ReleaseRow
from freqdp_db.evaluation.attacks.aggregates import (
    Counted,
    crowd_of,
    membership_in_counts,
    scores,
    scores_of,
    told_apart,
)
from freqdp_db.evaluation.attacks.exposure import HEADLINE
from freqdp_db.evaluation.utility import jensen_shannon, largest_errors, same_members
from freqdp_db.methods.contract import StepContext, options_of
from freqdp_db.methods.counts.contributions import WHOLE
from freqdp_db.methods.counts.family import public_inputs
from freqdp_db.methods.counts.zones import Bins, Zones
from freqdp_db.model.trajectories import Trajectories
from freqdp_db.progress import Progress
from freqdp_db.release.inputs import make_world
from freqdp_db.release.request import Request
from freqdp_db.release.verification import released_state, require_published

LARGEST = 100
_DEVIATIONS = 1.959964
"""Of a normal distribution, in half of its 95 % interval."""

Numbers = NDArray[Any]


@dataclass(frozen=True)
class _Items:
    """Contributions of objects to one table: within the bounds, and all."""

    counted: Any
    all: Any


@dataclass(frozen=True)
class _Counted:
    """A published release, and what was counted for it."""

    made: Any
    tables: Any
    """Which it has."""
    zones: Zones
    bins: Bins
    kept: Any
    """Contributions of objects, with caps."""
    all: Any


def _count(database: Database, release: ReleaseRow, progress: Progress) -> _Counted:
    """Read a release, and count its originals again."""
    from freqdp_db.methods.counts.contributions import contributions_of
    from freqdp_db.methods.counts.measuring import bounded_by
    from freqdp_db.methods.counts.plan import Draw, Shape, plan_of

    require_published(release, "measured")
    build = load_build(database, release.build_id, progress)
    request = Request.of(release)
    world = make_world(database, build, request.method, request.values, release=release.name)
    made: Any = released_state(database, release, world, progress).made
    options = options_of(request.method.steps[0], request.values)
    zones, bins = public_inputs(world, options)
    with database.begin(snapshot=True) as connection:
        drawn = load_columns(connection, database, release.release_id, 1, "draw", Draw)
    with progress.stage("count the originals"):
        plan = plan_of(
            drawn, Shape.of(zones, bins), options.tables, options.parameters, options.threshold
        )
        facts = world.public_facts(options.region, options.period)
        all_ = contributions_of(build.trajectories, build.locations, *facts, zones, bins)
        kept = bounded_by(all_, plan, zones, pure=options.parameters.pure)
    return _Counted(made, options.tables, zones, bins, kept, all_)


def measure_counts(
    database: Database, release: ReleaseRow, progress: Progress, seed: int
) -> dict[str, float]:
    """What a published release keeps, and what an attacker learns from it."""
    read = _count(database, release, progress)
    made, zones, bins = read.made, read.zones, read.bins
    found: dict[str, float] = {}
    with progress.stage("compare"):
        for table in ("visits", "stays"):
            if table in read.tables:
                both = _Items(getattr(read.kept, table), getattr(read.all, table))
                found |= _areas(table, made.table(table), both, zones, bins)
        if "flows" in read.tables:
            both = _Items(read.kept.trips, read.all.trips)
            found |= _flows(made.table("flows"), both, zones, bins)
    if "visits" in read.tables:
        with progress.stage("membership"):
            found |= _membership(made.table("visits"), read.kept.visits, zones, bins, seed)
    return found


def _levels(zones: Zones) -> dict[str, tuple[int, int]]:
    """The first and the last number of the areas of each level in the tables, and one more."""
    return {
        "zone": (1, len(zones) + 1),
        "district": (len(zones) + 1, zones.city_id),
        "city": (zones.city_id, zones.city_id + 1),
    }


def _upwards(zones: Zones) -> Iterable[NDArray[np.int64]]:
    """The number of each zone in the tables, that of its district, and that of the city."""
    yield zones.zone_ids
    yield zones.district_ids[zones.district]
    yield np.full(len(zones), zones.city_id, np.int64)


def _areas(
    name: str, rows: dict[str, Numbers], items: _Items, zones: Zones, bins: Bins
) -> dict[str, float]:
    """Of a table by zone and bin: coverage at each level, and the error of the busiest."""

    def true(of: Any) -> Numbers:
        counts = np.zeros((zones.city_id + 1, len(bins) + 1))
        for area in _upwards(zones):
            np.add.at(counts, (area[of.zone], of.bin + 1), of.parts / WHOLE)
        counts[:, 0] = counts[:, 1:].sum(axis=1)
        return counts

    bounded, whole = true(items.counted), true(items.all)
    at = rows["zone"], rows["bin"]
    off = np.abs(rows["value"] - bounded[at])
    found = {
        f"counts.coverage.{name}.{level}": _share(
            off <= rows["margin"], _within(rows["zone"], *ends)
        )
        for level, ends in _levels(zones).items()
    }
    busy = np.flatnonzero(_within(rows["zone"], 1, len(zones) + 1) & (rows["bin"] > 0))
    found |= _errors(name, rows, busy, whole[at])
    return found | {f"counts.lost.{name}": 1 - bounded[1:, 1:].sum() / max(whole[1:, 1:].sum(), 1)}


def _flows(rows: dict[str, Numbers], items: _Items, zones: Zones, bins: Bins) -> dict[str, float]:
    """The same of flows: between zones, between districts, and departures."""
    ends, high = _levels(zones), zones.city_id + 1

    def code(origin: Numbers, destination: Numbers, bin: Numbers) -> Numbers:
        return (origin * high + destination) * (len(bins) + 1) + bin

    def true(of: Any) -> Numbers:
        codes = [
            code(a[of.zone], b[of.to], when)
            for a in _upwards(zones)
            for b in _upwards(zones)
            for when in (of.bin + 1, np.zeros_like(of.bin))
        ]
        known, number = np.unique(np.concatenate(codes), return_inverse=True)
        counts = np.bincount(number, np.tile(of.parts / WHOLE, len(codes)), minlength=len(known))
        wanted = code(rows["origin"], rows["destination"], rows["bin"])
        if not len(known):
            return np.zeros(len(wanted))
        place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        return np.where(known[place] == wanted, counts[place], 0.0)

    bounded, whole = true(items.counted), true(items.all)
    off = np.abs(rows["value"] - bounded)
    found = {}
    for level, origin, destination in (
        ("zone", "zone", "zone"), ("district", "district", "district"), ("departures", "zone", "city"),
    ):  # fmt: skip
        mine = _within(rows["origin"], *ends[origin]) & _within(
            rows["destination"], *ends[destination]
        )
        found[f"counts.coverage.flows.{level}"] = _share(off <= rows["margin"], mine)
        chosen = np.flatnonzero(mine & (rows["bin"] > 0))
        if level != "zone":
            found |= _errors(f"flows.{level}", rows, chosen, whole)
    pairs = np.flatnonzero(
        _within(rows["origin"], *ends["zone"]) & _within(rows["destination"], *ends["zone"])
    )
    found |= _errors("flows.zone", rows, pairs, whole)
    lost = 1 - float(items.counted.parts.sum()) / WHOLE / max(len(items.all), 1)
    return found | {"counts.lost.trips": lost}


def _errors(
    name: str, rows: dict[str, Numbers], chosen: Numbers, true: Numbers
) -> dict[str, float]:
    """Median relative error of the rows that are truly largest, of those that are shown."""
    top = chosen[np.argsort(-true[chosen], kind="stable")[:LARGEST]]
    top = top[true[top] > 0]
    if not len(top):
        return {}
    off = np.abs(rows["estimate"][top] - true[top]) / true[top]
    return {f"counts.error.{name}": float(np.median(off))}


def _attacked_tables(
    rows: dict[str, Numbers], counted: Any, zones: Zones, bins: Bins
) -> tuple[Counted, Counted]:
    """The released visits, and the same counts without noise: to show the power of an attack."""
    table = {
        column: rows[column].astype(np.float64).reshape(zones.city_id, len(bins) + 1)
        for column in ("value", "margin", "estimate")
    }
    value = table["value"]
    released = Counted(
        value[: len(zones), 1:],
        float(table["margin"][0, 1]) / _DEVIATIONS,
        crowd_of(table["estimate"][: len(zones), 0], value[len(zones) : -1, 1:], zones.district),
    )
    exact = np.zeros((len(zones), len(bins)))
    np.add.at(exact, (counted.zone, counted.bin), 1.0)
    by_district = np.zeros((zones.districts, len(bins)))
    np.add.at(by_district, zones.district, exact)
    unprotected = Counted(exact, 0.0, crowd_of(exact.sum(axis=1), by_district, zones.district))
    return released, unprotected


def _membership(
    rows: dict[str, Numbers], counted: Any, zones: Zones, bins: Bins, seed: int
) -> dict[str, float]:
    """The attack on the released visits, and on the same counts without noise."""
    known = counted.offsets, counted.zone, counted.bin
    attacked, plain = (
        membership_in_counts(table, *known, np.random.default_rng([seed, 7]), part)
        for table, part in zip(
            _attacked_tables(rows, counted, zones, bins), (counted.part / WHOLE, None), strict=True
        )
    )
    return _as_metrics(attacked, plain)


def _as_metrics(attacked: dict[str, float], plain: dict[str, float]) -> dict[str, float]:
    return {
        "membership.auc": attacked["auc"],
        "membership.tpr1": attacked["tpr1"],
        "membership.auc.unprotected": plain["auc"],
        "membership.tpr1.unprotected": plain["tpr1"],
        **_exposure(attacked),
        HEADLINE: _exposure(attacked)[MEMBERS],
    }


def window_scores(
    database: Database, release: ReleaseRow, progress: Progress, persons: Numbers
) -> Numbers | None:
    """What the visits of one window say of these objects: a row each; None: it has no visits.

    Logarithms of ratios that add up over windows: of the released counts with and without the object, and
    of the same without noise.
    """
    read = _count(database, release, progress)
    if "visits" not in read.tables:
        return None
    counted = read.kept.visits
    tables = _attacked_tables(read.made.table("visits"), counted, read.zones, read.bins)
    parts = (counted.part / WHOLE, np.ones(len(counted.part)))
    return np.column_stack(
        [
            scores_of(table, counted.offsets, counted.zone, counted.bin, persons, part, gone=gone)
            for table, part in zip(tables, parts, strict=True)
            for gone in (False, True)
        ]
    )


def membership_over_windows(scores: Numbers) -> dict[str, float]:
    """The attack with what several windows say, added up for each object."""
    there, gone, plain_there, plain_gone = scores.T
    return _as_metrics(told_apart(there, gone), told_apart(plain_there, plain_gone))


MEMBERS = "exposure.members"


def _exposure(attacked: dict[str, float]) -> dict[str, float]:
    """How much more often right than wrong; and whom hardly a false alarm goes with.

    Of counts nothing else can be learnt of a person.
    """
    return {
        MEMBERS: max(2 * attacked["auc"] - 1, 0.0),
        f"{MEMBERS}.half": max(attacked["tpr1"] - 0.01, 0.0),
    }


def measure_trial(
    world: StepContext,
    members: Trajectories,
    others: Trajectories,
    made: Any,
    request: Request,
    seed: int,
) -> dict[str, float]:
    """Of counts that were made from the members alone: what they keep, and whether members are found.

    The same names as for releases with trajectories, each counted in the zones of the tables.
    """
    from freqdp_db.methods.counts.contributions import contributions_of

    options = options_of(request.method.steps[0], request.values)
    zones, bins = public_inputs(world, options)
    facts = world.public_facts(options.region, options.period)
    sides = [
        contributions_of(side, world.locations, *facts, zones, bins) for side in (members, others)
    ]
    found: dict[str, float] = {}
    shape = len(zones), len(bins)
    if "visits" in options.tables:
        rows, items = made.table("visits"), [side.visits for side in sides]
        mine = _within(rows["zone"], 1, len(zones) + 1) & (rows["bin"] > 0)
        true = np.zeros(shape, np.int64)
        np.add.at(true, (items[0].zone, items[0].bin), 1)
        found["density"] = jensen_shannon(true.ravel(), rows["estimate"][mine])
    else:
        rows, items = made.table("flows"), [side.trips for side in sides]
        mine = _within(rows["origin"], 1, len(zones) + 1) & (rows["destination"] == zones.city_id)
        mine &= rows["bin"] > 0
        found |= _flow_sizes(rows, items[0], zones)
    value, estimate = (
        rows[c][mine].astype(np.float64).reshape(shape) for c in ("value", "estimate")
    )
    by_district = np.zeros((zones.districts, len(bins)))
    np.add.at(by_district, zones.district, value)
    deviation = float(rows["margin"][mine][0]) / _DEVIATIONS
    counted = Counted(value, deviation, crowd_of(estimate.sum(axis=1), by_district, zones.district))
    rng = np.random.default_rng([seed, 7])
    attacked = told_apart(
        *(scores(counted, i.offsets, i.zone, i.bin, rng, np.ones(len(i.part))) for i in items)
    )
    found |= {"membership.auc": attacked["auc"], "membership.tpr1": attacked["tpr1"]}
    return found | _exposure(attacked) | {HEADLINE: _exposure(attacked)[MEMBERS]}


def _flow_sizes(rows: dict[str, Numbers], trips: Any, zones: Zones) -> dict[str, float]:
    """The 100 largest flows between zones, of all bins: how right they are, and how many are found."""
    between = _within(rows["origin"], 1, len(zones) + 1)
    between &= _within(rows["destination"], 1, len(zones) + 1) & (rows["bin"] > 0)
    pair = (rows["origin"] - 1) * len(zones) + rows["destination"] - 1
    codes = np.concatenate([trips.zone * len(zones) + trips.to, pair[between]])
    known, number = np.unique(codes, return_inverse=True)
    before = np.bincount(number[: len(trips)], minlength=len(known))
    after: Numbers = np.bincount(
        number[len(trips) :], rows["estimate"][between], minlength=len(known)
    )
    tops = [np.argsort(-side, kind="stable")[:LARGEST] for side in (before, after)]
    right = largest_errors("flow", before, after)["flow.shares"]
    same = same_members(
        *(top[side[top] > 0] for top, side in zip(tops, (before, after), strict=True))
    )
    return {"flow": right, "flow.f1": same}


def _within(numbers: Numbers, first: int, end: int) -> Numbers:
    inside: Numbers = (numbers >= first) & (numbers < end)
    return inside


def _share(right: Numbers, of: Numbers) -> float:
    return float(right[of].mean()) if of.any() else 1.0
