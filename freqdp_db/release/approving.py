"""Grant a release that was held, if its dataset's limit allows it; take a release back."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from dataclasses import dataclass
from math import ceil

from freqdp_db.dataset.text_values import in_percent
from freqdp_db.db import releases, staging
from freqdp_db.db.builds import find_build, sweep_builds
from freqdp_db.db.connection import Connection, Database, hold
from freqdp_db.db.datasets import get_dataset
from freqdp_db.db.published import approve_release, drop_release, revoke_release, show_pending
from freqdp_db.db.releases import ReleaseRow, get_release, lock_same_rows
from freqdp_db.errors import BadInput, Busy, FreqdpError, NotFound, SchemaInUse, TooExposed
from freqdp_db.release.conflicts import refuse_conflicting_releases
from freqdp_db.release.request import Request
from freqdp_db.release.verification import require_published


@dataclass(frozen=True)
class Exposure:
    """What was measured of a release: no guarantee, what the attackers that were tried found."""

    learnt: float
    """Of a person's samples on average, by the best of all attackers."""
    half: float
    """Share of persons of whom an attacker learns more than half."""
    windows: int = 1
    """Of so many windows of its series together, where they expose more than the release alone."""

    @property
    def largest(self) -> float:
        return max(self.learnt, self.half)

    def require_within(self, release: str, limit: float, dataset: str) -> None:
        """Refuse a release that was found to expose more than its dataset allows."""
        found = self.largest
        if found > limit:
            named = shlex.quote(dataset)
            beside = self.windows - 1
            together = f" together with {beside} more of its series" if beside else ""
            raise TooExposed(
                f"release {release!r}{together} exposes more than the dataset allows "
                f"({in_percent(limit)} of a person): an attacker learns {self.learnt:.1%} of a "
                f"person's samples on average, and of {self.half:.1%} of the persons more than half. "
                "It stays held: analysts cannot read it",
                remedy=f"choose another method (`freqdp recommend {named}`), or accept more (`freqdp "
                f"dataset set {named} --max-exposure {ceil(100 * found)}%`)",
            )


def require_held(release: ReleaseRow) -> None:
    """Refuse what is not there to be approved."""
    require_published(release, "approved")
    if not release.grantable:
        raise BadInput(
            f"release {release.name!r} is never granted to analysts: its noise was seeded, or its "
            "method guarantees nothing",
            remedy="it stays for curators; for analysts, make one without [[seed]], by a method that may "
            "be granted",
        )
    if not release.held:
        raise BadInput(
            f"release {release.name!r} is not held: analysts may read it",
            remedy="`freqdp release list` shows which are held",
        )


def approve(
    database: Database,
    release: ReleaseRow,
    measured: Exposure | None,
    replaces: Collection[str] = (),
) -> ReleaseRow:
    """Let analysts read a release that was held. `measured`: needed if its dataset has a limit.

    replaces: releases that the caller withdraws as soon as this one is granted.
    """
    with hold(database, "release", release.release_id, f"release {release.name!r}"):
        # looked at again under the lock: somebody may have approved it or taken it back
        release = get_release(database, release.release_id)
        require_held(release)
        dataset = get_dataset(database, release.dataset_id)
        if dataset.max_exposure is not None:
            if measured is None:
                raise BadInput(
                    f"release {release.name!r} was not measured, and its dataset has a limit",
                    remedy=f"freqdp evaluate {shlex.quote(release.name)}",
                )
            measured.require_within(release.name, dataset.max_exposure, dataset.name)

        def require_no_conflict(connection: Connection) -> None:
            lock_same_rows(connection, dataset.account_id)
            refuse_conflicting_releases(
                connection, dataset, Request.of(release), None,
                build=find_build(database, release.build_id), replaces=replaces,
            )  # fmt: skip

        approve_release(database, release, require_no_conflict)
    return get_release(database, release.release_id)


# Take a release back.


def withdraw(database: Database, release: ReleaseRow) -> str | None:
    """Take a release back, or give up one that is not finished. Refunds nothing.

    From here on nobody but curators can read it. Returns what keeps its tables from being dropped:
    that is done by the next sweep, or by the next call.
    """
    left = None
    with hold(database, "release", release.release_id, f"release {release.name!r}"):
        # looked at again under the lock: somebody may have finished it or taken it back
        release = get_release(database, release.release_id)
        state = release.state
        if state == "published":
            revoke_release(database, release)
        if state in ("published", "withdrawing"):
            left = _drop(database, release)
        elif state == "running":
            staging.drop_staging(database, release.release_id)
            releases.abandon(database, release.release_id)
        else:
            raise NotFound(
                f"release {release.name!r} was withdrawn before",
                remedy="`freqdp release list` shows what there is",
            )
    sweep_builds(database)
    return left


def finish_pending(database: Database) -> None:
    """What readers were in the way of: drop what was withdrawn, show what was published, meanwhile."""
    show_pending(database)
    for release in releases.list_releases(database, state="withdrawing"):
        try:
            with hold(database, "release", release.release_id, f"release {release.name!r}"):
                if get_release(database, release.release_id).state == "withdrawing":
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
