"""Checks of a release of counts, on its rows. No code that made the tables takes part."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from freqdp_db.errors import VerificationFailed
from freqdp_db.methods.counts.contributions import WHOLE
from freqdp_db.methods.counts.plan import Draw, Plan
from freqdp_db.methods.counts.tables import Columns, CountTables
from freqdp_db.model.arrays import Flags, Ints

_NUMBERS = ("value", "estimate")
_KEYS = ("zone", "road", "origin", "destination", "bin")


def check(draw: Draw, made: CountTables, plan: Plan) -> dict[str, int]:
    """Check the cost of the plan, the lengths of the draw and all sums of rows.

    Returns how many of each were checked; raises VerificationFailed.
    """
    zones, tables, booked = plan.design.zones, plan.design.tables, plan.design.budget.whole
    if plan.cost > booked:
        raise VerificationFailed(f"the plan costs {float(plan.cost):g}, booked {float(booked):g}")
    for what in plan.every_measurement:
        # the length of these depends on how many cells were picked
        if (
            not what.name.endswith(("_picked", "_cells"))
            and len(getattr(draw, what.name)) != what.size
        ):
            raise VerificationFailed(f"{what.name} does not have the length of the plan")
    parent = np.append(0, zones.parents)
    checked = 0
    for name in ("visits", "stays"):
        if name in tables:
            table = made.table(name)
            if name in plan.sparse:
                shown = (table["zone"] <= len(zones)) & (table["bin"] > 0)
                table = _require_cells(name, table, shown, table["zone"] - 1, draw, plan)
            checked += _require_bins(name, table, ("zone",), plan)
            checked += _require_sums(name, table, table["zone"], parent[table["zone"]])
    if plan.design.roads is not None:
        table, of_road = made.table("roads"), np.append(0, plan.design.roads.parents)
        checked += _require_bins("roads", table, ("road",), plan)
        checked += _require_sums("roads", table, table["road"], of_road[table["road"]])
    if "flows" in tables:
        checked += _check_flows(made.table("flows"), draw, plan, parent)
    if "trips" in tables:
        table = made.table("trips")
        checked += _require_bins("trips", table, ("length_class", "duration_class"), plan)
        if "flows" in tables:
            flows = made.table("flows")
            city = (flows["origin"] == zones.city_id) & (flows["destination"] == zones.city_id)
            for number in _NUMBERS:
                by_bin = np.bincount(table["bin"], table[number])
                _require_equal(f"{number} of trips and of flows", by_bin, flows[number][city])
    return {"rows": len(made), "sums": checked, "measurements": len(plan.every_measurement)}


def _check_flows(table: Columns, draw: Draw, plan: Plan, parent: Ints) -> int:
    city, count = plan.design.zones.city_id, len(plan.design.zones)
    between = (table["origin"] <= count) & (table["destination"] <= count)
    pair = (table["origin"].astype(np.int64) - 1) * count + table["destination"] - 1
    table = _require_cells("flows", table, between, pair, draw, plan)
    checked = _require_bins("flows", table, ("origin", "destination"), plan)
    for name, near, far in (
        ("departures", "origin", "destination"),
        ("arrivals", "destination", "origin"),
    ):
        rows = _where(table, table[far] == city)
        checked += _require_sums(name, rows, rows[near], parent[rows[near]])
    # flows between districts add up to the departures of their origin
    origin, large = table["origin"], (table["origin"] > count) & (table["origin"] < city)
    rows = _where(table, large)
    end = rows["destination"] == city
    part, whole = np.where(end, origin[large], 0), np.where(end, 0, origin[large])
    return checked + _require_sums("flows between districts", rows, part, whole)


def _where(table: Columns, chosen: Flags) -> Columns:
    """Some rows, with the columns that sums need."""
    needed = (*_KEYS, *_NUMBERS)
    return {name: column[chosen] for name, column in table.items() if name in needed}


def _require_cells(
    name: str, table: Columns, shown: Flags, place: Ints, draw: Draw, plan: Plan
) -> Columns:
    """Check that the cells of a sparse table are those of the draw; returns the other rows."""
    picked, likely, noisy = (
        getattr(draw, f"{name}_{what}") for what in ("picked", "likely", "cells")
    )
    inside = (picked >= 0) & (picked < plan.design.shape.cells(name))
    if len(picked) != len(noisy) or not inside.all() or (np.diff(picked) <= 0).any():
        raise VerificationFailed(f"the cells of {name} are not in order, with a noisy number each")
    if not np.isin(likely, picked).all():
        raise VerificationFailed(f"a likely cell of {name} was not picked")
    bins = plan.design.shape.bins
    if not np.array_equal(place[shown].astype(np.int64) * bins + table["bin"][shown] - 1, picked):
        raise VerificationFailed(f"the cells of {name} are not those that were picked")
    if not np.array_equal(table["value"][shown], np.rint(noisy / WHOLE)):
        raise VerificationFailed(f"the cells of {name} do not have their noisy numbers")
    return _where(table, ~shown)


def _require_sums(name: str, table: Columns, part: Ints, above: Ints) -> int:
    """Check that parts add up to their whole in every bin; returns how many sums were checked.

    part, above: for each row, its part and the whole that the part belongs to; 0: none.
    """
    bins = int(table["bin"].max()) + 1
    key, of = (side.astype(np.int64) * bins + table["bin"] for side in (part, above))
    has_parts = np.isin(key, of) & (part > 0)
    for number in _NUMBERS:
        whole = np.bincount(of, table[number], minlength=int(key.max()) + 1)
        _require_equal(f"{number} of {name}", whole[key[has_parts]], table[number][has_parts])
    return int(has_parts.sum())


def _require_bins(name: str, table: Columns, key: tuple[str, ...], plan: Plan) -> int:
    """Check that the row of all bins is the sum of the others; returns how many sums were checked.

    Rows are in the order of the key. Zones of a sparse domain, and roads if there are too many, have only
    the row of all bins.
    """
    first = np.flatnonzero(table["bin"] == 0)
    rows = np.diff(np.append(first, len(table["bin"])))
    whole = plan.design.shape.bins + 1
    expected = np.arange(len(table["bin"])) - np.repeat(first, rows)
    shape = plan.design.shape
    all_bins_only = not shape.few_roads if name == "roads" else shape.sparse
    complete = (rows == whole) | (all_bins_only & (rows == 1))
    alike = all(np.array_equal(np.repeat(table[c][first], rows), table[c]) for c in key)
    if not (complete.all() and alike and np.array_equal(table["bin"], expected)):
        raise VerificationFailed(f"{name} does not have a row for every bin")
    several = rows > 1
    for number in _NUMBERS:
        all_bins = table[number][first]
        by_bin = np.add.reduceat(table[number], first) - all_bins
        _require_equal(f"{number} of all bins of {name}", by_bin[several], all_bins[several])
    return int(several.sum())


def _require_equal(what: str, found: NDArray[Any], expected: NDArray[Any]) -> None:
    if found.shape != expected.shape or not np.allclose(found, expected, rtol=0, atol=1e-3):
        raise VerificationFailed(f"sums do not agree: {what}")
