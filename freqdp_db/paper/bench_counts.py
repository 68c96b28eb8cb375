"""`freqdp bench counts`: how far counts are off, beside a noisy histogram by OpenDP and a `strict` release.

All at the same unit and epsilon, over the same zones and bins, several times. The histogram by OpenDP has
one level, discrete Gaussian noise, the same bounds, the whole share of its table, and the same correction
for what the bounds leave out; coarser numbers are sums of its cells. Trips of a `strict` release have no
persons: its visits are scaled to the true total, in its favour. Reads the originals; nothing is published
or spent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freqdp_db.dataset.memory import load_build
from freqdp_db.db.builds import find_build
from freqdp_db.db.connection import Database
from freqdp_db.db.datasets import DatasetRow
from freqdp_db.methods.contract import StepContext, options_of
from freqdp_db.methods.counts.contributions import WHOLE, Contributions, Items, contributions_of
from freqdp_db.methods.counts.estimation import sums
from freqdp_db.methods.counts.family import public_inputs
from freqdp_db.methods.counts.measuring import bounded_by, flow_cells, measured
from freqdp_db.methods.counts.options import Budget, CountsOptions
from freqdp_db.methods.counts.plan import Plan, Shape, plan_of
from freqdp_db.methods.counts.tables import Made, made_of
from freqdp_db.methods.counts.zones import Bins, Zones
from freqdp_db.methods.loop import Trial, run_steps
from freqdp_db.methods.registry import find_method
from freqdp_db.model.arrays import Ints
from freqdp_db.privacy.accounting import sigma2_for
from freqdp_db.privacy.noise import SeededSource
from freqdp_db.progress import Progress
from freqdp_db.release.inputs import make_world
from freqdp_db.release.request import Request

LARGEST = 100
UNIONS = 200
_SIZES = (2, 8)
"""A union of zones is about as large as so many districts."""
_STRICT_SEEDS = 2
COLUMNS = (
    "flows", "flows between districts", "visits", "departures by district", "unions, visits",
    "unions, departures",
)  # fmt: skip

OPENDP = find_spec("opendp") is not None
"""It is installed for development only; without it, noise of the same law is drawn."""
PLAIN = "OpenDP histogram" if OPENDP else "histogram"

Numbers = NDArray[np.float64]
"""A row for each part, a column for each bin."""


@dataclass(frozen=True)
class Tables:
    """What an analyst has: the numbers of one way to publish."""

    visits: Numbers
    departures: Numbers
    """By zone."""
    by_district: Numbers
    districts: Numbers
    """Between districts."""
    flows: Mapping[int, float]
    """Between zones, by the number of the cell; a cell that is missing counts as 0."""


@dataclass
class CountsBench:
    """Median relative errors by epsilon, way and column; and coverage by epsilon and level."""

    zones: int
    districts: int
    bins: int
    errors: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    coverage: dict[str, dict[str, float]] = field(default_factory=dict)
    lost: dict[str, dict[str, float]] = field(default_factory=dict)
    """By epsilon: what part the bounds leave out, by the first round."""

    def document(self) -> dict[str, Any]:
        return dict(vars(self))


def bench_counts(
    database: Database, dataset: DatasetRow, request: Request, epsilons: str, seeds: int
) -> CountsBench:
    """Measure on the current build."""
    row = find_build(database, dataset.require_build())
    request = request.with_facts(dataset, row)
    build = load_build(database, row.build_id, Progress())
    world = make_world(database, build, request.method, request.values)
    (step,) = request.method.steps
    options: CountsOptions = options_of(step, request.values)
    zones, bins = public_inputs(world, options)
    seed = int(request.seed or 0)
    bench = _Bench(world, options, zones, bins, seed)
    for epsilon in epsilons.split(","):
        bench.measure(epsilon, seeds, seed)
    return bench.found


class _Bench:
    def __init__(
        self, world: StepContext, options: CountsOptions, zones: Zones, bins: Bins, seed: int
    ) -> None:
        self.world, self.options, self.zones, self.bins = world, options, zones, bins
        self.facts = world.public_facts(options.region, options.period)
        self.district = zones.district.astype(np.int64)
        self.shape = Shape.of(zones, bins)
        self.found = CountsBench(len(zones), zones.districts, len(bins))
        self.unions = self._unions(seed)

    def contributions(self, world: StepContext) -> Contributions:
        build = world.build
        return contributions_of(
            build.trajectories, build.locations, *self.facts, self.zones, self.bins
        )  # fmt: skip

    def measure(self, epsilon: str, seeds: int, first: int) -> None:
        budget = Budget(
            Fraction(epsilon), Fraction(self.options.delta), self.options.accounting == "pure"
        )
        errors: dict[str, list[dict[str, float]]] = {}
        inside: dict[str, list[NDArray[np.bool_]]] = {}
        found = self.contributions(self.world)
        full = self.exact(found)
        for seed in range(first, first + seeds):
            source = SeededSource(seed)
            drawn = measured(
                found, self.zones, self.bins, self.options.tables, budget,
                self.options.threshold, source,
            )  # fmt: skip
            plan = plan_of(drawn, self.shape, self.options.tables, budget, self.options.threshold)
            made = made_of(drawn, plan, self.zones, self.bins, budget)
            bounded = bounded_by(found, plan, self.zones, pure=budget.pure)
            true = self.exact(bounded)
            ways = {
                "counts, estimate": self.published(made, "estimate"),
                "counts, value": self.published(made, "value"),
                PLAIN: self.plain(true, _largest(full.flows), plan, budget, source),
            }
            if seed - first < _STRICT_SEEDS:
                ways["strict"] = self.strict(epsilon, seed, full)
            for name, tables in ways.items():
                errors.setdefault(name, []).append(self.compare(tables, full))
            for level, hits in self.covered(made, true).items():
                inside.setdefault(level, []).append(hits)
        self.found.errors[epsilon] = _medians(errors)
        self.found.coverage[epsilon] = {
            level: float(np.concatenate(hits).mean()) for level, hits in inside.items()
        }
        self.found.lost[epsilon] = {
            "visits": plan.visits.lost,
            "trips": plan.trips.lost,
            "stays": plan.stays.lost,
        }

    def exact(self, found: Contributions) -> Tables:
        bins, count = len(self.bins), self.zones.districts
        visits, trips = found.visits, found.trips
        of = self.district

        def table(items: Items, part: Ints, parts: int) -> Numbers:
            counts = np.bincount(part * bins + items.bin, items.parts, minlength=parts * bins)
            return counts.reshape(-1, bins) / WHOLE

        departures = table(trips, trips.zone, len(self.zones))
        cells, counts = flow_cells(trips, self.shape)
        return Tables(
            table(visits, visits.zone, len(self.zones)),
            departures,
            sums(of, departures, count),
            table(trips, of[trips.zone] * count + of[trips.to], count * count),
            dict(zip(cells.tolist(), (counts / WHOLE).tolist(), strict=True)),
        )

    def published(self, made: Made, column: str) -> Tables:
        zones, count, bins = len(self.zones), self.zones.districts, len(self.bins)
        city = self.zones.city_id
        flows = made.table("flows")
        origin, destination, number = flows["origin"], flows["destination"], flows[column]

        def table(chosen: NDArray[np.bool_], numbers: NDArray[Any] = number) -> Numbers:
            return numbers[chosen].reshape(-1, bins + 1)[:, 1:].astype(np.float64)

        large = (origin > zones) & (origin < city)
        between = (origin <= zones) & (destination <= zones)
        cells = ((origin - 1) * zones + destination - 1) * bins + flows["bin"] - 1
        visits = made.table("visits")
        return Tables(
            table(visits["zone"] <= zones, visits[column]),
            table((origin <= zones) & (destination == city)),
            table(large & (destination == city)),
            table(large & (destination < city)).reshape(count * count, bins),
            dict(zip(cells[between].tolist(), number[between].tolist(), strict=True)),
        )

    def plain(
        self, true: Tables, largest: list[int], plan: Plan, budget: Budget, source: SeededSource
    ) -> Tables:
        """One histogram a table, at its finest level, with the same bounds and the table's whole share."""

        def share(*names: str) -> Fraction:
            return sum(
                (m.share for m in plan.measurements.values() if m.name.startswith(names)),
                Fraction(0),
            )

        def noise(like: str, part: Fraction, size: int) -> Numbers:
            spread = sigma2_for(plan[like].bound, budget.whole * part)
            if OPENDP:
                return _drawn_by_opendp(spread, size) / WHOLE
            return source.discrete_gaussian(spread, size) / WHOLE

        def noisy(exact: Numbers, like: str, part: Fraction) -> Numbers:
            return exact + noise(like, part, exact.size).reshape(exact.shape)

        flows = share("flows", "picked")
        visits = noisy(true.visits, "visits_zone", share("visits"))
        departures = noisy(true.departures, "flows_from", flows)
        # of the cells between districts, each is the sum of all cells between their zones
        inside = np.bincount(self.district, minlength=self.zones.districts)
        spread = np.sqrt(np.outer(inside, inside)).ravel()[:, None]
        one = noise("flows_zones", flows, true.districts.size).reshape(true.districts.shape)
        values = np.array([true.flows.get(cell, 0.0) for cell in largest])
        between = noisy(values, "flows_zones", flows) * plan.trips.correction
        departures *= plan.trips.correction
        return Tables(
            visits * plan.visits.correction,
            departures,
            sums(self.district, departures, self.zones.districts),
            (true.districts + spread * one) * plan.trips.correction,
            dict(zip(largest, between.tolist(), strict=True)),
        )

    def strict(self, epsilon: str, seed: int, full: Tables) -> Tables:
        method = find_method("strict")
        given = {"epsilon": epsilon, "delta": format(self.options.delta, "f")}
        request = Request.parse(method.name, **given)
        values = {**request.values, "region": self.options.region, "period": self.options.period}
        trial = Trial(lambda number: SeededSource(seed, number))
        made = run_steps(method, values, self.world, trial, Progress())
        found = contributions_of(
            made.trajectories,
            made.places,
            *self.facts,
            self.zones,
            self.bins,
        )
        tables = self.exact(found)
        scaled = tables.visits * (full.visits.sum() / max(tables.visits.sum(), 1.0))
        return Tables(scaled, tables.departures, tables.by_district, tables.districts, tables.flows)

    def compare(self, tables: Tables, true: Tables) -> dict[str, float]:
        """Median relative errors."""
        largest = _largest(true.flows)
        known = np.array([true.flows[cell] for cell in largest], np.float64)
        seen = np.array([tables.flows.get(cell, 0.0) for cell in largest])
        found = [
            _relative(seen, known),
            _relative_of_largest(tables.districts, true.districts),
            _relative_of_largest(tables.visits, true.visits),
            _relative_of_largest(tables.by_district, true.by_district),
            _relative(self.unions @ tables.visits, self.unions @ true.visits),
            _relative(self.unions @ tables.departures, self.unions @ true.departures),
        ]
        return dict(zip(COLUMNS, found, strict=True))

    def covered(self, made: Made, true: Tables) -> dict[str, NDArray[np.bool_]]:
        """Whether each interval holds the bounded count, by level."""
        value, margin = (self.published(made, column) for column in ("value", "margin"))
        hits = {
            name: np.abs(getattr(value, of) - getattr(true, of)).ravel()
            <= getattr(margin, of).ravel()
            for name, of in {
                "visits of zones": "visits",
                "departures of zones": "departures",
                "departures of districts": "by_district",
                "flows between districts": "districts",
            }.items()
        }
        hits["flows between zones"] = np.array(
            [abs(v - true.flows.get(c, 0)) <= margin.flows[c] for c, v in value.flows.items()]
        )
        visits = made.table("visits")
        count = self.zones.districts
        for name, level in (
            ("districts", self.district),
            ("the city", np.zeros_like(self.district)),
        ):
            parts = count if name == "districts" else 1
            whole = sums(level, true.visits, parts)
            ids = self.zones.district_ids if parts > 1 else np.array([self.zones.city_id])
            rows = np.isin(visits["zone"], ids) & (visits["bin"] > 0)
            hits[f"visits of {name}"] = (
                np.abs(visits["value"][rows] - whole.ravel()) <= visits["margin"][rows]
            )
        return hits

    def _unions(self, seed: int) -> NDArray[np.float64]:
        """Random unions of zones, half rectangles, half the zones nearest to one: a row each."""
        generator = np.random.default_rng(seed)
        x, y = self.zones.x, self.zones.y
        each = len(self.zones) / self.zones.districts
        most = max(len(self.zones) // 2, 2)
        rows = np.zeros((UNIONS, len(self.zones)))
        for row in range(UNIONS):
            size = min(int(each * generator.uniform(*_SIZES)), most)
            one = generator.integers(len(self.zones))
            wide = generator.uniform(0.5, 2.0) if row % 2 else 1.0
            apart = np.hypot(x - x[one], y - y[one])
            if row % 2:
                apart = np.maximum(np.abs(x - x[one]) * wide, np.abs(y - y[one]) / wide)
            rows[row, np.argsort(apart, kind="stable")[:size]] = 1
        return rows


def _drawn_by_opendp(spread: Fraction, size: int) -> Numbers:
    import opendp.prelude as opendp

    opendp.enable_features("contrib")
    space = opendp.vector_domain(opendp.atom_domain(T=int)), opendp.l2_distance(T=float)
    gaussian = opendp.m.make_gaussian(*space, scale=math.sqrt(float(spread)))
    return np.asarray(gaussian([0] * size), np.float64)


def _largest(flows: Mapping[int, float]) -> list[int]:
    return sorted(flows, key=lambda cell: (-flows[cell], cell))[:LARGEST]


def _relative_of_largest(found: Numbers, true: Numbers) -> float:
    largest = np.argsort(-true.ravel(), kind="stable")[:LARGEST]
    return _relative(found.ravel()[largest], true.ravel()[largest])


def _relative(found: Numbers, true: Numbers) -> float:
    return float(np.median(np.abs(found - true) / np.maximum(true, 1.0)))


def _medians(found: dict[str, list[dict[str, float]]]) -> dict[str, dict[str, float]]:
    """The mean over seeds of the median errors."""
    return {
        name: {column: float(np.mean([run[column] for run in runs])) for column in COLUMNS}
        for name, runs in found.items()
    }
