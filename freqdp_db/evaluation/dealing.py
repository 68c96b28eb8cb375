"""Pieces of a measurement: one after the other here, or dealt out to workers.

Each worker reads for itself what the pieces need. What passes this process is which piece it is, and
what came out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, Generic, TypeVar

from freqdp_db.dataset.memory import same_build
from freqdp_db.engines.held import as_kept, workers_in_use
from freqdp_db.progress import Progress
from freqdp_db.storage.connection.engine import Database
from freqdp_db.storage.connection.reach import Reach
from freqdp_db.storage.records.builds import BuildRow

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")
Piece = TypeVar("Piece")
Found = TypeVar("Found")
Making = Callable[[Database, Asked, Progress], Answer]
Working = Callable[[Answer, Piece, Progress], Found]


def deal_out(
    database: Database,
    build: BuildRow,
    make: Making[Asked, Answer],
    asked: Asked,
    work: Working[Answer, Piece, Found],
    pieces: Sequence[Piece],
    progress: Progress,
) -> Iterator[Found]:
    """work(make(database, asked), piece) of every piece, in their order.

    `make` reads the build, and is called once by everybody who works. Functions are found by their
    names, and what they take and give can be pickled: they may run in another process.
    """
    workers = workers_in_use()
    if workers is None:
        made = make(database, asked, progress)
        for piece in pieces:
            yield work(made, piece, progress)
        return
    reach = Reach.of(database)
    made_there = workers.once(_Made, reach, build.build_id, build.fingerprint, make, asked)
    places = [(number, number + 1) for number in range(len(pieces))]
    yield from workers.hold(places, _work, made_there, work, pieces).each(as_kept)


class _Made(Generic[Asked, Answer]):
    """What `make` gives, made by the worker that first needs it there, and never sent."""

    def __init__(
        self,
        reach: Reach,
        build_id: int,
        fingerprint: str,
        make: Making[Asked, Answer],
        asked: Asked,
    ) -> None:
        self._recipe = (reach, build_id, fingerprint, make, asked)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._recipe

    @cached_property
    def value(self) -> Answer:
        reach, build_id, fingerprint, make, asked = self._recipe
        same_build(reach, build_id, fingerprint)
        return make(reach.database(), asked, Progress())


def _work(
    first: int,
    last: int,
    made: _Made[Any, Any],
    work: Working[Any, Any, Any],
    pieces: Sequence[Any],
) -> Any:
    """For a worker: a piece."""
    return work(made.value, pieces[first], Progress())
