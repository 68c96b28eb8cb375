"""How many samples of a build lie inside the public region and period. For the curator."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from freqdp_db.dataset.facts import facts_in
from freqdp_db.methods.areas import LonLatArea
from freqdp_db.methods.places_and_times import TimeStretch
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.records.builds import BuildRow, load_locations, samples_by_place
from freqdp_db.storage.records.datasets import DatasetRow
from freqdp_db.storage.source.reference import definition_of

_FEW = 0.5


@dataclass(frozen=True)
class Coverage:
    """How much of a build the public region and period cover. Exact: never released."""

    samples: int
    inside: int

    def lines(self, dataset: str) -> list[str]:
        """In words; a warning where it is little."""
        share = self.inside / max(self.samples, 1)
        said = (
            f"{self.inside:,} of {self.samples:,} samples ({share:.1%}) lie inside the region and the "
            "period"
        )
        if share >= _FEW:
            return [f"{said}."]
        return [
            f"Warning: {said}. What lies outside is left out of releases with a guarantee for persons: "
            "check that --region is WEST,SOUTH,EAST,NORTH in degrees and that --period covers the "
            f"data (freqdp dataset set {shlex.quote(dataset)})."
        ]


def coverage_of(
    database: Database, dataset: DatasetRow, build: BuildRow, region: Any, period: Any
) -> Coverage:
    """Count the samples of a build inside an area and a stretch of time."""
    with database.begin(snapshot=True) as connection:
        definition = definition_of(connection, build.srid, "SRID")
        places = load_locations(connection, database, build)
        samples = samples_by_place(connection, database, build, period.begin, period.end)
    area, _ = facts_in(build.srid, definition, dataset.mapping.timezone)(region, period)
    return Coverage(build.samples, int(samples[area.holds(places.x, places.y)].sum()))


def declared_coverage(database: Database, dataset: DatasetRow, build: BuildRow) -> Coverage | None:
    """The same for what the owner has declared; None: not both."""
    if dataset.region is None or dataset.period is None:
        return None
    region = LonLatArea().from_text(dataset.region)
    return coverage_of(database, dataset, build, region, TimeStretch().from_text(dataset.period))
