"""Pieces of a measurement: one after the other here, or dealt out to workers.

Each worker reads for itself what the pieces need. What passes this process is which piece it is, and
what came out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, Generic, TypeVar

from freqdp_db.dataset.memory import same_build
from freqdp_db.db.builds import BuildRow
from freqdp_db.db.connection import Database, DatabaseRef
from freqdp_db.engines.partitions import Engine
from freqdp_db.progress import Progress

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")
Piece = TypeVar("Piece")
Found = TypeVar("Found")
Making = Callable[[Database, Asked, Progress], Answer]
Working = Callable[[Answer, Piece, Progress], Found]


def deal_out(
    engine: Engine,
    database: Database,
    build: BuildRow,
    make: Making[Asked, Answer],
    asked: Asked,
    work: Working[Answer, Piece, Found],
    pieces: Sequence[Piece],
    progress: Progress,
) -> Iterator[Found]:
    """work(make(database, asked), piece) of every piece, in their order.

    `make` reads the build, and is called once by every process that works.
    """
    shown = Progress() if engine.remote else progress
    made = _Made(DatabaseRef.of(database), build.build_id, build.fingerprint, make, asked, shown)
    return engine.map(_work, pieces, engine.share(made), work, shown)


class _Made(Generic[Asked, Answer]):
    """What `make` gives, made by the process that first needs it there, and never sent."""

    def __init__(
        self,
        reach: DatabaseRef,
        build_id: int,
        fingerprint: str,
        make: Making[Asked, Answer],
        asked: Asked,
        progress: Progress,
    ) -> None:
        self._recipe = (reach, build_id, fingerprint, make, asked, progress)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._recipe

    @cached_property
    def value(self) -> Answer:
        reach, build_id, fingerprint, make, asked, progress = self._recipe
        same_build(reach, build_id, fingerprint)
        return make(reach.database(), asked, progress)


def _work(
    piece: Any, made: _Made[Any, Any], work: Working[Any, Any, Any], progress: Progress
) -> Any:
    return work(made.value, piece, progress)
