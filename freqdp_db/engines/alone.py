"""An engine for small work: one range, here. Threads would cost more than they save."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


class Alone:
    """The thread that asks does it all, in one range."""

    @property
    def parts(self) -> int:
        return 1

    def run(
        self,
        function: Callable[..., Any],
        ranges: list[tuple[int, int]],
        arguments: tuple[Any, ...],
    ) -> Iterator[Any]:
        for part in ranges:
            yield function(*part, *arguments)
