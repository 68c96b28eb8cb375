"""Who does the work of a verb: threads of this process, or workers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numba
import numpy as np

import freqdp_db
from freqdp_db.engines.choice import EngineChoice
from freqdp_db.engines.dask import Cluster
from freqdp_db.engines.partitions import Engine
from freqdp_db.errors import BadInput
from freqdp_db.progress import Progress


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
