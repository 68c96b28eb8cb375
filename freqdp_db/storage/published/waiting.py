"""Locks on what analysts read: never waited for long, because whoever waits holds others up."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

from freqdp_db.errors import Busy

P = ParamSpec("P")
LOCK_TIMEOUT = "2s"
_ATTEMPTS = 15
_SECONDS_BETWEEN = 1.0


def patient(work: Callable[P, None]) -> Callable[P, None]:
    """Try a transaction that limits its waiting again, some times, while others are in the way."""

    @wraps(work)
    def tried(*args: P.args, **kwargs: P.kwargs) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                work(*args, **kwargs)
                return
            except Busy:
                if attempt == _ATTEMPTS:
                    raise
                time.sleep(_SECONDS_BETWEEN)

    return tried
