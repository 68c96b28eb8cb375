"""What a release of a dataset may expose to be granted to analysts: said by the data's owner."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from freqdp_db.errors import BadInput

NO_LIMIT = "none"
_LEAST = Decimal("0.001")


def parse_share(option: str, text: str, remedy: str | None = None) -> float:
    """A share of a person: `5%` or `0.05`."""
    written = text.strip()
    # without the sign, 1 may be meant as 1 % as well as as all
    most = Decimal(1) if written.endswith("%") else Decimal("0.999999999")
    try:
        value = Decimal(written.removesuffix("%").strip())
    except InvalidOperation:
        value = Decimal("nan")
    if written.endswith("%"):
        value /= 100
    if not value.is_finite() or not _LEAST <= value <= most:
        raise BadInput(
            f"{option} {text} is not a share between 0.1% and 100%",
            remedy=remedy or f"for example {option} 5%, or 0.05",
        )
    return float(value)


def in_percent(limit: float | None) -> str:
    """A limit as people write it: 5%."""
    return NO_LIMIT if limit is None else f"{100 * limit:.3g}%"


def parse_limit(text: str) -> float | None:
    """A share, or `none`."""
    if text.strip().lower() == NO_LIMIT:
        return None
    remedy = f"for example [[max_exposure]] 5%, or {NO_LIMIT} to have no limit"
    return parse_share("[[max_exposure]]", text, remedy)
