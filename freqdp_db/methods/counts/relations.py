"""The tables and views of a release of counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from freqdp_db.methods.contract import StepContext, WorkingSet
from freqdp_db.methods.counts.zones import roads_in
from freqdp_db.methods.relations import Column, Relation

Rows = Iterator[Mapping[str, Any]]


def _rows_of(table: str) -> Callable[[WorkingSet, StepContext], Rows]:
    def rows(state: WorkingSet, world: StepContext) -> Rows:
        made: Any = state.tables
        yield made.table(table)

    return rows


def _zone_rows(state: WorkingSet, world: StepContext) -> Rows:
    yield from world.inputs["zones"].rows()


def _road_rows(state: WorkingSet, world: StepContext) -> Rows:
    assert world.coordinates is not None, "rows are of a release"
    roads = roads_in(world.inputs["roads"], world.inputs["zones"])
    yield from roads.rows(world.coordinates, world.build.source_srid)


def _bin_rows(state: WorkingSet, world: StepContext) -> Rows:
    made: Any = state.tables
    yield from made.bins_in(world.build.timezone).rows()


_ZONE = Column("zone", "int8", "The zone, district or city: see the table of zones.")
_BIN = Column(
    "bin", "int4", "The time bin: see the table of bins; 0: all bins together, their sum."
)
_BIN_OF_TRIPS = Column(
    "bin", "int4", "The time bin in which trips begin; 0: all bins together, their sum."
)
_MARGIN = Column(
    "margin",
    "float8",
    "Half of the 95 % interval of the value, from public numbers and the noisy first round.",
)
_NUMBERS = (
    Column("value", "int8", "The bounded count with its noise: may be below 0."),
    _MARGIN,
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


def _on_maps(finest: str) -> tuple[Column, ...]:
    return (
        Column("level", "text", f"{finest}, district or city: show one of them at a time."),
        Column("bin_name", "text", "What the time bin is called."),
        Column("value", "float8", "The count; where noise made it negative, 0."),
        _MARGIN,
        Column(
            "estimate", "float8", "The count drawn towards what coarser levels suggest: for maps."
        ),
    )


RELATIONS = (
    Relation(
        "_visits",
        (_ZONE, _BIN, *_NUMBERS, _SHOWN_FROM),
        f"Objects that were in a zone in a time bin. {_SUMS} Of very many zones and bins only some rows of "
        "single bins are shown.",
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
            _BIN_OF_TRIPS,
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
            _BIN_OF_TRIPS,
            *_NUMBERS,
        ),
        "Trips of at least 1 km by length and duration. Their sums are the city's trips in the table of "
        "flows.",
        key=("length_class", "duration_class", "bin"),
        rows=_rows_of("trips"),
        chosen_by="trips",
    ),
    Relation(
        "_roads",
        (
            Column("road", "int8", "The road, district or city: see the table of roads."),
            Column(
                "bin",
                "int4",
                "The time bin of passages; 0: all bins together, their sum.",
            ),
            *_NUMBERS,
            Column(
                "mean_kmh",
                "float8",
                "Mean speed of passages, between two samples; at most 120 km/h each.",
            ),
            Column(
                "mean_margin",
                "float8",
                "Half of its 95 % interval; 120: nothing is known of it, and it is that of the district.",
            ),
        ),
        "Passages of roads on trips of at least 1 km: a trip passes a road when it comes to its middle. "
        "Districts and the city are sums over their roads, and bin 0 is the sum over bins. Of very many "
        "roads only all bins together are shown.",
        key=("road", "bin"),
        indexes=("bin",),
        rows=_rows_of("roads"),
        chosen_by="roads",
    ),
    Relation(
        "_road",
        (
            Column(
                "road", "int8", "Number of the road: roads first, then districts, then the city."
            ),
            Column("name", "text", "Of a road, its id in the table of roads: public."),
            Column("level", "text", "road, district or city."),
            Column("parent", "int8", "The district of a road, the city of a district; 0: none."),
            Column(
                "geom",
                "geometry(MultiLineString)",
                "Its line; of a district or the city those of its roads. In the SRID of the source.",
            ),
        ),
        "Roads whose middle lies in a zone, and the districts of these zones: public, and made without the "
        "data.",
        key=("road",),
        indexes=("geom",),
        rows=_road_rows,
        chosen_by="roads",
    ),
    Relation(
        "_zone",
        (
            Column(
                "zone", "int8", "Number of the zone: zones first, then districts, then the city."
            ),
            Column("name", "text", "What it is called where it comes from: public."),
            Column("level", "text", "zone, district or city."),
            Column("parent", "int8", "The district of a zone, the city of a district; 0: none."),
            Column("geom", "geometry(MultiPolygon)", "Its area, in the SRID of the source."),
        ),
        "Zones, their districts and the city: public, and made without the data.",
        key=("zone",),
        indexes=("geom",),
        rows=_zone_rows,
    ),
    Relation(
        "_bin",
        (
            Column("bin", "int4", "Number of the time bin; 0: all bins together."),
            Column("name", "text", "What it is called, by the clock of the time zone {timezone}."),
            Column(
                "begins",
                "text",
                "When it begins ({timezone}): a time of day, or a moment that can be cast to timestamptz.",
            ),
            Column("ends", "text", "When it ends; that moment is not in it."),
        ),
        "Time bins: public, and made without the data.",
        key=("bin",),
        rows=_bin_rows,
    ),
    Relation(
        "_visits_map",
        (
            _ZONE,
            _BIN,
            Column("name", "text", "What the zone is called."),
            *_on_maps("zone"),
            Column("geom", "geometry(MultiPolygon)", "The area of the zone."),
        ),
        "Visits with the areas of the zones, for a map: choose a level and a bin.",
        chosen_by="visits",
        view="create_visits_map",
    ),
    Relation(
        "_flows_line",
        (
            Column("origin", "int8", "The zone where the trips begin."),
            Column("destination", "int8", "The zone where they end: another one."),
            _BIN_OF_TRIPS,
            Column("origin_name", "text", "What the origin is called."),
            Column("destination_name", "text", "What the destination is called."),
            *_on_maps("zone"),
            Column(
                "geom",
                "geometry(LineString)",
                "From the middle of the origin to that of the destination.",
            ),
        ),
        "Flows as lines between zones of the same level, for a map: choose a level and a bin.",
        chosen_by="flows",
        view="create_flows_line",
    ),
    Relation(
        "_roads_map",
        (
            Column("road", "int8", "The road, district or city."),
            Column("bin", "int4", "The time bin; 0: all bins together."),
            Column("name", "text", "Of a road, its id in the table of roads."),
            *_on_maps("road"),
            Column("mean_kmh", "float8", "Mean speed; see mean_margin."),
            Column(
                "mean_margin", "float8", "Half of its 95 % interval; 120: nothing is known of it."
            ),
            Column("geom", "geometry(MultiLineString)", "The line of the road."),
        ),
        "Passages with the lines of the roads, for a map: choose a level and a bin.",
        chosen_by="roads",
        view="create_roads_map",
    ),
)
COUNTED = {
    relation.suffix.removeprefix("_"): relation
    for relation in RELATIONS
    if "value" in relation.names and relation.view is None
}
"""The tables of counts, by name."""
