"""Rows of a COPY from libpq's own hands.

psycopg gives out one Python object per row, while it holds Python's lock. The loop below calls
PQgetCopyData of the very libpq that psycopg has loaded, and copies the rows into one buffer: less than
a third of the client's work, and other threads go on. It also waits for the next rows itself, for a moment:
libpq reads 16 kB at a time, and coming back to Python for each of them would cost as much again.

`rows.py` has the other way, for where these functions cannot be had.
"""

from __future__ import annotations

import ctypes
import importlib
import select
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray
from psycopg import pq

from freqdp_db.storage.copy.waiting import take_more

# pointers travel as plain 64-bit integers
_ADDRESS, _INT = types.int64, types.int32

BUFFER = 8 << 20
"""Bytes of rows that are given out at a time."""
_WAIT_MS = 20  # what an interrupt may have to wait


def _c_function(result: Any, *parameters: Any) -> Any:
    """A call of the C function at an address, for compiled code, which can be cached then.

    An address is a number. To take a function as an argument numba goes back to Python for each call,
    and an interrupt that comes there is lost.
    """

    @intrinsic
    def call(typing_context, address, arguments):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, values):  # type: ignore[no-untyped-def]
            kinds = [context.get_value_type(kind) for kind in parameters]
            kind = ir.FunctionType(context.get_value_type(result), kinds)
            function = builder.inttoptr(values[0], kind.as_pointer())
            unpacked = cgutils.unpack_tuple(builder, values[1])  # type: ignore[no-untyped-call]
            given = zip(unpacked, arguments.types, parameters, strict=True)
            return builder.call(
                function, [context.cast(builder, value, was, to) for value, was, to in given]
            )

        return result(types.int64, arguments), generate

    return call


_get = _c_function(_INT, _ADDRESS, _ADDRESS, _INT)
_consume = _c_function(_INT, _ADDRESS)
_copy = _c_function(_ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS)
_poll = _c_function(_INT, _ADDRESS, _ADDRESS, _INT)
# what it returns is not looked at
_free = _c_function(_INT, _ADDRESS)


@lru_cache
def _library() -> ctypes.CDLL:
    """The libpq that psycopg uses; OSError if it cannot be told from others."""
    folders = []
    if pq.__impl__ == "binary":
        package = Path(str(importlib.import_module("psycopg_binary").__file__)).parent
        folders = [package / ".dylibs", package.with_name("psycopg_binary.libs")]
    found = {str(file) for folder in folders for file in folder.glob("libpq[-.]*")}
    maps = Path("/proc/self/maps")
    if not found and maps.exists():
        paths = {line.split(maxsplit=5)[-1] for line in maps.read_text().splitlines()}
        found = {path for path in paths if Path(path).match("libpq[-.]*")}
    if len(found) != 1:
        # a connection of one copy in the hands of another: rows that are none
        raise OSError(f"{len(found)} copies of libpq")
    return ctypes.CDLL(found.pop())


@lru_cache
def _functions() -> tuple[int, ...]:
    """The addresses of what `_pull` calls, in its order."""
    library, own = _library(), ctypes.CDLL(None)
    functions = (
        library.PQgetCopyData, library.PQconsumeInput, library.PQfreemem, own.memcpy, own.poll
    )  # fmt: skip
    return tuple(ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions)


def can_read(connection: psycopg.Connection[Any]) -> bool:
    """Whether the functions are here, and know this connection for what it is."""
    try:
        _functions()
        library, known = _library(), connection.pgconn
        address: int | None = getattr(known, "pgconn_ptr", None)
        told = []
        for name in ("PQsocket", "PQbackendPID", "PQserverVersion"):
            ask = getattr(library, name)
            ask.argtypes, ask.restype = [ctypes.c_void_p], ctypes.c_int
            told.append(ask(address))
    except (OSError, AttributeError, TypeError, ImportError):
        return False
    return told == [known.socket, known.backend_pid, known.server_version]


@njit(nogil=True, cache=True)
def _pull(  # type: ignore[no-untyped-def]
    get, consume, free, copy, poll, connection, slot, slot_address, waited, out, out_address, used
):
    """Append rows to out[used:]: (bytes used, state); state as PQgetCopyData's, 1 for a full buffer.

    A row that does not fit stays in `slot`, with its size in slot[1]. State 0: there are no rows for
    now, or reading failed; the caller waits, and is told.
    """
    while True:
        if slot[1] == 0:
            size = _get(get, (connection, slot_address, 1))
            if size == 0:
                ready = _poll(poll, (waited, 1, _WAIT_MS))
                if ready == 1 and _consume(consume, (connection,)) == 1:
                    continue
            if size <= 0:
                return used, size
            slot[1] = size
        if used + slot[1] > len(out):
            return used, 1
        _copy(copy, (out_address + used, slot[0], slot[1]))
        _free(free, (slot[0],))
        used += slot[1]
        slot[1] = 0


class FastRows:
    """The rows of a running COPY TO STDOUT, many at a time."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._pgconn: Any = connection.pgconn
        self.ended = False

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        """Buffers of whole rows. Waits on the socket, so that an interrupt gets through."""
        pull: Any = _pull
        functions = _functions()
        slot = np.zeros(2, np.int64)
        # struct pollfd: the socket, and that we want to read
        waited = np.array([self._pgconn.socket, select.POLLIN], np.int32)
        while not self.ended:
            out = np.empty(max(BUFFER, int(slot[1])), np.uint8)
            used, state = 0, 0
            while state == 0:
                buffers = (slot, slot.ctypes.data, waited.ctypes.data, out, out.ctypes.data)
                used, state = pull(*functions, self._pgconn.pgconn_ptr, *buffers, used)
                if state == 0:
                    take_more(self._pgconn)
            self.ended = state < 0
            if used:
                yield out[:used]
