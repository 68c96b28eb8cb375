"""Releases that Dask workers make: the same as threads make, and whole whoever is killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from library import opened
from servers import SharedServer, cloned
from world import Answer, freqdp, query, same_rows, value, wait_for, withdraw

from freqdp_db.dataset.building import build
from freqdp_db.dataset.memory import deal_out, load_build
from freqdp_db.db.builds import find_build
from freqdp_db.db.connection import Database, DatabaseRef
from freqdp_db.db.datasets import find_dataset
from freqdp_db.db.releases import ReleaseRow, find_release
from freqdp_db.db.staging import Staging, drop_staging
from freqdp_db.engines.dask import Cluster, Kept, _Call, local_cluster
from freqdp_db.engines.partitions import LOCAL, Engine, choose_engine, use_engine
from freqdp_db.errors import BadInput, EngineLost, FreqdpError, VerificationFailed
from freqdp_db.evaluation.evaluate import evaluate
from freqdp_db.methods.relations import TRAJECTORIES
from freqdp_db.progress import Progress, Stage
from freqdp_db.release.inputs import make_world
from freqdp_db.release.pipeline import anonymize
from freqdp_db.release.planning import make_plan
from freqdp_db.release.request import JobRequest, Request
from freqdp_db.release.verification import Verified, verify

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def city(shared_server: SharedServer, city_db: str) -> Iterator[str]:
    with cloned(shared_server.get(), city_db) as url:
        query(url, "SELECT freqdp.grant_budget(1, 1000, 'tests')")
        yield url


@pytest.fixture(scope="module")
def cluster(city: str) -> Iterator[Cluster]:
    """Two worker processes for many releases: to start them takes longer than a release."""
    with local_cluster(2, {"DATABASE_URL": city}) as found:
        yield found


def _release(
    url: str,
    name: str,
    engine: Engine,
    progress: Progress | None = None,
    dataset: str = "city",
    **wished: Any,
) -> ReleaseRow:
    with opened(url) as database:
        row = find_dataset(database, dataset)
        asked = JobRequest(Request.parse(**{"seed": 5, **wished}), name, new_draw=True)
        shown = progress or Progress()
        outcome = anonymize(database, row, asked, shown, engine=engine)
        assert outcome.verified is not None
        return outcome.release


_STORED = {
    "release_step": "step, mechanism, drawn, counts, digest",
    "tf_target": "step, location_id, tf, target",
    "pf_target": "step, trajectory_id, location_id, stage, rank, pf, target",
    "edit_run": "step, operation, trajectory_id, location_id, seq, loss_m",
    "release_key": "trajectory_id, released_id",
}


def _assert_same(url: str, one: ReleaseRow, other: ReleaseRow) -> None:
    assert one.user_level == other.user_level and one.rows == other.rows
    for table in ("", "_line"):
        assert same_rows(
            url, f"freqdp_release.{one.name}{table}", f"freqdp_release.{other.name}{table}"
        )
    for table, columns in _STORED.items():
        found = [
            query(
                url,
                f"SELECT {columns} FROM freqdp.{table} WHERE release_id = %s ORDER BY {columns}",
                row.release_id,
            )
            for row in (one, other)
        ]
        assert found[0] == found[1], table
    assert _leftovers(url) == []


def _leftovers(url: str) -> list[Any]:
    return query(url, "SELECT relname FROM pg_class WHERE relname LIKE 'staging%%'")


class Killing(Progress):
    """Kills a worker when a stage begins."""

    def __init__(self, cluster: Cluster, stage: str | None) -> None:
        super().__init__()
        self._cluster, self._stage = cluster, stage
        self.killed: str | None = None

    def open(self, name: str, total: int | None, unit: str) -> Stage:
        if name == self._stage and self.killed is None:
            self.killed = name
            os.kill(min(self._cluster.on_every_worker(os.getpid)), signal.SIGKILL)
        return super().open(name, total, unit)


@pytest.fixture(scope="module")
def by_threads(city: str) -> Callable[..., ReleaseRow]:
    """Releases that threads make, each once."""
    made: dict[str, ReleaseRow] = {}

    def release(method: str, **wished: Any) -> ReleaseRow:
        if method not in made:
            made[method] = _release(city, f"{method}_threads", LOCAL, method=method, **wished)
        return made[method]

    return release


@pytest.mark.parametrize(
    ("wished", "killed"),
    [
        ({"method": "lg", "time_step": "60s"}, None),
        ({"method": "rsc", "signature": 3}, None),
        ({"method": "gl"}, "global work"),
        ({"method": "gl"}, "write release"),
        ({"method": "gl"}, "compare rows"),
    ],
)
def test_same_as_threads(
    city: str,
    cluster: Cluster,
    by_threads: Callable[..., ReleaseRow],
    wished: dict[str, Any],
    killed: str | None,
) -> None:
    """Also if a worker is killed: what it kept is made again by another, and nothing is written twice."""
    expected = by_threads(**wished)
    spent = value(city, "SELECT count(*) FROM freqdp.spend")
    name = f"{wished['method']}_dask" + ("" if killed is None else f"_{killed.replace(' ', '_')}")
    killing = Killing(cluster, killed)
    _assert_same(city, expected, _release(city, name, cluster, killing, **wished))
    assert killing.killed == killed
    assert value(city, "SELECT count(*) FROM freqdp.spend") == spent + 1


def test_rows_lie_by_released_id(city: str, cluster: Cluster) -> None:
    """Two workers write at once, but no page says whose range a trajectory came from."""
    _release(city, "lie", cluster, method="pure-l")
    pages: dict[str, list[int]] = {}
    for page, i in query(
        city,
        "SELECT split_part(ctid::text, ',', 1), trajectory_id FROM freqdp_release.lie ORDER BY ctid",
    ):
        pages.setdefault(page, []).append(i)
    lying = {i for ids in pages.values() for i in ids}
    assert len(pages) > 10

    # each worker wrote its half of the ids in their order; which pages it got is the server's matter
    def by_halves(ids: list[int], middle: int) -> bool:
        halves = [i for i in ids if i < middle], [i for i in ids if i >= middle]
        return all(half == sorted(half) for half in halves)

    assert any(all(by_halves(ids, middle) for ids in pages.values()) for middle in lying)


def _verify(database: Database, name: str, engine: Engine) -> Verified:
    release = find_release(database, name)
    request = Request.of(release)
    build = load_build(database, release.build_id, Progress(), engine)
    world = make_world(database, build, request.method, request.values)
    return verify(database, release, world, Progress())


def test_verify_plan_and_a_row_too_many(city: str, cluster: Cluster) -> None:
    _release(city, "spoilt", LOCAL, method="gl")
    with opened(city) as database:
        row, request = find_dataset(database, "city"), Request.parse("gl", epsilon=1)
        for engine in (LOCAL, cluster):
            found = _verify(database, "spoilt", engine)
            assert found.rows == value(city, "SELECT count(*) FROM freqdp_release.spoilt")
            plan = make_plan(database, row, request, Progress(), engine)
            assert [taken.counts["deletions"] > 0 for taken in plan.steps] == [True, True]
        first = query(city, "SELECT * FROM freqdp_release.spoilt ORDER BY 1, 2 LIMIT 1")[0]
        query(
            city,
            "INSERT INTO freqdp_release.spoilt SELECT 1, seq, sampled_at, geom FROM freqdp_release.spoilt "
            "WHERE trajectory_id = %s AND seq = 1",
            first[0],
        )
        with pytest.raises(VerificationFailed, match="does not hold the rows"):
            _verify(database, "spoilt", cluster)
    withdraw(city, "spoilt")


def test_a_worker_of_a_dead_command_writes_nothing(db: Database) -> None:
    """It may come late, when the next run has made tables of the same names."""
    staged, samples = Staging(DatabaseRef.of(db), 7, "lg", 4326), TRAJECTORIES[0]
    first = staged.create_for_parts([samples])
    drop_staging(db, 7)
    second = staged.create_for_parts([samples])
    with pytest.raises(FreqdpError):
        staged.write_part(first, 0, {samples: []})
    staged.write_part(second, 0, {samples: []})
    staged.write_part(second, 0, {samples: _never()})
    with pytest.raises(AssertionError, match="written twice"):
        staged.write_part(second, 1, {samples: _never()})


def _never() -> Iterator[bytes]:
    raise AssertionError("written twice")
    yield b""


def _children(pid: int) -> list[int]:
    found = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(child) for child in (task / "children").read_text().split()]
    return found + [below for child in found for below in _children(child)]


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _listening(pids: list[int]) -> list[str]:
    """Addresses beyond the loopback interface that these processes listen on."""
    own = set()
    for pid in pids:
        with suppress(OSError):
            own |= {str(file.readlink()) for file in Path(f"/proc/{pid}/fd").iterdir()}
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    heard = [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in own]
    return [address for address in heard if not address.startswith("0100007F")]


@contextmanager
def _command(url: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "freqdp_db", *arguments],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": url},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        yield process


def test_the_driver_is_killed(city: str) -> None:
    """Its workers end by themselves, and the release goes on from its draws."""
    started = value(city, "SELECT count(*) FROM freqdp.spend")
    asked = ("anonymize", "city", "--method", "lg", "--epsilon", "1", "--as", "driver")
    with _command(city, *asked, "--engine", "dask", "--workers", "2") as process:
        wait_for(lambda: _drawn(city, "driver") or process.poll() is not None, "a draw")
        workers = _children(process.pid)
        assert len(workers) >= 2 and _listening([process.pid, *workers]) == []
        for pid in workers:
            # what ps shows of them holds nothing of the database
            assert b"postgres" not in Path(f"/proc/{pid}/cmdline").read_bytes()
        process.kill()
    wait_for(lambda: not any(map(_lives, workers)), "the workers to end")
    targets = _targets(city, "driver")
    freqdp(city, "release", "resume", "driver").succeeded()
    assert _targets(city, "driver")[: len(targets)] == targets
    assert value(city, "SELECT count(*) FROM freqdp.spend") == started + 1
    assert _leftovers(city) == []


def _drawn(url: str, name: str) -> int:
    return int(
        value(
            url,
            "SELECT count(*) FROM freqdp.release_step JOIN freqdp.release USING (release_id) "
            "WHERE name = %s",
            name,
        )
    )


def _targets(url: str, name: str) -> list[Any]:
    return query(
        url,
        "SELECT step, trajectory_id, location_id, target FROM freqdp.pf_target "
        "JOIN freqdp.release USING (release_id) WHERE name = %s AND step = 1 ORDER BY 1, 2, 3",
        name,
    )


@contextmanager
def _somebodys_cluster(
    url: str, protocol: str = "tcp", **keys: str
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A scheduler and a worker as a user would start them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    port = address.partition(":")[2]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1",
         "--port", port, "--dashboard-address", "127.0.0.1:0", "--protocol", protocol],
        cwd=ROOT, env={**os.environ, **keys}, **quiet,
    )  # fmt: skip
    worker = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_worker", f"{protocol}://{address}", "--nthreads", "1",
         "--no-nanny", "--death-timeout", "300", "--dashboard-address", "127.0.0.1:0"],
        cwd=ROOT, env={**os.environ, **keys, "DATABASE_URL": url}, **quiet,
    )  # fmt: skip
    try:
        yield address, scheduler
    finally:
        for process in (worker, scheduler):
            process.kill()
            process.wait()


def test_a_scheduler_of_the_users_is_lost(city: str) -> None:
    with _somebodys_cluster(city) as (address, scheduler):
        chosen = choose_engine(f"dask://{address}", None)

        class Losing(Progress):
            def open(self, name: str, total: int | None, unit: str) -> Stage:
                if name == "local work":
                    scheduler.kill()
                return super().open(name, total, unit)

        def there() -> bool:
            with suppress(EngineLost), use_engine(chosen, "", Progress()) as found:
                return found is not None
            return False

        wait_for(there, "a worker")
        with opened(city) as database, use_engine(chosen, database.conninfo, Progress()) as engine:
            with pytest.raises(EngineLost, match="lost") as lost:
                request = Request.parse("gl", epsilon=1)
                row = find_dataset(database, "city")
                anonymize(database, row, JobRequest(request, "lost"), Losing(), engine=engine)
            assert lost.value.can_pass and "same command" in str(lost.value.remedy)
    freqdp(city, "release", "resume", "lost").succeeded()
    assert _leftovers(city) == []


def test_a_scheduler_that_asks_for_keys(city: str, tmp_path: Path) -> None:
    """`tls://` takes Dask's own settings; without the keys nobody gets in."""
    import dask
    from distributed import Security

    made = Security.temporary()
    authority, certificate, key = (tmp_path / name for name in ("ca.pem", "cert.pem", "key.pem"))
    authority.write_text(made.tls_ca_file)
    certificate.write_text(made.tls_client_cert)
    key.write_text(made.tls_client_key)
    setting = "DASK_DISTRIBUTED__COMM__TLS__"
    keys = {f"{setting}CA_FILE": str(authority)}
    for who in ("SCHEDULER", "WORKER"):
        keys |= {f"{setting}{who}__CERT": str(certificate), f"{setting}{who}__KEY": str(key)}
    with _somebodys_cluster(city, "tls", **keys) as (address, _):

        def asked(ours: dict[str, Any]) -> Answer:
            with dask.config.set(ours):
                engine = f"tls://{address}"
                return freqdp(city, "plan", "city", "--method", "pure-l", "--engine", engine)

        tls = "distributed.comm.tls"
        ours = {
            f"{tls}.ca-file": str(authority),
            f"{tls}.client.cert": str(certificate),
            f"{tls}.client.key": str(key),
        }
        wait_for(lambda: asked(ours).code == 0, "an answer of the cluster")
        nowhere = {f"{tls}.client.key": "/nowhere/key.pem"}
        for without, words in (({}, "no keys for"), (ours | nowhere, "the keys for")):
            asked(without).refused(words, f"tls://{address}")


def test_jobs(city: str) -> None:
    """A worker of ours has workers of Dask's do a job; what they cannot do is refused, once and for all."""
    asked = "SELECT freqdp.request_release('city', %s, %s::numeric, %s::jsonb)"
    able = value(city, asked, "gl", 1, '{"new_draw": true}')
    unable = value(city, asked, "swap", None, '{"beside": "gl_dask"}')
    answer = freqdp(city, "worker", "--once", "--engine", "dask", "--workers", "2")
    assert answer.code == 4, answer
    states = query(city, "SELECT job_id, state, error FROM freqdp.job ORDER BY 1")
    assert states[0] == (able, "done", None)
    assert states[1][:2] == (unable, "refused") and "looks at all trajectories" in states[1][2]


def test_without_dask(city: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    asked = ("anonymize", "city", "--method", "lg", "--engine")
    for engine in ("dask", "dask://host:8786"):
        said = freqdp(city, *asked, engine).refused("needs Dask", "not installed")
        assert said["remedy"] == "pip install 'freqdp_db[dask]'"
    monkeypatch.setenv("FREQDP_ENGINE", "dask")
    freqdp(city, "plan", "city", "--method", "lg").refused("FREQDP_ENGINE=dask", "not installed")


@pytest.mark.parametrize(
    "wished", [{"method": "pure-l"}, {"method": "glove", "k": 3, "seed": None}]
)
def test_the_same_metrics(city: str, cluster: Cluster, wished: dict[str, Any]) -> None:
    """Also of releases whose methods need all trajectories at once."""
    release = _release(city, f"measured_{wished['method'][-1]}", LOCAL, **wished)
    found = []
    for engine in (LOCAL, cluster):
        with opened(city) as database:
            found.append(evaluate(database, release, Progress(), engine=engine))
    assert found[0] == found[1] and len(found[0]) > 100


_PATIENCE_S = 300.0


def _made_by(database: Database, asked: Path, progress: Progress) -> tuple[int, Path]:
    return os.getpid(), asked


def _who(made: tuple[int, Path], piece: int, progress: Progress) -> tuple[int, int]:
    """Waits for another worker to have a piece as well: the scheduler gives pieces to idle ones."""
    maker, seen = made
    assert maker == os.getpid(), "what was made stays where it was made"
    (seen / str(maker)).touch()
    until = time.monotonic() + 300
    while len(list(seen.iterdir())) < 2:
        assert time.monotonic() < until, "no other worker was given a piece"
        time.sleep(0.05)
    return maker, piece


def test_pieces_are_dealt_out_to_all(city: str, cluster: Cluster, tmp_path: Path) -> None:
    # one that an earlier test has killed may still be on its way back
    cluster._client.wait_for_workers(cluster.count, timeout=_PATIENCE_S)
    with opened(city) as database:
        build = find_build(database, find_dataset(database, "city").require_build())
        dealt = deal_out(cluster, database, build, _made_by, tmp_path, _who, range(12), Progress())
        found = list(dealt)
    assert [piece for _, piece in found] == list(range(12))
    assert len({maker for maker, _ in found}) == cluster.count == 2


def test_no_password_reaches_the_scheduler(cluster: Cluster, city: str) -> None:
    """What the scheduler knows of its workers and tasks names no database."""
    known = repr(cluster._client.scheduler_info())
    assert "127.0.0.1" in known
    for secret in ("postgresql://", "DATABASE_URL", city):
        assert secret not in known


def _port(dask_worker: Any) -> int:
    return int(dask_worker.http_server.port)


def test_no_pages_are_served(cluster: Cluster) -> None:
    """Whoever is on the machine can reach the loopback interface, and Dask's pages ask for no key."""
    scheduler = cluster._client.cluster.scheduler.http_server.port
    for port in (scheduler, *cluster.on_every_worker(_port)):
        for page in ("", "health", "metrics", "info/main/workers.html", "json/identity.json"):
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}")
            assert caught.value.code == 404
            caught.value.close()


def test_values_do_not_show_themselves() -> None:
    """Dask logs what failed tasks were given."""
    call = _Call(os.getpid, ("a secret",))
    assert "secret" not in repr((Kept("a secret"), call)) and "getpid" in repr(call)


def test_what_is_chosen() -> None:
    none: dict[str, str] = {}
    assert choose_engine(None, None, none).workers == 0
    assert choose_engine("dask", 3, none).workers == 3
    assert choose_engine("dask://[::1]:8786", None, none).address == "tcp://[::1]:8786"
    assert choose_engine("tls://dask.local:8786", None, none).address == "tls://dask.local:8786"
    for engine, given in product([None, "threads"], ["dask", "threads"]):
        wanted = (engine or given) == "dask"
        assert (choose_engine(engine, None, {"FREQDP_ENGINE": given}).workers > 0) is wanted


_PARTS = ("sample", "location", "trajectory", "segment", "grid_cell")
_BUILT = (
    "rows, excluded, trajectories, samples, locations, segments, source_srid, srid, time_step_us, "
    "median_gap_us, grid, fingerprint, time_unit"
)


def _build(url: str, dataset: str, engine: Engine, progress: Progress | None = None) -> list[Any]:
    """Build, and keep the rows, which the next build sweeps; what is recorded of it."""
    with opened(url) as database:
        row = find_dataset(database, dataset)
        number = build(database, row, progress or Progress(), engine).build_id
    for part in _PARTS:
        columns = value(
            url,
            "SELECT string_agg(attname, ', ' ORDER BY attnum) FROM pg_attribute WHERE attnum > 0 "
            f"AND attname <> 'build_id' AND attrelid = 'freqdp.{part}'::regclass",
        )
        kept = f"{'dask' if engine.remote else 'threads'}_{part}"
        query(url, f"DROP TABLE IF EXISTS {kept}")
        query(url, f"CREATE TABLE {kept} AS SELECT {columns} FROM freqdp.{part} "
              f"WHERE build_id = {number}")  # fmt: skip
    return query(url, f"SELECT {_BUILT} FROM freqdp.build WHERE build_id = %s", number)


def _assert_same_builds(
    url: str, dataset: str, cluster: Cluster, progress: Progress | None = None
) -> list[Any]:
    """By threads and by workers, row for row, with nothing left behind; what is recorded of both."""
    one, other = _build(url, dataset, LOCAL), _build(url, dataset, cluster, progress)
    assert one == other
    for part in _PARTS:
        assert same_rows(url, f"threads_{part}", f"dask_{part}"), part
    left = "SELECT relname FROM pg_class WHERE relname ~ '_[0-9]+(_part)?$' AND relkind = 'r' " \
        "AND NOT relispartition AND relnamespace = 'freqdp'::regnamespace"  # fmt: skip
    assert query(url, left) == []
    return one


_KEYS = {
    # our sorting and the server's could order these otherwise
    "text": "CASE ascii(right(object_id, 1)) % 4 WHEN 0 THEN 'Ä' WHEN 1 THEN 'z' WHEN 2 THEN 'B-' "
    "ELSE 'a ' END || object_id",
    # and these are no texts
    "integer": "('x' || left(md5(object_id), 6))::bit(24)::int - 8000000",
}
_NOWHERE = "ST_SetSRID(ST_MakePoint(0, 0), 4326)::geometry(Point, 4326)"
_FEW = (
    "object_id < (SELECT min(object_id) || '~' FROM demo.city) OR object_id = (SELECT "
    'percentile_disc(0.2) WITHIN GROUP (ORDER BY object_id COLLATE "C") FROM demo.city)'
)


@contextmanager
def _named(
    url: str, columns: str, kind: str = "VIEW", options: tuple[str, ...] = ("--time", "at")
) -> Iterator[str]:
    """The city with other columns, as a dataset: a view, or rows that lie in blocks.

    Each has a name of its own: a budget remembers the tables that it was opened for.
    """
    selected, name = f"SELECT {columns} FROM demo.city", f"named_{uuid4().hex[:8]}"
    if kind == "PARTITIONS":
        query(url, f"CREATE TEMP TABLE like_it AS {selected} LIMIT 0; "
              f"CREATE TABLE {name} (LIKE like_it) PARTITION BY HASH (who)")  # fmt: skip
        for n in range(3):
            query(url, f"CREATE TABLE {name}_{n} PARTITION OF {name} "
                  f"FOR VALUES WITH (MODULUS 3, REMAINDER {n})")  # fmt: skip
        query(url, f"INSERT INTO {name} {selected}")
    else:
        query(url, f"CREATE {kind} {name} AS {selected}")
    freqdp(
        url, "dataset", "add", name, "--from", f"public.{name}", "--object", "who",
        "--geom", "geom", *options,
    ).succeeded()  # fmt: skip
    yield name
    freqdp(url, "dataset", "drop", name).succeeded()
    query(url, f"DROP {'VIEW' if kind == 'VIEW' else 'TABLE'} {name}")


@pytest.mark.parametrize(
    ("key", "geom", "kind", "killed"),
    [
        ("text", "geom", "VIEW", None),
        ("integer", "geom", "PARTITIONS", None),
        # the last range has not one row that can be used
        ("text", f"CASE WHEN {_FEW} THEN geom ELSE {_NOWHERE} END", "TABLE", None),
        ("text", "geom", "TABLE", "clean and snap"),
        ("text", "geom", "TABLE", "write samples"),
    ],
    ids=["view", "partitions", "few", "killed early", "killed late"],
)
def test_builds(
    city: str, cluster: Cluster, key: str, geom: str, kind: str, killed: str | None
) -> None:
    # the keys of `few` are in the order of the objects
    wanted = _KEYS[key] if geom == "geom" else "object_id"
    killing = Killing(cluster, killed)
    with _named(city, f"at, {geom} AS geom, {wanted} AS who", kind) as name:
        _assert_same_builds(city, name, cluster, killing)
    assert killing.killed == killed


@pytest.mark.parametrize("kind", ["VIEW", "TABLE"])
def test_columns_that_are_carried_along(city: str, cluster: Cluster, kind: str) -> None:
    """Workers read them, count who has them together, and release them as threads do."""
    columns = "at, geom, object_id AS who, 'k' || ascii(right(object_id, 1)) % 3 AS kind, "
    columns += "extract(hour FROM at)::int2 / 8 AS shift"
    options = ("--time", "at", "--keep-columns", "kind,shift")
    with _named(city, columns, kind, options) as name:
        _assert_same_builds(city, name, cluster)
        wished = {"dataset": name, "method": "lg", "epsilon": "1"}
        rows = [
            _release(city, f"{name}_{engine}", e, **wished)
            for engine, e in {"threads": LOCAL, "dask": cluster}.items()
        ]
        _assert_same(city, *rows)
        assert value(city, f"SELECT count(DISTINCT kind) FROM freqdp_release.{rows[1].name}") == 3
        for row in rows:
            freqdp(city, "release", "withdraw", row.name).succeeded()


_EPOCHS = "extract(epoch FROM at) AS epoch, at, geom, object_id AS who"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--time", "at", "--snap", "exact"), "cannot build with snap exact"),
        (("--time", "epoch"), "cannot guess what epoch numbers count"),
    ],
)
def test_builds_that_need_all_positions(
    city: str, cluster: Cluster, options: tuple[str, ...], words: str
) -> None:
    with _named(city, _EPOCHS, options=options) as name, pytest.raises(BadInput, match=words):
        _build(city, name, cluster)


def test_epoch_numbers_of_a_declared_unit(city: str, cluster: Cluster) -> None:
    """Workers read them row by row, as threads do."""
    with _named(city, _EPOCHS, options=("--time", "epoch", "--time-unit", "s")) as name:
        ((*_, unit),) = _assert_same_builds(city, name, cluster)
    assert unit == "s"
