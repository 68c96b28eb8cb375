"""Measure a release of counts against its originals: margins, errors, and the membership attack.

For curators: all of it is counted in the original data.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import gammaln

from freqdp_db.db.connection import Database
from freqdp_db.db.releases import ReleaseRow, load_columns
from freqdp_db.evaluation.attacks.claims import area_under_curve, found_at
from freqdp_db.evaluation.attacks.exposure import HEADLINE
from freqdp_db.evaluation.utility import counts_alike, jensen_shannon, largest_errors, same_largest
from freqdp_db.methods.contract import StepContext, options_of
from freqdp_db.methods.counts.contributions import WHOLE
from freqdp_db.methods.counts.family import contributions_to, design_of
from freqdp_db.methods.counts.plan import Design, Draw, plan_of
from freqdp_db.methods.counts.zones import Bins, Geography, Zones
from freqdp_db.model.arrays import Ids, Ints, offsets_from, owners
from freqdp_db.model.trajectories import Trajectories
from freqdp_db.progress import Progress
from freqdp_db.release.request import Request
from freqdp_db.release.verification import load_released

LARGEST = 100
_DEVIATIONS = 1.959964
"""Of a normal distribution, in half of its 95 % interval."""

Numbers = NDArray[Any]


@dataclass(frozen=True)
class _Counted:
    """A published release, and what was counted for it."""

    made: Any
    design: Design
    kept: Any
    """Contributions of objects, with caps."""
    all: Any


def _count(database: Database, release: ReleaseRow, progress: Progress) -> _Counted:
    """Read a release, and count its originals again."""
    from freqdp_db.methods.counts.measuring import bounded_by

    world, state = load_released(database, release, progress)
    build, made, request = world.build, state.tables, Request.of(release)
    options = options_of(request.method.steps[0], request.values)
    design = design_of(world, options)
    with database.begin(snapshot=True) as connection:
        drawn = load_columns(connection, release.release_id, 1, "draw", Draw)
    with progress.stage("count the originals"):
        all_ = contributions_to(world, build.trajectories, build.locations, options)
        kept = bounded_by(all_, plan_of(drawn, design))
    return _Counted(made, design, kept, all_)


def measure_counts(
    database: Database, release: ReleaseRow, progress: Progress, seed: int
) -> dict[str, float]:
    """What a published release keeps, and what an attacker learns from it."""
    read = _count(database, release, progress)
    with progress.stage("compare"):
        found = compare_counts(read.made, read.design, read.kept, read.all)
    if "visits" in read.design.tables:
        with progress.stage("membership"):
            rows, design = read.made.table("visits"), read.design
            found |= _membership(rows, read.kept.visits, design.zones, design.bins, seed)
    return found


_LEVELS: dict[str, dict[str, tuple[str, ...]]] = {
    "visits": {"zone": ("zone",), "district": ("district",), "city": ("city",)},
    "stays": {"zone": ("zone",), "district": ("district",), "city": ("city",)},
    "flows": {
        "zone": ("zone", "zone"), "district": ("district", "district"), "departures": ("zone", "city"),
    },
    "roads": {"road": ("road",), "district": ("district",), "city": ("city",)},
}  # fmt: skip
"""Of the rows that intervals and errors are said of: the levels of their zone, or of both ends."""


def compare_counts(made: Any, design: Design, kept: Any, all_: Any) -> dict[str, float]:
    """How many intervals hold the bounded count, the error of the busiest, what the bounds leave out.

    kept, all_: contributions of objects, within the bounds and all.
    """
    found: dict[str, float] = {}
    for table in (name for name in _LEVELS if name in design.tables):
        rows, what = made.table(table), {"flows": "trips", "roads": "passages"}.get(table, table)
        of: Geography = design.zones
        if table == "roads":
            assert design.roads is not None, "the release has roads"
            of = design.roads
        first = {of.finest: 1, "district": len(of) + 1, "city": of.city_id}
        last = {of.finest: len(of), "district": of.city_id - 1, "city": of.city_id}
        ends = ("origin", "destination") if table == "flows" else (of.finest,)
        bounded, whole = (
            _true_counts(rows, ends, getattr(side, what), of, design.bins) for side in (kept, all_)
        )
        inside = np.abs(rows["value"] - bounded) <= rows["margin"]
        for level, levels in _LEVELS[table].items():
            mine = np.all(
                [
                    (rows[end] >= first[one]) & (rows[end] <= last[one])
                    for end, one in zip(ends, levels, strict=True)
                ],
                axis=0,
            )
            found[f"counts.coverage.{table}.{level}"] = (
                float(inside[mine].mean()) if mine.any() else 1.0
            )
            if table == "flows" or level == of.finest:
                name = f"flows.{level}" if table == "flows" else table
                found |= _errors(name, rows, np.flatnonzero(mine & (rows["bin"] > 0)), whole)
        items = getattr(kept, what)
        lost = 1 - float(items.parts.sum()) / WHOLE / max(len(items), 1)
        found[f"counts.lost.{what}"] = lost
    return found


def _true_counts(
    rows: dict[str, Numbers], ends: tuple[str, ...], items: Any, of: Geography, bins: Bins
) -> Numbers:
    """What each row counts: in its zones, districts or the city, in its bin or all of them."""
    upwards = (
        of.ids,
        of.district_ids[of.district],
        np.full(len(of), of.city_id, np.int64),
    )

    def code(places: list[Numbers], bin: Numbers) -> Numbers:
        number: Numbers = np.zeros(len(bin), np.int64)
        for place in places:
            number = number * (of.city_id + 1) + place
        return number * (len(bins) + 1) + bin

    codes = [
        code([area[end] for area, end in zip(areas, (items.zone, items.to), strict=False)], when)
        for areas in product(upwards, repeat=len(ends))
        for when in (items.bin + 1, np.zeros_like(items.bin))
    ]
    known, number = np.unique(np.concatenate(codes), return_inverse=True)
    counts = np.bincount(number, np.tile(items.parts / WHOLE, len(codes)), minlength=len(known))
    wanted = code([rows[end] for end in ends], rows["bin"])
    if not len(known):
        return np.zeros(len(wanted))
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[place] == wanted, counts[place], 0.0)


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


# Membership in released counts: was a person, whose places and times the attacker knows, counted?
#
# The attacker has the released table and nothing else, as in the zero auxiliary knowledge attack on
# aggregate locations (Guan, Guépin, Cretu, de Montjoye, PETS 2024): what the counts of everybody else are
# like is told from the released margins (how busy a zone is, and when its district is). That attack learns
# from simulated crowds whether the person's own cells hold one more than such crowds have. Here the same
# question is answered by the likelihood ratio, which no learnt score exceeds if the crowd is as assumed:
# independent persons, so Poisson counts, and noise of the published size.
#
# The game is that of the guarantee: the person is in the data, or is not and all else is the same. Of
# linear counts the table without the person is the table minus their contributions, with the noise as
# drawn.


MOST_TARGETS = 2_000
_FALSE_ALARMS = 0.01
_FEWEST = 0.05
"""No cell is thought to be emptier: a crowd that is known from noise alone is not known so well."""
_MANY = 30.0
"""From here on a Poisson count is as good as normal."""
_NEVER = -50.0
"""The logarithm of a ratio that is as good as 0."""


@dataclass(frozen=True)
class KnownCells:
    """The cells that each person was counted in: the attacker knows them all, nobody knows more."""

    offsets: Ints
    """Where the cells of each person begin, as in `Trajectories`."""
    zone: Ints
    bin: Ints
    times: Ints
    """How often the person was counted there."""

    @classmethod
    def of(cls, offsets: Ints, zone: Ints, bin: Ints, *, by_bin: bool = True) -> KnownCells:
        """Each once; or, of tables without single bins, by zone and how often in all bins together."""
        if by_bin:
            return cls(offsets, zone, bin, np.ones(len(zone), np.int64))
        (whose, place), times = np.unique(
            np.stack([owners(offsets), zone]), axis=1, return_counts=True
        )
        starts = offsets_from(np.bincount(whose, minlength=len(offsets) - 1))
        return cls(starts, place, np.zeros_like(place), times)


@dataclass(frozen=True)
class Counted:
    """Counts by zone and time bin, as they are published or as they would be without noise."""

    value: Numbers
    """Zones by bins, or one column: all bins together, where single bins are not all shown."""
    deviation: float
    """Of the noise of one count, from the published margin; 0: none."""
    expected: Numbers
    """What a crowd like the published one has there: from coarser levels."""


def at_least_some(crowd: Numbers) -> Numbers:
    """Expected counts, none of them below what can be known from noise."""
    return np.maximum(crowd, _FEWEST)


def shares_of_bins(by_district: Numbers) -> Numbers:
    """How the counts of each district are spread over bins. by_district: districts by bins."""
    profile = np.maximum(by_district, _FEWEST)
    shares: Numbers = profile / profile.sum(axis=1, keepdims=True)
    return shares


def crowd_of(by_zone: Numbers, by_district: Numbers, district: Ids) -> Numbers:
    """Expected counts: what a zone has in all bins, spread over bins as its district has it.

    by_zone: of each zone in all bins. by_district: districts by bins.
    """
    return at_least_some(np.maximum(by_zone, 0.0)[:, None] * shares_of_bins(by_district)[district])


def membership_in_counts(
    counted: Counted, known: KnownCells, rng: np.random.Generator, part: Numbers | None = None
) -> dict[str, float]:
    """`auc` and `tpr1`: chance is 0.5 and 0.01.

    part: for how much each person counts wherever it is counted; None: for 1.
    """
    part = np.ones(len(known.offsets) - 1) if part is None else part
    there, gone = (
        scores(counted, known, rng.spawn(1)[0], part, gone=gone) for gone in (False, True)
    )
    return attack_rates(there, gone)


def attack_rates(members: Numbers, others: Numbers) -> dict[str, float]:
    """How well scores tell members from others: area under the curve, and hits at 1 % false alarms."""
    return {
        "auc": area_under_curve(members, others),
        "tpr1": found_at(members, others, _FALSE_ALARMS),
    }


def scores(
    counted: Counted,
    known: KnownCells,
    rng: np.random.Generator,
    part: Numbers,
    *,
    gone: bool = False,
) -> Numbers:
    """For each person, the logarithm of the likelihood ratio that they were counted.

    gone: subtract the person's own contribution first, as if they were not in the data.
    """
    persons = np.flatnonzero(np.diff(known.offsets) > 0)
    if len(persons) > MOST_TARGETS:
        persons = np.sort(rng.choice(persons, MOST_TARGETS, replace=False))
    return scores_of(counted, known, persons, part, gone=gone)


def scores_of(
    counted: Counted, known: KnownCells, persons: Ints, part: Numbers, *, gone: bool = False
) -> Numbers:
    """The same for these persons; 0 for those who were not counted."""
    found = np.zeros(len(persons))
    for i, person in enumerate(persons):
        own = slice(known.offsets[person], known.offsets[person + 1])
        cell = known.zone[own], known.bin[own]
        mine: Numbers = float(part[person]) * known.times[own].astype(np.float64)
        value, expected = counted.value[cell] - mine * gone, counted.expected[cell]
        found[i] = log_ratio(value, expected, counted.deviation, mine).sum()
    return found


def log_ratio(
    value: Numbers, expected: Numbers, deviation: float, part: Numbers | float = 1.0
) -> Numbers:
    """How much likelier counts are if the target is among them and counts for `part`, in logarithms."""
    part = np.broadcast_to(part, value.shape)
    if deviation == 0.0:
        # Poisson(value - part) over Poisson(value), which is 0 where the value is less than the part
        rest = np.maximum(value - part, 0.0)
        exact: Numbers = gammaln(value + 1) - gammaln(rest + 1) - part * np.log(expected)
        return np.maximum(np.where(value < part, _NEVER, exact), _NEVER)
    found = part * (value - expected - part / 2) / (expected + deviation**2)
    few = expected < _MANY
    if few.any():
        most = int(stats.poisson.isf(1e-9, _MANY)) + 2
        number = np.arange(most)
        crowd = stats.poisson.pmf(number[None, :], expected[few][:, None])
        with_target, without = (
            (crowd * stats.norm.pdf(value[few][:, None], number + own, deviation)).sum(axis=1)
            for own in (part[few][:, None], 0.0)
        )
        known = (with_target > 0) & (without > 0)
        ratio = np.log(with_target, where=known, out=np.zeros(len(known)))
        ratio -= np.log(without, where=known, out=np.zeros(len(known)))
        found[few] = np.where(known, ratio, found[few])
    return found


def _released(rows: dict[str, Numbers], zones: Zones, bins: Bins) -> Counted:
    """What an attacker has of rows by zone, district or city, and bin.

    Where single bins of zones are not all shown, that is the totals of zones: they have most of the budget.
    """
    of_zones = rows["zone"] <= len(zones)
    if int((of_zones & (rows["bin"] > 0)).sum()) < len(zones) * len(bins):
        totals = np.flatnonzero(of_zones & (rows["bin"] == 0))
        totals = totals[np.argsort(rows["zone"][totals])]
        value, margin, estimate = (
            rows[column][totals].astype(np.float64)[:, None]
            for column in ("value", "margin", "estimate")
        )
        return Counted(value, float(np.median(margin)) / _DEVIATIONS, at_least_some(estimate))
    table = {
        column: np.zeros((zones.city_id, len(bins) + 1))
        for column in ("value", "margin", "estimate")
    }
    for column, numbers in table.items():
        numbers[rows["zone"] - 1, rows["bin"]] = rows[column]
    value, margin = table["value"], table["margin"][: len(zones), 1:]
    deviation = float(np.median(margin)) / _DEVIATIONS
    crowd = crowd_of(table["estimate"][: len(zones), 0], value[len(zones) : -1, 1:], zones.district)
    return Counted(value[: len(zones), 1:], deviation, crowd)


def _known(items: Any, counted: Counted, bins: Bins) -> KnownCells:
    """The cells of each person, as the table has them: by bin, or all bins together."""
    by_bin = bool(counted.value.shape[1] == len(bins))
    return KnownCells.of(items.offsets, items.zone, items.bin, by_bin=by_bin)


def _attacked(
    rows: dict[str, Numbers], counted: Any, zones: Zones, bins: Bins
) -> list[tuple[Counted, KnownCells]]:
    """The released visits, and the same counts without noise: to show the power of an attack.

    Without noise only the cells in which anybody was are kept, one below the other.
    """
    released = _released(rows, zones, bins)
    cells, number = np.unique(counted.cells(len(bins)), return_inverse=True)
    zone, bin = np.divmod(cells, len(bins))
    by_zone = np.bincount(counted.zone, minlength=len(zones))
    by_district = (
        np.bincount(
            zones.district[counted.zone] * np.int64(len(bins)) + counted.bin,
            minlength=zones.districts * len(bins),
        )
        .reshape(-1, len(bins))
        .astype(np.float64)
    )
    crowd = by_zone[zone] * shares_of_bins(by_district)[zones.district[zone], bin]
    exact = np.bincount(number, minlength=len(cells)).astype(np.float64)
    return [
        (released, _known(counted, released, bins)),
        (
            Counted(exact[:, None], 0.0, at_least_some(crowd[:, None])),
            KnownCells.of(counted.offsets, number, np.zeros_like(number)),
        ),
    ]


def _membership(
    rows: dict[str, Numbers], counted: Any, zones: Zones, bins: Bins, seed: int
) -> dict[str, float]:
    """The attack on the released visits, and on the same counts without noise."""
    attacked, plain = (
        membership_in_counts(table, known, np.random.default_rng([seed, 7]), part)
        for (table, known), part in zip(
            _attacked(rows, counted, zones, bins), (counted.part / WHOLE, None), strict=True
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
    if "visits" not in read.design.tables:
        return None
    counted = read.kept.visits
    attacked = _attacked(read.made.table("visits"), counted, read.design.zones, read.design.bins)
    parts = (counted.part / WHOLE, np.ones(len(counted.part)))
    return np.column_stack(
        [
            scores_of(table, known, persons, part, gone=gone)
            for (table, known), part in zip(attacked, parts, strict=True)
            for gone in (False, True)
        ]
    )


def membership_over_windows(scores: Numbers) -> dict[str, float]:
    """The attack with what several windows say, added up for each object."""
    there, gone, plain_there, plain_gone = scores.T
    return _as_metrics(attack_rates(there, gone), attack_rates(plain_there, plain_gone))


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
    options = options_of(request.method.steps[0], request.values)
    design = design_of(world, options)
    zones, bins = design.zones, design.bins
    sides = [contributions_to(world, side, world.locations, options) for side in (members, others)]
    found: dict[str, float] = {}
    if "visits" in options.tables:
        rows, items = made.table("visits"), [side.visits for side in sides]
        mine = _within(rows["zone"], 1, len(zones) + 1) & (rows["bin"] > 0)
        shown = (rows["zone"][mine] - 1) * len(bins) + rows["bin"][mine] - 1
        true = items[0].cells(len(bins))
        found["density"] = jensen_shannon(*counts_alike(true, shown, rows["estimate"][mine]))
    else:
        rows, items = made.table("flows"), [side.trips for side in sides]
        found |= _flow_sizes(rows, items[0], zones)
        leaving = rows["destination"] == zones.city_id
        rows = {name: column[leaving] for name, column in rows.items()}
        rows["zone"] = rows["origin"]
    counted = _released(rows, zones, bins)
    rng = np.random.default_rng([seed, 7])
    attacked = attack_rates(
        *(scores(counted, _known(i, counted, bins), rng, np.ones(len(i.part))) for i in items)
    )
    found |= {"membership.auc": attacked["auc"], "membership.tpr1": attacked["tpr1"]}
    return found | _exposure(attacked) | {HEADLINE: _exposure(attacked)[MEMBERS]}


def _flow_sizes(rows: dict[str, Numbers], trips: Any, zones: Zones) -> dict[str, float]:
    """The 100 largest flows between zones, of all bins: how right they are, and how many are found."""
    between = _within(rows["origin"], 1, len(zones) + 1)
    between &= _within(rows["destination"], 1, len(zones) + 1) & (rows["bin"] > 0)
    pair = (rows["origin"] - 1) * len(zones) + rows["destination"] - 1
    true = trips.zone * np.int64(len(zones)) + trips.to
    before, after = counts_alike(true, pair[between], rows["estimate"][between])
    right = largest_errors("flow", before, after)["flow.shares"]
    return {"flow": right, "flow.f1": same_largest(before, after)}


def _within(numbers: Numbers, first: int, end: int) -> Numbers:
    inside: Numbers = (numbers >= first) & (numbers < end)
    return inside
