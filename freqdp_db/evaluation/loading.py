"""Read a dataset and a release of it from the database, side by side."""

from __future__ import annotations

from freqdp_db.dataset.memory import load_build
from freqdp_db.db.connection import Database
from freqdp_db.db.releases import ReleaseRow
from freqdp_db.errors import BadInput
from freqdp_db.evaluation.pair import Case
from freqdp_db.methods.registry import find_method
from freqdp_db.progress import Progress
from freqdp_db.release.inputs import make_world
from freqdp_db.release.request import Request
from freqdp_db.release.verification import released_state, require_published


def require_measurable(release: ReleaseRow) -> None:
    """Refuse what is not published, or has no trajectories."""
    require_published(release, "measured")
    if find_method(release.method).publishes:
        raise BadInput(
            f"release {release.name!r} has no trajectories: there is nothing to measure them by",
            remedy="evaluate a release by another method",
        )


def load_case(database: Database, release: ReleaseRow, progress: Progress) -> Case:
    """D as built, and D* as it stands in the released table, which is what was verified."""
    require_measurable(release)
    build = load_build(database, release.build_id, progress)
    request = Request.of(release)
    world = make_world(database, build, request.method, request.values, release=release.name)
    state = released_state(database, release, world, progress)
    return Case.of(build, state, request.values)
