"""Compile the kernels once after installation, on two cores, where a person can see it.

numba compiles a kernel when it is first called and keeps the result beside the source (or in the
user's cache, where that cannot be written). Left alone, that would make half a minute of a first
job inexplicably slow. So the first command that needs kernels runs a job of a handful of samples
first, in two processes, each with half of the kernels, and leaves a mark. What the mark stands for
may be gone (another Python, another processor): then the kernels compile as they are called.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np

import freqdp_db
from freqdp_db.progress import Progress

_PARTS = ("build", "release")


def compile_kernels(progress: Progress) -> None:
    """Compile everything that a build and a release call, unless that was done before."""
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
    from fractions import Fraction

    from freqdp_db.columns.ragged import offsets_of
    from freqdp_db.columns.trajectories import Clock, Trajectories
    from freqdp_db.dataset import cleaning
    from freqdp_db.dataset.snapping import snap_grid
    from freqdp_db.edits.applying import delete, insert
    from freqdp_db.edits.deletion import delete_globally, delete_locally
    from freqdp_db.edits.insertion import insert_globally, insert_locally
    from freqdp_db.frequency.counts import count_frequencies
    from freqdp_db.frequency.signatures import rank_places
    from freqdp_db.mechanisms.global_tf import perturb_tf
    from freqdp_db.mechanisms.local_pf import perturb_pf
    from freqdp_db.mechanisms.noise import SeededSource
    from freqdp_db.search.filing import file_trajectories
    from freqdp_db.storage.copy.wire import decode_runs, encode_lines, encode_runs

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
    state = Trajectories(offsets, snapped.of_row, rows.at, rows.at[offsets[:-1]])
    clock, source = Clock(1_000_000, 1_000_000), SeededSource(1, 1)
    frequencies = count_frequencies(state, len(places))
    signatures = rank_places(frequencies, 2)
    if part == "build":
        file_trajectories(state, places, cut=False)
        targets = perturb_pf(frequencies, signatures, Fraction(1, 2), source)
        deletions = delete_locally(state, places, targets)
        thinned = delete(state, deletions)
        insertions = insert_locally(thinned, places, targets, clock, 500_000)
        state = insert(thinned, insertions, places, clock)
        for runs in (deletions, insertions):
            encode_runs(runs, 1, 1)
            decode_runs([np.zeros(0, np.uint8)], runs.operation)
        seconds = state.at / 1e6
        encode_lines(
            np.arange(objects, dtype=np.int64), state.offsets[:-1], state.lengths, state.location,
            places.x, places.y, seconds, 4326,
        )  # fmt: skip
    else:
        rank = np.arange(objects)
        tf_targets = perturb_tf(frequencies, signatures.candidates, Fraction(1, 2), source)
        thinned = delete(state, delete_globally(state, places, frequencies, tf_targets, rank))
        insert_globally(thinned, places, tf_targets, rank)


if __name__ == "__main__":
    _run(sys.argv[1])
