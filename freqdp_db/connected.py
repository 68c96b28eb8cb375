"""A database that verbs work on: reached when one first needs it, and what they all ask of it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from freqdp_db.progress import Progress
from freqdp_db.settings import Settings

if TYPE_CHECKING:
    from freqdp_db.db.builds import Window
    from freqdp_db.db.connection import Database
    from freqdp_db.db.datasets import DatasetRow
    from freqdp_db.db.releases import ReleaseRow
    from freqdp_db.engines.partitions import Engine as RunningEngine


class Connected:
    """The connection of an object with verbs."""

    def __init__(
        self,
        settings: Settings,
        *,
        command: str = "library",
        progress: Callable[[], Progress] = Progress,
    ) -> None:
        self.settings = settings
        self._command = command
        """What the server shows this session as."""
        self._progress = progress
        self._database: Database | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the database; a verb that is called later connects again."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def _connected(self) -> "Database":
        """The database, whatever is in it."""
        from freqdp_db.db.connection import connect

        if self._database is None:
            self._database = connect(self.settings, self._command)
        return self._database

    def _installed(self) -> "Database":
        """The database; refused if its schema is missing or stale."""
        from freqdp_db.db.schema import require_current

        database = self._connected()
        if self._reads_private():
            require_current(database)
        return database

    def _reads_private(self) -> bool:
        """Whether this login may read the private schema; if not, it is an analyst's."""
        from freqdp_db.db.schema import reads_private

        return reads_private(self._connected())

    def _compiled(self) -> Progress:
        """A progress for work that needs the compiled kernels, which are compiled if they are not."""
        from freqdp_db.compiling import compile_kernels

        progress = self._progress()
        compile_kernels(progress)
        return progress

    def _dataset(self, name: str) -> "tuple[Database, DatasetRow]":
        """The database, and a dataset that must be there."""
        from freqdp_db.db.datasets import find_dataset

        database = self._installed()
        return database, find_dataset(database, name)

    def _release(self, name: str) -> "tuple[Database, ReleaseRow]":
        """The database, and a release that must be there."""
        from freqdp_db.db.releases import find_release

        database = self._installed()
        return database, find_release(database, name)

    def _window(self, dataset: "DatasetRow", word: str | None) -> "Window | None":
        """The window that a word means in the time zone of a dataset, if it is over."""
        from freqdp_db.db.builds import ended_window

        if word is None:
            return None
        return ended_window(self._installed(), word, dataset.mapping.timezone)

    @contextmanager
    def _started(
        self, engine: str | None, workers: int | None, *, kernels: bool = True
    ) -> "Iterator[tuple[Progress, RunningEngine]]":
        """What tells the block's progress, and the chosen engine, started."""
        from freqdp_db.engines.partitions import choose_engine, use_engine

        chosen = choose_engine(engine, workers)
        progress = self._compiled() if kernels else self._progress()
        with use_engine(chosen, self._connected().conninfo, progress) as running:
            yield progress, running
