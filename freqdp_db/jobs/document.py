"""What is asked for, as a JSON document: the one that `request_document` checks in SQL."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from freqdp_db.errors import BadInput
from freqdp_db.release.request import DEFAULT_SPREAD, Request, check_release_name

_KEYS = {
    "method", "epsilon", "epsilon_global", "epsilon_local", "signature", "spread", "time_step",
    "seed", "as", "new_draw", "rebuild", "keep",
}  # fmt: skip
_DURATION = re.compile(r"[0-9a-z. ]{1,20}")
_MAX_DECIMALS = 9
MAX_KEEP = 10_000


@dataclass(frozen=True)
class Asked:
    """A request for a job: the release, and what belongs around it."""

    request: Request
    name: str | None
    new_draw: bool
    rebuild: bool
    keep: int | None

    def document(self) -> dict[str, Any]:
        """As `request_release` takes it, with exact numbers."""
        request = self.request
        document: dict[str, Any] = {
            "method": request.method.name,
            "signature": request.signature,
            "spread": "paper" if request.spread == "paper" else Decimal(request.spread),
            "time_step": None if request.time_step_us is None else f"{request.time_step_us}us",
            "seed": request.seed,
            "as": self.name,
            "new_draw": self.new_draw,
            "rebuild": self.rebuild,
            "keep": self.keep,
        }
        if request.epsilon_global == request.epsilon_local or len(request.method.steps) == 1:
            document["epsilon"] = request.epsilon.normalize()
        else:
            document["epsilon_global"] = request.epsilon_global
            document["epsilon_local"] = request.epsilon_local
        return {key: value for key, value in document.items() if value is not None}


def parse(document: dict[str, Any]) -> Asked:
    """Check a document as SQL does; numbers must be int or Decimal. Raises BadInput."""
    given = {key: value for key, value in document.items() if value is not None}
    for key in given:
        if key not in _KEYS:
            raise BadInput(f"option {key!r} is not known", remedy="use " + ", ".join(sorted(_KEYS)))
    keep = given.get("keep")
    if keep is not None and not 1 <= _whole(given, "keep") <= MAX_KEEP:
        raise BadInput(f"keep {keep} is not between 1 and {MAX_KEEP:,}", remedy="for example 7")
    name = _typed(given, "as", str)
    time_step = _typed(given, "time_step", str)
    if time_step is not None and not _DURATION.fullmatch(time_step):
        raise _not_acceptable("time_step", time_step)
    spread = "paper" if given.get("spread") == "paper" else _number(given, "spread")
    return Asked(
        request=Request.parse(
            method=given.get("method", "lg"),
            epsilon=_number(given, "epsilon"),
            epsilon_global=_number(given, "epsilon_global"),
            epsilon_local=_number(given, "epsilon_local"),
            signature=_whole(given, "signature") if "signature" in given else 10,
            spread=DEFAULT_SPREAD if spread is None else spread,
            time_step=time_step,
            seed=_whole(given, "seed") if "seed" in given else None,
        ),
        name=None if name is None else check_release_name(name),
        new_draw=bool(_typed(given, "new_draw", bool)),
        rebuild=bool(_typed(given, "rebuild", bool)),
        keep=keep,
    )


def _typed(given: dict[str, Any], key: str, kind: type) -> Any:
    value = given.get(key)
    if value is not None and not isinstance(value, kind):
        raise _not_acceptable(key, value)
    return value


def _whole(given: dict[str, Any], key: str) -> int:
    value = given[key]
    if not isinstance(value, int) or isinstance(value, bool):
        raise _not_acceptable(key, value)
    return value


def _number(given: dict[str, Any], key: str) -> str | None:
    """A number as text. Exact to 9 decimals, so that SQL and Python mean the same."""
    value = given.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        raise _not_acceptable(key, value)
    if isinstance(value, Decimal) and -int(value.as_tuple().exponent) > _MAX_DECIMALS:
        raise _not_acceptable(key, value)
    return str(value)


def _not_acceptable(key: str, value: object) -> BadInput:
    return BadInput(
        f"option {key}: {value!r} is not acceptable",
        remedy='for example {"signature": 10, "spread": 500, "time_step": "60s"}',
    )
