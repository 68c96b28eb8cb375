"""Things that are kept in ranges, each where functions of it run: here, or with workers.

A function is called as function(thing, *arguments) for the thing of every range. It is found by its
name in its module, and things and arguments can be pickled: it may run in another process. What it
gives is brought here (`each`, `fold`), or is kept there (`then`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class PerRange:
    """An argument that is another one for each range."""

    values: Sequence[Any]


def as_kept(thing: Any) -> Any:
    """The thing itself, to be brought here."""
    return thing


def merged_in_pairs(things: Sequence[Any], merge: Callable[[Any, Any], Any]) -> Any:
    """All merged into one, neighbours first, so that no merge waits for all before it."""
    left = list(things)
    while len(left) > 1:
        pairs = [merge(*left[i : i + 2]) for i in range(0, len(left) - 1, 2)]
        left = pairs + left[2 * len(pairs) :]
    return left[0]


class Held(Protocol):
    """One thing for each range."""

    @property
    def ranges(self) -> list[tuple[int, int]]: ...

    def each(self, function: Callable[..., Any], *arguments: Any) -> Iterator[Any]:
        """function(thing, *arguments) of every range, in their order, one by one."""
        ...

    def then(self, function: Callable[..., Any], *arguments: Any) -> Held:
        """The same, kept where it was made."""
        ...

    def fold(self, merge: Callable[..., Any], *arguments: Any) -> Any:
        """All things merged into one: merge(earlier, later, *arguments), neighbours first."""
        ...

    def exchange(
        self,
        take: Callable[..., Any],
        wanted: Sequence[Sequence[Any]],
        join: Callable[[list[Any]], Any],
        ranges: list[tuple[int, int]],
    ) -> Held:
        """New things of other ranges: join of take(thing, wanted[new][old]) of all old ones."""
        ...

    def share(self, value: Any) -> Any:
        """An argument that all ranges get: on its way only once."""
        ...


class Here:
    """Things in this process."""

    def __init__(self, ranges: list[tuple[int, int]], things: list[Any]) -> None:
        self.ranges = ranges
        self._things = things

    def each(self, function: Callable[..., Any], *arguments: Any) -> Iterator[Any]:
        for number, thing in enumerate(self._things):
            yield function(thing, *(_of_range(a, number) for a in arguments))

    def then(self, function: Callable[..., Any], *arguments: Any) -> Here:
        return Here(self.ranges, list(self.each(function, *arguments)))

    def fold(self, merge: Callable[..., Any], *arguments: Any) -> Any:
        return merged_in_pairs(self._things, lambda a, b: merge(a, b, *arguments))

    def exchange(
        self,
        take: Callable[..., Any],
        wanted: Sequence[Sequence[Any]],
        join: Callable[[list[Any]], Any],
        ranges: list[tuple[int, int]],
    ) -> Here:
        return Here(
            ranges,
            [
                join([take(thing, w) for thing, w in zip(self._things, row, strict=True)])
                for row in wanted
            ],
        )

    def share(self, value: Any) -> Any:
        return value

    def thing(self, number: int) -> Any:
        return self._things[number]


def _of_range(argument: Any, number: int) -> Any:
    if isinstance(argument, PerRange):
        return argument.values[number]
    return argument.thing(number) if isinstance(argument, Here) else argument


class Workers(Protocol):
    """Processes that keep ranges of trajectories and do the work on them."""

    @property
    def count(self) -> int: ...

    def parts(self, samples: int) -> int:
        """Into how many ranges so many samples are cut."""
        ...

    def hold(
        self, ranges: list[tuple[int, int]], function: Callable[..., Any], *arguments: Any
    ) -> Held:
        """function(first, last, *arguments) of every range, kept where it runs."""
        ...

    def once(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """function(*arguments), made by one worker, as an argument for functions of ranges."""
        ...


_workers: ContextVar[Workers | None] = ContextVar("workers", default=None)


@contextmanager
def use_workers(workers: Workers | None) -> Iterator[None]:
    """Have these workers keep what the block reads."""
    before = _workers.set(workers)
    try:
        yield
    finally:
        _workers.reset(before)


def workers_in_use() -> Workers | None:
    """None: everything is kept in this process."""
    return _workers.get()
