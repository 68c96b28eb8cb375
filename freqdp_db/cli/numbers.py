"""Options that take numbers."""

from __future__ import annotations

from typing import Any

import typer

from freqdp_db.errors import BadInput


def whole_number(option: str, help_: str) -> Any:
    """An option that takes a number, and refuses in our own words: typer's leave out the value."""

    def integer(text: str | int) -> int:
        try:
            return int(text)
        except ValueError:
            raise BadInput(
                f"{option} {text!r} is not a whole number", remedy="write digits only"
            ) from None

    return typer.Option(option, help=help_, parser=integer)
