"""What a release of counts promises, recomputed from its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from freqdp_db.errors import VerificationFailed
from freqdp_db.methods.counts.contributions import WHOLE
from freqdp_db.methods.counts.options import Budget
from freqdp_db.methods.counts.plan import Draw, Plan, first_round, spent
from freqdp_db.methods.counts.tables import Made
from freqdp_db.methods.counts.zones import Zones


def check(draw: Draw, made: Made, plan: Plan, zones: Zones, budget: Budget) -> dict[str, int]:
    """The budget, the shape of the draw, and sums between rows; raises VerificationFailed."""
    measurements = [*first_round(plan.tables, pure=budget.pure), *plan.measurements.values()]
    cost = spent(measurements, budget)
    if cost > budget.whole:
        raise VerificationFailed(f"the plan costs {float(cost):g}, booked {float(budget.whole):g}")
    _require_shape(draw, plan, pure=budget.pure)
    checked = 0
    parent = np.concatenate(
        [[0], zones.district_ids[zones.district], np.full(zones.districts, zones.city_id), [0]]
    )
    for name in ("visits", "stays"):
        if name in plan.tables:
            table = made.table(name)
            checked += _require_sums(name, parent[table["zone"]], table["zone"], table)
            checked += _require_bins(name, [table["zone"]], table)
    if "flows" in plan.tables:
        checked += _check_flows(draw, made, plan, zones)
    if "trips" in plan.tables:
        table = made.table("trips")
        checked += _require_bins("trips", [table["length_class"], table["duration_class"]], table)
        if "flows" in plan.tables:
            flows = made.table("flows")
            city = (flows["origin"] == zones.city_id) & (flows["destination"] == zones.city_id)
            for number in ("value", "estimate"):
                by_bin = np.bincount(table["bin"], table[number])
                _require_equal(f"{number} of trips and of flows", by_bin, flows[number][city])
    return {"rows": len(made), "sums": checked, "measurements": len(measurements)}


def _check_flows(draw: Draw, made: Made, plan: Plan, zones: Zones) -> int:
    table = made.table("flows")
    origin, destination, city = table["origin"], table["destination"], zones.city_id
    above = np.concatenate([[0], zones.district_ids[zones.district]])
    small, large = origin <= len(zones), origin > len(zones)
    between = small & (destination <= len(zones))
    cells = (origin - 1) * len(zones) + destination - 1
    if not np.array_equal((cells * plan.shape.bins + table["bin"] - 1)[between], draw.picked):
        raise VerificationFailed("the flows between zones are not those that were picked")
    if not np.array_equal(table["value"][between], np.rint(draw.flows_zones / WHOLE)):
        raise VerificationFailed("the flows between zones do not have their noisy numbers")
    ends = [origin, destination]
    checked = _require_bins("flows", ends, {n: c[~between] for n, c in table.items()}, ~between)
    departures = {n: c[destination == city] for n, c in table.items()}
    whose = np.where(small, above[np.minimum(origin, len(zones))], city)[destination == city]
    whose = np.where(departures["origin"] == city, 0, whose)
    checked += _require_sums("departures", whose, departures["origin"], departures)
    arrivals = {n: c[origin == city] for n, c in table.items()}
    whose = np.where(
        arrivals["destination"] <= len(zones),
        above[np.minimum(arrivals["destination"], len(zones))],
        city,
    )
    whose = np.where(arrivals["destination"] == city, 0, whose)
    checked += _require_sums("arrivals", whose, arrivals["destination"], arrivals)
    pairs = large & (origin < city) & (destination < city)
    for number in ("value", "estimate"):
        leaving = (origin < city) & large & (destination == city)
        key = (table["origin"] * (plan.shape.bins + 1) + table["bin"]).astype(np.int64)
        whole = np.bincount(key[pairs], table[number][pairs], minlength=int(key.max()) + 1)
        _require_equal("flows between districts", whole[key[leaving]], table[number][leaving])
    return checked + int(pairs.sum())


def _require_sums(
    name: str, parent: NDArray[Any], part: NDArray[Any], table: dict[str, NDArray[Any]]
) -> int:
    """Values and estimates of parts add up to those of what they are parts of, in every bin."""
    bins = int(table["bin"].max()) + 1
    for number in ("value", "estimate"):
        whole = np.bincount(
            parent * bins + table["bin"], table[number], minlength=(int(part.max()) + 1) * bins
        )
        has_parts = np.isin(part, parent)
        found = whole[(part * bins + table["bin"])[has_parts]]
        _require_equal(f"{number} of {name}", found, table[number][has_parts])
    return int(has_parts.sum())


def _require_bins(
    name: str,
    key: list[NDArray[Any]],
    table: dict[str, NDArray[Any]],
    chosen: NDArray[np.bool_] | None = None,
) -> int:
    """The row of all bins is the sum of the others. Rows are in the order of the key."""
    bins = int(table["bin"].max()) + 1
    columns = [column if chosen is None else column[chosen] for column in key]
    for column in columns:
        if len(column) % bins or (np.ptp(column.reshape(-1, bins), axis=1) != 0).any():
            raise VerificationFailed(f"{name} does not have a row for every bin")
    for number in ("value", "estimate"):
        by_bin = table[number].reshape(-1, bins)
        _require_equal(f"{number} of all bins of {name}", by_bin[:, 1:].sum(axis=1), by_bin[:, 0])
    return len(table["bin"]) // bins


def _require_equal(what: str, found: NDArray[Any], expected: NDArray[Any]) -> None:
    if found.shape != expected.shape or not np.allclose(found, expected, rtol=0, atol=1e-3):
        raise VerificationFailed(f"sums do not agree: {what}")


def _require_shape(draw: Draw, plan: Plan, *, pure: bool) -> None:
    for what in [*first_round(plan.tables, pure=pure), *plan.measurements.values()]:
        if what.name in ("picked", "flows_zones"):
            continue
        if len(getattr(draw, what.name)) != what.size:
            raise VerificationFailed(f"{what.name} does not have the length of the plan")
    if len(draw.picked) != len(draw.flows_zones):
        raise VerificationFailed("the flows between zones do not have a noisy number each")
    inside = (draw.picked >= 0) & (draw.picked < plan.shape.pairs)
    if not inside.all() or (np.diff(draw.picked) <= 0).any():
        raise VerificationFailed("the flows between zones are not in order")
    if not np.isin(draw.likely, draw.picked).all():
        raise VerificationFailed("a likely flow was not picked")
