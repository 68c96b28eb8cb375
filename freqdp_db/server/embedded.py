"""The embedded server: a private PostGIS cluster of this user's, started when it is needed.

It listens on a unix socket only, knows its callers by their account (peer authentication), keeps
running between commands and is as durable as any server. `cluster` knows its files.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlencode

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import PGconn, Ping

from freqdp_db.errors import ServerFailed, ServerNotFound
from freqdp_db.server.binaries import Binaries, find_binaries
from freqdp_db.server.cluster import (
    PORT,
    SUPERUSER,
    Account,
    ClusterLayout,
    configure,
    create,
    default_data_dir,
    last_line,
)
from freqdp_db.server.processes import is_alive, is_postgres_of, listens, processes, wait_until

DATABASE = "freqdp"
# Recovery after a crash replays up to max_wal_size of log before the server is ready.
_START_SECONDS = 900
_STOP_SECONDS = 60
_ORPHAN_SECONDS = 10


@dataclass(frozen=True)
class ServerStatus:
    """What `freqdp db status` tells."""

    running: bool
    version: str | None
    """Of a stopped server only the major version is known; None before the first start."""
    data_dir: Path
    socket_dir: Path
    pid: int | None
    database: str


class EmbeddedServer:
    """The server whose files are in `data_dir` (None: the default directory of this user)."""

    def __init__(self, data_dir: Path | None = None) -> None:
        self.layout = ClusterLayout((data_dir or default_data_dir()).absolute())

    def conninfo(self, database: str = DATABASE) -> str:
        """A libpq connection string; the server need not be running."""
        return make_conninfo(
            host=str(self.layout.socket_dir), port=PORT, user=SUPERUSER, dbname=database
        )

    def exists(self) -> bool:
        """Whether it was made; it need not be running."""
        self.layout.account()
        return self.layout.major() is not None

    def ensure_running(self) -> str:
        """Create and start the server where that has not been done; the connection string.

        Raises ServerNotFound without a PostgreSQL with PostGIS, ServerFailed if it does not start.
        """
        if not self._answers(self.layout.account()):
            with self._locked() as account:
                # Whoever held the lock may have done the work.
                if not self._answers(account):
                    self._start(account)
                    self._create_database()
        return self.conninfo()

    def stop(self) -> bool:
        """Stop the server; open transactions are rolled back. False if it was not running."""
        if not self.layout.cluster.exists():
            return False
        with self._locked():
            pid = self._postmaster()
            if pid is None:
                return False
            self._shut_down(pid)
            return True

    def status(self) -> ServerStatus:
        """Look, and change nothing."""
        self.layout.account()
        pid = self._postmaster()
        major = self.layout.major()
        version = None if major is None else str(major)
        if pid is not None:
            with suppress(psycopg.Error), psycopg.connect(self.conninfo("postgres")) as connection:
                version = (connection.info.parameter_status("server_version") or "").partition(" ")[
                    0
                ]
        return ServerStatus(
            running=pid is not None,
            version=version,
            data_dir=self.layout.data_dir,
            socket_dir=self.layout.socket_dir,
            pid=pid,
            database=DATABASE,
        )

    def psql_command(self) -> list[str]:
        """A command that opens psql on the database."""
        binaries = self._binaries()
        psql = binaries.program("psql")
        if not os.access(psql, os.X_OK):
            psql = shutil.which("psql") or ""
        if not psql:
            raise ServerNotFound(
                f"there is no psql in {binaries.bindir}",
                remedy=f"apt-get install postgresql-client-{binaries.major}",
            )
        # Unpacked programs need their libraries named, and a bare command list has no environment.
        assignments = [f"{name}={value}" for name, value in binaries.relocation().items()]
        prefix = ["env", *assignments] if assignments else []
        return [*prefix, psql, "-d", self.conninfo()]

    def destroy(self) -> None:
        """Stop the server and remove its files, and only those."""
        self.stop()
        for path in (self.layout.cluster, self.layout.socket_dir):
            shutil.rmtree(path, ignore_errors=True)
        for leftover in self.layout.data_dir.glob("cluster.new-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        self.layout.log.unlink(missing_ok=True)
        self.layout.lock.unlink(missing_ok=True)
        with suppress(OSError):
            self.layout.data_dir.rmdir()

    def _binaries(self) -> Binaries:
        """The programs of the version that made the cluster; the best ones if there is none yet."""
        major = self.layout.major()
        try:
            return find_binaries(major)
        except ServerNotFound as error:
            if major is None:
                raise
            raise ServerFailed(
                f"the data in {self.layout.data_dir} was made by PostgreSQL {major}: {error.text}",
                remedy=error.remedy_text,
            ) from None

    @contextmanager
    def _locked(self) -> Iterator[Account]:
        """One command at a time creates, starts or stops; a killed one leaves no lock behind."""
        account = self.layout.account()
        try:
            self.layout.prepare(account)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
            descriptor = os.open(self.layout.lock, flags, 0o600)
        except OSError as error:
            raise ServerFailed(
                f"the directory {self.layout.data_dir} cannot be used: {error.strerror}",
                remedy="set FREQDP_DATA_DIR to a directory that you may write",
            ) from None
        try:
            account.give(descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield account
        finally:
            os.close(descriptor)

    def _answers(self, account: Account) -> bool:
        """Whether the database is there and complete."""
        if not self.layout.socket_is_private(account):
            return False
        try:
            with psycopg.connect(self.conninfo(), connect_timeout=10) as connection:
                found = connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'postgis'")
                return found.fetchone() is not None
        except psycopg.OperationalError:
            return False

    def _start(self, account: Account) -> None:
        binaries = self._binaries()
        if self.layout.major() is None:
            create(self.layout, binaries, account)
        pid = self._postmaster()
        if pid is not None and listens(self.layout.socket):
            if self._becomes_ready(pid):
                return
        elif pid is not None:
            # Somebody's clean-up of /tmp took the socket: nobody can reach this server any more.
            self._shut_down(pid)
        self._clear_away_the_dead()
        self.layout.prepare_start(account)
        configure(self.layout, binaries, account)
        logged = self.layout.log.stat().st_size
        done = account.run(
            [
                binaries.program("pg_ctl"),
                "start",
                "--wait",
                f"--timeout={_START_SECONDS}",
                f"--log={self.layout.log.name}",
                "--silent",
            ],
            # pg_ctl hands its arguments to a shell; by this way the path never meets it.
            env={**binaries.environment(), "PGDATA": str(self.layout.cluster)},
            cwd=self.layout.data_dir,
        )
        if done.returncode != 0:
            with self.layout.log.open(errors="replace") as log:
                log.seek(logged)
                fatal = [line for line in log if "FATAL" in line or "PANIC" in line]
            reason = fatal[0].strip() if fatal else last_line(done.stderr)
            raise ServerFailed(
                f"the embedded server did not start: {reason}", remedy=f"see {self.layout.log}"
            )

    def _create_database(self) -> None:
        """The database and its extension; every step can be repeated after a kill."""
        try:
            with psycopg.connect(self.conninfo("postgres"), autocommit=True) as connection:
                query = "SELECT 1 FROM pg_database WHERE datname = %s"
                if connection.execute(query, (DATABASE,)).fetchone() is None:
                    connection.execute(
                        sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE))
                    )
            with psycopg.connect(self.conninfo(), autocommit=True) as connection:
                connection.execute("SET client_min_messages = warning")
                connection.execute("CREATE EXTENSION IF NOT EXISTS postgis")
                # the user is called as our private schema is: "$user" would put people's tables there
                connection.execute(
                    sql.SQL("ALTER DATABASE {} SET search_path = public").format(
                        sql.Identifier(DATABASE)
                    )
                )
        except psycopg.Error as error:
            raise ServerFailed(
                f"the embedded server started but cannot be used: {last_line(str(error))}",
                remedy=f"see {self.layout.log}",
            ) from None

    def _postmaster(self) -> int | None:
        """The process id of this cluster's server; None if it is not running."""
        pid = self._recorded_pid()
        return pid if pid and is_postgres_of(pid, self.layout.cluster) else None

    def _recorded_pid(self) -> int | None:
        """The process id in the lock file; None also for a single-user server's, which is negative.

        That one is a person at work: not ours to stop, and PostgreSQL refuses to start beside it.
        """
        try:
            pid = int(self.layout.pid_file.read_text().split("\n", 1)[0])
        except (FileNotFoundError, ValueError):
            return None
        return pid if pid > 0 else None

    def _becomes_ready(self, pid: int) -> bool:
        """Wait for a server that is still in recovery; False if it was about to stop, and has."""

        def gone() -> bool:
            return not is_postgres_of(pid, self.layout.cluster)

        def ready() -> bool:
            # the file of its process id still says "ready" while it recovers from a killed backend
            return PGconn.ping(self.conninfo("postgres").encode()) == Ping.OK

        if not wait_until(lambda: ready() or gone(), _START_SECONDS):
            raise ServerFailed(
                f"the embedded server (process {pid}) is not ready after {_START_SECONDS} s",
                remedy=f"see {self.layout.log}",
            )
        return not gone()

    def _shut_down(self, pid: int) -> None:
        """PostgreSQL's "fast" shutdown; if it hangs (it can during recovery), the immediate one."""
        for how in (signal.SIGINT, signal.SIGQUIT):
            os.kill(pid, how)
            if wait_until(lambda: not is_postgres_of(pid, self.layout.cluster), _STOP_SECONDS):
                return
        raise ServerFailed(
            f"the embedded server (process {pid}) did not stop in {2 * _STOP_SECONDS} s",
            remedy=f"see {self.layout.log}",
        )

    def _clear_away_the_dead(self) -> None:
        """After a kill or a power cut: end orphaned backends, forget a stranger's pid."""
        recorded = self._recorded_pid()
        if recorded is None:
            return
        # Busy backends outlive a killed postmaster, and no new one starts beside them.
        orphans = [pid for pid in processes() if is_postgres_of(pid, self.layout.cluster)]
        for pid in orphans:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGQUIT)
        wait_until(
            lambda: not any(is_postgres_of(pid, self.layout.cluster) for pid in orphans),
            _ORPHAN_SECONDS,
        )
        # PostgreSQL sees to a dead pid itself, but takes a living stranger for its server.
        if is_alive(recorded) and not listens(self.layout.socket):
            self.layout.pid_file.unlink(missing_ok=True)
            self.layout.socket.with_name(f"{self.layout.socket.name}.lock").unlink(missing_ok=True)


def connection_url(conninfo: str) -> str:
    """The same connection as a URL that psql, SQLAlchemy and --dsn understand."""
    parameters = {k: str(v) for k, v in conninfo_to_dict(conninfo).items() if v is not None}
    database = quote(parameters.pop("dbname", ""), safe="")
    return f"postgresql:///{database}?{urlencode(parameters, safe='/', quote_via=quote)}"
