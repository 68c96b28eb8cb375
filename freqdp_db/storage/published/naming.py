"""Names of a release's indexes, as `publish_tables` gives them."""

from __future__ import annotations

from freqdp_db.settings import MAX_IDENTIFIER_BYTES

INDEXES = {"at": "_at_idx", "geom": "_geom_idx", "area": "_area_idx", "during": "_during_idx"}
"""Of the columns that have one, besides the primary key."""
PRIMARY = "_pkey"


def whole(name: str) -> str:
    """A name as PostgreSQL keeps it: cut off after its last whole character."""
    return name.encode()[:MAX_IDENTIFIER_BYTES].decode(errors="ignore")
