"""`w4m`, to compare with: clusters of objects, moved until they are near each other at all times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from freqdp_db.errors import VerificationFailed
from freqdp_db.methods.contract import (
    CompletedStep,
    Counts,
    EmptyLog,
    Method,
    Step,
    StepContext,
    StoredStep,
    WorkingSet,
)
from freqdp_db.methods.k_anonymity.glove import (
    ASSUMED_PUBLIC,
    LARGEST_K,
    object_artefact,
    require_enough,
)
from freqdp_db.methods.kinds import Choice, Number, Whole
from freqdp_db.methods.parameters import parameter
from freqdp_db.model.arrays import Ids, Ints, offsets_from
from freqdp_db.model.trajectories import Locations, Trajectories
from freqdp_db.privacy.guarantee import Guarantee, ProtectedUnit
from freqdp_db.privacy.noise import RandomSource


@dataclass(frozen=True)
class W4mOptions:
    k: int = parameter(Whole(2, LARGEST_K, "5"), "So many objects are made alike at least.", 5)
    delta: Decimal = parameter(
        Number(Decimal(100_000), "1000", unit="metres"),
        "Objects of a cluster are never further apart than so many metres.",
        Decimal(1000),
    )
    trash: Decimal = parameter(
        Number(Decimal(100), "10", unit="per cent", decimals=3),
        "So many per cent of the objects may be left out because they are like nobody.",
        Decimal(10),
    )
    distance: str = parameter(
        Choice(("lstd", "edr")),
        "How alike two objects are: lstd compares them at equal shares of their time, edr counts "
        "the samples that have no like in the other.",
        "lstd",
    )


@dataclass(frozen=True)
class W4mLog:
    """The clusters: nothing has to be searched again."""

    offsets: Ints
    member: Ids
    """Trajectories of the step's input, the pivot of each cluster first."""
    matched: Ints
    """One number: samples that were matched with one of a pivot's; the others were created."""

    def __len__(self) -> int:
        return len(self.member)


class W4mStep(Step[W4mOptions, EmptyLog, W4mLog]):
    name = "w4m"
    words = "where and when the objects of a cluster were"
    options = W4mOptions
    draws = EmptyLog
    logs = W4mLog
    checked: ClassVar[dict[str, str]] = {
        "clusters": "clusters of at least k objects, never further apart than delta",
        "instants": "instants at which that holds",
        "trash": "objects left out",
    }

    def draw(
        self, world: StepContext, state: WorkingSet, options: W4mOptions, source: RandomSource
    ) -> EmptyLog:
        return EmptyLog()

    def carry_out(
        self, world: StepContext, state: WorkingSet, drawn: EmptyLog, options: W4mOptions
    ) -> tuple[W4mLog, WorkingSet]:
        from freqdp_db.paper.clusters import compare, find_clusters

        there = np.flatnonzero(state.trajectories.lengths > 0)
        distances = compare(
            state.trajectories.take(there), state.places, float(options.delta),
            edr=options.distance == "edr",
        )  # fmt: skip
        offsets, member = find_clusters(distances, options.k, _most_trash(options, len(there)))
        logged = W4mLog(offsets, there[member].astype(np.int32), np.zeros(1, np.int64))
        after, matched = _moved(state, logged, options)
        return replace(logged, matched=np.array([matched], np.int64)), after

    def replay(self, done: StoredStep[W4mOptions, EmptyLog, W4mLog]) -> WorkingSet:
        return _moved(done.before, done.logged, done.options)[0]

    def check(self, done: CompletedStep[W4mOptions, EmptyLog, W4mLog]) -> dict[str, int]:
        """Refuse a cluster of too few, two members ever too far apart, or too much left out."""
        before, logged, after, options = done.before, done.logged, done.after, done.options
        old, new = before.trajectories, after.trajectories
        offsets, member, delta_m = logged.offsets, logged.member, float(options.delta)
        most = _most_trash(options, int((old.lengths > 0).sum()))
        if len(new) != len(old) or not np.array_equal(before.key, after.key):
            raise VerificationFailed("the trajectories are not those of the objects")
        if len(np.unique(member)) != len(member):
            raise VerificationFailed("an object is in two clusters")
        kept = np.zeros(len(old), np.bool_)
        kept[member] = True
        if new.lengths[~kept].any():
            raise VerificationFailed("an object of no cluster was released")
        trash = int((~kept & (old.lengths > 0)).sum())
        if trash > most and len(member):
            raise VerificationFailed(f"{trash:,} objects were left out; {most:,} may be")
        instants = 0
        for begin, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            if end - begin < options.k:
                raise VerificationFailed("a cluster has fewer objects than k")
            parts = [slice(*new.offsets[m : m + 2].tolist()) for m in member[begin:end].tolist()]
            times = new.at[parts[0]]
            if not all(np.array_equal(new.at[p], times) for p in parts):
                raise VerificationFailed("members of a cluster have different times")
            x = [after.places.x[new.location[p]] for p in parts]
            y = [after.places.y[new.location[p]] for p in parts]
            for a, b in combinations(range(len(parts)), 2):
                if (np.hypot(x[a] - x[b], y[a] - y[b]) > delta_m).any():
                    raise VerificationFailed(
                        "two members of a cluster are further apart than delta"
                    )
            instants += len(times)
        return {"clusters": len(offsets) - 1, "instants": instants, "trash": trash}

    def require_possible(self, options: W4mOptions, objects: int, samples: int) -> None:
        require_enough(options.k, objects)

    def counts(self, done: CompletedStep[W4mOptions, EmptyLog, W4mLog]) -> Counts:
        sizes = np.diff(done.logged.offsets)
        return {
            "clusters": len(sizes),
            "largest_cluster": int(sizes.max(initial=0)),
            "trash": int((done.before.trajectories.lengths > 0).sum()) - len(done.logged.member),
            "samples": done.before.samples,
            "rows": done.after.samples,
            "matched": int(done.logged.matched[0]),
        }

    def describe(self, drawn: int, counts: Counts) -> str:
        created = int(counts["rows"] - counts["matched"])
        return (
            f"{int(counts['clusters']):,} clusters of up to {int(counts['largest_cluster']):,} "
            f"objects, {int(counts['trash']):,} objects left out; {int(counts['rows']):,} samples, "
            f"of which {created:,} were created"
        )


def _most_trash(options: W4mOptions, objects: int) -> int:
    return int(options.trash * objects // 100)


def _moved(state: WorkingSet, logged: W4mLog, options: W4mOptions) -> tuple[WorkingSet, int]:
    """One trajectory of each object, empty for those left out; and how many samples are matched."""
    from freqdp_db.paper.clusters import compare, move_together

    old, delta = state.trajectories, float(options.delta)
    distances = compare(
        old.take(logged.member.astype(np.int64)), state.places, delta, edr=options.distance == "edr"
    )
    lengths = np.zeros(len(old), np.int64)
    sizes = np.diff(logged.offsets)
    lengths[logged.member] = np.repeat(old.lengths[logged.member[logged.offsets[:-1]]], sizes)
    offsets = offsets_from(lengths)
    x, y = np.empty(offsets[-1]), np.empty(offsets[-1])
    at = np.empty(offsets[-1], np.int64)
    start = old.start.copy()
    matched = 0
    for c in range(len(sizes)):
        here = np.arange(logged.offsets[c], logged.offsets[c + 1], dtype=np.int32)
        moved_x, moved_y, pairs = move_together(distances, here, delta)
        times = distances.at[distances.offsets[here[0]] : distances.offsets[here[0] + 1]]
        for number, member in enumerate(logged.member[here].tolist()):
            part = slice(int(offsets[member]), int(offsets[member + 1]))
            x[part], y[part], at[part] = moved_x[number], moved_y[number], times
            start[member] = times[0]
            matched += int(pairs[number].sum())
    location = np.arange(len(at), dtype=np.int32)
    trajectories = Trajectories(offsets, location, at, start)
    return replace(state, trajectories=trajectories, places=Locations(x, y)), matched


def w4m_guarantee(values: Mapping[str, Any], protected: ProtectedUnit) -> Guarantee:
    k, delta = values["k"], values["delta"]
    return Guarantee(
        plain=[
            f"At the time of each sample of a trajectory at least {k - 1} others have a sample too, "
            f"within {delta} m of it.",
            "That is not k-anonymity: each object keeps a trajectory of its own, and whoever looks "
            "for the nearest may well find it again.",
        ],
        artefacts={"trajectories": object_artefact(None, "nothing is claimed for one trajectory")},
        titles={"trajectories": "One trajectory by itself"},
        assumed_public=ASSUMED_PUBLIC,
        not_protected=[
            "whose a trajectory is, for whoever knows about where an object was",
            "the join with another release of the same source",
        ],
        origin="Abul, Bonchi, Nanni: Anonymization of moving objects databases by clustering and "
        "perturbation (Information Systems 2010).",
    )


W4M = Method(
    "w4m",
    "moves the objects of a cluster until they are near each other at all times",
    (W4mStep(),),
    kind="generalised",
    guarantee=w4m_guarantee,
    moves_objects=True,
    explains="Each trajectory is one object's, moved in place and time until others are near it "
    "at all times: moved, not coarse, and not k-anonymous. Count places and flows coarsely; do "
    "not read the points as positions.",
)
