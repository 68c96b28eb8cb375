"""`freqdp bench counts`: how far counts are off, beside a noisy histogram by OpenDP and a `strict` release.

All at the same unit and epsilon, over the same zones and bins, several times. The histogram by OpenDP has
one level, discrete Gaussian noise, the same bounds, the whole share of its table, and the same correction
for what the bounds leave out; coarser numbers are sums of its cells. Trips of a `strict` release have no
persons: its visits are scaled to the true total, in its favour. Reads the originals; nothing is published
or spent.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freqdp_db.dataset.memory import load_build
from freqdp_db.db.builds import find_build
from freqdp_db.db.connection import Database
from freqdp_db.db.datasets import DatasetRow
from freqdp_db.evaluation.counts import compare_counts
from freqdp_db.methods.contract import StepContext, options_of
from freqdp_db.methods.counts.contributions import WHOLE, Contributions, Items
from freqdp_db.methods.counts.estimation import sums
from freqdp_db.methods.counts.family import SUMMARY, CountsOptions, contributions_to, design_of
from freqdp_db.methods.counts.measuring import bounded_by, cells_of, measure
from freqdp_db.methods.counts.plan import Plan, plan_of
from freqdp_db.methods.counts.tables import CountTables, make_tables
from freqdp_db.methods.loop import Trial, run_steps
from freqdp_db.methods.registry import find_method
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
    """By epsilon: what part the bounds leave out,"""
    lost_as_said: dict[str, dict[str, float]] = field(default_factory=dict)
    """and what part the releases say."""

    def document(self) -> dict[str, Any]:
        return dict(vars(self))


def bench_counts(
    database: Database, dataset: DatasetRow, request: Request, epsilons: str, seeds: int
) -> CountsBench:
    row = find_build(database, dataset.require_build())
    request = request.with_facts(dataset, row)
    build = load_build(database, row.build_id, Progress())
    world = make_world(database, build, request.method, request.values)
    (step,) = request.method.steps
    options: CountsOptions = options_of(step, request.values)
    seed = int(request.seed or 0)
    bench = _Bench(world, options, seed)
    for epsilon in epsilons.split(","):
        bench.measure(epsilon, seeds, seed)
    return bench.found


class _Bench:
    def __init__(self, world: StepContext, options: CountsOptions, seed: int) -> None:
        self.world, self.options, self.design = world, options, design_of(world, options)
        self.zones, self.bins = self.design.zones, self.design.bins
        self.district = self.zones.district.astype(np.int64)
        self.found = CountsBench(len(self.zones), self.zones.districts, len(self.bins))
        self.unions = self._unions(seed)

    def measure(self, epsilon: str, seeds: int, first: int) -> None:
        design = replace(self.design, budget=replace(self.design.budget, epsilon=Fraction(epsilon)))
        errors: dict[str, list[dict[str, float]]] = defaultdict(list)
        measured: list[dict[str, float]] = []
        all_said: list[dict[str, float]] = []
        build = self.world.build
        found = contributions_to(self.world, build.trajectories, build.locations, self.options)
        full = self.exact(found)
        for seed in range(first, first + seeds):
            source = SeededSource(seed)
            drawn = measure(found, design, source)
            plan = plan_of(drawn, design)
            made = make_tables(drawn, plan)
            bounded = bounded_by(found, plan)
            true = self.exact(bounded)
            known = dict(zip(SUMMARY, made.summary.tolist(), strict=True))
            said = {what: known[f"{what}_lost"] for what in ("visits", "trips", "stays")}
            all_said.append(said)
            ways = {
                "counts, estimate": self.published(made, "estimate"),
                "counts, value": self.published(made, "value"),
                PLAIN: self.plain(true, _largest(full.flows), plan, said, source),
            }
            if seed - first < _STRICT_SEEDS:
                ways["strict"] = self.strict(epsilon, seed, full)
            for name, tables in ways.items():
                errors[name].append(self.compare(tables, full))
            measured.append(compare_counts(made, design, bounded, found))
        self.found.errors[epsilon] = {name: _means(runs) for name, runs in errors.items()}
        self.found.coverage[epsilon] = _means(measured, "counts.coverage.")
        self.found.lost[epsilon] = _means(measured, "counts.lost.")
        self.found.lost_as_said[epsilon] = _means(all_said)

    def exact(self, found: Contributions) -> Tables:
        bins, count = len(self.bins), self.zones.districts
        visits, trips = found.visits, found.trips
        of = self.district

        def table(items: Items, part: NDArray[Any], parts: int) -> Numbers:
            counts = np.bincount(
                part * np.int64(bins) + items.bin, items.parts, minlength=parts * bins
            )
            return counts.reshape(-1, bins) / WHOLE

        departures = table(trips, trips.zone, len(self.zones))
        cells, counts = cells_of("flows", found, self.design.shape)
        return Tables(
            table(visits, visits.zone, len(self.zones)),
            departures,
            sums(of, departures, count),
            table(trips, of[trips.zone] * count + of[trips.to], count * count),
            dict(zip(cells.tolist(), (counts / WHOLE).tolist(), strict=True)),
        )

    def published(self, made: CountTables, column: str) -> Tables:
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
        self,
        true: Tables,
        largest: list[int],
        plan: Plan,
        lost: Mapping[str, float],
        source: SeededSource,
    ) -> Tables:
        """One histogram a table, at its finest level, with the same bounds and the table's whole share."""
        correction = {what: 1 / (1 - part) for what, part in lost.items()}

        def noise(like: str, size: int) -> Numbers:
            table = like.partition("_")[0]
            amounts = [m.amount for m in plan.measurements.values() if m.name.startswith(table)]
            spread = sigma2_for(plan[like].bound, sum(amounts, Fraction(0)))
            draw = _drawn_by_opendp if OPENDP else source.discrete_gaussian
            return draw(spread, size) / WHOLE

        def noisy(exact: Numbers, like: str) -> Numbers:
            return exact + noise(like, exact.size).reshape(exact.shape)

        visits = noisy(true.visits, "visits_zone")
        departures = noisy(true.departures, "flows_from")
        # of the cells between districts, each is the sum of all cells between their zones
        inside = np.bincount(self.district, minlength=self.zones.districts)
        spread = np.sqrt(np.outer(inside, inside)).ravel()[:, None]
        one = noise("flows_cells", true.districts.size).reshape(true.districts.shape)
        values = np.array([true.flows.get(cell, 0.0) for cell in largest])
        between = noisy(values, "flows_cells") * correction["trips"]
        departures *= correction["trips"]
        return Tables(
            visits * correction["visits"],
            departures,
            sums(self.district, departures, self.zones.districts),
            (true.districts + spread * one) * correction["trips"],
            dict(zip(largest, between.tolist(), strict=True)),
        )

    def strict(self, epsilon: str, seed: int, full: Tables) -> Tables:
        method = find_method("strict")
        given = {"epsilon": epsilon, "delta": format(self.options.delta, "f")}
        request = Request.parse(method.name, **given)
        values = {**request.values, "region": self.options.region, "period": self.options.period}
        trial = Trial(lambda number: SeededSource(seed, number))
        made = run_steps(method, values, self.world, trial, Progress())
        found = contributions_to(self.world, made.trajectories, made.places, self.options)
        tables = self.exact(found)
        scaled = tables.visits * (full.visits.sum() / max(tables.visits.sum(), 1.0))
        return Tables(scaled, tables.departures, tables.by_district, tables.districts, tables.flows)

    def compare(self, tables: Tables, true: Tables) -> dict[str, float]:
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


def _means(runs: Sequence[Mapping[str, float]], prefix: str = "") -> dict[str, float]:
    """Over the seeds, of all numbers whose names begin so, without this beginning."""
    return {
        name.removeprefix(prefix): float(np.mean([run[name] for run in runs]))
        for name in runs[0]
        if name.startswith(prefix)
    }
