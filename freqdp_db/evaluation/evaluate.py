"""Evaluate a release: read D and D*, measure, store what was measured."""

from __future__ import annotations

from freqdp_db.dataset.memory import load_build
from freqdp_db.errors import BadInput
from freqdp_db.evaluation.attacks.exposure.case import Case
from freqdp_db.evaluation.attacks.recovery import recovery_attack
from freqdp_db.evaluation.metrics import PUBLISHABLE, measure_release
from freqdp_db.progress import Progress
from freqdp_db.release.inputs import make_world
from freqdp_db.release.request import Request
from freqdp_db.release.verification import released_relations, replay, require_published
from freqdp_db.roads.tables import RoadTable
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.records.builds import find_build
from freqdp_db.storage.records.metrics import store_metrics
from freqdp_db.storage.records.releases import ReleaseRow

DEFAULT_SEED = 1


def evaluate(
    database: Database,
    release: ReleaseRow,
    progress: Progress,
    seed: int = DEFAULT_SEED,
    roads: RoadTable | None = None,
) -> dict[str, float]:
    """Measure a published release against the build it was made from, and store the numbers.

    With roads, the recovery attack as well.
    """
    require_published(release, "measured")
    build = find_build(database, release.build_id)
    # roads first: a wrong name is refused before the long work
    network = None if roads is None else roads.network(database, build.srid, progress)
    case = load_case(database, release, progress)
    values = measure_release(case, release.kind, seed, progress)
    if network is not None and len(case.pair.released) != len(case.pair.original):
        progress.note("The recovery attack needs a trajectory for each object: it is left out.")
    elif network is not None:
        values |= recovery_attack(case.pair, network, progress)
    store_metrics(database, release.release_id, values, PUBLISHABLE, seed)
    return values


def check_seed(seed: int) -> None:
    if not 0 <= seed < 2**63:
        raise BadInput(
            f"--seed {seed} is not a whole number from 0 to 2^63 - 1", remedy="for example --seed 1"
        )


def load_case(database: Database, release: ReleaseRow, progress: Progress) -> Case:
    """D as built, and D* as it stands in the released table: replayed, and compared row by row."""
    require_published(release, "measured")
    build = load_build(database, release.build_id, progress)
    relations = released_relations(database, release.name)
    request = Request.of(release)
    world = make_world(database, build, request.method, request.values)
    _, state = replay(database, release, relations, world, progress)
    return Case.of(build, state, request.values.get("time_step"))
