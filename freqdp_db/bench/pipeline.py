"""`freqdp bench pipeline`: build and anonymize by stage, beside the copy floor, in one run."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

from freqdp_db.bench.installation import Workbench
from freqdp_db.dataset.building import build
from freqdp_db.progress import Progress
from freqdp_db.release.pipeline import anonymize
from freqdp_db.release.request import Request
from freqdp_db.storage.bench.floor import measure_floor
from freqdp_db.storage.records.builds import find_build
from freqdp_db.storage.records.datasets import find_dataset


@dataclass(frozen=True)
class PipelineRun:
    """One size."""

    trajectories: int
    samples: int
    floor_s: float
    floor_parts: dict[str, float]
    build_s: float
    build_stages: dict[str, float]
    anonymize_s: float
    """From start to published, with the check, which goes on beside the indexes."""
    anonymize_stages: dict[str, float]
    peak_rss_mb: float
    """Of this process so far."""

    @property
    def ratios(self) -> dict[str, float]:
        """Against the copy floor."""
        return {
            "build": self.build_s / self.floor_s,
            "anonymize_and_verify": self.anonymize_s / self.floor_s,
        }

    def document(self) -> dict[str, object]:
        return {**asdict(self), "ratios": self.ratios}


def bench_pipeline(
    bench: Workbench, size: int, request: Request, seed: int, progress: Callable[[], Progress]
) -> PipelineRun:
    """Build and anonymize so many objects."""
    database = bench.database
    preparing = progress()
    with preparing.stage(f"take {size:,} objects"):
        dataset = bench.register(size, seed)
    building = progress()
    start = time.perf_counter()
    built = build(database, dataset, building)
    build_s = time.perf_counter() - start
    with preparing.stage("copy floor"):
        measured = measure_floor(database, built.build_id)
    releasing = progress()
    start = time.perf_counter()
    anonymize(database, find_dataset(database, dataset.name), request, releasing)
    seconds = time.perf_counter() - start
    row = find_build(database, built.build_id)
    return PipelineRun(
        trajectories=row.trajectories,
        samples=row.samples,
        floor_s=measured.total_s,
        floor_parts=asdict(measured),
        build_s=build_s,
        build_stages=building.seconds,
        anonymize_s=seconds,
        anonymize_stages=releasing.seconds,
        peak_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


def growth_exponent(runs: list[PipelineRun]) -> float | None:
    """Slope of log(seconds) over log(trajectories); None for fewer than two sizes."""
    sizes = np.array([run.trajectories for run in runs], np.float64)
    if len(set(sizes.tolist())) < 2:
        return None
    seconds = np.array([run.anonymize_s for run in runs])
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
