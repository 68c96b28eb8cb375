"""The methods that only reproduce the literature: what the registry takes from this room."""

from __future__ import annotations

from freqdp_db.paper.closure import CLOSURE
from freqdp_db.paper.klt import KLT
from freqdp_db.paper.synthesis import SYNTHESIS
from freqdp_db.paper.w4m import W4M

__all__ = ["CLOSURE", "COMPARED"]

COMPARED = (*CLOSURE, KLT, W4M, *SYNTHESIS)
