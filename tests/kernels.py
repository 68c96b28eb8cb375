"""Compiles what `compile_kernels` leaves out and many tests call: or every worker would, for itself.

Each part is a process: what all evaluations call is in the first.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PARTS = {
    "paper": ["lg", "klt", "w4m"],
    "others": ["swap+cut", "glove", "strict", "adatrace", "dpt"],
}
NEEDED = {"klt": {"poi": "demo.poi", "category": "kind", "k": "2"}}
_FOLDER = Path(__file__).parent


def compile_for_tests(many: bool) -> None:
    """many: there will be several workers."""
    from freqdp_db.compiling import _mark, compile_kernels
    from freqdp_db.progress import Progress

    compile_kernels(Progress())
    mark = _mark().with_suffix(".tests")
    if not many or mark.exists():
        return
    parts = [subprocess.Popen([sys.executable, __file__, part], cwd=_FOLDER) for part in PARTS]
    ended = [part.wait() for part in parts]
    if not any(ended):
        mark.touch()


def _run(methods: list[str]) -> None:
    """Measure releases of a few walks."""
    import numpy as np
    from synthetic_world import PERIOD, REGION, small_city

    from freqdp_db.evaluation.attacks.exposure import measure_exposure
    from freqdp_db.evaluation.evaluate import measure_release, run_trial
    from freqdp_db.evaluation.pair import Case
    from freqdp_db.methods.contract import StepContext
    from freqdp_db.methods.registry import find_method
    from freqdp_db.model.trajectories import Build, Clock, Points
    from freqdp_db.release.request import Request

    build = Build(*small_city(20, 1), Clock(1_000_000, 60_000_000), 32631, 32631)
    poi = Points(*10_000.0 * np.ones((2, 9)), np.arange(9, dtype=np.int32), tuple("abcdefghi"))
    world = StepContext(build, inputs={"poi": poi}, facts=lambda region, period: (REGION, PERIOD))
    for method in methods:
        request = Request.parse(method, **NEEDED.get(method, {}))
        state, _ = run_trial(request, world, 1)
        case = Case.of(build, state, request.values)
        measure_exposure(case, 1)
        measure_release(case, find_method(method).kind, 1)


if __name__ == "__main__":
    sys.path.insert(0, str(_FOLDER.parent))
    _run(PARTS[sys.argv[1]])
