"""The page: one HTML file that asks nobody for anything."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

import freqdp_db
from freqdp_db.evaluation.pages import render
from freqdp_db.evaluation.recommendation.choosing import percent, share
from freqdp_db.evaluation.recommendation.document import FOR_THE_CURATOR, Recommendation
from freqdp_db.evaluation.recommendation.picture import (
    KIND_WORDS,
    NARROW,
    WIDE,
    draw_frontier,
    mark,
)
from freqdp_db.evaluation.recommendation.purposes import Purpose
from freqdp_db.evaluation.recommendation.timing import span

_LEGEND = 18


def write_page(found: Recommendation, purpose: Purpose) -> None:
    """Write it where the recommendation says."""
    text = render("recommendation", "recommendation.html", _context(found, purpose))
    found.file.parent.mkdir(parents=True, exist_ok=True)
    found.file.write_text(text, "utf-8")


def _context(found: Recommendation, purpose: Purpose) -> dict[str, Any]:
    ordered = found.ordered()
    title = (
        f"Risk against usefulness of {len(ordered)} candidates for {found.dataset}; "
        f"{found.recommended or 'none'} is recommended"
    )

    def drawn(frame: Any) -> Markup:
        # drawn here, from numbers; names in it are escaped
        return Markup(draw_frontier(ordered, found.picked, found.risk, frame, title, purpose.asks))

    kinds = dict.fromkeys(c.kind for c in ordered if c.usefulness is not None)
    half = _LEGEND / 2
    return {
        "found": found,
        "purpose": purpose,
        "ordered": ordered,
        "wide": drawn(WIDE),
        "narrow": drawn(NARROW),
        "legend": [(Markup(mark(kind, half, half)), KIND_WORDS[kind]) for kind in kinds],
        "percent": percent,
        "share": share,
        "took": span(found.seconds),
        "curator": FOR_THE_CURATOR,
        "software": freqdp_db.__version__,
    }
