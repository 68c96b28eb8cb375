"""An unlinked release and one of whole objects of the same source: the second undoes the first."""

from __future__ import annotations

import shlex

from freqdp_db.errors import BadInput
from freqdp_db.methods.registry import METHODS
from freqdp_db.release.request import Request
from freqdp_db.storage.connection.engine import Connection, Database
from freqdp_db.storage.records import requests
from freqdp_db.storage.records.datasets import DatasetRow

_LEAVE = "leave this one held: curators can read it"


def require_alone(
    connection: Connection,
    database: Database,
    dataset: DatasetRow,
    request: Request,
    held: bool | None,
) -> None:
    """Refuse to unlink what another release of the same source links again, unless told to.

    Also to link again what another one unlinks: which of the two was first makes no difference to who
    has both. `held`: analysts will not have it yet; it is looked at again when it is approved, which is
    now if it is None.
    """
    if request.method.kind == "unlinked":
        _require_no_linked(connection, database, dataset, request, approving=held is None)
    elif request.method.links and request.grantable and not held:
        _require_no_unlinked(connection, database, dataset, approving=held is None)


def linked_beside(connection: Connection, database: Database, dataset: DatasetRow) -> list[str]:
    """Published releases of the same source in which a trajectory is one object's, newest first."""
    moving = [method.name for method in METHODS.values() if method.moves_objects]
    return requests.linked_releases(connection, database, dataset.account_id, moving)


def _require_no_linked(
    connection: Connection,
    database: Database,
    dataset: DatasetRow,
    request: Request,
    *,
    approving: bool,
) -> None:
    out = linked_beside(connection, database, dataset)
    told = request.values.get("beside")
    others = [name for name in out if name != told]
    if others:
        other = shlex.quote(others[0])
        way = _LEAVE if approving else f"accept that with --beside {other}"
        raise BadInput(
            f"{others[0]} is a published release of the same source in which a trajectory is one "
            "object's: whoever has it undoes the unlinking",
            remedy=f"withdraw it (freqdp release withdraw {other}), or {way}",
        )


def _require_no_unlinked(
    connection: Connection, database: Database, dataset: DatasetRow, *, approving: bool
) -> None:
    others = requests.unlinked_releases(connection, database, dataset.account_id)
    if others:
        way = _LEAVE if approving else "keep this one for curators with --hold"
        raise BadInput(
            f"{others[0]} is a published release of the same source in which trajectories are "
            "unlinked: whoever has this one, where each is one object's, as well undoes that",
            remedy=f"withdraw it (freqdp release withdraw {shlex.quote(others[0])}), or {way}",
        )
