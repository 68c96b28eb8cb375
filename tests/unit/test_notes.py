"""What analysts are told of a release: from public values alone."""

from __future__ import annotations

from decimal import Decimal

from freqdp_db.methods.contract import KINDS
from freqdp_db.release.catalogue import notes_for


def test_every_kind_says_how_to_read_it() -> None:
    for kind in KINDS:
        times, *_, counted = notes_for(kind, {}, "Asia/Shanghai", "grid:100")
        assert "Asia/Shanghai" in times
        assert counted.endswith(".") and len(counted) > 40


def test_what_a_position_is() -> None:
    def places(kind: str, snap: str, **values: object) -> list[str]:
        return notes_for(kind, values, "UTC", snap)[1:-1]  # type: ignore[arg-type]

    assert "grid of 100 m" in places("edited", "grid:100")[0]
    assert "grid of 250 m" in places("unlinked", "grid:100", grain=Decimal(250))[0]
    assert "nearest of given points" in places("edited", "anchors:public.stop")[0]
    assert places("edited", "exact") == []
    assert places("synthetic", "grid:100") == [], "its positions are generated"


def test_coarse_times_and_missing_dates() -> None:
    assert "down to 300 s" in notes_for("edited", {"time_step": 300_000_000}, "UTC", "exact")[0]
    assert "Dates were left out" in notes_for("unlinked", {"dates": "week"}, "UTC", "exact")[0]
