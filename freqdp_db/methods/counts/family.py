"""`counts`: tables of noisy counts, differentially private for one object with all its data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from freqdp_db.errors import BadInput
from freqdp_db.methods.contract import (
    CompletedStep,
    Counts,
    EmptyLog,
    Facts,
    Method,
    Need,
    Step,
    StepContext,
    WorkingSet,
)
from freqdp_db.methods.counts.relations import RELATIONS
from freqdp_db.methods.counts.zones import BIN_KINDS
from freqdp_db.methods.kinds import (
    Box,
    Choice,
    LonLatArea,
    Name,
    Number,
    Outline,
    Stretch,
    TimeStretch,
    Whole,
    Words,
    Zoning,
)
from freqdp_db.methods.parameters import parameter
from freqdp_db.methods.synthesis.public import LARGEST_DELTA, delta_warnings, require_small_delta
from freqdp_db.methods.synthesis.steps import booked_rho, object_guarantee
from freqdp_db.privacy.accounting import PrivacyBudget
from freqdp_db.privacy.noise import RandomSource

if TYPE_CHECKING:
    from freqdp_db.methods.counts.contributions import Contributions
    from freqdp_db.methods.counts.plan import Design, Shape
    from freqdp_db.methods.counts.zones import Roads, Zones
    from freqdp_db.model.trajectories import Locations, Trajectories

MOST_ROWS = 20_000_000
"""Requests for releases with more rows are refused."""
_ORIGIN = (
    "Method: noisy counts at several levels, combined by least squares, under zero-concentrated "
    "differential privacy (Bun and Steinke 2016; discrete Gaussian noise by Canonne, Kamath and "
    "Steinke 2020)."
)
ASSUMED_OBJECTS = 1_000
"""Number of objects that `plan` assumes if none was declared."""
_FEW_OBJECTS = 50
"""Below this noisy number of objects the curator is warned that the tables are mostly noise."""


TABLES = ("visits", "flows", "stays", "trips")
ROADS = "roads"
"""The table that there is if a table of roads is named."""
MOST_THRESHOLD = 1_000_000_000

MARGINS = {
    "visits_zone": "visits of a zone",
    "visits_city": "visits of the city",
    "stays_zone": "stays in a zone",
    "stays_district": "stays in a district",
    "flows_from": "departures from a zone",
    "flows_from_district": "departures from a district",
    "flows_districts": "trips between two districts",
    "flows_zones": "trips between two zones",
    "trips_class": "trips of a class",
    "roads_road": "passages of a road",
    "roads_district": "passages in a district",
}
"""What margins are said of, in one bin."""
SUMMARY = (
    *(f"{name}_margin" for name in MARGINS),
    *(f"{what}_lost" for what in ("visits", "trips", "stays", "passages")),
)
"""What is recorded of margins and of what bounds leave out, in this order; 0: not asked for."""


@dataclass(frozen=True)
class CountsOptions:
    zones: Any = parameter(
        Zoning(), "Public zones: a table of polygons, a grid (grid:500m) or H3 (h3:8)."
    )
    zone: str | None = parameter(
        Name("tract"),
        "Column of the table of zones that tells them apart. Default: its primary key.",
    )
    district: str | None = parameter(
        Name("borough"), "Column with the district of each zone. Default: blocks of zones."
    )
    bins: str = parameter(Choice(BIN_KINDS), "Time bins.", "hour-of-day")
    tables: tuple[str, ...] = parameter(
        Words((*TABLES, ROADS)),
        "What is counted, with commas between. With [[roads]], roads are counted as well.",
        TABLES,
    )
    roads: str | None = parameter(
        Name("public.roads"),
        "Public table of roads: passages and mean speed are counted for each. Slower, and the budget is "
        "shared with them.",
    )
    epsilon: Decimal = parameter(
        Number(Decimal(20), "2", low=Decimal("0.01")),
        "For one object with all its data.",
        Decimal(2),
    )
    delta: Decimal = parameter(
        Number(LARGEST_DELTA, "0.000001", decimals=12),
        "With zcdp: how seldom epsilon may not hold; much less than 1 / objects.",
        Decimal("0.000001"),
    )
    accounting: str = parameter(
        Choice(("zcdp", "pure")), "zcdp (epsilon and delta), or pure (epsilon alone).", "zcdp"
    )
    threshold: int | None = parameter(
        Whole(1, MOST_THRESHOLD, "20"),
        "Flows between zones are looked for from so many trips on. Default: so that about a thousand "
        "rows are noise alone. A threshold that noise alone reaches in over a million cells is raised.",
    )
    region: Box | Outline | None = parameter(
        LonLatArea(), "Public: where the data may lie. Default: the dataset's."
    )
    period: Stretch | None = parameter(
        TimeStretch(), "Public: when the data may lie. Default: the dataset's."
    )

    @property
    def wanted(self) -> tuple[str, ...]:
        """The tables, with that of roads if one is named."""
        if self.roads is None or ROADS in self.tables:
            return self.tables
        return *self.tables, ROADS

    @property
    def parameters(self) -> PrivacyBudget:
        """What the release may cost."""
        return PrivacyBudget(
            Fraction(self.epsilon), Fraction(self.delta), self.accounting == "pure"
        )


class CountsStep(Step[CountsOptions, Any, EmptyLog]):
    """The draw reads the data; the tables are computed from the draw alone."""

    name = "counts"
    words = "noisy counts"
    options = CountsOptions
    logs = EmptyLog
    foreseen = True
    checked: ClassVar[dict[str, str]] = {
        "rows": "rows of counts follow from the draw",
        "sums": "sums agree between levels and tables",
        "measurements": "measurements keep to the budget",
    }

    @property
    def draws(self) -> type:  # type: ignore[override]
        from freqdp_db.methods.counts.plan import Draw

        return Draw

    def require_possible(self, options: CountsOptions, objects: int, samples: int) -> None:
        require_small_delta(options.accounting, options.delta)
        if ROADS in options.tables and options.roads is None:
            raise BadInput(
                "[[tables]] has roads, and no table of roads is named",
                remedy="name one: [[roads]] schema.table",
            )
        if options.threshold is not None and "flows" not in options.tables:
            raise BadInput(
                "[[threshold]] is for flows, and [[tables]] has none",
                remedy="leave [[threshold]] out, or add flows to [[tables]]",
            )

    def require_inputs(
        self, options: CountsOptions, inputs: Mapping[str, Any], facts: Facts
    ) -> None:
        """Refuse empty bins and too many rows, before anything is drawn and booked."""
        from freqdp_db.methods.counts.plan import Shape
        from freqdp_db.methods.counts.zones import Bins
        from freqdp_db.methods.synthesis.public import Period

        zones: Zones = inputs["zones"]
        roads = _roads(inputs, options)
        _, period = facts(options.region, options.period)
        # in local time, as if no clock were put forward or back: every day has all its hours
        begin, end = (at + period.offset_us for at in (period.begin, period.end))
        local = Period(begin, end + period.change_us)
        bins = Bins(options.bins, local, "UTC")  # type: ignore[arg-type]
        bins.require_filled()
        rows = _rows_of_shape(Shape.of(zones, bins, roads), options.wanted)
        if rows > MOST_ROWS:
            raise BadInput(
                f"{len(zones):,} [[zones]] in {zones.districts:,} districts"
                + ("" if roads is None else f", {len(roads):,} [[roads]]")
                + f" and {len(bins):,} [[bins]] "
                f"would be some {rows:,} rows",
                remedy="choose larger [[zones]], wider [[bins]]"
                + (" or fewer districts" if options.district else "")
                + (", or leave flows out of [[tables]]" if "flows" in options.tables else ""),
            )

    def draw(
        self, world: StepContext, state: WorkingSet, options: CountsOptions, source: RandomSource
    ) -> Any:
        from freqdp_db.methods.counts.measuring import measure

        # no name is bound to the contributions, so that `measure` can free them
        return measure(
            contributions_to(world, state.trajectories, state.places, options),
            design_of(world, options),
            source,
        )

    def carry_out(
        self, world: StepContext, state: WorkingSet, drawn: Any, options: CountsOptions
    ) -> tuple[EmptyLog, WorkingSet]:
        from freqdp_db.methods.counts.plan import plan_of
        from freqdp_db.methods.counts.tables import make_tables

        plan = plan_of(drawn, design_of(world, options))
        return EmptyLog(), replace(state, tables=make_tables(drawn, plan))

    def check(self, done: CompletedStep[CountsOptions, Any, EmptyLog]) -> dict[str, int]:
        from freqdp_db.methods.counts.checking import check
        from freqdp_db.methods.counts.plan import plan_of
        from freqdp_db.methods.counts.tables import CountTables

        assert isinstance(done.after.tables, CountTables)
        plan = plan_of(done.drawn, design_of(done.world, done.options))
        return check(done.drawn, done.after.tables, plan)

    def counts(self, done: CompletedStep[CountsOptions, Any, EmptyLog]) -> Counts:
        tables: Any = done.after.tables
        return {
            "rows": len(tables),
            "noisy_objects": max(int(done.drawn.objects[0]), 0),
            **dict(zip(SUMMARY, tables.summary.tolist(), strict=True)),
        }

    def expect(
        self,
        options: CountsOptions,
        inputs: Mapping[str, Any],
        facts: Facts,
        timezone: str,
        objects: int | None,
        earlier: Any,
    ) -> tuple[int, Counts, bool]:
        """Predict the margins.

        They depend on the bounds, which follow from how much objects contribute: the first round of an
        earlier release says so, or else travel surveys.
        """
        from freqdp_db.methods.counts.plan import assumed_round, second_round
        from freqdp_db.methods.counts.tables import expected_summary

        design = _design(inputs, facts, timezone, options)
        round_one = vars(earlier) if earlier is not None else {}
        known = all(len(round_one.get(name, ())) for name in design.first_round)
        if not known:
            round_one = assumed_round(design, objects or ASSUMED_OBJECTS)
        plan = second_round(design, round_one)
        counts: Counts = {
            "rows": _rows_of_shape(design.shape, design.tables),
            "noisy_objects": objects or max(int(round_one["objects"][0]), 0),
            **dict(zip(SUMMARY, expected_summary(plan).tolist(), strict=True)),
        }
        # how many cells of a sparse table will be picked is not known
        sparse = ("_picked", "_cells")
        drawn = sum(m.size for m in plan.every_measurement if not m.name.endswith(sparse))
        return drawn, counts, known

    def describe(self, drawn: int, counts: Counts) -> str:
        said = f"{drawn:,} noisy numbers; {int(counts['rows']):,} rows of counts"
        margins = [
            f"{words} {counts[f'{name}_margin']:,.0f}"
            for name, words in MARGINS.items()
            if counts.get(f"{name}_margin", 0) > 0
        ]
        return f"{said}; margins in one bin (95 %): {', '.join(margins)}"

    def errors(self, options: CountsOptions, counts: Counts) -> str:
        lost = [
            f"{100 * counts[f'{what}_lost']:.0f} % of {what}"
            for what in ("visits", "trips", "stays", "passages")
            if counts.get(f"{what}_lost", 0) > 0
        ]
        said = "A value lies within its margin of the bounded count with 95 % confidence, in every row."
        if lost:
            said += (
                " Each contribution of an object that has very many counts for less than 1: about "
                f"{', '.join(lost)} are not counted because of that; estimates are corrected for it."
            )
        return said

    def warnings(self, options: CountsOptions, counts: Counts) -> list[str]:
        objects = int(counts.get("noisy_objects", 0))
        found = []
        if objects < _FEW_OBJECTS:
            found.append(
                f"By their noisy number {objects:,} objects lie inside the region and the period: hardly "
                "anything but noise came out. It takes hundreds to be useful."
            )
        return found + delta_warnings(options.accounting, options.delta, objects)


def _rows_of_shape(shape: Shape, tables: tuple[str, ...]) -> int:
    """Approximate number of rows, without the picked cells of sparse tables."""
    of_zones = shape.zones * (1 if shape.sparse else shape.bins + 1)
    of_districts = shape.districts * (shape.bins + 1)
    each = {"visits": 1, "stays": 1, "flows": 2, "trips": 0}
    rows = sum(each.get(table, 0) * (of_zones + of_districts) for table in tables)
    if ROADS in tables:
        rows += shape.roads * (shape.bins + 1 if shape.few_roads else 1)
    return rows + (of_districts * shape.districts if "flows" in tables else 0)


def design_of(world: StepContext, options: CountsOptions) -> Design:
    """The design of a release: what it counts, and the budget."""
    assert world.facts is not None, "the request was let through without public facts"
    return _design(world.inputs, world.facts, world.build.timezone, options)


def _design(
    inputs: Mapping[str, Any], facts: Facts, timezone: str, options: CountsOptions
) -> Design:
    from freqdp_db.methods.counts.plan import Design
    from freqdp_db.methods.counts.zones import Bins

    _, period = facts(options.region, options.period)
    bins = Bins(options.bins, period, timezone)  # type: ignore[arg-type]
    return Design(
        inputs["zones"],
        bins,
        options.wanted,
        options.parameters,
        options.threshold,
        _roads(inputs, options),
    )


def _roads(inputs: Mapping[str, Any], options: CountsOptions) -> Roads | None:
    """The roads whose passages are counted, or None; raises BadInput if none lies in the zones."""
    from freqdp_db.methods.counts.zones import roads_in

    if ROADS not in options.wanted:
        return None
    roads = roads_in(inputs["roads"], inputs["zones"])
    if not len(roads):
        raise BadInput(
            f"[[roads]] {options.roads}: no road has its middle in one of the zones",
            remedy="name a table of the roads of the region, or choose other [[zones]]",
        )
    return roads


def contributions_to(
    world: StepContext, trajectories: Trajectories, places: Locations, options: CountsOptions
) -> Contributions:
    """The contributions of all objects to a release with these options."""
    from freqdp_db.methods.counts.contributions import contributions_of

    design, facts = design_of(world, options), world.public_facts(options.region, options.period)
    return contributions_of(trajectories, places, *facts, design.zones, design.bins, design.roads)


COUNTS = (
    Method(
        "counts",
        "tables of counts by zone and time, with margins and a guarantee for one object with all its data",
        (CountsStep(),),
        kind="counts",
        guarantee=object_guarantee(CountsOptions, _ORIGIN, "counts", "The tables of counts"),
        unit="person",
        needs=(
            Need("zones", "zones", {"zone": "zone", "district": "district"}),
            Need("roads", "roads", optional=True),
        ),
        books=partial(booked_rho, CountsOptions),
        publishes=RELATIONS,
    ),
)
