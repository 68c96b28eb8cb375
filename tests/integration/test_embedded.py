"""The embedded server: it comes up by itself, and after anything that can happen to it."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from servers import destroy
from world import freqdp

from freqdp_db.errors import ServerFailed, ServerNotFound
from freqdp_db.server import binaries
from freqdp_db.server.embedded import EmbeddedServer, default_data_dir

ROOT = Path(__file__).parents[2]
START = (
    "import sys; from pathlib import Path; from freqdp_db.server.embedded import EmbeddedServer;"
    "print(EmbeddedServer(Path(sys.argv[1])).ensure_running())"
)


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A directory that the server's account can enter; pytest's own are closed to it under root."""
    directory = Path(tempfile.mkdtemp(prefix="freqdp-embedded-"))
    directory.chmod(0o711)
    yield directory
    destroy(EmbeddedServer(directory / "data"))
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def made() -> Iterator[Path]:
    """A stopped cluster to copy: making one takes longer than starting it."""
    directory = Path(tempfile.mkdtemp(prefix="freqdp-embedded-"))
    directory.chmod(0o711)
    server = EmbeddedServer(directory / "data")
    server.ensure_running()
    server.stop()
    yield directory / "data"
    destroy(server)
    shutil.rmtree(directory)


@pytest.fixture
def server(scratch: Path, made: Path) -> EmbeddedServer:
    """A server that has been created and is not running."""
    subprocess.run(["cp", "-a", str(made), str(scratch / "data")], check=True)
    return EmbeddedServer(scratch / "data")


def execute(server: EmbeddedServer, statement: str) -> object:
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchone()[0] if cursor.description else None  # type: ignore[index]


def gone(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().split()[2] == "Z"
    except FileNotFoundError:
        return True


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    while not gone(pid):
        time.sleep(0.01)


def test_created_started_stopped(scratch: Path) -> None:
    server = EmbeddedServer(scratch / "data")
    before = server.status()
    assert (before.running, before.version, before.pid) == (False, None, None)
    assert not (scratch / "data").exists(), "looking at the status creates nothing"
    assert server.stop() is False

    assert server.ensure_running() == server.conninfo()
    assert server.ensure_running() == server.conninfo()
    running = server.status()
    assert running.running and running.pid is not None and running.database == "freqdp"
    assert execute(server, "SELECT current_user || '@' || current_database()") == "freqdp@freqdp"
    moved = "SELECT round(ST_X(ST_Transform('SRID=4326;POINT(15 52)'::geometry, 25833)))"
    assert execute(server, moved) == 500000, "PROJ finds its data"

    assert server.stop() is True
    assert server.stop() is False
    assert server.status().running is False
    assert gone(running.pid)


def test_is_private_and_durable(server: EmbeddedServer) -> None:
    server.ensure_running()
    expected = {
        "fsync": "on",
        "full_page_writes": "on",
        "synchronous_commit": "on",
        "data_checksums": "on",
        "listen_addresses": "",
        "server_encoding": "UTF8",
        "wal_level": "minimal",
        "jit": "off",
        "TimeZone": "UTC",
    }
    assert {name: execute(server, f"SHOW {name}") for name in expected} == expected
    for directory in (server.layout.cluster, server.layout.socket_dir):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        assert directory.stat().st_uid != 0


def test_committed_data_survives_a_kill(server: EmbeddedServer) -> None:
    server.ensure_running()
    execute(server, "CREATE TABLE kept AS SELECT generate_series(1, 1000) AS n")
    unfinished = psycopg.connect(server.conninfo())
    unfinished.execute("INSERT INTO kept VALUES (-1)")
    pid = server.status().pid
    assert pid is not None
    kill(pid)
    unfinished.close()
    server.ensure_running()
    assert server.status().pid != pid
    assert execute(server, "SELECT count(*) FROM kept") == 1000


def test_a_server_that_recovers_from_a_killed_backend_is_waited_for(server: EmbeddedServer) -> None:
    server.ensure_running()
    pid = server.status().pid
    with psycopg.connect(server.conninfo()) as slow, psycopg.connect(server.conninfo()) as killed:
        # it recovers once all of its sessions have ended, and this one does not hear of it at first
        os.kill(slow.info.backend_pid, signal.SIGSTOP)
        threading.Timer(0.5, os.kill, (slow.info.backend_pid, signal.SIGCONT)).start()
        kill(killed.info.backend_pid)
        server.ensure_running()
        assert server.status().pid == pid, "it was not started again"
        assert execute(server, "SELECT 1") == 1


def test_backends_of_a_killed_server_do_not_block_the_next(server: EmbeddedServer) -> None:
    server.ensure_running()
    busy = psycopg.connect(server.conninfo(), autocommit=True)
    backend = busy.info.backend_pid
    # Computing, not waiting: such a backend does not notice that its postmaster died.
    busy.pgconn.send_query(b"SELECT count(*) FROM generate_series(1, 1e12)")
    pid = server.status().pid
    assert pid is not None
    kill(pid)
    time.sleep(0.5)
    assert not gone(backend)
    server.ensure_running()
    busy.close()
    assert gone(backend)
    assert execute(server, "SELECT 1") == 1


def test_a_pid_file_that_names_a_stranger(server: EmbeddedServer) -> None:
    # Of the server's own account: PostgreSQL sees by itself that others' processes are not its.
    uid, gid = _owner(server.layout.cluster)
    as_account = {"user": uid, "group": gid, "extra_groups": []} if os.geteuid() == 0 else {}
    stranger = subprocess.Popen(["sleep", "600"], cwd="/", **as_account)  # type: ignore[call-overload]
    try:
        lines = [str(stranger.pid), str(server.layout.cluster), "1", "5432", "", "", "", "ready"]
        for name in (
            server.layout.pid_file,
            server.layout.socket_dir / f"{server.layout.socket.name}.lock",
        ):
            name.write_text("\n".join(lines) + "\n")
            os.chown(name, uid, gid)
            name.chmod(0o600)
        assert server.status().running is False
        assert server.stop() is False
        server.ensure_running()
        assert execute(server, "SELECT 1") == 1
        assert stranger.poll() is None, "a process that is not ours is left alone"
    finally:
        stranger.kill()
        stranger.wait()


def test_a_server_that_is_about_to_stop(server: EmbeddedServer) -> None:
    """It listens, and will not be ready again: the next one is started when it is gone."""
    url = server.ensure_running()
    client = psycopg.connect(url)
    pid = server.status().pid
    assert pid is not None
    os.kill(pid, signal.SIGTERM)  # waits for its clients
    while "stopping" not in server.layout.pid_file.read_text():
        time.sleep(0.02)
    asked = threading.Thread(target=server.ensure_running, daemon=True)
    asked.start()
    asked.join(timeout=1)
    assert asked.is_alive(), "waits for the one that is stopping"
    client.close()
    asked.join()
    assert server.status().pid not in (None, pid)


def test_a_vanished_socket(server: EmbeddedServer) -> None:
    server.ensure_running()
    server.layout.socket.unlink()
    server.ensure_running()
    assert execute(server, "SELECT 1") == 1


def test_two_commands_at_once(scratch: Path) -> None:
    command = [sys.executable, "-c", START, str(scratch / "data")]
    both = [
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    answers = {process.communicate()[0].strip() for process in both}
    assert [process.returncode for process in both] == [0, 0]
    server = EmbeddedServer(scratch / "data")
    assert answers == {server.conninfo()}
    assert execute(server, "SELECT count(*) FROM pg_extension WHERE extname = 'postgis'") == 1


def test_a_half_made_cluster_is_made_anew(scratch: Path) -> None:
    half = scratch / "data" / "cluster.new-killed"
    (half / "base").mkdir(parents=True)
    (half / "PG_VERSION").write_text("15\n")
    server = EmbeddedServer(scratch / "data")
    server.ensure_running()
    assert execute(server, "SELECT 1") == 1
    assert not half.exists()


def test_files_of_somebody_elses_are_not_touched(scratch: Path) -> None:
    letter = scratch / "data" / "cluster" / "letter.txt"
    letter.parent.mkdir(parents=True)
    letter.write_text("dear")
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(letter.parent, nobody.pw_uid, nobody.pw_gid)
    with pytest.raises(ServerFailed, match="neither empty nor a PostgreSQL cluster"):
        EmbeddedServer(scratch / "data").ensure_running()
    assert letter.read_text() == "dear"


def test_data_of_another_major_version(server: EmbeddedServer) -> None:
    (server.layout.cluster / "PG_VERSION").write_text("9\n")
    with pytest.raises(ServerFailed, match="made by PostgreSQL 9") as refused:
        server.ensure_running()
    assert "postgresql-9-postgis-3" in str(refused.value.remedy)


def test_a_path_too_long_or_too_strange_for_a_socket(scratch: Path, made: Path) -> None:
    data_dir = scratch / ("long " * 30 + "$HOME, 'quoted\"")
    subprocess.run(["cp", "-a", str(made), str(data_dir)], check=True)
    server = EmbeddedServer(data_dir)
    try:
        server.ensure_running()
        assert execute(server, "SELECT 1") == 1
        assert len(os.fsencode(server.layout.socket)) <= 107
        assert stat.S_IMODE(server.layout.socket_dir.stat().st_mode) == 0o700
    finally:
        destroy(server)
    assert not server.layout.socket_dir.exists()


def test_nothing_found_names_the_package(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FREQDP_PG_BINDIR", str(scratch))
    with pytest.raises(ServerNotFound) as refused:
        EmbeddedServer(scratch / "data").ensure_running()
    assert str(scratch) in refused.value.message
    assert "apt-get install postgresql-postgis," in str(refused.value.remedy)


@pytest.mark.parametrize(
    ("version", "reason"), [("16.1", "without PostGIS"), ("13.9", "older than 14")]
)
def test_a_server_that_will_not_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, reason: str
) -> None:
    for name in binaries.PROGRAMS:
        (tmp_path / name).write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("FREQDP_PG_BINDIR", str(tmp_path))
    with pytest.raises(ServerNotFound, match=reason):
        binaries.find_binaries()


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests already run as an ordinary user")
def test_as_an_ordinary_user(scratch: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    home = scratch / "home"
    home.mkdir()
    os.chown(home, nobody.pw_uid, nobody.pw_gid)
    environment = {
        k: v for k, v in os.environ.items() if not k.startswith(("PG", "XDG_", "FREQDP_"))
    }
    # Imports first: root's Python may lie where nobody else can read it.
    program = (
        "import os, sys; from freqdp_db.server.embedded import EmbeddedServer;"
        f"os.setgroups([]); os.setgid({nobody.pw_gid}); os.setuid({nobody.pw_uid});"
        "server = EmbeddedServer(None); server.ensure_running(); print(server.status().data_dir)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**environment, "HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    data_dir = home / ".local/share/freqdp"
    server = EmbeddedServer(data_dir)
    try:
        assert done.stdout.strip() == str(data_dir)
        assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700
        assert execute(server, "SELECT current_user") == "freqdp", "root may connect as well"
        assert server.stop() is True
        server.ensure_running()
        owner = server.layout.cluster.stat().st_uid
        assert owner == nobody.pw_uid, "root starts it as its owner"
    finally:
        destroy(server)


def test_commands(server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FREQDP_DATA_DIR", str(server.layout.data_dir))
    started = freqdp(None, "db", "start").succeeded()
    assert started["running"] is True
    assert started["url"] == freqdp(None, "db", "url", in_words=True).out.strip()
    assert "running" in freqdp(None, "db", "status", in_words=True).out
    assert freqdp(None, "db", "psql").succeeded()["command"][-1] == server.conninfo()
    # psql takes the place of the process
    psql = [sys.executable, "-m", "freqdp_db", "db", "psql", "-At", "-c", "SELECT 40 + 2"]
    assert subprocess.run(psql, cwd=ROOT, capture_output=True, text=True).stdout == "42\n"
    assert freqdp(None, "db", "stop").succeeded() == {"stopped": True}


@pytest.mark.parametrize("mode", [0o777, 0o730])
def test_a_directory_that_others_may_write_to_is_refused(scratch: Path, mode: int) -> None:
    """They could swap the files that the server is made of."""
    data_dir = scratch / "open"
    data_dir.mkdir()
    data_dir.chmod(mode)
    for look in ("ensure_running", "exists", "status"):
        with pytest.raises(ServerFailed, match="others than its owner may write") as caught:
            getattr(EmbeddedServer(data_dir), look)()
        assert "chmod go-w" in str(caught.value.remedy)
    assert list(data_dir.iterdir()) == []


def _owner(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_uid, found.st_gid


@pytest.mark.parametrize("root", [True, False])
def test_where_the_files_are(monkeypatch: pytest.MonkeyPatch, root: bool) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0 if root else 1000)
    monkeypatch.setenv("HOME", "/home/ann")
    named = {"FREQDP_DATA_DIR": "/srv/one", "XDG_DATA_HOME": "/srv/data"}
    assert default_data_dir(named) == Path("/srv/one")
    del named["FREQDP_DATA_DIR"]
    assert default_data_dir(named) == Path("/srv/data/freqdp")
    # its account cannot read root's home
    by_default = "/var/lib/freqdp" if root else "/home/ann/.local/share/freqdp"
    assert default_data_dir({}) == Path(by_default)
    # and the page says so
    text = (Path(__file__).parent.parent.parent / "docs" / "server.md").read_text("utf-8")
    for word in ("FREQDP_DATA_DIR", "XDG_DATA_HOME", "~/.local/share/freqdp", "/var/lib/freqdp"):
        assert f"`{word}`" in text
