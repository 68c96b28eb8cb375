"""What stands between a release that is held and analysts: how much it was found to expose."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from freqdp_db.engines.partitions import LOCAL, Engine
from freqdp_db.evaluation.attacks.exposure import is_exposure
from freqdp_db.evaluation.evaluate import evaluate
from freqdp_db.evaluation.metrics import EXPOSED
from freqdp_db.progress import Progress
from freqdp_db.release.approving import Exposure, approve, require_held
from freqdp_db.release.verification import Replayed
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.records.datasets import get_dataset
from freqdp_db.storage.records.metrics import load_metrics
from freqdp_db.storage.records.releases import ReleaseRow


def exposure_in(values: Mapping[str, float]) -> Exposure | None:
    """Of what was measured of a release; None: that was not measured."""
    if EXPOSED not in values:
        return None
    half = (value for name, value in values.items()
            if name.endswith(".half") and is_exposure(name.removesuffix(".half")))  # fmt: skip
    return Exposure(values[EXPOSED], max(half, default=0.0))


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
    """Grant a release that is held. If its dataset has a limit, it is measured first, unless it was.

    replaces: releases that the caller withdraws as soon as this one is granted. replayed: what was verified
    of it just now, if it was made here.
    """
    require_held(release)
    measured = measured_exposure(database, release)
    if measured is None and get_dataset(database, release.dataset_id).max_exposure is not None:
        measured = exposure_in(
            evaluate(database, release, progress, engine=engine, replayed=replayed)
        )
    return approve(database, release, measured, replaces), measured
