"""How long work tells how far it is. Layers call a `Progress`; the command line shows it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


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


class _Silent:
    def advance(self, amount: int) -> None:
        return None

    def total(self, amount: int) -> None:
        return None
