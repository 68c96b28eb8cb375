"""What `--engine` and `--workers` (or FREQDP_ENGINE) choose, and starting it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numba
import numpy as np

import freqdp_db
from freqdp_db.engines.dask import Cluster, cluster_at, local_cluster, require_dask
from freqdp_db.engines.partitions import LOCAL, Engine
from freqdp_db.engines.ranges import cores
from freqdp_db.errors import BadInput
from freqdp_db.progress import Progress

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

    @contextmanager
    def opened(self, database: str) -> Iterator[Engine]:
        """The engine. `database`: what workers of our own connect to."""
        if self.workers:
            with local_cluster(self.workers, {"DATABASE_URL": database} if database else {}) as own:
                yield own
        elif self.address is not None:
            with cluster_at(self.address) as theirs:
                yield theirs
        else:
            yield LOCAL


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


# Who does the work of a verb: threads of this process, or workers.


@contextmanager
def use_engine(choice: EngineChoice, conninfo: str, progress: Progress) -> Iterator[Engine]:
    """The chosen engine, started for the block; its workers connect by `conninfo`."""
    with choice.opened(conninfo) as engine:
        if isinstance(engine, Cluster):
            _require_same_software(engine)
            shown = f"; dashboard: {engine.dashboard}" if engine.dashboard else ""
            progress.note(f"Dask: {engine.count} workers{shown}")
        yield engine


def _versions() -> tuple[str, str, str]:
    return freqdp_db.__version__, np.__version__, numba.__version__


def _require_same_software(cluster: Cluster) -> None:
    """Other versions may compute otherwise, and the result must not depend on who computes it."""
    theirs = set(cluster.on_every_worker(_versions))
    others = theirs - {_versions()}
    if others:
        names = ("freqdp_db", "numpy", "numba")
        found = ", ".join(f"{n} {v}" for n, v in zip(names, sorted(others)[0], strict=True))
        ours = ", ".join(f"{n} {v}" for n, v in zip(names, _versions(), strict=True))
        raise BadInput(
            f"a Dask worker has {found}; this command has {ours}",
            remedy="install the same versions on the workers and here",
        )
