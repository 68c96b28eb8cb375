"""The embedded server: a private PostGIS cluster of this user's, started when it is needed.

It listens on a unix socket only, knows its callers by their account (peer authentication), keeps
running between commands and is as durable as any server.
"""

from __future__ import annotations

import fcntl
import hashlib
import locale
import os
import pwd
import re
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlencode

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import PGconn, Ping

from freqdp_db.errors import ServerFailed, ServerNotFound
from freqdp_db.server.binaries import Binaries, find_binaries, home

# The files of the embedded server: where they lie, whose they are, how they are made.


SUPERUSER = "freqdp"
PORT = 5432
# sun_path holds 108 bytes with its terminator; the socket's own name takes 14 of them.
_MAX_SOCKET_DIR = 107 - len(f"/.s.PGSQL.{PORT}")
# A comma or a quote in the path would split PostgreSQL's list of socket directories.
_PLAIN_PATH = re.compile(r"[\w/.+@=~-]+", re.ASCII)
_INCLUDE = "freqdp.conf"


@dataclass(frozen=True)
class Account:
    """The operating system's account that the server runs as and that owns its files."""

    name: str
    uid: int
    gid: int

    @classmethod
    def of(cls, uid: int) -> Account:
        try:
            entry = pwd.getpwuid(uid)
        except KeyError:
            raise ServerFailed(
                f"user id {uid} has no entry in passwd, and PostgreSQL does not run without one",
                remedy="run as a user that has a name, or give [[dsn]]",
            ) from None
        return cls(entry.pw_name, entry.pw_uid, entry.pw_gid)

    def run(
        self, command: list[str], *, env: Mapping[str, str] | None = None, cwd: Path | str = "/"
    ) -> subprocess.CompletedProcess[str]:
        """Run a program as this account; root changes to it, nobody else can or needs to."""
        root = os.geteuid() == 0
        try:
            return subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                cwd=cwd,
                env=env,
                user=self.uid if root else None,
                group=self.gid if root else None,
                extra_groups=[] if root else None,
                umask=0o077,
                # Ctrl-C at the terminal is for the command, not for the server it is starting.
                start_new_session=True,
            )
        except OSError as error:
            raise ServerFailed(f"{command[0]} cannot be run as {self.name}: {error}") from None

    def give(self, made: Path | int) -> None:
        """Hand over a directory or an open file that root has just made."""
        if os.geteuid() == 0:
            follow = isinstance(made, int)
            os.chown(made, self.uid, self.gid, follow_symlinks=follow)


class ClusterLayout:
    """The places inside one data directory."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.cluster = data_dir / "cluster"
        self.pid_file = self.cluster / "postmaster.pid"
        self.log = data_dir / "server.log"
        self.lock = data_dir / "lock"
        self.socket_dir = data_dir / "socket"
        """In the data directory, or short and in /tmp; the same for every caller of this data."""
        if len(os.fsencode(self.socket_dir)) > _MAX_SOCKET_DIR or not _PLAIN_PATH.fullmatch(
            str(self.socket_dir)
        ):
            digest = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16]
            self.socket_dir = Path("/tmp") / f"freqdp-{digest}"
        self.socket = self.socket_dir / f".s.PGSQL.{PORT}"

    def major(self) -> int | None:
        """The version that made the cluster; None where there is no cluster yet."""
        try:
            return int((self.cluster / "PG_VERSION").read_text())
        except FileNotFoundError:
            return None

    def account(self) -> Account:
        """Who runs the server: the caller; for root the files' owner or a powerless account."""
        caller = os.geteuid()
        self._require_private()
        owner = _owner(self.cluster)
        if caller != 0:
            if owner not in (None, caller):
                raise ServerFailed(
                    f"the server in {self.data_dir} belongs to user id {owner}, not to you",
                    remedy="set FREQDP_DATA_DIR to a directory of your own, or run as its owner",
                )
            return Account.of(caller)
        for uid in (owner, _owner(self.data_dir)):
            if uid:
                return Account.of(uid)
        for name in ("postgres", "nobody"):
            try:
                return Account.of(pwd.getpwnam(name).pw_uid)
            except KeyError:
                continue
        raise ServerFailed(
            "PostgreSQL does not run as root, and there is neither a user postgres nor nobody",
            remedy="run as an ordinary user, or give [[dsn]]",
        )

    def _require_private(self) -> None:
        """Refuse a directory in which others could swap the files of the server."""
        for path in (self.data_dir, self.cluster):
            try:
                mode = path.stat().st_mode
            except OSError:
                continue  # not there yet, or not to be looked into: what makes or uses it says so
            if mode & 0o022:
                raise ServerFailed(
                    f"others than its owner may write to {path} (mode {stat.S_IMODE(mode):04o})",
                    remedy=f"chmod go-w {shlex.quote(str(path))}, or set FREQDP_DATA_DIR to another "
                    "directory",
                )

    def prepare(self, account: Account) -> None:
        """Make the data directory. Only what we make ourselves gets an owner and a mode from us."""
        root = os.geteuid() == 0
        if not self.data_dir.exists():
            self.data_dir.mkdir(parents=True, exist_ok=True)
            # Stays root's own, so that the account cannot swap what root goes on to use in it.
            self.data_dir.chmod(0o711 if root else 0o700)
        if root and account.run(["/bin/sh", "-c", 'cd "$1"', "sh", str(self.data_dir)]).returncode:
            raise ServerFailed(
                f"the server runs as {account.name}, who cannot enter {self.data_dir}",
                remedy="set FREQDP_DATA_DIR (or XDG_DATA_HOME) to a directory outside root's home",
            )

    def prepare_start(self, account: Account) -> None:
        """What a start needs besides the cluster: the log, and a private place for the socket."""
        if not self.log.exists():
            self.log.touch(mode=0o600)
            account.give(self.log)
        directory = self.socket_dir
        try:
            directory.mkdir(mode=0o700)
            account.give(directory)
        except FileExistsError:
            if not self.socket_is_private(account):
                raise ServerFailed(
                    f"{directory} is in the way: it is not a private directory of {account.name}'s",
                    remedy="remove it, or set FREQDP_DATA_DIR to a shorter path",
                ) from None

    def socket_is_private(self, account: Account) -> bool:
        """Whether only our server can be behind the socket: anybody may make a name in /tmp."""
        try:
            found = self.socket_dir.lstat()
        except OSError:
            return False
        private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o022
        return private and found.st_uid == account.uid


def default_data_dir(environ: Mapping[str, str] = os.environ) -> Path:
    named = environ.get("FREQDP_DATA_DIR")
    return Path(named) if named else home(environ)


def create(layout: ClusterLayout, binaries: Binaries, account: Account) -> None:
    """Make the cluster under a name of its own and rename it: a killed initdb leaves no half."""
    for leftover in layout.data_dir.glob("cluster.new-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    if layout.cluster.exists() and not any(layout.cluster.iterdir()):
        layout.cluster.rmdir()
    if layout.cluster.exists():
        raise ServerFailed(
            f"{layout.cluster} is neither empty nor a PostgreSQL cluster",
            remedy="move it away, or set FREQDP_DATA_DIR to another directory",
        )
    # A unique name: an initdb whose parent was killed may still be writing to the last one.
    new = Path(tempfile.mkdtemp(prefix="cluster.new-", dir=layout.data_dir))
    account.give(new)
    # Byte order sorts fastest and the same everywhere; only character classes need the locale.
    done = account.run(
        [
            binaries.program("initdb"),
            f"--pgdata={new}",
            f"--username={SUPERUSER}",
            "--encoding=UTF8",
            "--locale=C",
            f"--lc-ctype={_character_type()}",
            "--auth=peer",
            "--data-checksums",
            "--no-instructions",
        ],
        env=binaries.environment(),
    )
    if done.returncode != 0:
        shutil.rmtree(new, ignore_errors=True)
        raise ServerFailed(f"initdb failed: {last_line(done.stderr)}")
    conf = new / "postgresql.conf"
    _write(conf, f"{conf.read_text()}\ninclude '{_INCLUDE}'\n", account)
    new.rename(layout.cluster)
    _sync_directory(layout.data_dir)


def configure(layout: ClusterLayout, binaries: Binaries, account: Account) -> None:
    """Write what is ours, at every start: accounts, memory and our own version may have changed.

    A setting of the user's belongs in ALTER SYSTEM, which wins over this file.
    """
    cluster = layout.cluster
    _write(cluster / _INCLUDE, _settings(layout, binaries), account)
    _write(cluster / "pg_hba.conf", "local all all peer map=freqdp\n", account)
    names = dict.fromkeys((account.name, "root"))
    lines = "".join(f'freqdp "{name}" {SUPERUSER}\n' for name in names)
    _write(cluster / "pg_ident.conf", lines, account)


def _settings(layout: ClusterLayout, binaries: Binaries) -> str:
    """Tuned for bulk work and as durable as any server: fsync and its kin stay as they are."""
    megabytes = _memory_bytes() // 2**20
    workers = max(2, min(8, os.cpu_count() or 2))
    settings: dict[str, str | int] = {
        "listen_addresses": "",
        "port": PORT,
        "unix_socket_directories": str(layout.socket_dir),
        "unix_socket_permissions": "0700",
        "max_connections": 100,
        "shared_buffers": f"{max(64, min(1024, megabytes // 4))}MB",
        "effective_cache_size": f"{max(128, megabytes // 2)}MB",
        "maintenance_work_mem": f"{max(64, min(512, megabytes // 8))}MB",
        "work_mem": "64MB",
        "wal_level": "minimal",
        "max_wal_senders": 0,
        "wal_compression": "on",
        "max_wal_size": "8GB",
        "checkpoint_timeout": "15min",
        "random_page_cost": "1.1",
        "max_parallel_maintenance_workers": min(4, workers),
        "max_parallel_workers": workers,
        "jit": "off",
        # Without the system's zone files, which an unpacked server cannot bring, only GMT is known.
        "timezone": "UTC" if Path("/usr/share/zoneinfo/UTC").exists() else "GMT",
        "log_timezone": "GMT",
        "log_min_messages": "warning",
        "log_error_verbosity": "terse",
        # A failed statement, or its DETAIL, can hold rows of the source.
        "log_min_error_statement": "panic",
        "effective_io_concurrency": 200,
        "maintenance_io_concurrency": 200,
        # The statement of a process that was killed ends with it, and so do its locks.
        "client_connection_check_interval": "2s",
    }
    if _shared_memory_is_small():
        settings["dynamic_shared_memory_type"] = "sysv"
    lines = [
        f"{name} = '{str(value).replace(chr(39), chr(39) * 2)}'" for name, value in settings.items()
    ]
    return f"# Written by freqdp at every start, for PostgreSQL {binaries.major}.\n" + "".join(
        f"{line}\n" for line in lines
    )


def _memory_bytes() -> int:
    """Physical memory, or what the control group leaves of it."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for limit in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            total = min(total, int((Path("/sys/fs/cgroup") / limit).read_text()))
        except (OSError, ValueError):
            continue
    return total


def _shared_memory_is_small() -> bool:
    """Docker gives /dev/shm 64 MB, where a parallel join then fails for want of space."""
    try:
        space = os.statvfs("/dev/shm")
    except OSError:
        return True
    return space.f_blocks * space.f_frsize < 2**30


def _character_type() -> str:
    before = locale.setlocale(locale.LC_CTYPE)
    try:
        locale.setlocale(locale.LC_CTYPE, "C.UTF-8")
    except locale.Error:
        return "C"
    locale.setlocale(locale.LC_CTYPE, before)
    return "C.UTF-8"


def _owner(path: Path) -> int | None:
    try:
        return path.stat().st_uid
    except FileNotFoundError:
        return None


def _write(path: Path, text: str, account: Account) -> None:
    """Replace a file at once and for good: a crash leaves the old one or the new one."""
    descriptor, name = tempfile.mkstemp(prefix=".freqdp-", dir=path.parent)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
        account.give(file.fileno())
    Path(name).rename(path)
    _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no reason given"


# Processes of the embedded server: which live, which listen, and waiting for them.


def is_postgres_of(pid: int, cluster: Path) -> bool:
    """Whether this process is a PostgreSQL that works in this cluster: it sits in its directory."""
    process = Path("/proc") / str(pid)
    try:
        name = (process / "comm").read_text().strip()
        return name in ("postgres", "postmaster") and (process / "cwd").samefile(cluster)
    except OSError:
        return False


def listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(5)
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True


def wait_until(done: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


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
                shown = connection.info.parameter_status("server_version") or ""
                version = shown.partition(" ")[0]
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
        processes = (int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit())
        orphans = [pid for pid in processes if is_postgres_of(pid, self.layout.cluster)]
        for pid in orphans:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGQUIT)
        wait_until(
            lambda: not any(is_postgres_of(pid, self.layout.cluster) for pid in orphans),
            _ORPHAN_SECONDS,
        )
        # PostgreSQL sees to a dead pid itself, but takes a living stranger for its server.
        if Path(f"/proc/{recorded}").exists() and not listens(self.layout.socket):
            self.layout.pid_file.unlink(missing_ok=True)
            self.layout.socket.with_name(f"{self.layout.socket.name}.lock").unlink(missing_ok=True)


def connection_url(conninfo: str) -> str:
    """The same connection as a URL that psql, SQLAlchemy and --dsn understand."""
    parameters = {k: str(v) for k, v in conninfo_to_dict(conninfo).items() if v is not None}
    database = quote(parameters.pop("dbname", ""), safe="")
    return f"postgresql:///{database}?{urlencode(parameters, safe='/', quote_via=quote)}"
