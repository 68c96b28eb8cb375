"""Workers of a Dask cluster: they keep ranges of trajectories and do the work on them.

What a task is given and what it gives are wrapped (`Kept`), so that no log of Dask's shows values: it
prints the arguments of tasks that fail.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4

import numba
import numpy as np

import freqdp_db
from freqdp_db.engines.partitions import (
    Partitions,
    Range,
    Result,
    Value,
    argument_for,
)
from freqdp_db.engines.ranges import SingleThread, use
from freqdp_db.errors import BadInput, EngineLost
from freqdp_db.progress import Progress

if TYPE_CHECKING:
    from distributed import Client, Future

INSTALL = "pip install 'freqdp_db[dask]'"
_RANGE_SAMPLES = 4_000_000
"""About so many samples of a range: its index takes half a gigabyte."""
_SECONDS_TO_START = 60
_SECONDS_TO_CONNECT = 20
_DEATHS_ALLOWED = 10
"""Of workers, in one task, before it is taken for the killer."""
_CONFIG: dict[str, Any] = {
    # a task goes to the worker that has its range, and waits for it: ranges are dear to move
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.allowed-failures": _DEATHS_ALLOWED,
    "distributed.admin.large-graph-warning-threshold": "1TB",
    "distributed.comm.timeouts.connect": f"{_SECONDS_TO_CONNECT}s",
    "distributed.diagnostics.nvml": False,
    # whoever is on the machine could read its pages
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}


@dataclass(frozen=True)
class Kept:
    """A value that does not show itself."""

    value: Any

    def __repr__(self) -> str:
        return f"<{type(self.value).__name__}>"


@dataclass(frozen=True)
class _Call:
    """A function of this package and its arguments; what is a future among them comes beside."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    def __repr__(self) -> str:
        return f"<{_name_of(self.function)}>"


def _name_of(function: Callable[..., Any]) -> str:
    # an attrgetter has no name
    return str(getattr(function, "__name__", type(function).__name__)).strip("_")


class _Beside:
    """Stands for an argument that Dask hands over."""


def _run(call: _Call, *beside: Kept) -> Kept:
    """In the worker: one thread of it, so kernels keep to one as well."""
    values = iter(beside)
    arguments = [next(values).value if isinstance(a, _Beside) else a for a in call.arguments]
    with use(SingleThread()):
        return Kept(call.function(*arguments))


class DaskPartitions(Partitions[Value]):
    """Partitions that workers keep: futures, each the recipe of its value as well.

    If a worker dies, Dask makes what it kept again, from reading the range on.
    """

    remote = True

    def __init__(self, client: Client, ranges: list[Range], futures: list[Future]) -> None:
        self.ranges = ranges
        self._client = client
        self._futures = futures

    def map(self, function: Callable[..., Result], *arguments: Any) -> DaskPartitions[Result]:
        shared = [_shared(self._client, a) for a in arguments]
        futures = [
            submit(self._client, function, future, *(argument_for(number, a) for a in shared))
            for number, future in enumerate(self._futures)
        ]
        return DaskPartitions(self._client, self.ranges, futures)

    def __iter__(self) -> Iterator[Value]:
        return _all_brought(list(self._futures))

    def get(self, number: int) -> Future:
        return self._futures[number]

    def shuffle(
        self,
        take: Callable[[Value, Any], Any],
        wanted: Sequence[Sequence[Any]],
        join: Callable[[list[Any]], Result],
        ranges: list[Range],
    ) -> DaskPartitions[Result]:
        client = self._client
        taken = (
            [submit(client, take, old, w) for old, w in zip(self._futures, row, strict=True)]
            for row in wanted
        )
        futures = [submit(client, _joined, join, *pieces) for pieces in taken]
        return DaskPartitions(client, ranges, futures)


def _shared(client: Client, argument: Any) -> Any:
    """An argument that all partitions get: columns travel only once, anything else with each call."""
    columns = vars(argument).values() if is_dataclass(argument) else [argument]
    has_columns = any(isinstance(column, np.ndarray) for column in columns)
    return _share(client, argument) if has_columns else argument


def _share(client: Client, value: Any) -> Future:
    # called by its type: the scheduler spreads tasks only if few tasks of one name come before them
    return submit(client, _itself, value, name=type(value).__name__)


def _itself(value: Value) -> Value:
    return value


def _joined(join: Callable[[list[Any]], Any], *pieces: Any) -> Any:
    return join(list(pieces))


def submit(
    client: Client, function: Callable[..., Any], *arguments: Any, name: str | None = None
) -> Future:
    """Have a worker run it. The task is called by the function alone: a key is no place for data."""
    from distributed import Future

    beside = [a for a in arguments if isinstance(a, Future)]
    inside = tuple(_Beside() if isinstance(a, Future) else a for a in arguments)
    key = f"{name or _name_of(function)}-{uuid4().hex}"
    with _lost():
        return client.submit(_run, _Call(function, inside), *beside, key=key, pure=False)


def brought(future: Future) -> Any:
    """What a task gave, here; its own errors as they were raised."""
    with _lost():
        kept: Kept = future.result()
    return kept.value


def _all_brought(futures: list[Future]) -> Iterator[Any]:
    """Each is let go as it is brought: they are never here all at once."""
    futures.reverse()
    while futures:
        yield brought(futures.pop())


@contextmanager
def _lost() -> Iterator[None]:
    """Turn what Dask says when workers or the scheduler are gone into an error of ours."""
    from concurrent.futures import CancelledError

    from distributed import KilledWorker
    from distributed.comm import CommClosedError

    try:
        yield
    except KilledWorker:
        raise EngineLost(
            "one Dask worker after the other died at the same task",
            remedy="they may have too little memory: see their logs; then go on with the same command",
            can_pass=False,
        ) from None
    except (CancelledError, CommClosedError, TimeoutError, OSError) as error:
        raise EngineLost(
            f"the Dask scheduler or all of its workers were lost ({type(error).__name__})",
            remedy="once they run again, the same command goes on where it stopped",
        ) from None


class Cluster:
    """The engine of a Dask cluster, reached through its scheduler."""

    remote: ClassVar[bool] = True

    def __init__(self, client: Client, count: int, dashboard: str | None) -> None:
        self._client = client
        self.count = count
        self.dashboard = dashboard

    def partitions(self, samples: int) -> int:
        """As many for each worker, of at most so many samples."""
        each = -(-samples // (_RANGE_SAMPLES * self.count))
        return max(each, 1) * self.count

    def load(
        self, ranges: list[Range], function: Callable[..., Result], *arguments: Any
    ) -> DaskPartitions[Result]:
        futures = [submit(self._client, function, *own, *arguments) for own in ranges]
        return DaskPartitions(self._client, ranges, futures)

    def map(
        self, function: Callable[..., Result], items: Iterable[Any], *arguments: Any
    ) -> Iterator[Result]:
        shared = [_shared(self._client, a) for a in arguments]
        return _all_brought([submit(self._client, function, item, *shared) for item in items])

    def share(self, value: Any) -> Future:
        return _share(self._client, value)

    def on_every_worker(self, function: Callable[..., Any]) -> list[Any]:
        """function() of every worker that there is."""
        try:
            with _lost():
                return list(self._client.run(function).values())
        except (ImportError, AttributeError) as error:
            raise EngineLost(
                f"a Dask worker has no freqdp_db, or another one ({error})",
                remedy=f"on the workers: {INSTALL}, the same version as here",
                can_pass=False,
            ) from None


def require_dask(option: str) -> None:
    try:
        import cryptography  # noqa: F401  for the keys of a cluster of our own
        import distributed  # noqa: F401
    except ImportError:
        raise BadInput(f"{option} needs Dask, which is not installed", remedy=INSTALL) from None


@contextmanager
def local_cluster(workers: int, environment: dict[str, str]) -> Iterator[Cluster]:
    """Start so many processes of one thread each, on the loopback interface; stop them at the end.

    environment: what is added to the one that they inherit; it goes from process to process, past the
    scheduler. They end by themselves if this process is killed. Who wants to speak to them needs a key
    that only they and this process have: other users of the machine can reach the loopback interface.
    """
    import dask
    from distributed import Client

    with (
        dask.config.set(_CONFIG),
        _quiet(),
        _started(workers, environment) as cluster,
        Client(cluster, direct_to_workers=True) as client,
    ):
        with _lost():
            client.wait_for_workers(workers, timeout=_SECONDS_TO_START)
        yield Cluster(client, workers, None)


def _started(workers: int, environment: dict[str, str]) -> Any:
    from distributed import LocalCluster, Security

    try:
        return LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            memory_limit=0,
            silence_logs=logging.CRITICAL,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            worker_dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"dashboard": False},
            security=Security.temporary(),
            env=environment,
        )
    except (RuntimeError, OSError, TimeoutError) as error:
        raise EngineLost(
            f"{workers} Dask workers could not be started ({type(error).__name__})",
            remedy="something ended them as they started; give the same command again, or fewer "
            "[[workers]]",
        ) from None


@contextmanager
def cluster_at(address: str) -> Iterator[Cluster]:
    """Use a scheduler of somebody else's; `tls://` with Dask's own settings."""
    import dask
    from distributed import Client

    if address.startswith("tls:"):
        _require_keys(address)
    with dask.config.set(_CONFIG), _quiet():
        try:
            client = Client(address, timeout=_SECONDS_TO_CONNECT, set_as_default=False)
        except (OSError, TimeoutError, ValueError, RuntimeError) as error:
            raise EngineLost(
                f"no Dask scheduler answers at {address} ({type(error).__name__})",
                remedy="check [[engine]] and that `dask scheduler` runs there",
            ) from None
        with client:
            workers = client.nthreads()
            if not workers:
                raise EngineLost(
                    f"the Dask scheduler at {address} has no workers",
                    remedy=f"start some: dask worker {address} --nthreads 1",
                )
            yield Cluster(client, len(workers), client.dashboard_link or None)


def _require_keys(address: str) -> None:
    """Dask itself would only fail to connect, and not say why."""
    from distributed import Security

    remedy = "in Dask's settings: distributed.comm.tls.ca-file, client.cert and client.key below it"
    try:
        found = Security().get_connection_args("client")["ssl_context"]
    except (OSError, ValueError) as error:
        raise BadInput(
            f"the keys for {address} cannot be used ({type(error).__name__})",
            remedy=f"check their files, {remedy}",
        ) from None
    if found is None:
        raise BadInput(f"there are no keys for {address}", remedy=f"name them {remedy}")


@contextmanager
def _quiet() -> Iterator[None]:
    """What Dask logs when a connection breaks is said by our own errors."""
    logger = logging.getLogger("distributed")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextmanager
def start_cluster(
    workers: int, address: str | None, conninfo: str, progress: Progress
) -> Iterator[Cluster]:
    """Local workers, or the cluster at an address, for the block; they connect by `conninfo`."""
    own = {"DATABASE_URL": conninfo} if conninfo else {}
    with local_cluster(workers, own) if address is None else cluster_at(address) as cluster:
        _require_same_software(cluster)
        shown = f"; dashboard: {cluster.dashboard}" if cluster.dashboard else ""
        progress.note(f"Dask: {cluster.count} workers{shown}")
        yield cluster


def _versions() -> tuple[str, str, str]:
    return freqdp_db.__version__, np.__version__, numba.__version__


def _require_same_software(cluster: Cluster) -> None:
    """Other versions may compute otherwise, and the result must not depend on who computes it."""
    if others := set(cluster.on_every_worker(_versions)) - {_versions()}:
        names = ("freqdp_db", "numpy", "numba")
        found = ", ".join(f"{n} {v}" for n, v in zip(names, sorted(others)[0], strict=True))
        ours = ", ".join(f"{n} {v}" for n, v in zip(names, _versions(), strict=True))
        raise BadInput(
            f"a Dask worker has {found}; this command has {ours}",
            remedy="install the same versions on the workers and here",
        )
