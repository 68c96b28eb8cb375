"""PgBouncer in transaction mode in front of a test's database, where the program is installed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict
from world import wait_for

from freqdp_db.server.embedded import Account, connection_url

PROGRAM = shutil.which("pgbouncer", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"]))
_POOL = 40


@contextmanager
def pooled(url: str) -> Iterator[str]:
    """The URL of the same database by way of a pooler that gives connections for a transaction each."""
    assert PROGRAM is not None
    behind = conninfo_to_dict(url)
    with tempfile.TemporaryDirectory(prefix="freqdp-pooler-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        port = _free_port()
        target = " ".join(f"{key}={value}" for key, value in behind.items() if key != "options")
        settings = directory / "pgbouncer.ini"
        settings.write_text(
            f"[databases]\nfreqdp = {target}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            f"listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n"
            f"max_client_conn = 500\ndefault_pool_size = {_POOL}\n"
            "ignore_startup_parameters = extra_float_digits\n"
        )
        settings.chmod(0o644)
        process = subprocess.Popen(
            [PROGRAM, "-q", str(settings)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **_as_server_account(behind),
        )
        try:
            front = {"host": "127.0.0.1", "port": port, "dbname": "freqdp", "user": behind["user"]}
            dsn = connection_url(" ".join(f"{key}={value}" for key, value in front.items()))
            wait_for(lambda: _answers(dsn), "the pooler")
            yield dsn
        finally:
            process.terminate()
            process.wait()


def _as_server_account(behind: dict[str, object]) -> dict[str, object]:
    """It does not run as root, and an embedded server lets in its own account only."""
    if os.geteuid() != 0:
        return {}
    directory = Path(str(behind["host"]))
    account = Account.of(directory.stat().st_uid if directory.is_absolute() else 65534)
    return {"user": account.uid, "group": account.gid, "extra_groups": []}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _answers(dsn: str) -> bool:
    with suppress(psycopg.OperationalError):
        psycopg.connect(dsn).close()
        return True
    return False
