"""A TCP proxy to a PostgreSQL server that can drop its connections, or pose as a pooler."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from typing import Any

from psycopg.conninfo import conninfo_to_dict, make_conninfo

_BACKEND_KEY = b"K"


class Proxy:
    """Listens on the loopback interface; `url` leads through it to the server of `target`."""

    def __init__(self, target: str, *, poses_as_pooler: bool = False) -> None:
        self._target = conninfo_to_dict(target)
        self._poses = poses_as_pooler
        self._server = socket.create_server(("127.0.0.1", 0))
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._lock = threading.Lock()
        self._closed = False
        self.most_bytes: int | None = None
        """Cut a connection when its server has sent so much."""
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        changed: dict[str, Any] = {"host": "127.0.0.1", "port": self._server.getsockname()[1]}
        return make_conninfo(**{**self._target, **changed, "sslmode": "disable",
                                "gssencmode": "disable"})  # fmt: skip

    def drop_all(self) -> int:
        """Cut every connection, as a broken network does; returns how many."""
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            for end in pair:
                with suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    end.shutdown(socket.SHUT_RDWR)
        return len(pairs)

    def close(self) -> None:
        self._closed = True
        self._server.close()
        self.drop_all()

    def _connect(self) -> socket.socket:
        host, port = str(self._target.get("host", "")), self._target.get("port", 5432)
        if host.startswith("/"):
            there = socket.socket(socket.AF_UNIX)
            there.connect(f"{host}/.s.PGSQL.{port}")
            return there
        return socket.create_connection((host, int(port)))

    def _accept(self) -> None:
        while not self._closed:
            try:
                here, _ = self._server.accept()
            except OSError:
                return
            try:
                there = self._connect()
            except OSError:
                here.close()  # the server is down
                continue
            with self._lock:
                self._pairs.add((here, there))
            ends = threading.Semaphore(0)
            for source, target, back in ((here, there, False), (there, here, True)):
                arguments = (source, target, back, ends)
                threading.Thread(target=self._pump, args=arguments, daemon=True).start()
            threading.Thread(target=self._end, args=((here, there), ends), daemon=True).start()

    def _pump(
        self, source: socket.socket, target: socket.socket, back: bool, ends: threading.Semaphore
    ) -> None:
        with suppress(OSError):
            if back and self._poses:
                self._forge(source, target)
            left = self.most_bytes if back else None
            while data := source.recv(65536):
                if left is not None and len(data) >= left:
                    target.sendall(data[:left])
                    break
                left = None if left is None else left - len(data)
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        ends.release()

    def _end(self, pair: tuple[socket.socket, socket.socket], ends: threading.Semaphore) -> None:
        ends.acquire()
        ends.acquire()
        with self._lock:
            self._pairs.discard(pair)
        for end in pair:
            end.close()

    def _forge(self, source: socket.socket, target: socket.socket) -> None:
        """Pass the server's messages on until it names its process, and name another one."""
        while True:
            head = _exactly(source, 5)
            body = _exactly(source, struct.unpack("!I", head[1:])[0] - 4)
            if head[:1] == _BACKEND_KEY:
                target.sendall(
                    head + struct.pack("!I", 1 ^ struct.unpack("!I", body[:4])[0]) + body[4:]
                )
                return
            target.sendall(head + body)


def _exactly(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = source.recv(size - len(data))
        if not more:
            raise OSError("closed")
        data += more
    return data
