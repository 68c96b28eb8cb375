"""Evaluate a release: read D and D*, measure, store what was measured; approve within a limit."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import freqdp_db
from freqdp_db.dataset.road_tables import RoadTable
from freqdp_db.db.builds import find_build
from freqdp_db.db.connection import Database
from freqdp_db.db.datasets import get_dataset
from freqdp_db.db.releases import ReleaseRow, get_release, load_metrics, store_metrics
from freqdp_db.engines.partitions import LOCAL, Engine
from freqdp_db.errors import BadInput
from freqdp_db.evaluation.attacks.recovery import recovery_attack
from freqdp_db.evaluation.counts import measure_counts
from freqdp_db.evaluation.dealing import deal_out
from freqdp_db.evaluation.loading import load_case, require_measurable
from freqdp_db.evaluation.metrics import (
    EXPOSED,
    PUBLISHABLE,
    measure_piece,
    pieces_of,
    with_headlines,
)
from freqdp_db.evaluation.pair import Case
from freqdp_db.evaluation.series import HALF, half_exposed, measure_series, windows_around
from freqdp_db.progress import Progress
from freqdp_db.release.approving import Exposure, approve, require_held
from freqdp_db.release.request import Request
from freqdp_db.release.verification import Replayed
from freqdp_db.roads.network import Network

DEFAULT_SEED = 1
_RECOVERY = "recovery"


@dataclass(frozen=True)
class _ReleaseAsked:
    release_id: int
    seed: int
    roads: RoadTable | None
    case: Case | None
    """What it is read as, if it is here already."""


@dataclass(frozen=True)
class _Read:
    """What the pieces of an evaluation are measured in."""

    case: Case
    network: Network | None
    seed: int


def evaluate(
    database: Database,
    release: ReleaseRow,
    progress: Progress,
    seed: int = DEFAULT_SEED,
    roads: RoadTable | None = None,
    engine: Engine = LOCAL,
    replayed: Replayed | None = None,
) -> dict[str, float]:
    """Measure a published release against the build it was made from, and store the numbers.

    With roads, the recovery attack as well. replayed: what was verified of it just now.
    """
    if release.kind == "counts":
        counted = measure_counts(database, release, progress, seed)
        store_metrics(database, release.release_id, counted, PUBLISHABLE, seed)
        return counted
    require_measurable(release)
    case = None
    if replayed is not None and not engine.remote:
        case = Case.of(replayed.build, replayed.state, Request.of(release).values)
    asked = _ReleaseAsked(release.release_id, seed, roads, case)
    pieces = [*([] if roads is None else [_RECOVERY]), *pieces_of(release.kind)]
    build = find_build(database, release.build_id)
    found: dict[str, float] = {}
    with progress.stage("metrics", len(pieces), "pieces") as stage:
        for values in deal_out(engine, database, build, _read, asked, _measure, pieces, progress):
            found |= values
            stage.advance(1)
    if roads is not None and not any(name.startswith(_RECOVERY) for name in found):
        progress.note("The recovery attack needs a trajectory for each object: it is left out.")
    values = with_headlines(found)
    store_metrics(database, release.release_id, values, PUBLISHABLE, seed)
    return values


def _read(database: Database, asked: _ReleaseAsked, progress: Progress) -> _Read:
    release = get_release(database, asked.release_id)
    build = find_build(database, release.build_id)
    # roads first: a wrong name is refused before the long work
    roads = asked.roads
    network = None if roads is None else roads.network(database, build.srid, progress)
    case = load_case(database, release, progress) if asked.case is None else asked.case
    return _Read(case, network, asked.seed)


def _measure(read: _Read, piece: str, progress: Progress) -> dict[str, float]:
    if piece != _RECOVERY:
        return measure_piece(read.case, piece, read.seed, progress)
    pair = read.case.pair
    if read.network is None or len(pair.released) != len(pair.original):
        return {}
    return recovery_attack(pair, read.network, progress)


def check_seed(seed: int) -> None:
    if not 0 <= seed < 2**63:
        raise BadInput(
            f"[[seed]] {seed} is not a whole number from 0 to 2^63 - 1",
            remedy="for example [[seed]] 1",
        )


# What stands between a release that is held and analysts: how much it was found to expose.


def exposure_in(values: Mapping[str, float]) -> Exposure | None:
    """Of what was measured of a release; None: that was not measured."""
    return Exposure(values[EXPOSED], half_exposed(values)) if EXPOSED in values else None


def measured_exposure(database: Database, release: ReleaseRow) -> Exposure | None:
    """As it was measured last; None if it never was."""
    return exposure_in({m.name: m.value for m in load_metrics(database, release.release_id)})


def approve_within_limit(
    database: Database,
    release: ReleaseRow,
    progress: Progress,
    replaces: Collection[str] = (),
    engine: Engine = LOCAL,
    replayed: Replayed | None = None,
) -> tuple[ReleaseRow, Exposure | None]:
    """Grant a release that is held. If its dataset has a limit, this version has to have measured it.

    A window is measured together with the others of its series, too: both have to be within the limit.
    replaces: releases that the caller withdraws as soon as this one is granted. replayed: what was verified
    of it just now, if it was made here.
    """
    require_held(release)
    measured = measured_exposure(database, release)
    if get_dataset(database, release.dataset_id).max_exposure is not None:
        if measured is None or not _is_up_to_date(database, release):
            measured = exposure_in(
                evaluate(database, release, progress, engine=engine, replayed=replayed)
            )
        if measured is not None and release.is_in_table:
            measured = _worse(measured, _exposure_of_series(database, release, progress))
    return approve(database, release, measured, replaces), measured


def _is_up_to_date(database: Database, release: ReleaseRow) -> bool:
    """Whether the attackers of this version measured it, with the seed that everybody has.

    A release that this version made was measured by no earlier one.
    """
    found = {metric.name: metric.seed for metric in load_metrics(database, release.release_id)}
    return release.software == freqdp_db.__version__ and found[EXPOSED] == DEFAULT_SEED


def _exposure_of_series(
    database: Database, release: ReleaseRow, progress: Progress
) -> Exposure | None:
    """Of a window together with those of its series that analysts have; None: there are none."""
    windows = windows_around(database, release)
    number = len(windows)
    if number == 1:
        return None
    values = measure_series(database, release, windows, progress, DEFAULT_SEED, [number])[number]
    return Exposure(values[EXPOSED], values[HALF], number)


def _worse(one: Exposure, other: Exposure | None) -> Exposure:
    return one if other is None or one.largest >= other.largest else other
