"""An unlinked release beside one that links its samples again."""

from __future__ import annotations

from freqdp_db.errors import BadInput
from freqdp_db.release.request import Request
from freqdp_db.storage.connection.engine import Connection, Database
from freqdp_db.storage.records import requests
from freqdp_db.storage.records.datasets import DatasetRow


def require_alone(
    connection: Connection, database: Database, dataset: DatasetRow, request: Request
) -> None:
    """Refuse to unlink what another release of the same source links again, unless told to."""
    if request.method.kind != "unlinked":
        return
    out = requests.linked_releases(connection, database, dataset.account_id)
    told = request.values.get("beside")
    others = [name for name in out if name != told]
    if others:
        raise BadInput(
            f"{others[0]} is a published release of the same source, and its true samples join both: "
            "whoever has it undoes the unlinking",
            remedy=f"withdraw it (freqdp release withdraw {others[0]}), or accept that with "
            f"--beside {others[0]}",
        )
