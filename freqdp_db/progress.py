"""How long work tells how far it is. Layers call a `Progress`; the command line shows it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeAlias


class Stage(Protocol):
    """One running stage of the work."""

    def advance(self, amount: int) -> None:
        """So many more rows (or objects, or places) are done."""

    def total(self, amount: int) -> None:
        """The stage turns out to have so many to do."""


class Progress:
    """Times each stage; the base class shows nothing and serves library use and tests."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str, total: int | None = None, unit: str = "rows") -> Iterator[Stage]:
        """Run a stage by this name; its wall time adds up in `seconds`."""
        start = time.perf_counter()
        shown = self.open(name, total, unit)
        try:
            yield shown
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
            self.close(shown)

    def open(self, name: str, total: int | None, unit: str) -> Stage:
        return _Silent()

    def close(self, stage: Stage) -> None:
        return None

    def note(self, text: str) -> None:
        """A sentence for the person who waits."""


class Within(Progress):
    """So many stages inside of another one; each is an equal part of it."""

    def __init__(self, outer: Stage, total: int, parts: int) -> None:
        super().__init__()
        self._outer, self._part = outer, total / parts

    def open(self, name: str, total: int | None, unit: str) -> Stage:
        return _Part(self._outer, self._part, total or 1)


ProgressCallback: TypeAlias = Callable[[float], None]
"""Called with the share of some work that is done, from 0 to 1."""


def ignore_progress(share: float) -> None:
    """Who is callback where nobody waits."""


def as_shares(callback: ProgressCallback, total: int) -> Callable[[int], None]:
    """What is called with so many more that are done of a total."""
    done = 0

    def advance(further: int) -> None:
        nonlocal done
        done += further
        callback(done / total)

    return advance


class _Part:
    """A stage whose end is a part of another one."""

    def __init__(self, outer: Stage, whole: float, total: int) -> None:
        self._outer, self._whole, self._total, self._done = outer, whole, total, 0

    def advance(self, amount: int) -> None:
        before, self._done = self._done, min(self._total, self._done + amount)
        further = int(self._whole * self._done / self._total)
        self._outer.advance(further - int(self._whole * before / self._total))

    def total(self, amount: int) -> None:
        self._total = max(amount, 1)


class _Silent:
    def advance(self, amount: int) -> None:
        return None

    def total(self, amount: int) -> None:
        return None
