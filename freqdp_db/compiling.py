"""Compile the kernels once after installation, on two cores, where a person can see it.

numba compiles a kernel when it is first called and keeps the result beside the source (or in the
user's cache, where that cannot be written). Left alone, that would make half a minute of a first
job inexplicably slow. So the first command that needs kernels runs methods on a handful of samples
first, in two processes, each with half of the kernels, and leaves a mark. What the mark stands for
may be gone (another Python, another processor): then the kernels compile as they are called.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from functools import cache
from pathlib import Path

import numba
import numpy as np

import freqdp_db
from freqdp_db.progress import Progress

# Together they call what lg+swap+cut calls; the first also what a build and a table call. Kernels of
# strict and of the evaluation take as long again to compile: they do so when they are first called.
_PARTS = {"build": "pure-l", "release": "pure-g+swap+cut"}


def compile_kernels(progress: Progress) -> None:
    """Compile what a build and most releases call, unless that was done before."""
    mark = _mark()
    if mark.exists():
        return
    with progress.stage("compile, only once"):
        halves = [
            subprocess.Popen([sys.executable, "-m", __name__, part], stdout=subprocess.DEVNULL)
            for part in _PARTS
        ]
        try:
            failed = [half for half in halves if half.wait() != 0]
        except BaseException:
            for half in halves:
                half.terminate()
            raise
    if failed:
        progress.note("The kernels could not be compiled ahead; they will be when they are called.")
        return
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()


@cache
def _mark() -> Path:
    """A file whose name stands for this source, this numba and this machine."""
    stamp = hashlib.sha256()
    package = Path(freqdp_db.__file__).parent
    for path in sorted(package.rglob("*.py")):
        stamp.update(f"{path} {path.stat().st_mtime_ns}".encode())
    for part in (sys.version, numba.__version__, np.__version__, platform.machine()):
        stamp.update(part.encode())
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "freqdp" / f"compiled-{stamp.hexdigest()[:16]}"


def _run(part: str) -> None:
    """A job of a handful of samples, as far as this part goes."""
    from freqdp_db.dataset import cleaning
    from freqdp_db.dataset.cleaning import snap_grid
    from freqdp_db.methods.contract import StepContext
    from freqdp_db.methods.loop import Trial, run_steps
    from freqdp_db.methods.parameters import read
    from freqdp_db.methods.registry import find_method
    from freqdp_db.model.arrays import offsets_of
    from freqdp_db.model.trajectories import Build, Clock, Trajectories
    from freqdp_db.privacy.noise import SeededSource
    from freqdp_db.search.grid import file_trajectories

    count, objects = 240, 6
    number = np.arange(count)
    rows = cleaning.Rows(
        number * objects // count,
        number * 1_000_000,
        (number * number % 7).astype(np.float64) * 100.0,
        (number * number % 11).astype(np.float64) * 100.0,
    )
    excluded: dict[str, int] = {}
    rows = cleaning.drop_repeats(cleaning.sort_rows(rows), excluded)
    snapped = snap_grid(rows.x, rows.y, 100.0)
    places = snapped.locations
    offsets = offsets_of(rows.object, objects)
    original = Trajectories(offsets, snapped.of_row, rows.at, rows.at[offsets[:-1]])
    build = Build(original, places, Clock(1_000_000, 1_000_000), srid=32631, source_srid=4326)
    if part == "build":
        file_trajectories(original, places, cut=False)
    method = find_method(_PARTS[part])
    values = read(method.parameters, {}, method.name, text=False)
    trial = Trial(lambda step: SeededSource(1, step))
    run_steps(method, values, StepContext(build), trial, Progress())


if __name__ == "__main__":
    _run(sys.argv[1])
