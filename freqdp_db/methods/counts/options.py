"""What a release of counts can be asked for."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

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
from freqdp_db.methods.synthesis.public import LARGEST_DELTA
from freqdp_db.privacy.accounting import PrivacyBudget

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
