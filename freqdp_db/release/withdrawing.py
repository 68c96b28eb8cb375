"""Take a release back."""

from __future__ import annotations

from freqdp_db.errors import NotFound
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.connection.locks import hold
from freqdp_db.storage.published import staging
from freqdp_db.storage.published.withdrawing import withdraw_tables
from freqdp_db.storage.records import releases, requests
from freqdp_db.storage.records.builds import sweep_builds
from freqdp_db.storage.records.releases import ReleaseRow


def withdraw(database: Database, release: ReleaseRow) -> None:
    """Take a release back, or give up one that is not finished. Refunds nothing."""
    with hold(database, "release", release.release_id, f"release {release.name!r}"):
        # looked at again under the lock: somebody may have finished it or taken it back
        state = releases.get_release(database, release.release_id).state
        if state == "published":
            withdraw_tables(database, release.release_id, release.name)
        elif state == "running":
            staging.drop_staging(database, release.release_id)
            requests.give_up(database, release.release_id)
        else:
            raise NotFound(
                f"release {release.name!r} was withdrawn before",
                remedy="`freqdp release list` shows what there is",
            )
    sweep_builds(database)
