"""What is asked for, as a JSON document: the one that `request_document` checks in SQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from freqdp_db.errors import BadInput
from freqdp_db.methods.kinds import Flag, Whole
from freqdp_db.methods.parameters import Parameter
from freqdp_db.methods.registry import require_named
from freqdp_db.release.request import Request, check_release_name, check_series

MAX_KEEP = 10_000
_NEW_DRAW = Parameter("new_draw", Flag(), "Draw afresh.", False)
_REBUILD = Parameter("rebuild", Flag(), "Make a new build first.", False)
_HOLD = Parameter("hold", Flag(), "For curators only, until it is approved.", False)
_KEEP = Parameter("keep", Whole(1, MAX_KEEP, "7"), "How many releases to keep.")


def check_keep(keep: int | None) -> int | None:
    """How many releases of a schedule stay; None: all."""
    if keep is not None and not (isinstance(keep, int) and 1 <= keep <= MAX_KEEP):
        raise BadInput(
            f"[[keep]] {keep} is not between 1 and {MAX_KEEP:,}", remedy="for example [[keep]] 7"
        )
    return keep


@dataclass(frozen=True)
class JobRequest:
    """A request for a job: the release, and what belongs around it."""

    request: Request
    name: str | None
    new_draw: bool
    rebuild: bool
    keep: int | None
    hold: bool = False
    window: str | None = None
    """The window to release; of a schedule, what a window is: day, week or month."""
    series: str | None = None
    """The series that the release belongs to."""

    def asks_as(self, other: JobRequest) -> bool:
        """Whether one release answers both."""
        same = (self.request.method, self.request.values, self.window) == (
            other.request.method, other.request.values, other.window,
        )  # fmt: skip
        return same and not (self.new_draw or other.new_draw)

    def document(self) -> dict[str, Any]:
        """As `request_release` takes it, with exact numbers."""
        document = {
            "method": self.request.method.name,
            **self.request.document(),
            "as": self.name,
            "new_draw": self.new_draw,
            "rebuild": self.rebuild,
            "keep": self.keep,
            "hold": self.hold,
            "window": self.window,
            "series": self.series,
        }
        return {key: value for key, value in document.items() if value is not None}


def parse(document: dict[str, Any]) -> JobRequest:
    """Check a document as SQL does; numbers must be int or Decimal. Raises BadInput."""
    given = {key: value for key, value in document.items() if value is not None}
    method, name = require_named(given.pop("method", None)), given.pop("as", None)
    if name is not None and not isinstance(name, str):
        raise BadInput(f"[[name]] {name!r} is not a name", remedy="for example [[name]] city_1")
    window, series = given.pop("window", None), given.pop("series", None)
    for option, text in (("[[window]]", window), ("[[series]]", series)):
        if text is not None and not isinstance(text, str):
            raise BadInput(f"{option} {text!r} is not a text", remedy="for example yesterday")
    if series is not None:
        check_series(series, name)
    own = {
        p.name: p.parse(given.pop(p.name), text=False) if p.name in given else p.default
        for p in (_NEW_DRAW, _REBUILD, _KEEP, _HOLD)
    }
    return JobRequest(
        Request.from_json(method, given),
        None if name is None else check_release_name(name),
        window=window,
        series=series,
        **own,
    )
