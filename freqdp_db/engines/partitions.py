"""Partitions: ranges of whole trajectories, each kept where the work on it is done.

An algorithm is written once, over partitions: a function of one partition gives a partial result, and
what concerns all trajectories is decided here, from the partial results. Engines differ in where `map`
calls the function: in this process on one partition with everything, or in worker processes.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from freqdp_db.engines.ranges import cores
from freqdp_db.errors import BadInput
from freqdp_db.progress import Progress

Value = TypeVar("Value")
Result = TypeVar("Result")
Range = tuple[int, int]


@dataclass(frozen=True)
class PerPartition:
    """An argument that is another one for each partition."""

    values: Sequence[Any]


class Partitions(ABC, Generic[Value]):
    """One value for each range. Iterating brings the values here, one by one, in their order."""

    ranges: list[Range]
    remote: ClassVar[bool]
    """Whether other processes keep the values."""

    @abstractmethod
    def map(self, function: Callable[..., Result], *arguments: Any) -> Partitions[Result]:
        """function(value, *arguments) of every range; the results stay where they were made.

        An argument may be one for each partition (`PerPartition`), or partitions of the same ranges.
        The function may run in another process: it, what it takes and what it gives can be pickled.
        """

    @abstractmethod
    def __iter__(self) -> Iterator[Value]: ...

    @abstractmethod
    def get(self, number: int) -> Any:
        """The value of one range, as an argument of `map`."""

    @abstractmethod
    def shuffle(
        self,
        take: Callable[[Value, Any], Any],
        wanted: Sequence[Sequence[Any]],
        join: Callable[[list[Any]], Result],
        ranges: list[Range],
    ) -> Partitions[Result]:
        """Partitions of other ranges: join of take(value, wanted[new][old]) of all old ones."""


def argument_for(number: int, argument: Any) -> Any:
    """What the function of this partition gets as an argument."""
    if isinstance(argument, PerPartition):
        return argument.values[number]
    return argument.get(number) if isinstance(argument, Partitions) else argument


class LocalPartitions(Partitions[Value]):
    """Partitions in this process."""

    remote = False

    def __init__(self, ranges: list[Range], values: list[Value]) -> None:
        self.ranges = ranges
        self._values = values

    def map(self, function: Callable[..., Result], *arguments: Any) -> LocalPartitions[Result]:
        results = [
            function(value, *(argument_for(number, a) for a in arguments))
            for number, value in enumerate(self._values)
        ]
        return LocalPartitions(self.ranges, results)

    def __iter__(self) -> Iterator[Value]:
        return iter(self._values)

    def get(self, number: int) -> Value:
        return self._values[number]

    def shuffle(
        self,
        take: Callable[[Value, Any], Any],
        wanted: Sequence[Sequence[Any]],
        join: Callable[[list[Any]], Result],
        ranges: list[Range],
    ) -> LocalPartitions[Result]:
        taken = ([take(v, w) for v, w in zip(self._values, row, strict=True)] for row in wanted)
        return LocalPartitions(ranges, [join(pieces) for pieces in taken])


class Engine(Protocol):
    """What keeps partitions, and runs functions of them."""

    @property
    def remote(self) -> bool:
        """Whether that is in other processes, which reach the database by themselves."""
        ...

    def partitions(self, samples: int) -> int:
        """Into how many partitions so many samples are cut."""
        ...

    def load(
        self, ranges: list[Range], function: Callable[..., Result], *arguments: Any
    ) -> Partitions[Result]:
        """function(first, last, *arguments) of every range, kept where it runs."""
        ...

    def map(
        self, function: Callable[..., Result], items: Iterable[Any], *arguments: Any
    ) -> Iterator[Result]:
        """function(item, *arguments) of every item, in their order, as `Partitions.map` calls it."""
        ...

    def share(self, value: Any) -> Any:
        """An argument that all partitions get: it travels only once."""
        ...


class LocalEngine:
    """One partition, in this process; kernels run on all cores (`ranges`)."""

    remote = False

    def partitions(self, samples: int) -> int:
        return 1

    def load(
        self, ranges: list[Range], function: Callable[..., Result], *arguments: Any
    ) -> LocalPartitions[Result]:
        return LocalPartitions(ranges, [function(*own, *arguments) for own in ranges])

    def map(
        self, function: Callable[..., Result], items: Iterable[Any], *arguments: Any
    ) -> Iterator[Result]:
        return (function(item, *arguments) for item in items)

    def share(self, value: Value) -> Value:
        return value


LOCAL = LocalEngine()


# What `--engine` and `--workers` (or FREQDP_ENGINE) choose, and starting it.


VARIABLE = "FREQDP_ENGINE"
_MOST_WORKERS = 256
_ADDRESS = re.compile(r"(dask|tcp|tls)://(\[[0-9a-fA-F:]+\]|[\w.-]+):\d{1,5}")


@dataclass(frozen=True)
class EngineChoice:
    """Where the work is done."""

    given: str
    """As it was written, to be named in an error."""
    workers: int = 0
    """Processes of a cluster of our own; 0: threads of this process, or somebody's cluster."""
    address: str | None = None
    """Of a scheduler of the user's."""


def choose_engine(
    engine: str | None, workers: int | None, environ: Mapping[str, str] = os.environ
) -> EngineChoice:
    """Options first, then the environment, then threads; raises BadInput."""
    text = engine or environ.get(VARIABLE) or "threads"
    given = f"[[engine]] {text}" if engine else f"{VARIABLE}={text}"
    local = text == "dask"
    if workers is not None and not local:
        raise BadInput(
            f"[[workers]] {workers} is for [[engine]] dask, and not for {given}",
            remedy="leave out [[workers]], or add [[engine]] dask",
        )
    if text == "threads":
        return EngineChoice(given)
    from freqdp_db.engines.dask import require_dask

    if local:
        require_dask(given)
        count = cores() if workers is None else workers
        if not 1 <= count <= _MOST_WORKERS:
            raise BadInput(
                f"[[workers]] {count} is not between 1 and {_MOST_WORKERS}",
                remedy="one for each core that the database leaves free",
            )
        return EngineChoice(given, workers=count)
    if _ADDRESS.fullmatch(text) is None:
        raise BadInput(
            f"{given} is not an engine",
            remedy="write threads, dask, dask://host:8786 or tls://host:8786",
        )
    require_dask(given)
    return EngineChoice(given, address=re.sub("^dask:", "tcp:", text))


@contextmanager
def use_engine(choice: EngineChoice, conninfo: str, progress: Progress) -> Iterator[Engine]:
    """The chosen engine, started for the block; its workers connect by `conninfo`."""
    if not choice.workers and choice.address is None:
        yield LOCAL
        return
    from freqdp_db.engines.dask import start_cluster

    with start_cluster(choice.workers, choice.address, conninfo, progress) as cluster:
        yield cluster
