"""How much longer: an estimate that is said only once it has settled."""

from __future__ import annotations

import math

_FIRST_SECONDS = 3.0
_LEAST_DONE = 0.02
_SETTLED = math.log(1.5)
"""How far the newest guess may be from those before it."""
_MEMORY_SECONDS = 20.0


class TimeLeft:
    """Guesses the whole duration from the share that is done.

    Guesses are averaged over the last while; what is left is said only if the newest agrees.
    """

    def __init__(self) -> None:
        self._guess: float | None = None
        """Logarithm of the averaged duration."""
        self._at = 0.0

    def seconds(self, done: float, total: float | None, elapsed: float) -> float | None:
        """What is left, or None if nobody can tell; told again and again, with growing `elapsed`."""
        if not total or not 0 < done < total or elapsed < _FIRST_SECONDS:
            return None
        newest = math.log(elapsed * total / done)
        if self._guess is None:
            self._guess, self._at = newest, elapsed
            return None
        weight = 1 - math.exp(-(elapsed - self._at) / _MEMORY_SECONDS)
        self._guess += weight * (newest - self._guess)
        self._at = elapsed
        if abs(newest - self._guess) > _SETTLED or done < _LEAST_DONE * total:
            return None
        return max(math.exp(self._guess) - elapsed, 0.0)


def in_words(seconds: float) -> str:
    """`about 40 s left`, in steps as coarse as the guess is."""
    if seconds < 10:
        return "a few seconds left"
    if seconds < 90:
        return f"about {round(seconds / 10) * 10} s left"
    if seconds < 90 * 60:
        return f"about {round(seconds / 60)} min left"
    return f"about {seconds / 3600:.1f} h left"
