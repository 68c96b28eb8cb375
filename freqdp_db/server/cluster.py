"""The files of the embedded server: where they lie, whose they are, how they are made."""

from __future__ import annotations

import hashlib
import locale
import os
import pwd
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from freqdp_db.errors import ServerFailed
from freqdp_db.server.binaries import Binaries, home

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


@dataclass(frozen=True)
class ClusterLayout:
    """The places inside one data directory."""

    data_dir: Path

    @property
    def cluster(self) -> Path:
        return self.data_dir / "cluster"

    @property
    def log(self) -> Path:
        return self.data_dir / "server.log"

    @property
    def lock(self) -> Path:
        return self.data_dir / "lock"

    @property
    def pid_file(self) -> Path:
        return self.cluster / "postmaster.pid"

    @property
    def socket_dir(self) -> Path:
        """In the data directory, or short and in /tmp; the same for every caller of this data."""
        inside = self.data_dir / "socket"
        if len(os.fsencode(inside)) <= _MAX_SOCKET_DIR and _PLAIN_PATH.fullmatch(str(inside)):
            return inside
        digest = hashlib.sha256(os.fsencode(self.data_dir)).hexdigest()[:16]
        return Path("/tmp") / f"freqdp-{digest}"

    @property
    def socket(self) -> Path:
        return self.socket_dir / f".s.PGSQL.{PORT}"

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
    }
    if sys.platform == "linux":
        # Elsewhere there is no posix_fadvise and no POLLRDHUP, and these are refused.
        settings |= {"effective_io_concurrency": 200, "maintenance_io_concurrency": 200}
        # the statement of a process that was killed ends with it, and so do its locks
        settings["client_connection_check_interval"] = "2s"
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
