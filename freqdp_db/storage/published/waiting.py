"""Locks on what analysts read: never waited for long, because whoever waits holds others up."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

from freqdp_db.errors import Busy

P = ParamSpec("P")
LOCK_TIMEOUT = "2s"
_ATTEMPTS = 15
_SECONDS_BETWEEN = 1.0


def patient(work: Callable[Concatenate[bool, P], None]) -> Callable[P, None]:
    """Try a transaction that limits its waiting again, some times, while others are in the way.

    Its first argument is whether to point the views of the newest release at it. In the end it is done
    without: whoever reads one of these for hours keeps nothing else from being published.
    """

    @wraps(work)
    def tried(*args: P.args, **kwargs: P.kwargs) -> None:
        for _ in range(_ATTEMPTS):
            try:
                work(True, *args, **kwargs)
                return
            except Busy:
                time.sleep(_SECONDS_BETWEEN)
        work(False, *args, **kwargs)

    return tried
