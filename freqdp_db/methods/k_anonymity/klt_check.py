"""What `klt` promises of every area, counted point by point."""

from __future__ import annotations

import numpy as np

from freqdp_db.columns.points import Points
from freqdp_db.errors import VerificationFailed
from freqdp_db.methods.contract import Areas

_ROUNDING = 1e-9


def check_areas(areas: Areas, points: Points, categories: int, divergence: float) -> dict[str, int]:
    """Refuse an area with too few categories, or with others than all points have."""
    order = np.argsort(points.x, kind="stable")
    x, y, kind = points.x[order], points.y[order], points.category[order]
    everywhere = np.bincount(kind, minlength=len(points.names)) / len(points)
    first, last = np.searchsorted(x, areas.x_min), np.searchsorted(x, areas.x_max)
    for i in range(len(areas.x_min)):
        part = slice(first[i], last[i])
        there = (areas.y_min[i] <= y[part]) & (y[part] < areas.y_max[i])
        found = np.bincount(kind[part][there], minlength=len(points.names))
        if (found > 0).sum() < categories:
            raise VerificationFailed("an area holds points of too few categories")
        share, usual = found[found > 0] / found.sum(), everywhere[found > 0]
        if float((share * np.log(share / usual)).sum()) > divergence + _ROUNDING:
            raise VerificationFailed("an area holds other categories than all points do")
    return {"diverse_areas": len(areas.x_min)}
