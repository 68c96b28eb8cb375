"""Processes of the embedded server: which live, which listen, and waiting for them."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path


def is_postgres_of(pid: int, cluster: Path) -> bool:
    """Whether this process is a PostgreSQL that works in this cluster: it sits in its directory."""
    process = Path("/proc") / str(pid)
    if Path("/proc/self").exists():
        try:
            name = (process / "comm").read_text().strip()
            return name in ("postgres", "postmaster") and (process / "cwd").samefile(cluster)
        except OSError:
            return False
    said = subprocess.run(
        ["ps", "-o", "comm=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return Path(said.stdout.strip()).name in ("postgres", "postmaster")


def processes() -> list[int]:
    proc = Path("/proc")
    return [int(p.name) for p in proc.iterdir() if p.name.isdigit()] if proc.exists() else []


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


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
