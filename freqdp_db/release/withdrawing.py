"""Take a release back."""

from __future__ import annotations

from freqdp_db.errors import Busy, FreqdpError, NotFound, SchemaInUse
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.connection.locks import hold
from freqdp_db.storage.published import staging
from freqdp_db.storage.published.current import show_late
from freqdp_db.storage.published.granting import drop_release, revoke_release
from freqdp_db.storage.records import releases, requests
from freqdp_db.storage.records.builds import sweep_builds
from freqdp_db.storage.records.releases import ReleaseRow


def withdraw(database: Database, release: ReleaseRow) -> str | None:
    """Take a release back, or give up one that is not finished. Refunds nothing.

    From here on nobody but curators can read it. Returns what keeps its tables from being dropped:
    that is done by the next sweep, or by the next call.
    """
    left = None
    with hold(database, "release", release.release_id, f"release {release.name!r}"):
        # looked at again under the lock: somebody may have finished it or taken it back
        release = releases.get_release(database, release.release_id)
        state = release.state
        if state == "published":
            revoke_release(database, release)
        if state in ("published", "withdrawing"):
            left = _drop(database, release)
        elif state == "running":
            staging.drop_staging(database, release.release_id)
            requests.give_up(database, release.release_id)
        else:
            raise NotFound(
                f"release {release.name!r} was withdrawn before",
                remedy="`freqdp release list` shows what there is",
            )
    sweep_builds(database)
    return left


def finish_late(database: Database) -> None:
    """What readers were in the way of: drop what was withdrawn, show what was published, meanwhile."""
    show_late(database)
    for release in releases.list_releases(database, state="withdrawing"):
        try:
            with hold(database, "release", release.release_id, f"release {release.name!r}"):
                if releases.get_release(database, release.release_id).state == "withdrawing":
                    _drop(database, release)
        except FreqdpError:
            continue  # left to the next sweep: the work that was done has succeeded


def _drop(database: Database, release: ReleaseRow) -> str | None:
    try:
        drop_release(database, release)
    except SchemaInUse as error:
        return f"{error.message} ({error.remedy})"
    except Busy:
        return "a session is still reading it"
    return None
