"""Grant a release that was held, if its dataset's limit allows it."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from dataclasses import dataclass
from math import ceil

from freqdp_db.dataset.limits import in_percent
from freqdp_db.errors import BadInput, TooExposed
from freqdp_db.release.conflicts import refuse_conflicting_releases
from freqdp_db.release.request import Request
from freqdp_db.release.verification import require_published
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.connection.locks import hold
from freqdp_db.storage.published.granting import approve_release
from freqdp_db.storage.records.datasets import get_dataset
from freqdp_db.storage.records.releases import ReleaseRow, get_release


@dataclass(frozen=True)
class Exposure:
    """What was measured of a release: no guarantee, what the attackers that were tried found."""

    learnt: float
    """Of a person's samples on average, by the best of all attackers."""
    half: float
    """Share of persons of whom an attacker learns more than half."""

    def require_within(self, release: str, limit: float, dataset: str) -> None:
        """Refuse a release that was found to expose more than its dataset allows."""
        found = max(self.learnt, self.half)
        if found > limit:
            named = shlex.quote(dataset)
            raise TooExposed(
                f"release {release!r} exposes more than the dataset allows "
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
        with database.begin() as connection:
            refuse_conflicting_releases(
                connection, database, dataset, Request.of(release), None,
                build_id=release.build_id, replaces=replaces,
            )  # fmt: skip
        approve_release(database, release)
    return get_release(database, release.release_id)
