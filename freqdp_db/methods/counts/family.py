"""`counts`: tables of noisy counts, differentially private for one object with all its data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from freqdp_db.errors import BadInput
from freqdp_db.methods.contract import (
    Counts,
    Facts,
    Method,
    Need,
    Nothing,
    Step,
    StepContext,
    Taken,
    WorkingSet,
)
from freqdp_db.methods.counts.options import MARGINS, SUMMARY, CountsOptions
from freqdp_db.methods.counts.zones import BIN, FLOWS_LINE, VISITS_MAP, ZONE
from freqdp_db.methods.kinds import plain
from freqdp_db.methods.relations import Column, Relation
from freqdp_db.methods.synthesis.public import LARGEST_DELTA
from freqdp_db.methods.synthesis.steps import booked_rho, object_guarantee
from freqdp_db.privacy.noise import RandomSource

if TYPE_CHECKING:
    from freqdp_db.methods.counts.plan import Plan
    from freqdp_db.methods.counts.zones import Bins, Zones

MOST_ROWS = 20_000_000
_ORIGIN = (
    "Method: noisy counts at several levels, combined by least squares, under zero-concentrated "
    "differential privacy (Bun and Steinke 2016; discrete Gaussian noise by Canonne, Kamath and "
    "Steinke 2020)."
)
_FEW_OBJECTS = 50
_SMALL = 100
"""delta is to be at most a hundredth of one over the number of objects."""


class CountsStep(Step[CountsOptions, Any, Nothing]):
    """One draw that sees the data; tables that are made from it alone."""

    name = "counts"
    words = "noisy counts"
    options = CountsOptions
    logs = Nothing
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
        if options.accounting == "zcdp" and options.delta > LARGEST_DELTA:
            raise BadInput(
                f"[[delta]] {plain(options.delta)} is more than {plain(LARGEST_DELTA)}",
                remedy="it is how often the guarantee may fail altogether: give [[delta]] 0.000001",
            )
        if options.threshold is not None and "flows" not in options.tables:
            raise BadInput(
                "[[threshold]] is for flows, and [[tables]] has none",
                remedy="leave [[threshold]] out, or add flows to [[tables]]",
            )

    def require_inputs(
        self, options: CountsOptions, inputs: Mapping[str, Any], facts: Facts
    ) -> None:
        """Refuse zones and bins that make no sense together, before anything is drawn and paid for."""
        from freqdp_db.methods.counts.zones import Bins
        from freqdp_db.methods.synthesis.public import Period

        zones: Zones = inputs["zones"]
        _, period = facts(options.region, options.period)
        # by the clock at the begin of the period
        local = Period(period.begin + period.offset_us, period.end + period.offset_us)
        bins = Bins(options.bins, local, "UTC")  # type: ignore[arg-type]
        bins.require_filled()
        pairs = zones.districts**2 if "flows" in options.tables else 0
        rows = (2 * len(zones) + zones.districts + pairs) * len(bins)
        if rows > MOST_ROWS:
            raise BadInput(
                f"{len(zones):,} [[zones]] in {zones.districts:,} districts and {len(bins):,} [[bins]] "
                f"would be some {rows:,} rows",
                remedy="choose larger [[zones]], fewer districts, or wider [[bins]]",
            )

    def draw(
        self, world: StepContext, state: WorkingSet, options: CountsOptions, source: RandomSource
    ) -> Any:
        from freqdp_db.methods.counts.measuring import draw

        zones, bins = public_inputs(world, options)
        return draw(
            state.trajectories, state.places, *world.public_facts(options.region, options.period),
            zones, bins, options.tables, options.parameters, options.threshold, source,
        )  # fmt: skip

    def carry_out(
        self, world: StepContext, state: WorkingSet, drawn: Any, options: CountsOptions
    ) -> tuple[Nothing, WorkingSet]:
        from freqdp_db.methods.counts.tables import made_of

        zones, bins = public_inputs(world, options)
        made = made_of(drawn, _plan(world, drawn, options), zones, bins, options.parameters)
        return Nothing(), replace(state, made=made)

    def check(self, done: Taken[CountsOptions, Any, Nothing]) -> dict[str, int]:
        from freqdp_db.methods.counts.checking import check
        from freqdp_db.methods.counts.tables import Made

        assert isinstance(done.after.made, Made)
        zones, _ = public_inputs(done.world, done.options)
        plan = _plan(done.world, done.drawn, done.options)
        return check(done.drawn, done.after.made, plan, zones, done.options.parameters)

    def counts(self, done: Taken[CountsOptions, Any, Nothing]) -> Counts:
        made: Any = done.after.made
        return {
            "rows": len(made),
            "noisy_objects": max(int(done.drawn.objects[0]), 0),
            **dict(zip(SUMMARY, made.summary.tolist(), strict=True)),
        }

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
            for what in ("visits", "trips", "stays")
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
        if options.accounting == "zcdp" and options.delta * objects * _SMALL > 1:
            found.append(
                f"delta {plain(options.delta)} times the noisy number of objects ({objects:,}) is "
                f"{float(options.delta * objects):.2g}: that is no longer small. Take a --delta of "
                f"{plain(Decimal(1).scaleb(-len(str(_SMALL * objects))))} or less."
            )
        return found


def public_inputs(world: StepContext, options: CountsOptions) -> tuple[Zones, Bins]:
    """The zones and the time bins of a release."""
    from freqdp_db.methods.counts.zones import Bins

    _, period = world.public_facts(options.region, options.period)
    return world.inputs["zones"], Bins(options.bins, period, world.build.timezone)  # type: ignore[arg-type]


def _plan(world: StepContext, drawn: Any, options: CountsOptions) -> Plan:
    from freqdp_db.methods.counts.plan import Shape, plan_of

    shape = Shape.of(*public_inputs(world, options))
    return plan_of(drawn, shape, options.tables, options.parameters, options.threshold)


# The tables.


def _rows_of(table: str) -> Callable[[WorkingSet, StepContext], Iterator[Mapping[str, Any]]]:
    def rows(state: WorkingSet, world: StepContext) -> Iterator[Mapping[str, Any]]:
        made: Any = state.made
        yield made.table(table)

    return rows


def _zone_rows(state: WorkingSet, world: StepContext) -> Iterator[Mapping[str, Any]]:
    zones: Zones = world.inputs["zones"]
    yield from zones.rows()


def _bin_rows(state: WorkingSet, world: StepContext) -> Iterator[Mapping[str, Any]]:
    made: Any = state.made
    yield from made.bins_in(world.build.timezone).rows()


_ZONE = Column("zone", "int8", "The zone, district or city: see the table of zones.")
_BIN = Column(
    "bin", "int4", "The time bin: see the table of bins; 0: all bins together, their sum."
)
_NUMBERS = (
    Column("value", "int8", "The bounded count with its noise: may be below 0."),
    Column(
        "margin", "float8", "Half of the 95 % interval of the value, from public numbers alone."
    ),
    Column(
        "estimate",
        "float8",
        "The value drawn towards what coarser levels suggest and corrected for what the bounds leave out: "
        "nearer to the truth for most rows, never below 0, but biased: the margin is not its.",
    ),
)
_SHOWN_FROM = Column(
    "shown_from",
    "float8",
    "Rows whose noisy number is below it are left out; 0: the row was chosen without looking at it.",
)
_SUMS = (
    "Districts and the city are sums over their zones, and bin 0 is the sum over bins: an object that was "
    "in two zones counts twice."
)

TABLES = (
    Relation(
        "_visits",
        (_ZONE, _BIN, *_NUMBERS),
        f"Objects that were in a zone in a time bin. {_SUMS}",
        key=("zone", "bin"),
        indexes=("bin",),
        rows=_rows_of("visits"),
        chosen_by="visits",
    ),
    Relation(
        "_flows",
        (
            Column("origin", "int8", "Where trips begin: a zone, a district, or the city."),
            Column(
                "destination",
                "int8",
                "Where they end; the city: wherever (departures of the origin); from the city: arrivals.",
            ),
            Column(
                "bin", "int4", "The time bin in which trips begin; 0: all bins together, their sum."
            ),
            *_NUMBERS,
            _SHOWN_FROM,
        ),
        "Trips of at least 1 km. Between zones only some rows are shown, and what is left out is in the "
        "rows between districts and in the departures of the zone.",
        key=("origin", "destination", "bin"),
        indexes=("destination", "bin"),
        rows=_rows_of("flows"),
        chosen_by="flows",
    ),
    Relation(
        "_stays",
        (
            _ZONE,
            Column("bin", "int4", "The time bin in which stays begin; 0: all bins together."),
            *_NUMBERS,
            Column(
                "mean_minutes",
                "float8",
                "Mean duration in the district of the zone; a stay counts for at most 12 hours.",
            ),
            Column(
                "mean_margin", "float8", "Half of its 95 % interval; 720: nothing is known of it."
            ),
        ),
        f"Stays of at least 20 minutes within 150 m. {_SUMS}",
        key=("zone", "bin"),
        indexes=("bin",),
        rows=_rows_of("stays"),
        chosen_by="stays",
    ),
    Relation(
        "_trips",
        (
            Column(
                "length_class",
                "int4",
                "1: below 2 km, 2: to 5 km, 3: to 10 km, 4: to 20 km, 5: to 50 km, 6: longer.",
            ),
            Column(
                "duration_class",
                "int4",
                "1: below 10 minutes, 2: to 20, 3: to 30, 4: to 60, 5: to 120, 6: longer.",
            ),
            Column("bin", "int4", "The time bin in which trips begin; 0: all bins together."),
            *_NUMBERS,
        ),
        "Trips of at least 1 km by length and duration. Their sums are the city's trips in the table of "
        "flows.",
        key=("length_class", "duration_class", "bin"),
        rows=_rows_of("trips"),
        chosen_by="trips",
    ),
    replace(ZONE, rows=_zone_rows),
    replace(BIN, rows=_bin_rows),
    VISITS_MAP,
    FLOWS_LINE,
)

COUNTS = (
    Method(
        "counts",
        "tables of counts by zone and time, with margins and a guarantee for one object with all its data",
        (CountsStep(),),
        kind="counts",
        guarantee=object_guarantee(CountsOptions, _ORIGIN, "counts", "The tables of counts"),
        unit="person",
        needs=(Need("zones", "zones", {"zone": "zone", "district": "district"}),),
        books=partial(booked_rho, CountsOptions),
        publishes=TABLES,
    ),
)
