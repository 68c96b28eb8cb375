"""Kinds of columns that our tables are made of."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from geoalchemy2 import Geometry


def column(name: str, kind: Any, *, null: bool = False, **more: Any) -> sa.Column[object]:
    return sa.Column(name, kind, nullable=null, **more)


def geometry() -> Geometry:
    return Geometry(geometry_type=None, spatial_index=False)


DOUBLE: sa.Double[float] = sa.Double()
AT = sa.DateTime(timezone=True)
