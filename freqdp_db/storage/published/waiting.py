"""Locks on what analysts read: never waited for long, because whoever waits holds others up."""

from __future__ import annotations

import time
from collections.abc import Callable

from freqdp_db.errors import Busy

LOCK_TIMEOUT = "2s"
_ATTEMPTS = 15
_SECONDS_BETWEEN = 1.0


def patiently(work: Callable[[], None]) -> None:
    """Try a transaction that limits its waiting again, some times, while others are in the way."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            work()
            return
        except Busy:
            if attempt == _ATTEMPTS:
                raise
            time.sleep(_SECONDS_BETWEEN)
