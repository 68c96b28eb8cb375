"""Steps on a part: a range of whole trajectories, kept where its work is done.

What comes from outside is cut and renumbered (`share_of`), and what goes out carries the numbers that
the trajectories have among all. Everything here is a function of one part, or of what was made of it;
what needs all of them is counted, chosen or merged outside.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np

from freqdp_db.columns.arrays import Flags, Ids, Ints
from freqdp_db.columns.edits import EditRuns, Edits, PfTargets, TfTargets
from freqdp_db.columns.trajectories import Clock, Locations
from freqdp_db.edits.applying import Thinned, apply_edits, coarsen_times, delete, insert
from freqdp_db.edits.deletion import Carriers, cheapest_carriers, delete_from, delete_locally
from freqdp_db.edits.insertion import Found, Search, find_takers, insert_locally
from freqdp_db.edits.room import find_room
from freqdp_db.engines.held import PerRange
from freqdp_db.frequency.counts import Frequencies
from freqdp_db.frequency.parts import Part
from freqdp_db.frequency.signatures import Signatures, rank_places
from freqdp_db.mechanisms.closure import close_signatures
from freqdp_db.mechanisms.local_pf import PointLists, point_lists
from freqdp_db.methods.contract import falling_times
from freqdp_db.methods.frequency.possible import reached_pf, require_possible

Rows = TypeVar("Rows", PfTargets, Carriers)


@dataclass(frozen=True)
class KnownOfAll:
    """What is known of all trajectories, that ranking places takes."""

    tf: Ids
    trajectories: int

    def frequencies(self) -> Frequencies:
        """TF of all, and nobody's PF."""
        nobody = np.zeros(0, np.int32)
        return Frequencies(np.zeros(self.trajectories + 1, np.int64), nobody, nobody, self.tf)


@dataclass(frozen=True)
class Thin:
    """A part after the deletions of a global step, which its insertions follow."""

    first: int
    thinned: Thinned
    deletions: EditRuns


@dataclass(frozen=True)
class Edited:
    """A part after a step, and what the step did to it."""

    after: Part
    edits: Edits


# What comes from outside, cut to the parts


def share_of(rows: Rows, ranges: list[tuple[int, int]]) -> PerRange:
    """The rows of each range, which are in order of trajectories; what is nobody's is nobody's."""
    return PerRange([_cut(rows, first, last) for first, last in ranges])


def _cut(rows: Rows, first: int, last: int) -> Rows:
    lo, hi = np.searchsorted(rows.trajectory, [first, last])
    columns = {f.name: getattr(rows, f.name)[lo:hi] for f in fields(rows)}
    columns["trajectory"] = columns["trajectory"] - np.int32(first)
    return type(rows)(**columns)


def runs_of(runs: EditRuns, ranges: list[tuple[int, int]]) -> PerRange:
    """The runs of each range."""
    found = []
    for first, last in ranges:
        lo, hi = np.searchsorted(runs.trajectory, [first, last])
        begin, end = runs.offsets[lo], runs.offsets[hi]
        found.append(
            EditRuns(
                runs.operation,
                runs.trajectory[lo:hi] - np.int32(first),
                runs.location[lo:hi],
                runs.offsets[lo : hi + 1] - begin,
                runs.position[begin:end],
                runs.loss_mm[begin:end],
            )
        )
    return PerRange(found)


def column_of(column: Any, ranges: list[tuple[int, int]]) -> PerRange:
    """What each range has of a column with a row for each trajectory."""
    return PerRange([column[first:last] for first, last in ranges])


def _shifted(rows: Any, first: int) -> Any:
    return replace(rows, trajectory=rows.trajectory + np.int32(first))


# Counting and ranking


@dataclass(frozen=True)
class Ranked:
    """The places of each trajectory of a part, most telling first."""

    first: int
    frequencies: Frequencies
    """With TF of all."""
    signatures: Signatures


def rank(part: Part, known: KnownOfAll, size: int) -> Ranked:
    frequencies = replace(part.frequencies, tf=known.tf)
    return Ranked(part.first, frequencies, rank_places(frequencies, size, known.trajectories))


def candidates_of(ranked: Ranked) -> Flags:
    """Places that are in a signature of these trajectories."""
    return ranked.signatures.candidates


def lists_of(ranked: Ranked, candidates: Flags) -> PointLists:
    """The point lists of these trajectories; candidates: places in anybody's signature."""
    return point_lists(ranked.frequencies, replace(ranked.signatures, candidates=candidates))


def closed_of(ranked: Ranked, places: Locations, radius_m: float) -> PfTargets:
    """The targets that close the signatures of these trajectories."""
    targets = close_signatures(ranked.frequencies, ranked.signatures, places, radius_m)
    found: PfTargets = _shifted(targets, ranked.first)
    return found


def visits_of(part: Part, chosen: Flags) -> Ints:
    """How many of the chosen places each trajectory visits."""
    frequencies = part.frequencies
    seen = np.append(chosen[frequencies.location], False).astype(np.int64)
    visited = (
        np.add.reduceat(seen, frequencies.offsets[:-1]) if len(part.trajectories) else seen[:0]
    )
    visited[np.diff(frequencies.offsets) == 0] = 0
    return visited


# The global step


def carriers_of(part: Part, places: Locations, drop: Ints, rank: Ints) -> Carriers:
    """Those of these trajectories that may have to lose a place."""
    found: Carriers = _shifted(
        cheapest_carriers(part.trajectories, places, part.frequencies, drop, rank), part.first
    )
    return found


def thin(part: Part, places: Locations, carriers: Carriers) -> Thin:
    """Take places from their carriers."""
    deletions = delete_from(part.trajectories, places, carriers)
    return Thin(part.first, delete(part.trajectories, deletions), deletions)


def takers_of(
    thin: Thin, places: Locations, targets: TfTargets, rank: Ints, search: Search
) -> Found:
    """Those of these trajectories that may have to take a place in."""
    found = find_takers(thin.thinned, places, targets, rank, search)
    shift = np.int32(thin.first)
    return replace(found, trajectory=found.trajectory + shift, empty=found.empty + shift)


def thicken(
    thin: Thin, places: Locations, insertions: EditRuns, clock: Clock, key: np.uint64
) -> Edited:
    """Put places into their takers, where these have time for them."""
    insertions = find_room(thin.thinned, places, insertions, clock)
    after = insert(thin.thinned, insertions, places, clock, key, thin.first)
    return Edited(Part(thin.first, after, len(places)), Edits(thin.deletions, insertions))


# The local step


def edit_locally(
    part: Part,
    places: Locations,
    targets: PfTargets,
    clock: Clock,
    spread_mm: int,
    key: np.uint64,
) -> Edited:
    """Delete and insert until the targets of these trajectories hold."""
    deletions = delete_locally(part.trajectories, places, targets)
    thinned = delete(part.trajectories, deletions)
    insertions = insert_locally(thinned, places, targets, clock, spread_mm)
    after = insert(thinned, insertions, places, clock, key, part.first)
    return Edited(Part(part.first, after, len(places)), Edits(deletions, insertions))


# What was done, and whether it holds


def after_of(edited: Edited) -> Part:
    return edited.after


def edits_of(edited: Edited) -> Edits:
    """What was done, with the numbers that the trajectories have among all."""
    first, edits = edited.after.first, edited.edits
    return Edits(_shifted(edits.deletions, first), _shifted(edits.insertions, first))


def totals_of(edits: Edits) -> list[tuple[int, int]]:
    """How many deletions, how many insertions, and the millimetres that each lose."""
    return [(r.edits, int(r.loss_mm.sum())) for r in (edits.deletions, edits.insertions)]


def replay(part: Part, edits: Edits, places: Locations, clock: Clock, key: np.uint64) -> Part:
    """The part after edits that were stored; raises VerificationFailed if they cannot be."""
    own = Edits(_shifted(edits.deletions, -part.first), _shifted(edits.insertions, -part.first))
    require_possible(part.trajectories, own, len(places))
    after = apply_edits(part.trajectories, own, places, clock, key, part.first)
    return replace(part, trajectories=after)


def pf_of(part: Part, targets: PfTargets) -> Ints:
    """PF of each (trajectory, location) of the targets; 0 where it is absent."""
    return reached_pf(part.frequencies, targets)


def falling_of(part: Part) -> int:
    """How many times go backwards."""
    return falling_times(part.trajectories)


def coarsen(part: Part, step_us: int) -> Part:
    """Round every time down."""
    return replace(part, trajectories=coarsen_times(part.trajectories, step_us))
